"""Prometheus metrics of a process, fed by the instrumentation of its steps.

No label is a workspace, a project or anything that was stored, so the number of series does not grow with use.
"""

from __future__ import annotations

import functools
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from hardwon.context.builder import Cause
from hardwon.errors import Conflict, InvalidInput
from hardwon.models.maintenance import RecallReport
from knowledge.memory.checkpoint.pipeline import StoredBatch
from knowledge.models import (
    CaptureOutcome,
    CaptureResult,
    CheckpointReport,
    CheckpointType,
    Context,
    Outcome,
    PruneReport,
)
from knowledge.runtime.instrumentation import SpanEnd

STAGES = ("statistics", "embedding", "index", "rows", "ranking")
"""The parts of a query, in the order in which they begin; the first two run concurrently."""
QUERIES = ("query_for_task", "query_for_failure", "query_for_gate")

_QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10)
"""Seconds; 0.3 is the deadline of a query by default."""
_LONG = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_PRUNED = ("entries", "points", "patterns", "never_resolved")
_RELEVANCE = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)

_Value = TypeVar("_Value")
_Begin = Callable[[str, tuple[object, ...], float], SpanEnd]


class Metrics:
    """The metrics of a process; an observer of steps that is called at the beginning of each."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"hardwon_{name}", description, labels, registry=registry)

        def gauge(name: str, description: str) -> Gauge:
            return Gauge(f"hardwon_{name}", description, registry=registry)

        def histogram(name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"hardwon_{name}", description, labels, buckets=buckets, registry=registry)

        self.captures = counter("captures", "Captured entries by outcome.", "outcome")
        self.entries = counter("entries", "Entries processed by checkpoints, by their new state.", "became")
        self.checkpoints = counter("checkpoints", "Checkpoints by type and result.", "type", "result")
        self.checkpoint_seconds = histogram("checkpoint_seconds", "Duration of checkpoints.", _LONG, "type")
        self.batch_seconds = histogram("batch_seconds", "Duration of the steps of a batch.", _LONG, "step")
        self.query_seconds = histogram("query_seconds", "Duration of queries.", _QUICK, "query")
        self.stage_seconds = histogram("query_stage_seconds", "Duration of the stages of a query.", _QUICK, "stage")
        self.contexts = counter("contexts", "Contexts with and without patterns.", "holds")
        self.context_seconds = histogram("context_seconds", "Duration of building contexts.", _QUICK)
        self.degraded = counter("contexts_degraded", "Degraded contexts, by cause.", "cause")
        self.relevance = histogram("injected_relevance", "Relevance of patterns put into contexts.", _RELEVANCE)
        self.outcomes = counter("outcomes", "Outcomes of patterns in contexts.", "result")
        self.pruned = counter("pruned", "Rows and points deleted by pruning.", "what")
        self.webhooks = counter("webhooks", "Messages by webhook.", "result")
        self.requests = counter("http_requests", "HTTP requests.", "method", "route", "status")
        self.request_seconds = histogram("http_request_seconds", "Duration of requests.", _QUICK, "method", "route")
        self.staged = gauge("staged_entries", "Entries that wait for a checkpoint, in all workspaces.")
        self.workspaces = gauge("workspaces", "Workspaces that hold anything.")
        self.breakers = gauge("breakers_open", "Workspaces whose circuit breaker for contexts is open.")
        self.altered = gauge("altered_rows", "What was found since the start that is not as hardwon stored it.")
        self.recall = gauge("index_recall", "Lowest recall of searches when last measured here; NaN before.")
        self.recall.set(float("nan"))
        self._begin: dict[str, _Begin] = {
            "capture": lambda *_: self._count_refused_capture,
            "capture_all": lambda *_: self._count_refused_captures,
            "store_entries": lambda *_: self._count_stored,
            "checkpoint": self._begin_checkpoint,
            "context": self._begin_context,
            "record_outcomes": self._begin_outcomes,
            "prune": lambda *_: self._count_pruned,
            "send_webhook": lambda *_: self._count_webhook,
            "measure_recall": lambda *_: self._note_recall,
            "embed_batch": _make_timer(self.batch_seconds.labels("embed_batch")),
            "store_batch": self._begin_batch,
            **{name: _make_timer(self.query_seconds.labels(name)) for name in QUERIES},
            **{name: _make_timer(self.stage_seconds.labels(name)) for name in STAGES},
        }
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # one for each label combination
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Create all series at zero: one that first appears with a count of 1 would show no increase."""
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
        for result in ("delivered", "failed", "given_up"):
            self.webhooks.labels(result)
        for what in _PRUNED:
            self.pruned.labels(what)

    def __call__(self, name: str, arguments: tuple[object, ...]) -> SpanEnd:
        """Begin to observe a step; return the callback for its end."""
        begin = self._begin.get(name)
        return begin(name, arguments, time.perf_counter()) if begin else _ignore

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an HTTP request."""
        series = self._series.get((method, route, status))
        if series is None:
            series = self.requests.labels(method, route, str(status)), self.request_seconds.labels(method, route)
            self._series[method, route, status] = series
        count, duration = series
        count.inc()
        duration.observe(seconds)

    def _count_refused_capture(self, _: object, error: BaseException | None) -> None:
        if isinstance(error, InvalidInput | Conflict):
            self.captures.labels(CaptureOutcome.REFUSED).inc()

    def _count_refused_captures(self, returned: object, _: BaseException | None) -> None:
        refused = [answer for answer in _values_of(returned, CaptureResult) if answer.outcome is CaptureOutcome.REFUSED]
        self.captures.labels(CaptureOutcome.REFUSED).inc(len(refused))

    def _count_stored(self, returned: object, _: BaseException | None) -> None:
        """Count all but refused entries: those are counted at the end of a capture, as some never get to the store."""
        for outcome, number in Counts(answer.outcome for answer in _values_of(returned, CaptureResult)).items():
            if outcome is not CaptureOutcome.REFUSED:
                self.captures.labels(outcome).inc(number)

    def _begin_checkpoint(self, _: str, arguments: tuple[object, ...], began: float) -> SpanEnd:
        kind = str(arguments[1])

        def end(returned: object, error: BaseException | None) -> None:
            if isinstance(error, InvalidInput):  # it never began
                return
            self.checkpoints.labels(kind, "failed" if error else "done").inc()
            self.checkpoint_seconds.labels(kind).observe(time.perf_counter() - began)
            if isinstance(returned, CheckpointReport):
                self.entries.labels("abandoned").inc(returned.abandoned)

        return end

    def _begin_batch(self, name: str, _: tuple[object, ...], began: float) -> SpanEnd:
        def end(returned: object, _: BaseException | None) -> None:
            self.batch_seconds.labels(name).observe(time.perf_counter() - began)
            if isinstance(returned, StoredBatch):
                self.entries.labels("embedded").inc(returned.embedded)
                self.entries.labels("dead").inc(returned.dead)

        return end

    def _begin_context(self, _: str, __: tuple[object, ...], began: float) -> SpanEnd:
        def end(returned: object, _: BaseException | None) -> None:
            self.context_seconds.observe(time.perf_counter() - began)
            match returned:
                case (Context() as context, cause):
                    self.contexts.labels("patterns" if context.patterns else "nothing").inc()
                    for pattern in context.patterns:
                        self.relevance.observe(pattern.relevance)
                    if cause is not None:
                        self.degraded.labels(str(cause)).inc()

        return end

    def _begin_outcomes(self, _: str, arguments: tuple[object, ...], __: float) -> SpanEnd:
        def end(_: object, error: BaseException | None) -> None:
            for outcome in () if error else _values_of(arguments[0], Outcome):
                self.outcomes.labels("worked" if outcome.worked else "failed").inc()

        return end

    def _count_webhook(self, returned: object, _: BaseException | None) -> None:
        if isinstance(returned, str):
            self.webhooks.labels(returned).inc()

    def _note_recall(self, returned: object, _: BaseException | None) -> None:
        if isinstance(returned, RecallReport):
            self.recall.set(returned.least)

    def _count_pruned(self, returned: object, _: BaseException | None) -> None:
        if isinstance(returned, PruneReport) and not returned.dry_run:
            for name in _PRUNED:
                self.pruned.labels(name).inc(getattr(returned, name))


@functools.cache
def metrics_of_process() -> Metrics:
    """Return the metrics of this process, one set for HTTP, MCP and everything else in it."""
    return Metrics()


def _make_timer(histogram: Histogram) -> _Begin:
    def begin(_: str, __: tuple[object, ...], began: float) -> SpanEnd:
        return lambda *_: histogram.observe(time.perf_counter() - began)

    return begin


def _ignore(_: object, __: BaseException | None) -> None:
    """Count nothing."""


def _values_of(values: object, kind: type[_Value]) -> Iterable[_Value]:
    """Return the items of a kind; none if `values` is not a list or tuple."""
    items: Any = values if isinstance(values, list | tuple) else ()
    return [item for item in items if isinstance(item, kind)]
