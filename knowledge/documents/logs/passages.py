"""Format facts about logs as passages, which are quoted and verified like any other text; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hardwon.models.documents import LISTED, Document, LogLine, Passage, PassageKind, Severity
from hardwon.models.log_query import LineFilter
from hardwon.text.pluralize import pluralize
from knowledge.documents.parsing.log_lines import zone_of
from knowledge.documents.parsing.passage_text import text_passage_id


def count_passage(
    log: Document, what: str, total: int, first: Sequence[LogLine], last: Sequence[LogLine], *, note: str = ""
) -> Passage:
    """Return a passage with the number of matching lines, and the first and the last of them.

    `note` is appended to the line with the number.
    """
    lines_of_text = [f"{log.name}: {total} {what}{note}."]
    lines = [*first[:1], *last[:1]]
    for name, line in zip(("First", "Last"), lines, strict=False):
        at = f" at {format_time(line.timestamp.astimezone(zone_of(line.text) or UTC))}" if line.timestamp else ""
        lines_of_text.append(f"{name}{at}, line {line.line}: {line.text}")
    return build_passage(log, "\n".join(lines_of_text), lines, (None, *lines), section="counted")


def join_words(words: Sequence[str]) -> str:
    """Return quoted words joined by "and"."""
    return " and ".join(map(repr, words))


def listing_passage(log: Document, what: str, total: int, lines: Sequence[LogLine], *, end: str = "first") -> Passage:
    """Return a passage that lists matching lines of a log, and says whether these are all."""
    head = (
        f"{log.name}: all {total} {what}"
        if total == len(lines)
        else f"{log.name}: the {end} {len(lines)} of {total} {what}"
    )
    return build_passage(log, f"{head}:\n{format_lines(lines)}", lines, (None, *lines), section=LISTED)


def format_lines(lines: Sequence[LogLine], *, mark: int | None = None) -> str:
    """Return lines with their numbers, the line `mark` marked."""
    return "\n".join(f"{'>' if line.line == mark else ' '} {line.line}: {line.text}" for line in lines)


def describe_filter(number: int, only: LineFilter) -> str:
    """Return a filter in words; `number`: the number of matching lines."""
    text = pluralize(number, f"{'/'.join(only.severities)} entry" if only.severities else "line")
    terms = [repr(each) for each in only.terms]
    if only.status is not None:
        terms.append(
            f"status {only.status.replace('x', '0')}-{only.status.replace('x', '9')}"
            if "x" in only.status
            else f"status {only.status}"
        )
    text += f" with {' and '.join(terms)}" if terms else ""
    text += f" since {format_time(only.since)}" if only.since else ""
    return text + (f" until {format_time(only.until)}" if only.until else "")


def format_time(moment: datetime) -> str:
    """Return a moment in ISO 8601, UTC as Z."""
    return moment.isoformat().replace("+00:00", "Z")


def text_passage(log: Document, text: str) -> Passage:
    """Return a passage about a log as a whole."""
    return build_passage(log, text, (), (), section="counted")


def build_passage(
    document: Document, text: str, lines: Sequence[LogLine], rows: Sequence[LogLine | None], *, section: str
) -> Passage:
    """Return a computed text as a passage of a document; `rows` are the document lines behind its lines."""
    times = [line.timestamp for line in lines if line.timestamp]
    worst = [line.severity for line in lines if line.severity]
    passage_id = text_passage_id(document.document_id, document.generation or 0, text)
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


def line_passage(log: Document, line: LogLine, start: int) -> Passage:
    """Return a line of a log as it stands at its offset in the text."""
    passage_id = text_passage_id(log.document_id, log.generation or 0, f"line {line.line}")
    return replace(
        Passage.of(log, passage_id, PassageKind.CHUNK, line.text),
        line_start=line.line,
        line_end=line.line,
        char_start=start,
        char_end=start + len(line.text),
        timestamp=line.timestamp,
        until=line.timestamp,
        severity=line.severity,
        score=1.0,
    )
