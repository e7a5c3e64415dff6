"""Generated runs teach what is true of them and nothing else, and broken readers and rules are caught by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.importers.sessions import checks, claude_code, codex, formats, pairing
from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons import changes
from orchestrator.importers.sessions.pairing import pair
from orchestrator.importers.sessions.steps import Decider, Session
from tests.unit.orchestrator.sessions.generated_runs import (
    Lines,
    Run,
    Truth,
    make_run,
    to_claude_code,
    to_codex,
)

WRITERS: dict[str, Callable[[Run, str], Lines]] = {"claude-code": to_claude_code, "codex": to_codex}
QUICK, LONG = range(100), range(100, 2100)


class ReadTwice(Exception):
    """A step, or a lesson, is there twice."""


def learn(lines: Lines, tool: str) -> set[Truth]:
    """Return the lessons of a run from its transcripts."""
    read = {"claude-code": claude_code.read, "codex": codex.read}[tool]
    (session,) = formats._join([read(each) for each in lines.values() if each])
    if len({step.id for step in session.steps}) < len(session.steps):
        raise ReadTwice
    return lessons_of(session)


def lessons_of(session: Session) -> set[Truth]:
    lessons = pair(session).lessons
    told = [(str(each.kind), each.step.id, each.proof.id if each.proof else None) for each in lessons]
    if len(set(told)) < len(told):
        raise ReadTwice
    return set(told)


def wrong_runs(seeds: range, tool: str) -> Iterator[tuple[int, set[Truth], set[Truth]]]:
    """Yield the runs that taught something else: what was learned wrongly, and what was not learned."""
    for seed in seeds:
        run = make_run(seed)
        learned = learn(WRITERS[tool](run, f"session-{seed}"), tool)
        if learned != run.truth:
            yield seed, learned - run.truth, run.truth - learned


@pytest.mark.parametrize("tool", WRITERS)
def test_generated_runs_teach_what_is_true_of_them(tool: str) -> None:
    assert list(wrong_runs(QUICK, tool)) == []


@pytest.mark.long
@pytest.mark.parametrize("tool", WRITERS)
def test_two_thousand_generated_runs_teach_what_is_true_of_them(tool: str) -> None:
    assert list(wrong_runs(LONG, tool)) == []


def _pair_by_order(monkeypatch: pytest.MonkeyPatch) -> None:
    read_result = claude_code._read_result

    def read_next(reading: claude_code._Reading, line: dict[str, object], block: dict[str, object]) -> None:
        waiting = [call_id for call_id in reading.calls if call_id not in reading.done]
        read_result(reading, line, {**block, "tool_use_id": waiting[0] if waiting else block["tool_use_id"]})

    monkeypatch.setattr(claude_code, "_read_result", read_next)


def _count_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    read_line = claude_code._read_line

    def read_copy(reading: claude_code._Reading, line: dict[str, object]) -> None:
        if line.get("type") == "api-request-blob":
            reading.done.clear()
            line = {**line, "type": "user"}
        read_line(reading, line)

    monkeypatch.setattr(claude_code, "_read_line", read_copy)


def _believe_headless_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_DECIDERS", frozenset(Decider))


def _let_a_pipe_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_is_hidden", lambda *_: False)


def _let_tests_alone_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "is_of_check", lambda _: False)


def _let_any_agent_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_is_above", lambda *_: True)


def _never_withdraw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_is_near", lambda *_: False)


def _trust_the_exit_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_judge_success", lambda *_, failed: checks.Verdict.PASSED)


MUTANTS = [
    _pair_by_order,
    _count_copies,
    _believe_headless_refusals,
    _let_a_pipe_verify,
    _let_tests_alone_verify,
    _let_any_agent_verify,
    _never_withdraw,
    _trust_the_exit_code_alone,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_rule_is_caught(mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    try:
        is_caught = next(wrong_runs(QUICK, "claude-code"), None) is not None
    except ReadTwice:
        is_caught = True
    assert is_caught


def test_the_files_of_a_run_are_read_as_one_session(tmp_path: Path) -> None:
    for tool, write in WRITERS.items():
        for seed in range(6):
            for agent, lines in write(make_run(seed), f"{tool}-{seed}").items():
                path = tmp_path / tool / str(seed) / f"{agent}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f"{line}\n" for line in lines))
    found = find_transcripts([tmp_path])
    unread: list[str] = []
    sessions = read_sessions(found.transcripts, unread)
    assert (found.unread, unread) == ([], [])
    assert {session.session_id for session in sessions} == {f"{tool}-{seed}" for tool in WRITERS for seed in range(6)}
    for session in sessions:
        assert lessons_of(session) == make_run(int(session.session_id.rpartition("-")[2])).truth
