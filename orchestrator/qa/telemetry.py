"""Telemetry of questions: events, escalations and metrics. A failure here never stops an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any
from uuid import uuid4

from hardwon.errors import HardwonError
from hardwon.event_log import get_logger
from hardwon.models.answers import Escalation, Event, EventId
from knowledge.documents.journal import Journal, NewEscalation
from knowledge.ports import Clock

log = get_logger(__name__)

QUESTION_ANSWERED = "question_answered"
_SINK_FAILURES = (HardwonError, OSError, ValueError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Stores events and escalations; a failure is logged, and the answer is returned all the same."""

    journal: Journal
    clock: Clock

    async def log_event(
        self, name: str, payload: Mapping[str, Any], *, session: str | None = None, step: str | None = None
    ) -> EventId:
        """Store an event; return its id, even if it could not be stored."""
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
        """Store an escalation for a question without an answer; return None if it could not be stored."""
        try:
            return await self.journal.escalate(new, self.clock.now())
        except _SINK_FAILURES as error:
            log.warning("escalation_lost", error=type(error).__name__)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetrics:
    """Metrics of answers; rates are shares of all answers.

    `mean_coverage`, `over_budget_rate`: of the documentation subagent's answers only.
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
    """Return the metrics of the answers among these events."""
    answers = [event.payload for event in events if event.name == QUESTION_ANSWERED]
    documentation = [each for each in answers if each.get("system") == "documentation"]
    coverages = [float(each.get("coverage_score", 0)) for each in documentation]
    selection = [each for each in answers if each.get("system") == "selection"]
    lookups = sum(each.get("lookups", 0) for each in selection)
    successes = sum(each.get("lookups_ok", 0) for each in selection)
    attempts = successes + sum(each.get("lookups_failed", 0) for each in selection)
    latencies = sorted(float(each.get("latency_ms", 0)) for each in answers)
    chosen = Counter(name for each in selection for name in each.get("documents", ()))

    def share(values: Iterable[object], whole: list[Any]) -> float:
        return round(sum(map(bool, values)) / len(whole), 4) if whole else 0.0

    def median_latency(*, used: bool) -> float:
        times = [float(each.get("latency_ms", 0)) for each in selection if bool(each.get("lookups")) is used]
        return round(median(times), 1) if times else 0.0

    return AnswerMetrics(
        answers=len(answers),
        answered_rate=share((each.get("status") == "answered" for each in answers), answers),
        no_answer_rate=share((each.get("status") not in {"answered", "error"} for each in answers), answers),
        error_rate=share((each.get("status") == "error" for each in answers), answers),
        cache_hit_rate=share((each.get("cached") for each in answers), answers),
        dropped_claims=sum(int(each.get("dropped_claims", 0)) for each in answers),
        mean_coverage=round(fmean(coverages), 4) if coverages else 0.0,
        over_budget_rate=share((each.get("over_budget") for each in documentation), documentation),
        tool_use_rate=share((each.get("lookups") for each in selection), selection),
        mean_lookups=round(lookups / len(selection), 2) if selection else 0.0,
        lookup_success_rate=round(successes / attempts, 4) if attempts else 0.0,
        fallback_rate=share((each.get("fallback") for each in selection), selection),
        lookup_p50_ms=median_latency(used=True),
        standard_p50_ms=median_latency(used=False),
        latency_p50_ms=round(median(latencies), 1) if latencies else 0.0,
        latency_p95_ms=round(quantiles(latencies, n=20)[18], 1) if len(latencies) > 1 else sum(latencies),
        documents_chosen=dict(chosen.most_common(20)),
    )
