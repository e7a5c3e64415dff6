"""The command line takes the JSON of the other doors, from files and standard input: the same result, or sentence."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from hardwon.client.transport import WORKSPACE_HEADER
from hardwon.errors import HardwonError
from tests.acceptance.inputs.forms import Case, check, every_form
from tests.acceptance.inputs.test_one_reading import ENTRIES, EVENTS, PATHS, QUERIES, TASK
from tests.support.processes import Commands, lines

COMMANDS = {
    "query_for_task": ("query", "task"),
    "query_for_failure": ("query", "failure"),
    "query_for_gate": ("query", "gate"),
    "build_context": ("context",),
    "task_failed": ("event", "task-failed"),
    "task_solved": ("event", "task-solved"),
    "gate_decided": ("event", "gate-decided"),
}
FORMS = frozenset({"absent", "empty", "native", "text", "another kind", "misspelt", "number"})


def over_http(commands: Commands, path: str, body: object) -> Any:
    """Return what the owner of the data directory answers, or the sentence that it refuses with."""
    transport = httpx.HTTPTransport(uds=str(commands.home / "hardwon.sock"))
    headers = {WORKSPACE_HEADER: "http"}
    with httpx.Client(transport=transport, base_url="http://hardwon", headers=headers, timeout=60) as client:
        answer = client.post(path, json=body)
    told = answer.json()
    return ": ".join(filter(None, (told.get("field"), told["detail"]))) if answer.is_error else told


def stored(commands: Commands, workspace: str, entry_id: str) -> dict[str, Any]:
    transport = httpx.HTTPTransport(uds=str(commands.home / "hardwon.sock"))
    with httpx.Client(transport=transport, base_url="http://hardwon", timeout=60) as client:
        entry: dict[str, Any] = client.get(f"/v1/entries/{entry_id}", headers={WORKSPACE_HEADER: workspace}).json()
    return {name: entry[name] for name in entry.keys() - {"entry_id", "workspace", "captured_at"}}


def compare(cases: list[Case], required: Collection[str], here: list[Any], there: list[Any]) -> None:
    results = {(case.field, case.form): result for case, result in zip(cases, here, strict=True)}
    problems = []
    for case, at_command, at_server in zip(cases, here, there, strict=True):
        try:
            check(case, at_command, results, required)
            assert at_command == at_server
        except AssertionError as error:
            problems.append(f"{case.field}, {case.form}: {str(error).splitlines()[0]}: {at_command}, {at_server}")
    assert not problems, "\n".join(problems)


@pytest.mark.long
@pytest.mark.parametrize(("native", "varied", "required"), ENTRIES, ids=["failure", "rejection", "approval"])
def test_a_file_of_entries_is_read_as_the_server_reads_them(
    beside: Commands, tmp_path: Path, native: Mapping[str, Any], varied: Collection[str], required: Collection[str]
) -> None:
    cases = [case for case in every_form(native, sorted(varied)) if case.form in FORMS]
    given = [
        dict(case.given) | ({} if case.field == "task_id" else {"task_id": f"{n}"}) for n, case in enumerate(cases)
    ]
    for case, each in zip(cases, given, strict=True):
        each["run_id" if case.field == "task_id" else "task_id"] = f"{case.field}-{case.group}"
        if case.field != "idempotency_key":
            each.pop("idempotency_key", None)
    (tmp_path / "entries.jsonl").write_text(lines(given))
    told = beside.here("capture", tmp_path / "entries.jsonl", "--workspace", "typed")["entries"]
    answered = over_http(beside, "/v1/entries:batch", {"entries": given})["answers"]

    def result(workspace: str, answer: Mapping[str, Any]) -> Any:
        if answer["outcome"] == "refused":
            return f"{answer['field']}: {answer['error']}"
        row = stored(beside, workspace, answer["entry_id"])
        return row | {"task_id": None, "run_id": None}

    compare(cases, required, [result("typed", each) for each in told], [result("http", each) for each in answered])


ASKED: list[tuple[str, Mapping[str, Any], Collection[str]]] = [
    *QUERIES,
    ("build_context", TASK, {"description", "agent_type"}),
    *EVENTS,
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("operation", "native", "required"), ASKED, ids=[f"{n}-{each[0]}" for n, each in enumerate(ASKED)]
)
def test_a_json_object_is_read_as_the_server_reads_it(
    beside: Commands, tmp_path: Path, operation: str, native: Mapping[str, Any], required: Collection[str]
) -> None:
    fields = required if "human_feedback" in required else None
    cases = [case for case in every_form(native, sorted(fields) if fields else None) if case.form in FORMS]
    file = tmp_path / "input.json"
    typed, answered = [], []
    for case in cases:
        place = (
            {}
            if not operation.startswith(("task_", "gate_"))
            else {"project_id" if case.field == "task_id" else "task_id": f"{operation}-{case.field}-{case.form}"}
        )
        given = dict(case.given) | place
        file.write_text(json.dumps(given))
        try:
            result = beside.here(*COMMANDS[operation], "--input", file, "--workspace", "typed")
        except HardwonError as error:
            result = str(error)
        typed.append(_without_ids(result))
        answered.append(_without_ids(over_http(beside, PATHS.get(operation, "/v1/contexts"), given)))
    compare(cases, required, typed, answered)


def _without_ids(result: Any) -> Any:
    if isinstance(result, str):
        return result
    if "text" in result:
        return result["text"], result["degraded"]
    if "patterns" in result:
        return len(result["patterns"])
    return len(result["entry_ids"]), result["outcomes"], result["degraded"]


def test_names_and_values_are_typed_as_json_has_them(beside: Commands) -> None:
    named = ("--type", "bugfix", "--technology", "", "--facts", '{"technology": "python"}', "--workspace", "typed")
    assert beside.here("query", "task", "Sum up a cart", *named)["patterns"] == []
    context = beside.here("context", "Sum up", "--agent-type", "backend", "--project-id", "p", "--task-id", "7", *named)
    assert context["text"] == "Task: Sum up\nType: bugfix"
    failed = beside.here(
        *("event", "task-failed", "--project", "typed", "--task", "9", "--agent-type", "backend"),
        *("--failure-description", "It broke", "--error-message", "", "--workspace", "typed"),
    )
    assert stored(beside, "typed", failed["entry_ids"][0])["task_id"] == "9"
    assert beside.run("query", "task").returncode == beside.run("context", "Sum up").returncode == 2


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("", "input: is not JSON: expecting value at line 1, column 1"),
        ('{"task_description":\n "x",}', "input: is not JSON: "),
        ("[]", "input: must be an object, not a list"),
        ('"x"', "input: must be an object, not a text"),
        ("[" * 100_000, "input: is not JSON"),
    ],
)
def test_what_is_no_object_is_said_with_its_place(beside: Commands, told: str, sentence: str) -> None:
    assert beside.refused("query", "task", "--input", "-", told=told).startswith(sentence)
