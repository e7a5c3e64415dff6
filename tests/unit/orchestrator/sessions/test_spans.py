"""Spans as runs of agents: real ones of frameworks, those in `../shared/cases/agents`, and forms that others write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.importers.sessions.formats import find_transcripts, read_sessions
from orchestrator.importers.sessions.lessons.entries import make_entry
from orchestrator.importers.sessions.pairing import HIDDEN_CHANGES, LessonKind, Pairing, pair
from orchestrator.importers.sessions.steps import Decider, Session, Step, StepOutcome
from tests.unit.orchestrator.sessions.span_requests import (
    CHANGE,
    CHECK,
    ERROR,
    FAIL,
    PASS,
    RUN,
    agent,
    request,
    span,
    tool,
)

SAMPLES = Path(__file__).resolve().parents[3] / "samples" / "spans"
CASES = Path(__file__).resolve().parents[5] / "shared" / "cases" / "agents"
needs_cases = pytest.mark.skipif(not CASES.exists(), reason="the recorded runs of agents are not beside this checkout")


def read(path: Path) -> Session:
    found = find_transcripts([path])
    (session,) = read_sessions(found.transcripts, found.unread)
    assert found.unread == []
    assert session.tool == "otel"
    return session


def read_spans(folder: Path, *requests: dict[str, Any]) -> Session:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in requests), encoding="utf-8")
    return read(path)


def learn(folder: Path, *spans: Any) -> Pairing:
    return pair(read_spans(folder, request(*spans)))


def step_of(folder: Path, told: dict[str, Any]) -> Step:
    (step,) = read_spans(folder, request(told)).steps
    return step


@pytest.mark.parametrize(
    ("sample", "check"),
    [
        ("pydantic_ai", "run_tests path=test_cart.py"),
        ("langgraph_openinference", "run_tests test_cart.py"),
        ("langgraph_traceloop", "run_tests path=test_cart.py"),
    ],
)
def test_a_framework_s_spans_teach_the_failure_its_fix_and_its_proof(sample: str, check: str) -> None:
    session = read(SAMPLES / f"{sample}.jsonl")
    lessons = pair(session).lessons
    fixes = [each for each in lessons if each.kind is LessonKind.FIX]
    entries = [make_entry(each, session, project="shop").entry for each in fixes]
    assert [(each.verified_by, each.solution_steps) for each in entries] == [(check, "cart.py:\n+x = 1")]
    assert "TypeError: unsupported operand" in (entries[0].error_message or "")
    assert session.project == "shop"
    assert "Make it pass" not in repr(session), "prompts are not kept"


@pytest.mark.parametrize("sample", ["openai_agents_openinference", "openai_agents_otel"])
def test_openai_agents_hides_the_failure_so_nothing_is_learned(sample: str) -> None:
    session = read(SAMPLES / f"{sample}.jsonl")
    assert [step.outcome.value for step in session.steps] == ["failed", "ok", "ok"]
    assert pair(session).lessons == ()


def test_the_command_s_own_exit_code_counts_not_the_span_s_status() -> None:
    session = read(SAMPLES / "langgraph_openinference.jsonl")
    assert [(step.command, step.exit_code) for step in session.steps][1] == ("pytest -q", 1)


@needs_cases
def test_claude_code_s_telemetry_tells_outcomes_and_no_lesson(tmp_path: Path) -> None:
    lines = (CASES / "claude-code-otel" / "otlp-http-json.jsonl").read_text("utf-8").splitlines()
    told = [each["body"] for each in map(json.loads, lines) if each["path"] == "/v1/traces"]
    session = read_spans(tmp_path, *told)
    assert [(step.command, step.outcome, step.decided_by) for step in session.steps] == [
        ("python3 -m unittest test_cart", StepOutcome.FAILED, None),
        ("touch x", StepOutcome.DENIED, Decider.NOBODY),
        ("python3 -c 'print(1)'", StepOutcome.OK, None),
    ]
    assert pair(session).lessons == ()


@needs_cases
def test_pydantic_ai_s_case_stays_open_as_its_solution_is_not_in_the_trace(tmp_path: Path) -> None:
    shown = (CASES / "pydantic-ai" / "messages-and-spans.txt").read_text("utf-8")
    assert ERROR in shown
    pairing = learn(tmp_path, FAIL, PASS, tool(4, "deploy", {"target": "production"}, "deployed"), agent())
    assert [(each.kind, each.why_open) for each in pairing.lessons] == [(LessonKind.OPEN, HIDDEN_CHANGES)]


def test_a_run_that_shows_its_changes_is_flaky_where_there_is_none_between(tmp_path: Path) -> None:
    assert learn(tmp_path, tool(9, "write_file", {"path": "a", "content": "b"}, "ok"), *RUN[:1], PASS).lessons != ()
    early = tool(0, "write_file", {"path": "a", "content": "b"}, "ok")
    assert learn(tmp_path, early, FAIL, PASS).lessons == ()


def test_order_ids_and_repeats_do_not_matter(tmp_path: Path) -> None:
    whole = learn(tmp_path, *RUN).lessons
    session = read_spans(tmp_path, request(PASS, agent()), request(CHANGE), request(FAIL), request(FAIL))
    assert pair(session).lessons == whole
    assert [step.id for step in session.steps] == ["call_1", "call_2", "call_3"]
    assert [each.kind for each in whole] == [LessonKind.FIX]


def test_a_conversation_joins_its_traces_and_sub_agents_are_known_by_the_spans_above(tmp_path: Path) -> None:
    also = {"also": {"gen_ai.conversation.id": "talk-1"}}
    first = request(tool(1, "run_tests", CHECK, ERROR, is_error=True, **also))
    other = "11111111111111111111111111111111"
    inner = span(8, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "fixer"}, traceId=other)
    edit = tool(5, "edit_file", {"path": "a.py", "old_string": "x", "new_string": "y"}, "ok", traceId=other, **also)
    edit["parentSpanId"] = f"{8:016x}"
    proof = tool(6, "run_tests", CHECK, "3 passed", traceId=other, **also)
    session = read_spans(tmp_path, first, request(edit, inner, proof, agent(traceId=other)))
    assert session.session_id == "talk-1"
    assert [(step.agent, step.parent) for step in session.steps] == [
        ("main", None),
        (f"{8:016x}", "main"),
        ("main", None),
    ]
    assert [each.kind for each in pair(session).lessons] == [LessonKind.FIX]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("checks", ["run_tests", "runUnitTests", "lint", "type-check", "build_project"]),
        ("others", ["check_stock", "test_connection", "build_query", "validate_address"]),
    ],
)
def test_a_tool_checks_where_its_name_says_nothing_else(kind: str, names: list[str], tmp_path: Path) -> None:
    assert [name for name in names if step_of(tmp_path, tool(1, name, {}, "x")).is_check] == names * (kind == "checks")


@pytest.mark.parametrize(
    ("result", "outcome", "exit_code"),
    [
        ("3 passed in 0.1s", "ok", 0),
        ("1 failed, 2 passed", "failed", None),
        ("FAILED test_of_a_runner\n\n\n\n\n\n\n3 passed in 0.1s", "unknown", None),
        ("2 failed", "failed", None),
        ('{"exit_code": 2, "stdout": "2 failed"}', "failed", 2),
        ('{"returncode": 0, "stdout": ""}', "ok", 0),
        ('{"success": false, "error": "TypeError: no"}', "failed", None),
        ('{"content": [{"type": "text", "text": "boom"}], "isError": true}', "failed", None),
        ("Exit code: 1\nFAILED (errors=1)", "failed", 1),
        ("all done", "ok", None),
        ("", "ok", None),
        ("{" * 50_000, "ok", None),
    ],
)
def test_what_a_check_came_to_is_read_from_its_result(
    result: str, outcome: str, exit_code: int | None, tmp_path: Path
) -> None:
    step = step_of(tmp_path, tool(1, "run_tests", CHECK, result))
    assert (step.outcome.value, step.exit_code) == (outcome, exit_code)


@pytest.mark.parametrize(
    "more",
    [
        {"also": {"error.type": "TimeoutError"}},
        {"also": {"pydantic_ai.tool.retry.cause": "validation"}},
        {"also": {"error.type": "UnknownToolError"}},
    ],
)
def test_a_tool_s_own_trouble_teaches_nothing(more: dict[str, Any], tmp_path: Path) -> None:
    assert learn(tmp_path, tool(1, "run_tests", CHECK, ERROR, is_error=True, **more), CHANGE, PASS).lessons == ()


def test_a_refusal_is_told_by_the_span_below_the_call(tmp_path: Path) -> None:
    child = span(7, {"decision": "reject", "source": "user_reject", "span.type": "tool.blocked_on_user"})
    child["parentSpanId"] = f"{1:016x}"
    session = read_spans(tmp_path, request(child), request(tool(1, "Bash", {"command": "rm -r x"}, None)))
    assert [(step.outcome, step.decided_by) for step in session.steps] == [(StepOutcome.DENIED, Decider.PERSON)]
    assert pair(session).lessons == (), "there is no reason to learn from"


def test_a_file_with_bad_lines_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    good = json.dumps(request(*RUN))
    bad = ['{"resourceSpans": 5}', "[1]", "null", '{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}', '{"half']
    path.write_text("\n".join([good, *bad]), encoding="utf-8")
    session = read(path)
    assert [step.id for step in session.steps] == ["call_1", "call_2", "call_3"]
    assert session.passed_over.total() == len(bad)


def test_spans_in_a_circle_end(tmp_path: Path) -> None:
    told = [span(number, {}, parentSpanId=f"{number % 3 + 1:016x}") for number in (1, 2, 3)]
    call = tool(4, "run_tests", CHECK, ERROR, is_error=True)
    call["parentSpanId"] = f"{1:016x}"
    assert [step.agent for step in read_spans(tmp_path, request(call, *told)).steps] == ["main"]
