"""What a process did, in Prometheus' terms: told by the steps of the work, never by the work itself.

No label is a workspace, a project or anything that was stored, so that there are as many series after a year as on the
first day.
"""

from __future__ import annotations

import functools
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from knowledge.errors import Conflict, InvalidInput
from knowledge.memory.embedding_run import StoredBatch
from knowledge.models import (
    CaptureOutcome,
    CaptureResult,
    CheckpointReport,
    CheckpointType,
    Context,
    Outcome,
    PruneReport,
)
from knowledge.steps import SpanEnd
from orchestrator.context import Cause

STAGES = ("statistics", "embedding", "index", "rows", "ranking")
"""The parts of a query, in the order in which they begin; the first two go on together."""
QUERIES = ("query_for_task", "query_for_failure", "query_for_gate")

_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10)
"""Seconds; 0.3 is the deadline of a query by default."""
_LONG = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_PRUNED = ("entries", "points", "patterns", "never_resolved")
_RELEVANCE = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)

_Kind = TypeVar("_Kind")
_Begin = Callable[[str, tuple[object, ...], float], SpanEnd]


class Metrics:
    """The metrics of a process; called for each step, as a watcher, it counts them up."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(f"hardwon_{name}", says, labels, registry=registry)

        def gauge(name: str, says: str) -> Gauge:
            return Gauge(f"hardwon_{name}", says, registry=registry)

        def histogram(name: str, says: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"hardwon_{name}", says, labels, buckets=buckets, registry=registry)

        self.captures = counter("captures", "Captured entries by what became of them.", "outcome")
        self.entries = counter("entries", "Entries by what checkpoints made of them.", "became")
        self.checkpoints = counter("checkpoints", "Checkpoints by type and result.", "type", "result")
        self.checkpoint_seconds = histogram("checkpoint_seconds", "How long checkpoints took.", _LONG, "type")
        self.batch_seconds = histogram("batch_seconds", "How long a step of a batch took.", _LONG, "step")
        self.query_seconds = histogram("query_seconds", "How long queries took.", _QUICK, "query")
        self.stage_seconds = histogram("query_stage_seconds", "How long a query's stage took.", _QUICK, "stage")
        self.contexts = counter("contexts", "Contexts by what they hold.", "holds")
        self.context_seconds = histogram("context_seconds", "How long contexts took.", _QUICK)
        self.degraded = counter("contexts_degraded", "Contexts without what is known, by cause.", "cause")
        self.relevance = histogram("injected_relevance", "Relevance of patterns put into contexts.", _RELEVANCE)
        self.outcomes = counter("outcomes", "What came of patterns that were handed out.", "result")
        self.pruned = counter("pruned", "What pruning deleted.", "what")
        self.requests = counter("http_requests", "HTTP requests.", "method", "route", "status")
        self.request_seconds = histogram("http_request_seconds", "How long they took.", _QUICK, "method", "route")
        self.staged = gauge("staged_entries", "Entries that wait for a checkpoint now, of all workspaces.")
        self.workspaces = gauge("workspaces", "Workspaces that hold anything.")
        self.breakers = gauge("breakers_open", "Workspaces for which contexts are not tried now, after failures.")
        self._begin: dict[str, _Begin] = {
            "capture": lambda *_: self._captured,
            "capture_all": lambda *_: self._captured_all,
            "store_entries": lambda *_: self._stored,
            "checkpoint": self._checkpoint,
            "context": self._context,
            "record_outcomes": self._outcomes,
            "prune": lambda *_: self._pruned,
            "embed_batch": _timed(self.batch_seconds.labels("embed_batch")),
            "store_batch": self._batch,
            **{name: _timed(self.query_seconds.labels(name)) for name in QUERIES},
            **{name: _timed(self.stage_seconds.labels(name)) for name in STAGES},
        }
        self._answers: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # as many as there are series
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Have what may be counted there before it is: what appears with its first one has not increased."""
        for outcome in CaptureOutcome:
            self.captures.labels(outcome)
        for became in ("embedded", "dead", "abandoned"):
            self.entries.labels(became)
        self.batch_seconds.labels("store_batch")
        for kind in CheckpointType:
            self.checkpoint_seconds.labels(kind)
            for result in ("done", "failed"):
                self.checkpoints.labels(kind, result)
        for holds in ("patterns", "nothing"):
            self.contexts.labels(holds)
        for cause in Cause:
            self.degraded.labels(cause)
        for result in ("worked", "failed"):
            self.outcomes.labels(result)
        for what in _PRUNED:
            self.pruned.labels(what)

    def __call__(self, name: str, told: tuple[object, ...]) -> SpanEnd:
        """Watch a step."""
        begin = self._begin.get(name)
        return begin(name, told, time.perf_counter()) if begin else _nothing

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request."""
        found = self._answers.get((method, route, status))
        if found is None:
            found = self.requests.labels(method, route, str(status)), self.request_seconds.labels(method, route)
            self._answers[method, route, status] = found
        answers, took = found
        answers.inc()
        took.observe(seconds)

    def _captured(self, _: object, error: BaseException | None) -> None:
        if isinstance(error, InvalidInput | Conflict):
            self.captures.labels(CaptureOutcome.REFUSED).inc()

    def _captured_all(self, returned: object, _: BaseException | None) -> None:
        refused = [answer for answer in _those(returned, CaptureResult) if answer.outcome is CaptureOutcome.REFUSED]
        self.captures.labels(CaptureOutcome.REFUSED).inc(len(refused))

    def _stored(self, returned: object, _: BaseException | None) -> None:
        """Count what was not refused: that is counted where the capture ends, with what never came so far."""
        for outcome, number in Counts(answer.outcome for answer in _those(returned, CaptureResult)).items():
            if outcome is not CaptureOutcome.REFUSED:
                self.captures.labels(outcome).inc(number)

    def _checkpoint(self, _: str, told: tuple[object, ...], began: float) -> SpanEnd:
        kind = str(told[1])

        def ended(returned: object, error: BaseException | None) -> None:
            if isinstance(error, InvalidInput):  # it never began
                return
            self.checkpoints.labels(kind, "failed" if error else "done").inc()
            self.checkpoint_seconds.labels(kind).observe(time.perf_counter() - began)
            if isinstance(returned, CheckpointReport):
                self.entries.labels("abandoned").inc(returned.abandoned)

        return ended

    def _batch(self, name: str, _: tuple[object, ...], began: float) -> SpanEnd:
        def ended(returned: object, _: BaseException | None) -> None:
            self.batch_seconds.labels(name).observe(time.perf_counter() - began)
            if isinstance(returned, StoredBatch):
                self.entries.labels("embedded").inc(returned.embedded)
                self.entries.labels("dead").inc(returned.dead)

        return ended

    def _context(self, _: str, __: tuple[object, ...], began: float) -> SpanEnd:
        def ended(returned: object, _: BaseException | None) -> None:
            self.context_seconds.observe(time.perf_counter() - began)
            match returned:
                case (Context() as context, cause):
                    self.contexts.labels("patterns" if context.patterns else "nothing").inc()
                    for pattern in context.patterns:
                        self.relevance.observe(pattern.relevance)
                    if cause is not None:
                        self.degraded.labels(str(cause)).inc()

        return ended

    def _outcomes(self, _: str, told: tuple[object, ...], __: float) -> SpanEnd:
        def ended(_: object, error: BaseException | None) -> None:
            for outcome in () if error else _those(told[0], Outcome):
                self.outcomes.labels("worked" if outcome.worked else "failed").inc()

        return ended

    def _pruned(self, returned: object, _: BaseException | None) -> None:
        if isinstance(returned, PruneReport) and not returned.dry_run:
            for name in _PRUNED:
                self.pruned.labels(name).inc(getattr(returned, name))


@functools.cache
def metrics_of_process() -> Metrics:
    """Return the metrics of this process, one set for all its doors: the same work counts, whoever asks for it."""
    return Metrics()


def _timed(histogram: Histogram) -> _Begin:
    def begin(_: str, __: tuple[object, ...], began: float) -> SpanEnd:
        return lambda *_: histogram.observe(time.perf_counter() - began)

    return begin


def _nothing(_: object, __: BaseException | None) -> None:
    """Count nothing."""


def _those(values: object, kind: type[_Kind]) -> Iterable[_Kind]:
    """Return the values that are of a kind, none where it is no list of values."""
    told: Any = values if isinstance(values, list | tuple) else ()
    return [value for value in told if isinstance(value, kind)]
