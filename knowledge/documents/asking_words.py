"""What the words of a question ask of passages beside its sense: severities, moments, line numbers, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from knowledge.documents.log_lines import moment, severity_named
from knowledge.documents.models import Document, Severity, Wanted

_LINES = re.compile(
    r"(?i)\blines?\s+(?:number\s+|no\.?\s*|#\s*)?(\d{1,9})(?:\s*(?:-|to|through|until|and)\s*(\d{1,9}))?"
)
_SEVERITY = re.compile(
    r"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|SEVERE|CRIT|CRITICAL|FATAL|ALERT|EMERG|PANIC)[sS]?\b"
    r"|(?i:\b(critical|fatal|warning|debug|info)s?[ -](?:entries|entry|lines?|messages?|logs?|events?|level)\b)"
    r"|(?i:\b(?:severity|level)\s*(?:=|:|is|of)?\s*(critical|fatal|error|warning|warn|info|debug)\b)"
)
_QUOTED = re.compile(r"\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`")
_OF_ENTRIES = re.compile(r"\s{0,9}(?i:entries|entry|lines?|messages?|logs?|events?|level)\b")
_MOMENT = r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?)?)"
_SINCE = re.compile(rf"(?i)\b(?:since|after|from|between)\s+{_MOMENT}")
_UNTIL = re.compile(rf"(?i)\b(?:(before)|until|till|to|by|through|between\s+{_MOMENT}\s+and)\s+{_MOMENT}")
_AT = re.compile(rf"(?i)\b(?:on|at|during)\s+{_MOMENT}")
_DATE = r"(?<![\w-])\d{4}-\d\d-\d\d(?![\w-]|\.\w)"
_CLOCK = r"(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])"
_ALONE = re.compile(
    rf"(?i)(\b(?:since|after|from|between|and|before|until|till|to|by|through|at|during)\s{{1,9}})({_CLOCK})"
)
_FROM_TO = re.compile(
    rf"(?i)(?:\b(?:between|from)\s{{1,9}})?(?<![\w:-])((?:{_DATE}[T ])?{_CLOCK})\s?[-\u2013]\s?({_CLOCK})"
)
_DAY_ALONE = re.compile(
    rf"(?i)(?:^|(?<!since)(?<!after)(?<!from)(?<!between)(?<!before)(?<!until)\s{{1,9}})(?:o[nf]\s{{1,9}})?{_DATE}"
    rf"(?!\s{_CLOCK})"
)
_HOUR_CHARS: Final = 2
_FILE = re.compile(r"[\w-]\.[A-Za-z]\w{0,9}\b")
_DAY: Final = 10
_MOST_LINES: Final = 50


def wanted(question: str, documents: Iterable[Document] = ()) -> Wanted:
    """Return what a question asks of passages. Documents count that it names by file name or uri."""
    lines = _lines(question)
    since, until = _times(question)
    return Wanted(
        severities=severities(question),
        since=since,
        until=until,
        lines=lines,
        document_ids=frozenset(each.document_id for each in documents if names(question, each)),
    )


def names_a_file(question: str) -> bool:
    """Return whether something in a question may be the name of a file: it is worth looking which there are."""
    return _FILE.search(question) is not None


def names(question: str, document: Document) -> bool:
    """Return whether a question names a document: by a file name with an ending, or by its whole uri."""
    told = question.lower()
    whole = {document.uri.lower(), document.name.lower()}
    return any("." in name.strip(".") and _stands_alone(name, told) for name in whole)


def severities(question: str) -> frozenset[Severity]:
    """Return the severities a question names: in capitals, or in words where it is clear that entries are meant.

    What it quotes is text that is looked for, in whatever entries.
    """

    def unless_of_entries(quoted: re.Match[str]) -> str:
        return quoted[0] if _OF_ENTRIES.match(question, quoted.end()) else " "

    told = _QUOTED.sub(unless_of_entries, question)
    found = (next(filter(None, match.groups())) for match in _SEVERITY.finditer(told))
    return frozenset(severity for name in found if (severity := severity_named(name)))


def _stands_alone(name: str, told: str) -> bool:
    at = told.find(name)
    while at >= 0:
        before, after = told[at - 1 : at] if at else "", told[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before in {"_", "-"} or after.isalnum() or after in {"_", "-"}):
            return True
        at = told.find(name, at + 1)
    return False


def _lines(question: str) -> tuple[int, ...]:
    found: list[int] = []
    for match in _LINES.finditer(question):
        first, last = int(match[1]), int(match[2] or match[1])
        found += range(first, min(max(first, last), first + _MOST_LINES) + 1)
    return tuple(sorted(set(found)))[:_MOST_LINES]


def _times(question: str) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment that a question asks for: a day without a time is all of it."""
    question = _on_the_day(question)
    since = _first(_SINCE, question)
    until = _last(question)
    if (at := _AT.search(question)) and since is None and until is None:
        return _moment(at[1]), _end(at[1], timedelta(seconds=1) if at[1].count(":") > 1 else timedelta(minutes=1))
    return since, until


def tells_no_day(question: str) -> bool:
    """Return whether a question names a time of day and no day."""
    return _ALONE.search(_FROM_TO.sub(r"between \1 and \2", question)) is not None and not re.search(_DATE, question)


def _on_the_day(question: str) -> str:
    """Return a question with the one day that it names before each time of day that it names without one."""
    told = _FROM_TO.sub(r"between \1 and \2", question)
    days = set(re.findall(_DATE, told))
    if len(days) != 1:
        return told
    (day,) = days

    def dated(found: re.Match[str]) -> str:
        hour, colon, rest = found[2].partition(":")
        return f"{found[1]}{day} {hour.zfill(_HOUR_CHARS)}{colon}{rest}"

    return _ALONE.sub(dated, _DAY_ALONE.sub("", told)) if _ALONE.search(told) else told


def _last(question: str) -> datetime | None:
    found = _UNTIL.search(question)
    if found is None:
        return None
    before, _, told = found.groups()
    when = _moment(told)
    if before and when is not None:
        return when - datetime.resolution
    return _end(told, datetime.resolution)


def _end(told: str, length: timedelta) -> datetime | None:
    """Return the last moment of a day that is told without a time, else of what begins then and has a length."""
    when = _moment(told)
    if when is None:
        return None
    return when + (timedelta(days=1) if len(told.strip()) == _DAY else length) - datetime.resolution


def _first(pattern: re.Pattern[str], question: str) -> datetime | None:
    found = pattern.search(question)
    return _moment(found[1]) if found else None


def _moment(told: str) -> datetime | None:
    told = told.strip()
    if len(told) == _DAY:
        told += "T00:00:00"
    elif re.fullmatch(r".{10}[T ]\d\d:\d\d(?!:\d\d).*", told):
        told = f"{told[:16]}:00{told[16:]}"
    when = moment(told)
    return when.astimezone(UTC) if when else None
