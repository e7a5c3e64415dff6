"""The steps of the work as OpenTelemetry spans, for a program that has set up the SDK. Needs `hardwon[otel]`.

with observe(Spans()):
    async with connect() as knowledge:
        ...

A span tells how long a step took and how much came of it; never a word of what is stored or asked.
"""

from __future__ import annotations

from collections import Counter

from opentelemetry import context, trace
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from knowledge.memory.embedding_run import StoredBatch
from knowledge.models import CaptureResult, CheckpointReport, Context, Pattern, PruneReport
from knowledge.steps import SpanEnd

NAMES = "hardwon."
"""What the names of spans and attributes begin with."""


class Spans:
    """A watcher that makes a span of each step, within that of the step, or of the program, that it is taken in."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("hardwon", tracer_provider=provider)

    def __call__(self, name: str, _: tuple[object, ...]) -> SpanEnd:
        """Begin the span of a step."""
        span = self._tracer.start_span(NAMES + name)
        token = context.attach(trace.set_span_in_context(span))

        def ended(returned: object, error: BaseException | None) -> None:
            context.detach(token)
            if error is not None:
                # its sentence may name what a caller wrote
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                span.set_attribute("error.type", type(error).__name__)
            elif span.is_recording():
                _tell(span, _figures(returned))
            span.end()

        return ended


def _tell(span: Span, figures: dict[str, AttributeValue]) -> None:
    for name, value in figures.items():
        span.set_attribute(NAMES + name, value)


def _figures(returned: object) -> dict[str, AttributeValue]:
    """Return how much came of a step: numbers, ids of ours and words of ours."""
    told: dict[str, AttributeValue] = {}
    match returned:
        case CheckpointReport():
            told = {
                "checkpoint_id": str(returned.checkpoint_id),
                "checkpoint_type": str(returned.checkpoint_type),
                "embedded": returned.embedded,
                "founded": returned.founded,
                "joined": returned.joined,
                "dead": returned.dead,
                "abandoned": returned.abandoned,
            }
        case StoredBatch():
            told = {"embedded": returned.embedded, "founded": returned.founded, "dead": returned.dead}
        case PruneReport():
            told = {"entries": returned.entries, "points": returned.points, "dry_run": returned.dry_run}
        case (Context() as built, cause):
            told = {"context_id": str(built.context_id), "patterns": len(built.patterns)}
            told |= {} if cause is None else {"degraded": str(cause)}
        case [Pattern(), *_]:
            told = {"patterns": len(returned)}
        case [CaptureResult(), *_]:
            told = dict(Counter(str(each.outcome) for each in returned if isinstance(each, CaptureResult)))
    return told
