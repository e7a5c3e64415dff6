"""OpenTelemetry spans of the steps of the work, for a program that has set up the SDK. Needs `hardwon[otel]`.

with observe(Spans()):
    async with connect() as knowledge:
        ...

A span has the duration of a step and counts of its results; never a stored text or a query.
"""

from __future__ import annotations

from collections import Counter

from opentelemetry import context, trace
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from knowledge.memory.checkpoint.pipeline import StoredBatch
from knowledge.models import CaptureResult, CheckpointReport, Context, Pattern, PruneReport
from knowledge.runtime.instrumentation import SpanEnd

PREFIX = "hardwon."
"""Prefix of the names of spans and attributes."""


class Spans:
    """An observer that makes a span of each step, as a child of the current one."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("hardwon", tracer_provider=provider)

    def __call__(self, name: str, _: tuple[object, ...]) -> SpanEnd:
        """Begin the span of a step."""
        span = self._tracer.start_span(PREFIX + name)
        token = context.attach(trace.set_span_in_context(span))

        def end(returned: object, error: BaseException | None) -> None:
            context.detach(token)
            if error is not None:
                # its message may quote a caller's text
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                span.set_attribute("error.type", type(error).__name__)
            elif span.is_recording():
                _set_attributes(span, _figures(returned))
            span.end()

        return end


def _set_attributes(span: Span, figures: dict[str, AttributeValue]) -> None:
    for name, value in figures.items():
        span.set_attribute(PREFIX + name, value)


def _figures(returned: object) -> dict[str, AttributeValue]:
    """Return the attributes of a step's result: numbers, ids, and words of our own."""
    figures: dict[str, AttributeValue] = {}
    match returned:
        case CheckpointReport():
            figures = {
                "checkpoint_id": str(returned.checkpoint_id),
                "checkpoint_type": str(returned.checkpoint_type),
                "embedded": returned.embedded,
                "founded": returned.founded,
                "joined": returned.joined,
                "dead": returned.dead,
                "abandoned": returned.abandoned,
            }
        case StoredBatch():
            figures = {"embedded": returned.embedded, "founded": returned.founded, "dead": returned.dead}
        case PruneReport():
            figures = {"entries": returned.entries, "points": returned.points, "dry_run": returned.dry_run}
        case (Context() as built, cause):
            figures = {"context_id": str(built.context_id), "patterns": len(built.patterns)}
            figures |= {} if cause is None else {"degraded": str(cause)}
        case [Pattern(), *_]:
            figures = {"patterns": len(returned)}
        case [CaptureResult(), *_]:
            figures = dict(Counter(str(each.outcome) for each in returned if isinstance(each, CaptureResult)))
    return figures
