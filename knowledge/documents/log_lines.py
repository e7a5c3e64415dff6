"""What a line of a log says of itself: when, how bad, and which of its parts vary from one such line to the next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Final

from knowledge.documents.models import LogLine, Severity

_HEAD: Final = 120
"""Time and severity stand within so many characters of a line."""

_ISO = re.compile(
    r"(?<!\d)(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|UTC|[+-]\d\d:?\d\d)?(?!\d)"
)
_APACHE = re.compile(r"\[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)(?: ([+-]\d{4}))?\]")
_SYSLOG = re.compile(r"^(?:<\d{1,3}>)?([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)\b")
_MONTH_NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}

_NAMES: Final = {
    "TRACE": Severity.TRACE,
    "VERBOSE": Severity.TRACE,
    "DEBUG": Severity.DEBUG,
    "INFO": Severity.INFO,
    "NOTICE": Severity.INFO,
    "WARN": Severity.WARN,
    "WARNING": Severity.WARN,
    "ERR": Severity.ERROR,
    "ERROR": Severity.ERROR,
    "SEVERE": Severity.ERROR,
    "CRIT": Severity.CRITICAL,
    "CRITICAL": Severity.CRITICAL,
    "FATAL": Severity.CRITICAL,
    "ALERT": Severity.CRITICAL,
    "EMERG": Severity.CRITICAL,
    "PANIC": Severity.CRITICAL,
}
_NAME = "|".join(sorted(_NAMES, key=len, reverse=True))
_UPPER = re.compile(rf"(?<![A-Za-z0-9_])({_NAME})(?![A-Za-z0-9_])")
_KEYED = re.compile(rf"(?i)\b(?:level|severity|lvl|loglevel)\b[\"']?\s*[=:]\s*[\"']?({_NAME})\b")
_BRACKETED = re.compile(rf"(?i)[\[<(]({_NAME})[\])>:]|^({_NAME}):")

_VARIABLE = re.compile(
    r"\"[^\"]*\"|'[^']*'"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b"
    r"|\d+(?:[.:,]\d+)*"
)


def severity_named(name: str) -> Severity | None:
    """Return the severity of a name in any case, such as `warning`, None where it is none."""
    return _NAMES.get(name.upper())


def moment(line: str) -> datetime | None:
    """Return the moment that the head of a line names; one without a zone is taken as UTC.

    What is of the first or the last year that there is, is no moment but a sign that there is none, and has no place in
    Postgres.
    """
    when = _named(line[:_HEAD])
    return when if when is not None and MINYEAR < when.year < MAXYEAR else None


def _named(head: str) -> datetime | None:
    try:
        if found := _ISO.search(head):
            *date, fraction, zone = found.groups()
            micro = int((fraction or "0")[:6].ljust(6, "0"))
            when = datetime(*(int(part) for part in date), micro, tzinfo=UTC)  # type: ignore[arg-type,misc]
            return _shifted(when, zone)
        if found := _APACHE.search(head):
            day, month, year, hour, minute, second, zone = found.groups()
            when = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC)
            return _shifted(when, zone)
    except (ValueError, KeyError, OverflowError):
        return None
    return None


def syslog_moment(line: str, now: datetime) -> datetime | None:
    """Return the moment of a syslog line, which names no year: the last such moment that is not after tomorrow."""
    found = _SYSLOG.match(line)
    if found is None:
        return None
    month, *rest = found.groups()
    for year in (now.year + 1, now.year, now.year - 1, now.year - 2, now.year - 3):
        try:
            when = datetime(year, _MONTHS[month], *(int(part) for part in rest), tzinfo=UTC)  # type: ignore[arg-type,misc]
        except (ValueError, KeyError):
            continue
        if (when - now).days < 1:
            return when
    return None


def _shifted(when: datetime, zone: str | None) -> datetime:
    if zone in {None, "Z", "UTC"}:
        return when
    assert zone is not None  # noqa: S101 - for the types
    return datetime.fromisoformat(f"{when.replace(tzinfo=None).isoformat()}{zone[:3]}:{zone[-2:]}").astimezone(UTC)


def severity(line: str) -> Severity | None:
    """Return how bad the head of a line says it is: by its key, else in capitals, else in brackets."""
    head = line[:_HEAD]
    if found := _KEYED.search(head):
        return _NAMES[found[1].upper()]
    if found := _UPPER.search(head):
        return _NAMES[found[1]]
    if found := _BRACKETED.search(head):
        return _NAMES[(found[1] or found[2]).upper()]
    return None


def template(line: str) -> str:
    """Return a line with what varies in it replaced, so that alike lines are equal."""
    return _VARIABLE.sub("<*>", line.strip())[:400]


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text as people count them: a break at the end begins no other line."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    if start < len(text):
        yield text[start:]


def read_lines(text: str, *, now: datetime) -> Iterator[LogLine]:
    """Yield the lines of a log."""
    for number, line in enumerate(lines_of(text), 1):
        yield LogLine(
            line=number,
            text=line,
            timestamp=moment(line) or syslog_moment(line, now),
            severity=severity(line),
            template=template(line),
        )


def looks_like_log(text: str) -> bool:
    """Return whether most of the first lines begin with a moment."""
    head = [line for line in text[:20_000].split("\n")[:200] if line.strip()]
    timed = sum(moment(line) is not None or _SYSLOG.match(line) is not None for line in head)
    return len(head) >= 3 and timed >= 0.6 * len(head)
