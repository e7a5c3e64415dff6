"""Runs of Qwen Code 0.24.4 and Copilot CLI 1.0.102 with a scripted model (`tests/samples/agents`), as they were told.

In `main` a check fails, is mended and passes, with a grep, tools that fail, a hook that forbids `rm` and a sub-agent;
in `refused` nobody is there; in `person` somebody says no to `rm`; in `rules` an option of the command line does; in
`post` a hook adds its words behind each result.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import HEADLESS, LessonKind, pair
from orchestrator.importers.sessions.steps import MAIN, Session

SAMPLES = Path(__file__).resolve().parents[3] / "samples" / "agents"
CHECK = "python3 -m unittest test_cart"
MISSING = "python3 -m unittest test_missing"
FIX = '-    return sum(item["price"] for item in items)\n+    return sum((item["price"] or 0) for item in items)'
TOOLS = ("qwen_code", "copilot_cli")


def read(*names: str) -> Session:
    found = find_transcripts([SAMPLES / f"{name}.jsonl" for name in names])
    (session,) = read_sessions(found.transcripts, found.unread)
    assert found.unread == []
    assert not session.passed_over
    return session


def told(session: Session) -> list[tuple[str, str, int | None]]:
    return [(step.command or step.tool, step.outcome.value, step.exit_code) for step in session.steps]


def main_run(tool: str) -> Session:
    return read(*(("qwen_code_main", "qwen_code_sub_agent") if tool == "qwen_code" else ("copilot_cli_main",)))


@pytest.mark.parametrize("tool", TOOLS)
def test_the_steps_of_a_run_are_those_that_were_scripted(tool: str) -> None:
    session = main_run(tool)
    names = {
        "qwen_code": ("grep_search", "read_file", "edit", "write_file", "agent"),
        "copilot_cli": ("grep", "view", "edit", "create", "task"),
    }[tool]
    grep, look, edit, write, agent = names
    steps = told(session)
    assert steps[:13] == [
        (CHECK, "failed", 1),
        (f"{CHECK} 2>&1 | tail -3", "ok", 0),
        ("grep -n tax cart.py", "failed", 1),
        (grep, "ok", None),
        (look, "ok", None),
        (edit, "tool_error", None),
        (edit, "ok", None),
        (CHECK, "ok", 0),
        ("sh -c 'exit 5'", "failed", 5),
        ("no_such_tool", "tool_error", None),
        (write, "ok", None),
        ("rm cart.py", "denied", None),
        (agent, "ok", None),
    ]
    assert (MISSING, "failed", 1) in steps[13:]
    assert all(not step.text.rstrip().endswith((">", "(none)")) for step in session.steps if step.command)
    (below,) = {step.agent for step in session.steps} - {MAIN}
    assert {step.parent for step in session.steps if step.agent == below} == {MAIN}
    assert session.handed_out == ["NOTE-OF-MEMORY: none counts as zero"]
    assert list(session.prompts.values()) == ["Make the test of the cart pass"]
    assert session.folder == "/home/dev/shop"


@pytest.mark.parametrize("tool", TOOLS)
def test_a_run_teaches_its_fix_its_refusal_and_what_is_open(tool: str) -> None:
    session = main_run(tool)
    lessons = pair(session).lessons
    assert [lesson.kind for lesson in lessons] == [LessonKind.FIX, LessonKind.REJECTION, LessonKind.OPEN]
    entries = [make_entry(lesson, session, project="shop").entry for lesson in lessons]
    assert (entries[0].success_verified, entries[0].verified_by) == (True, CHECK)
    assert entries[0].solution_steps == f"cart.py:\n def total(items):\n{FIX}"
    assert entries[1].human_feedback == "RULE-SAYS: move it to attic/ in its place"
    assert "No module named 'test_missing'" in (entries[2].failure_description or "")
    assert "TypeError" in (entries[0].error_message or ""), "of a run whose output was not cut by a pipe"


@pytest.mark.parametrize("tool", TOOLS)
def test_what_nobody_was_asked_for_teaches_nothing(tool: str) -> None:
    pairing = pair(read(f"{tool}_refused"))
    assert pairing.lessons == ()
    assert pairing.left_out[HEADLESS] >= 3


def test_a_person_s_no_is_a_person_s() -> None:
    (step,) = read("copilot_cli_person").steps
    assert (step.outcome, step.decided_by, step.reason) == ("denied", "person", "use the attic")
    (step,) = read("qwen_code_person").steps
    assert (step.outcome, step.decided_by, step.reason) == ("denied", "person", "")


def test_an_option_s_rule_is_a_rule_and_a_background_command_has_its_end() -> None:
    session = read("copilot_cli_rules")
    assert (session.steps[0].decided_by, session.steps[0].reason.endswith("`shell(rm)`")) == ("rule", True)
    assert told(session)[1:4] == [
        (f"sleep 6; {CHECK}", "failed", 1),
        ("read_bash", "ok", None),
        (f"sleep 5; {CHECK}", "failed", 1),
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_words_of_a_hook_behind_a_result_are_no_part_of_it(tool: str) -> None:
    session = read(f"{tool}_post")
    assert set(session.handed_out) == {"NOTE-AFTER: none counts as zero"}
    assert told(session)[:2] == [(CHECK, "failed", 1), ("true", "ok", 0)]
    assert not any("NOTE-AFTER" in step.text for step in session.steps if step.exit_code is not None)
