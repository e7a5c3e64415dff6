"""Tool calls of programs: what they are for, what they changed, and what came of them, however they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hardwon.models.runs import ToolCall, ToolOutcome
from hardwon.text.call_lines import find_command, show_call
from orchestrator.importers.sessions.pairing import Pairing, pair
from orchestrator.importers.sessions.programs.call_arguments import find_edits, is_check_name
from orchestrator.importers.sessions.programs.call_results import judge_call, read_result
from orchestrator.importers.sessions.programs.program_runs import make_session
from orchestrator.importers.sessions.steps import TextBudget

EDIT = ToolCall(id="e", tool="write_file", arguments={"path": "a.py", "content": "x = 1"}, outcome=ToolOutcome.OK)


def checked(*results: str, outcomes: tuple[ToolOutcome, ...], tool: str = "run_tests") -> Pairing:
    """Return what a check teaches that is called twice, with an edit between."""
    calls = [
        ToolCall(id=str(at), tool=tool, arguments={"path": "t"}, outcome=outcome, text=text)
        for at, (text, outcome) in enumerate(zip(results, outcomes, strict=True))
    ]
    calls.insert(1, EDIT)
    return pair(make_session("langgraph", "s", calls, folder=None))


@pytest.mark.parametrize(
    ("is_check", "names"),
    [
        (True, ["run_tests", "runUnitTests", "lint", "type_check", "typecheck", "check_types", "build", "npm_test"]),
        (True, ["migrate", "run_migrations", "migrate_db", "pytest", "Run-Tests", "run_ci"]),
        (
            False,
            [
                "check_stock",
                "test_connection",
                "get_build",
                "build_query",
                "get_test_results",
                "latest_tests",
                "test_db",
            ],
        ),
        (False, ["create_migration", "write_tests", "validate_address", "list_tests", "contest", "add_test"]),
    ],
)
def test_a_tool_checks_where_its_whole_name_says_so(*, is_check: bool, names: list[str]) -> None:
    assert [name for name in names if is_check_name(name) is not is_check] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [
        ("shell", {"command": "pytest -q"}, "pytest -q"),
        ("shell", {"cmd": ["bash", "-lc", "pytest -q"]}, "bash -lc 'pytest -q'"),
        ("terminal", {"commands": ["cd shop", "pytest -q"]}, "cd shop\npytest -q"),
        ("bash", {"input": "pytest -q"}, "pytest -q"),
        ("bash", "pytest -q", "pytest -q"),
        ("run", {"args": {"command": "pytest -q"}}, "pytest -q"),
        ("npm", {"script": "test"}, None),
        ("ask", "pytest -q", None),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"}, None),
    ],
)
def test_the_line_of_shell_of_a_call(tool: str, arguments: Any, command: str | None) -> None:
    assert find_command(tool, arguments) == command


@pytest.mark.parametrize(
    ("tool", "arguments", "diff"),
    [
        ("write_file", {"path": "a.py", "content": "y"}, "@@\n+y"),
        ("edit", {"file": "a.py", "search": "x", "replace": "y"}, "@@\n-x\n+y"),
        ("fix", {"file_path": "a.py", "old_string": "x", "new_string": ""}, "@@\n-x"),
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"},
            "@@\n-x\n+y",
        ),
        ("text_editor", {"command": "create", "path": "a.py", "file_text": "y"}, "@@\n+y"),
        ("apply_patch", {"patch": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y"}, "@@ -1 +1 @@\n-x\n+y"),
        ("text_editor", {"command": "view", "path": "a.py"}, None),
        ("review_patch", {"path": "a.py", "patch": "@@ -1 +1 @@\n-x\n+y"}, None),
        ("compare", {"path": "a.py", "before": "x", "after": "y"}, None),
        ("credit_card", {"path": "a.py", "text": "y"}, None),
    ],
)
def test_the_change_that_a_call_asked_for(tool: str, arguments: Any, diff: str | None) -> None:
    edits = find_edits(tool, arguments, TextBudget())
    assert [(edit.path, edit.diff) for edit in edits] == ([] if diff is None else [("a.py", diff)])


def test_a_call_is_the_same_line_in_any_order_and_of_any_values() -> None:
    assert (
        show_call("lint", {"b": 1, "a": "x y", "c": None})
        == show_call("lint", {"a": "x y", "b": 1})
        == "lint 'a=x y' b=1"
    )
    assert show_call("lint", "{'a': {1}, 'b': {(1, 2): b'x'}}").startswith("lint ")


@pytest.mark.parametrize(
    ("text", "outcome", "exit_code"),
    [
        ("", "ok", None),
        ("fine", "ok", None),
        ("2 passed", "ok", 0),
        ("\x1b[32mOK\x1b[0m", "ok", 0),
        ("true", "ok", 0),
        ("false", "failed", None),
        ("exited with code 2\nboom", "failed", 2),
        ("Status: 200", "ok", None),
        ("return 3", "ok", None),
        ('{"exit_code": "1", "stdout": "boom"}', "failed", 1),
        ('{"exit_code": true}', "ok", None),
        ('{"exit_code": 1, "stdout": "boom\n[...]\nboom"}', "failed", 1),
        ('{"passed": 3, "failed": 1}', "failed", None),
        ('{"passed": 3, "failed": 0}', "ok", 0),
        ('{"error": "no such table"}', "failed", None),
        ('{"error": null, "output": "2 passed"}', "ok", 0),
        ("An error occurred while running the tool. Please try again. Error: boom", "failed", None),
        ("An error occurred while running the tool. Please try again.", "failed", None),
        ("Build failed", "failed", None),
        ("0 tests failed, 0 failed", "ok", 0),
        (" " * 60_000 + "\n" * 60_000 + "x", "ok", None),
    ],
)
def test_what_a_check_came_to_without_a_word_of_the_framework(text: str, outcome: str, exit_code: int | None) -> None:
    judged, result = judge_call(read_result(text), is_edit=False, is_success=False)
    assert (judged.value, result.exit_code) == (outcome, exit_code)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("wrote 3 characters, which raise ValueError", "ok"),
        ("Error: no such file", "tool_error"),
        ("String not found in a.py", "tool_error"),
        ('{"success": false}', "tool_error"),
    ],
)
def test_an_edit_that_returns_why_it_failed_changed_nothing(text: str, outcome: str) -> None:
    assert judge_call(read_result(text), is_edit=True, is_success=True)[0].value == outcome


OK, FAILED = ToolOutcome.OK, ToolOutcome.FAILED


@pytest.mark.parametrize(
    ("results", "outcomes", "kind"),
    [
        (("TypeError: no", ""), (FAILED, OK), "fix"),
        (("TypeError: no", "done"), (FAILED, OK), "fix"),
        (("TypeError: no", "done"), (OK, OK), "open failure"),
        (("TypeError: no", "2 passed"), (OK, OK), "fix"),
        (("TypeError: no", json.dumps({"success": False})), (FAILED, OK), "open failure"),
    ],
    ids=["raised, wordless", "raised", "returned, and no word of a success", "returned", "returned in JSON"],
)
def test_that_a_tool_returned_is_a_proof_unless_it_returns_failures_too(
    results: tuple[str, ...], outcomes: tuple[ToolOutcome, ...], kind: str
) -> None:
    assert [lesson.kind.value for lesson in checked(*results, outcomes=outcomes).lessons] == [kind]


def test_a_tool_of_another_name_is_no_shell_though_a_program_has_that_name() -> None:
    calls = [
        ToolCall(id="a", tool="run_tests", arguments={}, outcome=FAILED, text="TypeError: no"),
        ToolCall(id="b", tool="psql", arguments={"query": "SELECT 1"}, outcome=OK, text="1"),
        ToolCall(id="c", tool="run_tests", arguments={}, outcome=OK, text="1 passed"),
    ]
    lessons = pair(make_session("langgraph", "s", calls, folder=None)).lessons
    assert [lesson.kind.value for lesson in lessons] == ["open failure"], "a query is no change"
