"""What is told of every question, for people and planners: it never stands in the way of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any
from uuid import uuid4

from knowledge.documents.journal import Escalation, Event, EventId, Journal, NewEscalation
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.ports import Clock

log = get_logger(__name__)

ANSWERED = "question_answered"
_SINK_FAILURES = (HardwonError, OSError, ValueError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Keeps events and escalations; what it cannot keep is logged, and the answer goes out all the same."""

    journal: Journal
    clock: Clock

    async def log_event(
        self, name: str, payload: Mapping[str, Any], *, session: str | None = None, step: str | None = None
    ) -> EventId:
        """Keep an event; return its id, also where it could not be kept."""
        event = Event(
            event_id=EventId(uuid4()),
            name=name,
            happened_at=self.clock.now(),
            session=session and session[:200],
            step=step and step[:200],
            payload=payload,
        )
        try:
            await self.journal.record(event)
        except _SINK_FAILURES as error:
            log.warning("event_lost", name=name, error=type(error).__name__)
        return event.event_id

    async def escalate(self, new: NewEscalation) -> Escalation | None:
        """Make work of a question that was not answered; None where that could not be kept."""
        try:
            return await self.journal.escalate(new, self.clock.now())
        except _SINK_FAILURES as error:
            log.warning("escalation_lost", error=type(error).__name__)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetrics:
    """Figures of answers that were given; rates are shares of them.

    `mean_coverage`, `over_budget_rate`: of the documentation subagent's.
    """

    answers: int
    answered_rate: float
    no_answer_rate: float
    error_rate: float
    cache_hit_rate: float
    dropped_claims: int
    mean_coverage: float
    over_budget_rate: float
    tool_use_rate: float
    mean_lookups: float
    lookup_success_rate: float
    fallback_rate: float
    lookup_p50_ms: float
    standard_p50_ms: float
    latency_p50_ms: float
    latency_p95_ms: float
    documents_chosen: Mapping[str, int]


def metrics_of(events: Iterable[Event]) -> AnswerMetrics:
    """Return the figures of events of answers."""
    told = [event.payload for event in events if event.name == ANSWERED]
    planned = [each for each in told if each.get("system") == "documentation"]
    covered = [float(each.get("coverage_score", 0)) for each in planned]
    picking = [each for each in told if each.get("system") == "selection"]
    lookups = sum(each.get("lookups", 0) for each in picking)
    went_well = sum(each.get("lookups_ok", 0) for each in picking)
    tried = went_well + sum(each.get("lookups_failed", 0) for each in picking)
    latencies = sorted(float(each.get("latency_ms", 0)) for each in told)
    chosen = Counter(name for each in picking for name in each.get("documents", ()))

    def share(found: Iterable[object], of: list[Any]) -> float:
        return round(sum(map(bool, found)) / len(of), 4) if of else 0.0

    def middle(*, used: bool) -> float:
        times = [float(each.get("latency_ms", 0)) for each in picking if bool(each.get("lookups")) is used]
        return round(median(times), 1) if times else 0.0

    return AnswerMetrics(
        answers=len(told),
        answered_rate=share((each.get("status") == "answered" for each in told), told),
        no_answer_rate=share((each.get("status") not in {"answered", "error"} for each in told), told),
        error_rate=share((each.get("status") == "error" for each in told), told),
        cache_hit_rate=share((each.get("cached") for each in told), told),
        dropped_claims=sum(int(each.get("dropped_claims", 0)) for each in told),
        mean_coverage=round(fmean(covered), 4) if covered else 0.0,
        over_budget_rate=share((each.get("over_budget") for each in planned), planned),
        tool_use_rate=share((each.get("lookups") for each in picking), picking),
        mean_lookups=round(lookups / len(picking), 2) if picking else 0.0,
        lookup_success_rate=round(went_well / tried, 4) if tried else 0.0,
        fallback_rate=share((each.get("fallback") for each in picking), picking),
        lookup_p50_ms=middle(used=True),
        standard_p50_ms=middle(used=False),
        latency_p50_ms=round(median(latencies), 1) if latencies else 0.0,
        latency_p95_ms=round(quantiles(latencies, n=20)[18], 1) if len(latencies) > 1 else sum(latencies),
        documents_chosen=dict(chosen.most_common(20)),
    )
