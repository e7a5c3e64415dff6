"""What is told of logs as passages, which a model quotes and the verifier checks like any other text; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from knowledge.amounts import pluralize
from knowledge.documents.log_lines import zone_of
from knowledge.documents.log_query import LineFilter
from knowledge.documents.models import LISTED, Document, LogLine, Passage, PassageKind, Severity
from knowledge.documents.texts import computed_id


def counted_passage(
    log: Document, what: str, total: int, first: Sequence[LogLine], last: Sequence[LogLine], *, note: str = ""
) -> Passage:
    """Return how many lines of a log are what is asked for, with the first and the last of them.

    `note`: what of the question they are not, of the line that tells how many.
    """
    told = [f"{log.name}: {total} {what}{note}."]
    lines = [*first[:1], *last[:1]]
    for name, line in zip(("First", "Last"), lines, strict=False):
        at = f" at {told_time(line.timestamp.astimezone(zone_of(line.text) or UTC))}" if line.timestamp else ""
        told.append(f"{name}{at}, line {line.line}: {line.text}")
    return computed_passage(log, "\n".join(told), lines, (None, *lines), section="counted")


def worded(words: Sequence[str]) -> str:
    """Return words as they are told."""
    return " and ".join(map(repr, words))


def listing_passage(log: Document, what: str, total: int, lines: Sequence[LogLine], *, end: str = "first") -> Passage:
    """Return lines of a log that are what is asked for, and whether these are all."""
    head = (
        f"{log.name}: all {total} {what}"
        if total == len(lines)
        else f"{log.name}: the {end} {len(lines)} of {total} {what}"
    )
    return computed_passage(log, f"{head}:\n{listed_lines(lines)}", lines, (None, *lines), section=LISTED)


def listed_lines(lines: Sequence[LogLine], *, mark: int | None = None) -> str:
    """Return lines with their numbers, the one that was asked for marked."""
    return "\n".join(f"{'>' if line.line == mark else ' '} {line.line}: {line.text}" for line in lines)


def described(number: int, only: LineFilter) -> str:
    """Return in words which lines fit a filter; `number`: how many there are."""
    told = pluralize(number, f"{'/'.join(only.severities)} entry" if only.severities else "line")
    held = [repr(each) for each in only.terms]
    if only.status is not None:
        held.append(
            f"status {only.status.replace('x', '0')}-{only.status.replace('x', '9')}"
            if "x" in only.status
            else f"status {only.status}"
        )
    told += f" with {' and '.join(held)}" if held else ""
    told += f" since {told_time(only.since)}" if only.since else ""
    return told + (f" until {told_time(only.until)}" if only.until else "")


def told_time(moment: datetime) -> str:
    """Return a moment as logs have it."""
    return moment.isoformat().replace("+00:00", "Z")


def text_passage(log: Document, told: str) -> Passage:
    """Return what is told of a log as a whole, or that it tells nothing."""
    return computed_passage(log, told, (), (), section="counted")


def computed_passage(
    document: Document, text: str, lines: Sequence[LogLine], rows: Sequence[LogLine | None], *, section: str
) -> Passage:
    """Return a text that was computed of a document as a passage of it; `rows` are the lines behind its own lines."""
    times = [line.timestamp for line in lines if line.timestamp]
    worst = [line.severity for line in lines if line.severity]
    passage_id = computed_id(document.document_id, document.generation or 0, text)
    return replace(
        Passage.of(document, passage_id, PassageKind.COMPUTED, text),
        section=section,
        line_start=min((line.line for line in lines), default=None),
        line_end=max((line.line for line in lines), default=None),
        timestamp=min(times, default=None),
        until=max(times, default=None),
        severity=max(worst, key=list(Severity).index, default=None),
        rows=tuple(rows),
        relevance=1.0,
        score=1.0,
    )
