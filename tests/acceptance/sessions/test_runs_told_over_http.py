"""Tool calls that a program tells over HTTP are learned as transcripts are: once, and with the same rules."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.access import Scope
from hardwon.models.ids import CONTEXT_CLOSING, CONTEXT_OPENING
from knowledge.models import EntryStatus
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from tests.support.clients import auth_of, client_of, http_of

FAILURE = "FAIL: test_total (test_cart.CartTest)\nTypeError: unsupported operand type(s)\nFAILED (errors=1)"
FIX = "return sum(price or 0 for price in prices)"


def call(call_id: str, tool: str, arguments: dict[str, Any], text: str = "", outcome: str = "ok", **more: Any) -> Any:
    return {"id": call_id, "tool": tool, "arguments": arguments, "text": text, "outcome": outcome, **more}


FAIL = call("a", "run_tests", {"path": "test_cart.py"}, FAILURE, "failed")
EDIT = call("b", "write_file", {"path": "cart.py", "content": FIX}, "wrote it")
PASS = call("c", "run_tests", {"path": "test_cart.py"}, "1 passed")
BLOCK = f"""{CONTEXT_OPENING}

Pattern 1 (Less Common - 1 success):
- Problem: the cart fails
- Solution: cart.py:
  +{FIX}
- When to try: always

{CONTEXT_CLOSING}"""


async def tell(knowledge: Knowledge, *calls: Any, session: str = "s", **more: Any) -> dict[str, Any]:
    told = {"framework": "langgraph", "session_id": session, "calls": list(calls), "project_id": "shop", **more}
    answer = await client_of(knowledge).runs.learn(**told)
    return {"captured": answer.captured, "known": answer.known, **answer.left_out}


@pytest.mark.long
async def test_a_run_that_is_told_as_it_grows_is_learned_once(knowledge: Knowledge) -> None:
    assert await tell(knowledge, FAIL) == {"captured": 1, "known": 0}
    assert await tell(knowledge, FAIL, EDIT) == {"captured": 0, "known": 1}
    assert await tell(knowledge, FAIL, EDIT, PASS) == {"captured": 1, "known": 0}
    assert await tell(knowledge, FAIL, EDIT, PASS) == {"captured": 0, "known": 1}
    assert (await knowledge.checkpoints.process_all()).embedded == 1
    (pattern,) = await knowledge.lists.patterns()
    assert (pattern.success_count, pattern.source) == (1, "agent:sessions.langgraph.s")


@pytest.mark.long
async def test_two_runs_of_one_failure_are_one_pattern(knowledge: Knowledge) -> None:
    for session in ("s", "t"):
        await tell(knowledge, FAIL, EDIT, PASS, session=session)
    await knowledge.checkpoints.process_all()
    (pattern,) = await knowledge.lists.patterns()
    assert pattern.success_count == 2


@pytest.mark.long
async def test_a_handed_out_solution_is_no_new_evidence_though_the_failure_was_told_before(
    knowledge: Knowledge,
) -> None:
    await tell(knowledge, FAIL)
    left_out = await tell(knowledge, FAIL, EDIT, PASS, contexts=[BLOCK])
    assert left_out == {"captured": 0, "known": 0, "solutions that repeat what hardwon handed out": 1}
    assert await knowledge.capture.unresolved(project_id="shop") == []
    assert (await knowledge.checkpoints.process_all()).embedded == 0


async def test_a_fix_that_nobody_saw_leaves_the_failure_open(knowledge: Knowledge) -> None:
    await tell(knowledge, FAIL, PASS)
    (entry,) = await knowledge.capture.unresolved(project_id="shop")
    assert entry.status is EntryStatus.OPEN
    again = call("d", "run_tests", {"path": "test_cart.py"}, FAILURE, "failed")
    assert "captured" in await tell(knowledge, FAIL, PASS, again, call("e", *PASS_ARGUMENTS, "1 passed"))
    assert len(await knowledge.capture.unresolved(project_id="shop")) == 1


PASS_ARGUMENTS = ("run_tests", {"path": "test_cart.py"})


@pytest.mark.long
@pytest.mark.parametrize(
    "calls",
    [
        [call("a", "run_tests", {}, "no connection", "tool_error"), EDIT, PASS],
        [call("a", "get_test_results", {}, FAILURE, "failed"), EDIT],
        [call("a", "greet", {"name": "Ada"}, "KeyError: 'Ada'", "failed"), EDIT, call("b", "greet", {"name": "Ada"})],
        [call("a", "shell", {"command": "grep -r total ."}, "", "failed", exit_code=1)],
        [call("a", "shell", {"command": "pytest -q | tail -1"}, "2 passed")],
        [call("a", "deploy", {}, "policy", "denied"), call("b", "deploy", {}, "", "denied", by_person=True)],
    ],
    ids=["no connection", "a reader", "no check", "search", "success", "nobody's and wordless denials"],
)
async def test_nothing_is_learned_of(knowledge: Knowledge, calls: list[Any]) -> None:
    assert (await tell(knowledge, *calls))["captured"] == 0


@pytest.mark.long
async def test_a_tool_that_a_program_names_is_a_check(knowledge: Knowledge) -> None:
    calls = [
        call("a", "validate_order", {"id": 3}, "ValueError: no price", "failed"),
        EDIT,
        call("c", "validate_order", {"id": 3}, "fine"),
    ]
    assert (await tell(knowledge, *calls, checks=["validate_order"]))["captured"] == 1
    assert (await knowledge.checkpoints.process_all()).embedded == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("result", "fixes"),
    [
        ("1 passed", 1),
        ('{"exit_code": 0, "stdout": "OK"}', 1),
        ('{"returncode": 1, "stdout": "AssertionError"}', 0),
        ("AssertionError: 3 != 4", 0),
        ("1 failed: TypeError", 0),
        ("E   assert 3 == 4\nexit code: 1", 0),
    ],
)
async def test_a_check_has_passed_only_if_its_result_does_not_speak_against_it(
    knowledge: Knowledge, result: str, fixes: int
) -> None:
    await tell(knowledge, FAIL, EDIT, call("c", *PASS_ARGUMENTS, result))
    assert (await knowledge.checkpoints.process_all()).embedded == fixes


@pytest.mark.long
async def test_secrets_are_not_stored(knowledge: Knowledge) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5"[:36]
    failing = call("a", "run_tests", {"token": secret}, f"{FAILURE}\ntoken={secret}", "failed")
    fixed = call("c", "run_tests", {"token": secret}, "1 passed")
    edit = call("b", "write_file", {"path": "cart.py", "content": f"TOKEN = '{secret}'"})
    await tell(knowledge, failing, edit, fixed)
    await knowledge.checkpoints.process_all()
    (pattern,) = await knowledge.lists.patterns()
    entry = await knowledge.capture.get(pattern.entry_ids[0])
    assert secret not in repr(entry)
    assert secret not in repr(pattern)


async def test_bad_input_names_the_field(knowledge: Knowledge) -> None:
    for wrong, named in (
        ({"framework": "Lang Graph"}, "framework"),
        ({"session_id": ""}, "session_id"),
        ({"calls": [call("a", "t", {}, outcome="lost")]}, "calls"),
        ({"calls": [{"id": "a"}]}, "calls"),
    ):
        told: dict[str, Any] = {"framework": "langgraph", "session_id": "s", "calls": [], **wrong}
        with pytest.raises(InvalidInput) as caught:
            await client_of(knowledge).runs.learn(**told)
        assert caught.value.field.startswith(named)


async def test_no_key_hides_what_another_key_tells(knowledge: Knowledge) -> None:
    """Ids of sessions and calls can be guessed: whoever tells them first must not be the only one who is heard."""
    other = call("b", "write_file", {"path": "cart.py", "content": "pass"}, "wrote it")
    app = make_app(knowledge, auth=auth_of(knowledge))
    async with http_of(app) as client:
        for edit in (other, EDIT):
            key = (await knowledge.keys.create(["capture"], workspace=knowledge.workspace)).secret
            told = {"framework": "langgraph", "session_id": "s", "calls": [FAIL, edit, PASS], "project_id": "shop"}
            for expected in ((1, 0), (0, 1)):
                answer = await client.post("/v1/runs", json=told, headers={"Authorization": f"Bearer {key}"})
                assert (answer.json()["captured"], answer.json()["known"]) == expected


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder of this machine whose repository has another name."""
    folder = tmp_path / "named-by-folder"
    folder.mkdir()
    for command in ("init -q", "remote add origin https://example.org/named-by-repository.git"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


@pytest.mark.long
async def test_a_caller_with_a_key_has_the_server_open_no_folder(knowledge: Knowledge, repository: Path) -> None:
    """A key may be used from afar: what it names is no place of this machine, and no git runs there."""
    made = await knowledge.keys.create([Scope.CAPTURE, Scope.QUERY], workspace=knowledge.workspace)
    keyed = make_app(knowledge, auth=auth_of(knowledge))
    told = {"framework": "langgraph", "calls": [FAIL], "folder": str(repository)}
    payload = {"session_id": "h", "cwd": str(repository), "hook_event_name": "UserPromptSubmit", "prompt": FAILURE}
    headers = {"Authorization": f"Bearer {made.secret}"}
    async with http_of(keyed, headers=headers) as far, http_of(knowledge) as near:
        for client, session in ((far, "far"), (near, "near")):
            answer = await client.post("/v1/runs", json=told | {"session_id": session})
            assert answer.json()["captured"] == 1, answer.text
        found = {entry.project_id for entry in await knowledge.capture.unresolved()}
        assert found == {"named-by-folder", "named-by-repository"}
        for client, project in ((far, "named-by-folder"), (near, "named-by-repository")):
            assert (await client.post("/v1/hooks/claude-code/UserPromptSubmit", json=payload)).status_code in {200, 204}
            (record,) = await knowledge.contexts.list(project_id=project, limit=10)
            assert record.project_id == project
            payload["session_id"] = "i"
