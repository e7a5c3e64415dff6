"""The runs of real tools (`../shared/cases/agents`) teach what their READMEs say, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons.entries import LessonEntry, make_entry
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import Session

CASES = Path(__file__).resolve().parents[5] / "shared" / "cases" / "agents"
CHECK = "python3 -m unittest test_cart"
SOLUTION = 'def total(items):\n-    return sum(item["price"] for item in items)\n+    return sum((item["price"] or 0)'


DESCRIPTION = [
    "test_missing_price_counts_as_zero fails: missing price counts as zero",
    "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the folder of a tool teaches: checks mended and still open, and commands refused by a rule."""

    folder: str
    module: str
    fixes: tuple[str, ...] = (CHECK,)
    still_open: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    headless: int = 0


TESTS_OPEN = ("python3 -m unittest test_missing", "python3 -m unittest test_nothing")
TOOLS = [
    Case(folder="claude-code", module="claude_code", still_open=TESTS_OPEN, refused=("rm cart.py",), headless=1),
    Case(folder="codex", module="codex", still_open=TESTS_OPEN, refused=("rm cart.py",), headless=1),
]


def read(folder: str) -> tuple[list[Session], list[LessonEntry]]:
    found = find_transcripts([CASES / folder])
    unread: list[str] = []
    sessions = read_sessions(found.transcripts, unread)
    assert (found.unread, unread) == ([], [])
    return sessions, [
        make_entry(each, session, project="shop") for session in sessions for each in pair(session).lessons
    ]


def each_tool(function: object) -> object:
    there = [
        case
        for case in TOOLS
        if (CASES / case.folder).exists() and find_spec(f"orchestrator.importers.sessions.{case.module}")
    ]
    return pytest.mark.parametrize("case", there, ids=lambda case: case.folder)(function)


@each_tool
def test_a_real_run_teaches_what_it_should(case: Case) -> None:
    sessions, learned = read(case.folder)
    assert len(sessions) == 1, "the sub-agents' files belong to their session"
    failures = [each.entry for each in learned if each.entry.failure_description]
    fixes = [entry for entry in failures if entry.success_verified]
    assert tuple(entry.verified_by for entry in fixes) == case.fixes
    for entry in fixes:
        assert SOLUTION in (entry.solution_steps or "")
        assert "TypeError" in (entry.error_message or "")
        assert (entry.failure_description or "").splitlines() == DESCRIPTION
        assert entry.task_description == "missing price counts as zero"
        assert entry.run_id is not None
        assert entry.run_id.startswith(f"{sessions[0].session_id}/")
    shown = tuple(each.lesson.check.shown for each in learned if each.lesson.check and not each.entry.success_verified)
    assert shown == case.still_open
    refused = [each.entry for each in learned if each.entry.human_feedback]
    assert tuple((entry.proposal or "").partition(": ")[2] for entry in refused) == case.refused
    assert not any(entry.revision_approach for entry in refused)
    assert pair(sessions[0]).left_out["refusals with nobody there"] == case.headless


@each_tool
def test_a_real_run_stores_no_folder_and_no_words_of_a_hook(case: Case) -> None:
    _, learned = read(case.folder)
    told = " ".join(str(each.entry) for each in learned)
    assert "/home/dev" not in told
    assert "MEMORY-NOTE" not in told
    assert "Make the test" not in told, "the user's words"


def test_the_same_failure_told_by_two_tools_has_the_same_texts() -> None:
    texts = {
        (each.entry.failure_description, each.entry.solution_steps, each.entry.verified_by, each.entry.task_id)
        for case in TOOLS
        for each in read(case.folder)[1]
        if each.entry.success_verified
    }
    assert len(texts) <= 1
