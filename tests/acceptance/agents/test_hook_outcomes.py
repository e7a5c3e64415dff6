"""From a hook's context to its outcome: what was handed out and applied counts for the pattern, and as nothing new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge.models import EntryId, Pattern
from knowledge.wiring.open import Knowledge
from orchestrator.http.routes import hook_contexts
from tests.acceptance.sessions.test_dead_ends import learn
from tests.acceptance.sessions.test_learn_sessions import AGAIN, EDIT, FAIL, PASS, write
from tests.support.entries import failure
from tests.unit.orchestrator.sessions.generated_runs import FOLDER, Call

SOLUTION = "cart.py:\n def f():\n-return total\n+return total or 0"
OTHER = Call(id="call_000020", file="cart.py", old="total = 0", new="total = price or 0")
STILL = replace(AGAIN, id="call_000021")
LATER = replace(PASS, id="call_000022")


@pytest.fixture
async def taught(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> tuple[Knowledge, EntryId]:
    monkeypatch.setattr(hook_contexts, "DEADLINE", timedelta(minutes=1))  # the machine may be busy
    entry_id = await knowledge.capture.capture(
        failure(
            project_id="elsewhere",
            failure_description="`pytest` fails",
            error_message=FAIL.text,
            solution_steps=SOLUTION,
            task_id="before",
        )
    )
    await knowledge.checkpoints.process_all()
    return knowledge, entry_id


async def hand_out(http: httpx.AsyncClient, *, command: str = "cd . && CI=1 pytest -q") -> str:
    """Fire the hook after the failure; return the line of the transcript that holds what it said."""
    payload: dict[str, Any] = {
        "session_id": "one",
        "cwd": FOLDER,
        "tool_name": "Bash",
        "tool_input": {"command": command},
    }
    answer = await http.post(
        "/v1/hooks/claude-code/PostToolUseFailure", json={**payload, "error": f"Exit code 1\n{FAIL.text}"}
    )
    text = answer.json()["hookSpecificOutput"]["additionalContext"]
    assert "return total or 0" in text
    attachment = {"type": "hook_additional_context", "content": [text]}
    return json.dumps({"type": "attachment", "sessionId": "one", "uuid": "u", "attachment": attachment})


async def counts(knowledge: Knowledge) -> list[tuple[int, int]]:
    """Return the successes and attempts of each pattern after a checkpoint."""
    await knowledge.checkpoints.process_all()
    patterns: Sequence[Pattern] = await knowledge.lists.patterns()
    return sorted((each.success_count, each.attempt_count) for each in patterns)


async def read(knowledge: Knowledge, home: Path, calls: list[Call], line: str) -> list[EntryId]:
    project = Path(FOLDER).name
    return await learn(knowledge, home, write(home / "a.jsonl", calls, more=[line]), project=project)


@pytest.mark.long
async def test_a_solution_that_a_hook_handed_out_and_that_worked_is_a_success_of_its_pattern_and_no_entry(
    taught: tuple[Knowledge, EntryId], http: httpx.AsyncClient, tmp_path: Path
) -> None:
    knowledge, entry_id = taught
    line = await hand_out(http)
    assert await read(knowledge, tmp_path, [FAIL, EDIT, PASS], line) == [entry_id]
    assert await counts(knowledge) == [(2, 2)]
    assert len((await knowledge.grouping.show((await knowledge.lists.patterns())[0].pattern_id)).entries) == 1
    await read(knowledge, tmp_path, [FAIL, EDIT, PASS, AGAIN], line)
    assert await counts(knowledge) == [(1, 2)], "it failed again: it did not work"
    assert (await knowledge.capture.get(entry_id)).solution_steps == SOLUTION, "the entry is another's and stays"


@pytest.mark.long
async def test_a_run_that_is_read_while_it_goes_on_ends_the_same(
    taught: tuple[Knowledge, EntryId], http: httpx.AsyncClient, tmp_path: Path
) -> None:
    knowledge, _ = taught
    line = await hand_out(http)
    (opened,) = await read(knowledge, tmp_path, [FAIL], line)
    assert [each.entry_id for each in await knowledge.capture.unresolved()] == [opened]
    await read(knowledge, tmp_path, [FAIL, EDIT, PASS], line)
    assert await counts(knowledge) == [(2, 2)]
    assert await knowledge.capture.unresolved() == []


@pytest.mark.long
async def test_a_solution_that_a_hook_handed_out_and_that_did_not_help_is_a_failure_of_its_pattern(
    taught: tuple[Knowledge, EntryId], http: httpx.AsyncClient, tmp_path: Path
) -> None:
    knowledge, _ = taught
    line = await hand_out(http)
    await read(knowledge, tmp_path, [FAIL], line)
    (opened,) = await read(knowledge, tmp_path, [FAIL, EDIT, STILL], line)
    assert await counts(knowledge) == [(1, 2)]
    assert len((await knowledge.capture.get(opened)).dead_ends) == 1
    await read(knowledge, tmp_path, [FAIL, EDIT, STILL, OTHER, LATER], line)
    assert await counts(knowledge) == [(1, 1), (1, 2)], "what helped in the end is a rival"


@pytest.mark.long
async def test_another_sessions_dead_end_says_nothing_of_what_was_handed_out_to_this_one(
    taught: tuple[Knowledge, EntryId], http: httpx.AsyncClient, tmp_path: Path
) -> None:
    knowledge, _ = taught
    await hand_out(http)
    path = write(tmp_path / "b.jsonl", [FAIL, EDIT, STILL], "two")
    await learn(knowledge, tmp_path, path, project=Path(FOLDER).name)
    assert await counts(knowledge) == [(1, 1)]
