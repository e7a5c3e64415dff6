"""The runs in `../shared/cases/agents` of the tools but Claude Code and Codex give what their READMEs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import Session, Step

CASES = Path(__file__).resolve().parents[5] / "shared" / "cases" / "agents"
CHECK = "python3 -m unittest test_cart"
FIX = '-    return sum(item["price"] for item in items)\n+    return sum((item["price"] or 0) for item in items)'
pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the recorded runs of agents are not beside this checkout")


def read(*parts: str) -> Session:
    found = find_transcripts([CASES.joinpath(*parts)])
    (session,) = read_sessions(found.transcripts, found.unread)
    assert found.unread == []
    assert not session.passed_over
    return session


def told(step: Step) -> tuple[str, str, int | None]:
    return step.command or step.tool, step.outcome.value, step.exit_code


def test_gemini_cli_s_run() -> None:
    session = read("gemini-cli", "session.jsonl")
    assert list(map(told, session.steps)) == [
        (CHECK, "failed", 1),
        ("grep -n tax cart.py", "failed", 1),
        ("read_file", "ok", None),
        ("replace", "ok", None),
        (CHECK, "ok", 0),
        ("rm cart.py", "denied", None),
        ("replace", "tool_error", None),
        ("no_such_tool", "tool_error", None),
    ]
    assert [each.partition(":")[0] for each in session.handed_out] == [
        "MEMORY-NOTE-SessionStart",
        "MEMORY-NOTE-BeforeAgent",
    ]
    assert list(session.prompts.values()) == ["Make the test of the cart pass"]


@pytest.mark.parametrize("file", ["db-parts.jsonl", "run-format-json.jsonl", ""])
def test_opencode_s_run(file: str) -> None:
    session = read("opencode", file)
    assert list(map(told, session.steps)) == [
        (CHECK, "failed", 1),
        ("grep -n tax cart.py", "failed", 1),
        ("read", "ok", None),
        ("edit", "ok", None),
        (CHECK, "ok", 0),
        ("rm cart.py", "denied", None),
        ("touch denied.txt", "denied", None),
    ]
    assert [step.decided_by for step in session.steps[-2:]] == ["rule", "nobody"]


@pytest.mark.parametrize(
    ("parts", "refused"),
    [(("gemini-cli", "session.jsonl"), ["rm cart.py"]), (("opencode",), ["rm cart.py"])],
    ids=["gemini-cli", "opencode"],
)
def test_a_run_teaches_its_fix_and_its_refusal(parts: tuple[str, ...], refused: list[str]) -> None:
    session = read(*parts)
    entries = [make_entry(each, session, project="shop").entry for each in pair(session).lessons]
    fixes = [entry for entry in entries if entry.success_verified]
    assert [entry.verified_by for entry in fixes] == [CHECK]
    assert fixes[0].solution_steps == f"cart.py:\n def total(items):\n{FIX}"
    assert "TypeError" in (fixes[0].error_message or "")
    rejections = [entry for entry in entries if entry.human_feedback]
    assert [(entry.proposal or "").partition(": ")[2] for entry in rejections] == refused
    assert len(entries) == 2
    shown = " ".join(map(str, entries))
    assert "/home/dev" not in shown
    assert "MEMORY-NOTE" not in shown


def test_aider_s_run_is_learned_by_the_terminal_s_text() -> None:
    session = read("aider")
    assert list(map(told, session.steps)) == [
        ("edit", "ok", None),
        (CHECK, "failed", None),
        ("edit", "ok", None),
        (CHECK, "ok", 0),
    ]
    (lesson,) = pair(session).lessons
    assert lesson.proof is session.steps[3]
    assert lesson.step is session.steps[1]
    assert '+    return sum((item["price"] or 0) for item in items)' in lesson.solution
