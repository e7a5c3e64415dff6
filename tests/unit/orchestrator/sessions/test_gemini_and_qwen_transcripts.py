"""Transcripts of Gemini CLI and of Qwen Code, which comes from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.importers.sessions import claude_code, gemini, qwen
from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.gemini import parse_output
from orchestrator.importers.sessions.steps import MAIN, Decider, Step, StepOutcome
from tests.unit.orchestrator.sessions import small_transcripts as small
from tests.unit.orchestrator.sessions.small_transcripts import (
    DIFF,
    FAILED,
    FOLDER,
    gemini_call,
    qwen_call,
    qwen_line,
    qwen_result,
    shell_result,
)


def fence(text: str) -> str:
    return f"<untrusted_context>\n{text}\n</untrusted_context>"


def of_gemini(**fields: object) -> Step:
    (step,) = gemini.read(small.gemini(gemini_call("1", **fields))).steps  # type: ignore[arg-type]
    return step


def of_qwen(*lines: str) -> Step:
    (step,) = qwen.read(lines).steps
    return step


def test_gemini_s_exit_code_is_in_the_output_and_success_says_nothing() -> None:
    step = of_gemini(
        args={"command": "pytest"},
        output=fence(f"Output: {FAILED}\nExit Code: 1\nProcess Group PGID: 7"),
        resultDisplay=FAILED,
    )
    assert (step.outcome, step.exit_code, step.text, step.command) == (StepOutcome.FAILED, 1, FAILED, "pytest")
    passed = of_gemini(args={"command": "pytest"}, output=fence("Output: OK\nProcess Group PGID: 7"))
    assert (passed.outcome, passed.exit_code, passed.text) == (StepOutcome.OK, 0, "OK")
    empty = of_gemini(args={"command": "true"}, output=fence("Output: (empty)\nProcess Group PGID: 7"))
    assert (empty.outcome, empty.text) == (StepOutcome.OK, "")


def test_lines_that_a_command_prints_are_not_the_tool_s() -> None:
    printed = "Exit Code: 3"
    step = of_gemini(
        args={"command": "cat log"}, output=f"Output: {printed}\nProcess Group PGID: 7", resultDisplay=printed
    )
    assert (step.exit_code, step.text) == (0, printed)
    inside = parse_output("Output: Exit Code: 9\nSignal: 15\nmore\nExit Code: 2\nProcess Group PGID: 7")
    assert (inside.exit_code, inside.is_stopped, inside.text) == (2, False, "Exit Code: 9\nSignal: 15\nmore")


@pytest.mark.parametrize(
    ("output", "outcome"),
    [
        ("Command was automatically cancelled because it exceeded the timeout of 5.0 minutes", StepOutcome.TOOL_ERROR),
        ("Output: x\nSignal: 15\nProcess Group PGID: 7", StepOutcome.TOOL_ERROR),
        ("Command moved to background (PID: 7). Output hidden.", StepOutcome.UNKNOWN),
        ("a summary of what was put out", StepOutcome.UNKNOWN),
        ("Output too large. Showing the end.\nOutput: x\nExit Code: 2\nProcess Group PGID: 7", StepOutcome.FAILED),
    ],
)
def test_a_command_that_did_not_end_of_itself_is_neither_passed_nor_failed(output: str, outcome: StepOutcome) -> None:
    assert of_gemini(args={"command": "pytest"}, output=fence(output)).outcome is outcome
    told = {"status": "error", "resultDisplay": "x"} if outcome is StepOutcome.TOOL_ERROR else None
    assert of_qwen(qwen_call("1", command="pytest"), qwen_result("1", told, output=output)).outcome is outcome


def test_gemini_s_repeated_messages_count_once_and_the_last_one_wins() -> None:
    first = small.gemini(gemini_call("1", args={"command": "pytest"}, status="executing"))
    again = small.gemini(gemini_call("1", args={"command": "pytest"}, output="Output: OK\nProcess Group PGID: 7"))
    session = gemini.read([*first, *again[1:]])
    assert [(step.id, step.outcome) for step in session.steps] == [("1", StepOutcome.OK)]
    rows = [json.loads(line) for line in again]
    whole = {**rows[0], "messages": [row for row in rows[1:] if "id" in row]}
    assert gemini.read([json.dumps(whole)]).steps == gemini.read(again).steps


def test_gemini_s_edits_are_diffs_and_its_folder_is_found_by_its_hash() -> None:
    shown = {"fileDiff": f"Index: cart.py\n===\n--- cart.py\n+++ cart.py\n{DIFF}", "filePath": f"{FOLDER}/src/cart.py"}
    call = gemini_call("1", "replace", args={"file_path": f"{FOLDER}/src/cart.py"}, output="done", resultDisplay=shown)
    known = gemini.read(small.gemini(call, project_hash=hashlib.sha256(FOLDER.encode()).hexdigest()))
    assert (known.folder, known.steps[0].folder) == (FOLDER, FOLDER)
    assert [(edit.path, edit.diff) for edit in known.steps[0].edits] == [(f"{FOLDER}/src/cart.py", DIFF.rstrip())]
    assert gemini.read(small.gemini(call)).folder == f"{FOLDER}/src", "the folder of all files, where the hash is none"


def test_gemini_s_sub_agents_lie_in_a_folder_with_their_session_s_name(tmp_path: Path) -> None:
    failed = gemini_call("1", args={"command": "pytest"}, output="Output: x\nExit Code: 1\nProcess Group PGID: 7")
    header = {"sessionId": "sub", "projectHash": "0" * 64, "kind": "subagent", "directories": [FOLDER]}
    files = {
        "session-1.jsonl": small.gemini(gemini_call("2", args={"command": "make"}, output="Output: x")),
        "session-g/sub.jsonl": [json.dumps(header), *small.gemini(failed, prompt="An order")[1:]],
    }
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    found = find_transcripts([tmp_path])
    (session,) = read_sessions(found.transcripts, found.unread)
    assert {(step.id, step.agent, step.parent) for step in session.steps} == {("1", "sub", MAIN), ("2", MAIN, None)}
    assert session.prompts == {"prompt": "Mend it"}
    told = f"<session_context>\n- **Workspace Directories:**\n  - {FOLDER}\n</session_context>"
    assert gemini.read(small.gemini(failed, prompt=told)).folder == FOLDER


@pytest.mark.parametrize(
    ("status", "error", "outcome", "decider", "reason"),
    [
        ("error", "Tool execution blocked: use mv", StepOutcome.DENIED, Decider.RULE, "use mv"),
        ("error", "Tool execution denied by policy. No deletes", StepOutcome.DENIED, Decider.RULE, "No deletes"),
        ("error", "Tool execution denied by policy.", StepOutcome.DENIED, Decider.NOBODY, ""),
        ("cancelled", "[Operation Cancelled] Reason: User denied execution.", StepOutcome.DENIED, Decider.PERSON, ""),
        ("cancelled", "[Operation Cancelled] Reason: User cancelled operation", StepOutcome.TOOL_ERROR, None, ""),
        ("error", 'Tool "x" not found.', StepOutcome.TOOL_ERROR, None, ""),
    ],
)
def test_gemini_tells_who_denied_a_call(
    status: str, error: str, outcome: StepOutcome, decider: Decider | None, reason: str
) -> None:
    step = of_gemini(args={"command": "rm cart.py"}, status=status, error=error)
    assert (step.outcome, step.decided_by, step.reason) == (outcome, decider, reason)


def test_the_words_of_hooks_are_set_apart_from_the_user_s_and_from_outputs() -> None:
    lines = small.gemini(
        gemini_call(
            "1",
            args={"command": "pytest"},
            output=f"{fence(f'Output: {FAILED}')}\n\n<hook_context>NOTE two</hook_context>",
        ),
        prompt="<hook_context>NOTE one</hook_context>\n\nMend it",
    )
    session = gemini.read(lines)
    assert (session.handed_out, session.prompts) == (["NOTE one", "NOTE two"], {"prompt": "Mend it"})
    assert session.steps[0].text == FAILED
    assert session.steps[0].task == "prompt"
    parts = [
        {"text": "Mend it"},
        {"text": "<qwen:user-prompt-submit-context>\nNOTE\n</qwen:user-prompt-submit-context>"},
    ]
    agent = {"isSidechain": True, "agentId": "a1"}
    output = f"Command: pytest\nDirectory: (root)\nOutput: {FAILED}\nError: (none)\nExit Code: 1\nSignal: (none)"
    other = qwen.read(
        [
            qwen_line("user", message={"parts": parts}, systemPayload={"hookContext": "NOTE"}),
            json.dumps(json.loads(qwen_call("1", command="pytest")) | agent),
            json.dumps(
                json.loads(qwen_result("1", error=f"{output}\nProcess Group PGID: (none)\n\nNOTE behind it")) | agent
            ),
        ]
    )
    assert (other.handed_out, other.prompts) == (["NOTE", "NOTE behind it"], {"u": "Mend it"})
    (step,) = other.steps
    assert (step.text, step.exit_code, step.agent, step.parent) == (FAILED, 1, "a1", MAIN)


def test_qwen_s_exit_code_is_in_what_it_shows() -> None:
    failed = of_qwen(
        qwen_call("1", command="pytest"), qwen_result("1", shell_result(1, FAILED, "error"), error="Command: ...")
    )
    assert (failed.outcome, failed.exit_code, failed.text, failed.is_search) == (StepOutcome.FAILED, 1, FAILED, False)
    grep = of_qwen(qwen_call("1", command="grep x a"), qwen_result("1", shell_result(1, ""), output="Exit Code: 1"))
    assert (grep.exit_code, grep.is_search) == (1, True)
    assert (failed.folder, failed.at is not None) == (FOLDER, True)


@pytest.mark.parametrize(
    ("text", "decider"),
    [
        ('permission was declined. Matching deny rule: "run_shell_command".', Decider.NOBODY),
        ('permission was declined. Matching deny rule: "run_shell_command(rm *)".', Decider.RULE),
        ("permission was declined (non-interactive mode cannot prompt for confirmation).", Decider.NOBODY),
        ("Blocked by auto mode policy: it deletes a file", Decider.NOBODY),
        ("HOUSE RULE: move it to the attic", Decider.RULE),
    ],
)
def test_qwen_tells_a_rule_from_a_run_without_a_person(text: str, decider: Decider) -> None:
    told = {"status": "error", "errorType": "execution_denied", "executionStatus": "not_started", "resultDisplay": text}
    step = of_qwen(qwen_call("1", command="rm a"), qwen_result("1", told, error=text))
    assert (step.outcome, step.decided_by, step.reason) == (StepOutcome.DENIED, decider, text)


def test_a_person_s_refusal_in_qwen_is_a_cancelled_call() -> None:
    told = {"status": "cancelled", "executionStatus": "not_started"}
    refused = "[Operation Cancelled] Reason: User did not allow tool call"
    step = of_qwen(qwen_call("1", command="rm a"), qwen_result("1", told, error=refused))
    assert (step.outcome, step.decided_by, step.reason) == (StepOutcome.DENIED, Decider.PERSON, "")
    stopped = of_qwen(qwen_call("1", command="rm a"), qwen_result("1", told, error="[Operation Cancelled] Reason: x"))
    assert (stopped.outcome, stopped.decided_by) == (StepOutcome.TOOL_ERROR, None)


def test_qwen_s_tools_and_results_out_of_order_are_joined_by_id() -> None:
    missing = {"status": "error", "errorType": "tool_not_registered", "executionStatus": "not_started"}
    edited = {"status": "success", "resultDisplay": {"fileDiff": DIFF, "filePath": f"{FOLDER}/cart.py"}}
    session = qwen.read(
        [
            qwen_call("1", command="pytest"),
            qwen_call("2", "edit", file_path=f"{FOLDER}/cart.py", old_string="a", new_string="b"),
            qwen_call("3", "no_such_tool"),
            qwen_call("4", "mcp__wiki__page"),
            qwen_call("5", command="pytest"),
            qwen_result("4", {"status": "success"}, output="text"),
            qwen_result("3", missing, error="not found"),
            qwen_result("2", edited, output="done"),
            qwen_result("1", shell_result(1, FAILED, "error"), error="x"),
            qwen_result("9", {"status": "success"}, output="x"),
        ]
    )
    assert [(step.id, step.outcome) for step in session.steps] == [
        ("1", StepOutcome.FAILED),
        ("2", StepOutcome.OK),
        ("3", StepOutcome.TOOL_ERROR),
        ("4", StepOutcome.OK),
        ("5", StepOutcome.UNKNOWN),
    ]
    assert session.steps[1].edits[0].diff == DIFF.rstrip()
    assert session.steps[3].is_outside
    assert session.passed_over == Counter({"a result without its call": 1})


def test_a_sub_agent_of_qwen_is_told_from_claude_code_by_its_parts() -> None:
    line = json.loads(qwen_call("1", command="pytest")) | {"isSidechain": True, "agentId": "a1"}
    del line["provenance"]
    assert qwen.matches([line])
    assert not qwen.matches([{"sessionId": "s", "uuid": "u", "message": {"content": []}}])
    assert not claude_code.matches([json.loads(qwen_call("1"))])
