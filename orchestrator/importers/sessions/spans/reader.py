"""Reader of files of spans, a line of OTLP's JSON each: hardwon's own spool, and what a collector's exporter writes.

A session is a conversation where the spans name one, else a trace. Its agents are the spans that run one: the outermost
is the main one. A file is read twice, as what a tool came to may stand in a span below it, and who ran it in one above.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hardwon.errors import InvalidInput
from hardwon.integrations.span_attributes import AGENT_NAME, CONVERSATION, FOLDER, REPOSITORY, is_agent_span
from hardwon.models.ids import CONTEXT_OPENING
from orchestrator.importers.sessions.spans.otlp import Span, parse_json, read_spans
from orchestrator.importers.sessions.spans.tool_calls import read_tool_call
from orchestrator.importers.sessions.steps import MAIN, Session, Step, TextBudget

TOOL = "otel"
_MAX_SPANS = 200_000
_MAX_PARENTS = 100
_NAMELESS = "unknown_service"
"""Beginning of the name that an SDK gives a service that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call with its place in time, and with the agents above it, the nearest first."""

    start_ns: int
    call: Step
    agents: tuple[str, ...]
    agent_name: str


@dataclass(slots=True, kw_only=True)
class _Reading:
    passed_over: Counter[str] = field(default_factory=Counter)
    parents: dict[str, str | None] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    """Names of the agents, by the spans that run them."""
    notes: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    """Spans that tell more about the one above them."""
    conversations: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    budgets: defaultdict[str, TextBudget] = field(default_factory=lambda: defaultdict(TextBudget))
    calls: defaultdict[str, dict[str, _Call]] = field(default_factory=lambda: defaultdict(dict))


def matches(lines: Iterable[Mapping[str, Any]], raw: bytes) -> bool:
    """Return whether a file begins with requests of OTLP with spans; `raw`: its beginning, for a long first line."""
    begins = raw.lstrip()[:40].replace(b" ", b"").startswith(b'{"resourceSpans":')
    return begins or any(isinstance(each.get("resourceSpans"), list) for each in lines)


def session_id_of(path: Path) -> str | None:
    """Return the conversation, or else the trace, that the first spans of a file belong to."""
    for spans in _requests(path, Counter()):
        if spans:
            told = (_conversation_of(span) for span in spans)
            return next((each for each in told if each is not None), spans[0].trace_id)
    return None


def read_database(path: Path) -> Iterator[Session]:
    """Yield the sessions of a file in which tools were called."""
    reading = _Reading()
    for spans in _requests(path, reading.passed_over):
        for span in spans:
            _note_place(reading, span)
    for spans in _requests(path, Counter()):
        for span in spans:
            if span.is_tool and (span.span_id in reading.parents):
                _read_call(reading, span)
    for session_id, session in reading.sessions.items():
        session.steps = _make_steps(session, list(reading.calls[session_id].values()))
        session.passed_over, reading.passed_over = reading.passed_over, Counter()
        yield session


def _requests(path: Path, passed_over: Counter[str]) -> Iterator[list[Span]]:
    from orchestrator.importers.sessions.formats import read_lines  # noqa: PLC0415 - which asks this for its sessions

    for line in read_lines(path, passed_over):
        if not line.strip():
            continue
        try:
            yield list(read_spans(parse_json(line), passed_over))
        except InvalidInput:
            passed_over["no request of OTLP"] += 1


def _note_place(reading: _Reading, span: Span) -> None:
    if len(reading.parents) >= _MAX_SPANS:
        reading.passed_over[f"spans beyond the first {_MAX_SPANS:,}"] += 1
        return
    reading.parents[span.span_id] = span.parent_id
    conversation = _conversation_of(span)
    if conversation is not None:
        reading.conversations.setdefault(span.trace_id, conversation)
    if is_agent_span(span.attributes):
        reading.agents[span.span_id] = _agent_name(span)
    if span.is_note and span.parent_id is not None:
        reading.notes[span.parent_id].append(span)


def _conversation_of(span: Span) -> str | None:
    told = (span.attributes.get(name) for name in CONVERSATION)
    return next((each[:200] for each in told if isinstance(each, str) and each.strip()), None)


def _agent_name(span: Span) -> str:
    return next((each for name in AGENT_NAME if isinstance(each := span.attributes.get(name), str)), "")


def _read_call(reading: _Reading, span: Span) -> None:
    session_id = _conversation_of(span) or reading.conversations.get(span.trace_id) or span.trace_id
    session = reading.sessions.get(session_id)
    if session is None:
        session = Session(tool=TOOL, session_id=session_id, may_hide_changes=True)
        reading.sessions[session_id] = session
    session.folder = session.folder or span.resource.get(FOLDER)
    if session.project in {None, "unknown"}:
        names = (span.resource.get(name) for name in REPOSITORY)
        session.project = next((each for each in names if each and not each.startswith(_NAMELESS)), "unknown")
    call = read_tool_call(span, reading.notes.get(span.span_id, ()), reading.budgets[session_id])
    known = reading.calls[session_id].get(call.id)
    if known is not None and known.call.text and not call.text:  # two instrumentations tell of it
        return
    if CONTEXT_OPENING in call.text:
        session.handed_out.append(call.text)
    agents = tuple(each for each in _above(reading, span) if each in reading.agents)
    name = reading.agents[agents[-1]] if agents else _agent_name(span)
    reading.calls[session_id][call.id] = _Call(start_ns=span.start_ns, call=call, agents=agents, agent_name=name)


def _above(reading: _Reading, span: Span) -> Iterator[str]:
    current = span.parent_id
    for _ in range(_MAX_PARENTS):
        if current is None:
            return
        yield current
        current = reading.parents.get(current)


def _make_steps(session: Session, calls: list[_Call]) -> list[Step]:
    """Return the steps of a session in time."""
    calls.sort(key=lambda each: (each.start_ns, each.call.id))
    main = calls[0].agent_name if calls else ""
    steps = []
    for order, each in enumerate(calls, 1):
        outermost = MAIN if each.agent_name == main else each.agent_name or MAIN
        inner = each.agents[:-1]
        parent = inner[1] if len(inner) > 1 else outermost
        steps.append(
            replace(
                each.call,
                order=order,
                agent=inner[0] if inner else outermost,
                parent=parent if inner else None if outermost == MAIN else MAIN,
                folder=each.call.folder or session.folder,
                at=datetime.fromtimestamp(min(each.start_ns, 1 << 62) / 1e9, UTC),
            )
        )
    return steps
