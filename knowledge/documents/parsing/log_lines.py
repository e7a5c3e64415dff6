"""Parse log lines: timestamp, severity, and a template without variable parts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Final

from hardwon.models.documents import LogLine, Severity

_HEAD: Final = 120
"""Characters of a line in which time and severity are looked for, terminal colours not counted."""

_MONTH_NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}

ZONES: Final = (
    {"Z": 0, "UTC": 0, "GMT": 0}
    | {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}  # as RFC 5322 has them
    | {"WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3}
    | {"JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13}
)
"""Offsets from UTC, in hours, of the zone names that Postgres and `date` write, without ambiguous ones other than those
of RFC 5322."""

_CLOCK = (
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9})\d*)?+"
    r"(?:\s?(?P<half>[AaPp])[Mm]\b)?+"
)
_NAMED_ZONE = rf"(?:{'|'.join(sorted(ZONES, key=len, reverse=True))})(?![A-Za-z_])"
_HOURS = r"[+-](?:0\d|1[0-4])"
_ZONE = rf"(?:\s?(?P<zone>{_NAMED_ZONE}|{_HOURS}:?[0-5]\d|(?<!\s){_HOURS}))?(?!\d)"
_NAMED_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        rf"(?<!\d)(?P<year>\d{{4}})([-/])(?P<month>\d\d)\2(?P<day>\d\d)(?:T| {{1,2}}){_CLOCK}{_ZONE}",
        rf"(?<!\d)(?P<day>\d\d?)([ /-]){_NAMED_MONTH}\2(?P<year>\d{{4}})[: T]{_CLOCK}{_ZONE}",
        (
            rf"(?<!\w){_NAMED_MONTH} +(?P<day>\d\d?) {_CLOCK}"
            rf"(?: (?P<zone>{_NAMED_ZONE}))? (?P<year>(?:19|20)\d\d)(?![\w.:-])"
        ),
    )
)
"""ISO 8601, with slashes too (nginx, Go); access logs, mails, Tomcat, Redis; Apache and `date`."""

_SYSLOG = re.compile(rf"^(?:<\d{{1,3}}>)?{_NAMED_MONTH} (?P<day>[ \d]\d) {_CLOCK}(?!\d)")
_TIME_KEYS: Final = ("@timestamp", "timestamp", "time", "ts", "datetime", "asctime", "date")
_LEVEL_KEYS: Final = ("level", "severity", "log.level", "levelname", "loglevel", "lvl")
_MESSAGE_KEYS: Final = ("msg", "message", "event", "log", "error", "err", "text", "body", "reason")
_HAS_CLOCK = re.compile(r"\d:\d\d:\d")
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")

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
    "EMERGENCY": Severity.CRITICAL,
    "PANIC": Severity.CRITICAL,
}
_NAME = "|".join(sorted(_NAMES, key=len, reverse=True))
_UPPER = re.compile(rf"(?<![A-Za-z0-9_])({_NAME})(?![A-Za-z0-9_])")
_KEYED = re.compile(rf"(?i)\b(?:level|severity|lvl|loglevel)\b[\"']?\s*[=:]\s*[\"']?({_NAME})\b")
_BRACKETED = re.compile(rf"(?i)[\[<(](?:\w+:)?({_NAME})[\])>:]|^({_NAME}):")

_COLUMN = re.compile(rf"(?i)(?:^|(?<=\s\s)|(?<=[\t|])|(?<=\|\s))({_NAME})(?=\s\s|\t|\s?\||$)")
"""A severity in any case in a column of its own: `2m  Warning  BackOff`."""
_BEHIND = re.compile(rf"(?i)[\])]?[\s|:-]{{0,4}}({_NAME})(?=[\s:,|\]]|$)")
"""A severity in any case right after the timestamp."""
_KLOG = re.compile(rf"^(?P<level>[EWIF])(?P<month>0[1-9]|1[0-2])(?P<day>[0-3]\d) {_CLOCK}(?!\d)")
_KLOG_LEVELS: Final = {"E": Severity.ERROR, "W": Severity.WARN, "I": Severity.INFO, "F": Severity.CRITICAL}

_VARIABLE = re.compile(
    r"\"[^\"]*\"|'[^']*'"
    r"|\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
    r"|\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{12,}\b"
    r"|\d+(?:[.:,]\d+)*"
)

_ALIKE: Final = 8
"""Templates that differ in one word alone, from which on that word is variable. Ours: a log has fewer verbs."""
_MERGES: Final = 3
"""Variable words of a template that are found."""
_MERGED_WORDS: Final = 40
_MAX_MERGED: Final = 20_000
"""Lines and templates above this are not compared: it would take seconds."""


def severity_named(name: str) -> Severity | None:
    """Return the severity of a name in any case, such as `warning`, None for any other word."""
    return _NAMES.get(name.upper())


def moment(line: str, *, now: datetime | None = None) -> datetime | None:
    """Return the first timestamp in the head of a line; one without a zone is taken as UTC.

    With `now` also that of a line of syslog or klog, which has no year: the last such moment that is not after
    tomorrow. Timestamps of the first or last possible year are placeholders that Postgres cannot store: None.
    """
    head = _head(line)
    if not _HAS_CLOCK.search(head):
        return None
    yearless = (_KLOG.match(head) or _SYSLOG.match(head)) if now is not None else None
    if now is not None and yearless and not _FORMS[-1].match(head, yearless.start("month")):
        when = _latest_before(yearless, now)
    else:
        when = _read(found) if (found := _first(head)) else None
    return when if when is not None and MINYEAR < when.year < MAXYEAR else None


def _head(line: str) -> str:
    """Return the beginning of a line without terminal colours; for JSON its time and level come first."""
    if line.startswith("{") and line.rstrip().endswith("}"):
        return _json_head(line) + line[:_HEAD]
    if "\x1b" not in line[: 8 * _HEAD]:
        return line[:_HEAD]
    return _COLOUR.sub("", line[: 8 * _HEAD])[:_HEAD]


def _json_head(line: str) -> str:
    """Return the time and the level of a JSON line that has keys for them."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    when = next((each for key in _TIME_KEYS if isinstance(each := fields.get(key), str)), "")
    level = next((each for key in _LEVEL_KEYS if isinstance(each := fields.get(key), str)), "")
    return f"{when[:_HEAD]} " + (f"level={level} " if severity_named(level) else "")


def _first(head: str) -> re.Match[str] | None:
    """Return the match of the first timestamp: later ones belong to the message."""
    first: re.Match[str] | None = None
    for form in _FORMS:
        found = form.search(head, 0, first.end() if first else len(head))
        if found and (first is None or found.start() < first.start()):
            first = found
    return first


def _read(found: re.Match[str], year: int | None = None) -> datetime | None:
    """Return the moment of a match, None if the date does not exist."""
    parts = found.groupdict()
    try:
        when = datetime(
            int(parts["year"]) if year is None else year,
            _MONTHS.get(parts["month"]) or int(parts["month"]),
            int(parts["day"]),
            _hour(int(parts["hour"]), parts["half"]),
            int(parts["minute"]),
            int(parts["second"]),
            int((parts["fraction"] or "0")[:6].ljust(6, "0")),
            tzinfo=UTC,
        )
        return when - offset_of(parts.get("zone"))
    except (ValueError, OverflowError):
        return None


def _hour(hour: int, half: str | None) -> int:
    """Return an hour of 0..23 from one with or without AM/PM."""
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(hour)
    return hour % 12 + (12 if half in "Pp" else 0)


def zone_of(line: str) -> timezone | None:
    """Return the zone of a line's timestamp, None if it has none."""
    found = _first(_head(line))
    zone = found.groupdict().get("zone") if found else None
    return timezone(offset_of(zone)) if zone else None


def offset_of(zone: str | None) -> timedelta:
    """Return the offset of a zone from UTC."""
    if zone is None or zone in ZONES:
        return timedelta(hours=ZONES[zone or "UTC"])
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    return (-1 if zone[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes)


def _latest_before(found: re.Match[str], now: datetime) -> datetime | None:
    """Return the latest moment without a year that is not after tomorrow."""
    for year in (now.year + 1, now.year, now.year - 1, now.year - 2, now.year - 3):
        when = _read(found, year)
        if when is not None and (when - now).days < 1:
            return when
    return None


def severity(line: str) -> Severity | None:
    """Return the severity in the head of a line: by key, else in capitals, else in brackets or by the letter of klog.

    Else in any case, right after the timestamp or in a column of its own.
    """
    head = _head(line)
    klog = _KLOG.match(head)
    names = re.search(_NAME, head, re.IGNORECASE) is not None  # most lines of some logs have none
    if names and (found := _KEYED.search(head) or _UPPER.search(head)):
        return _NAMES[found[1].upper()]
    if names and (found := _BRACKETED.search(head)):
        return _NAMES[(found[1] or found[2]).upper()]
    if klog or not names:
        return _KLOG_LEVELS[klog["level"]] if klog else None
    when = _first(head) if _HAS_CLOCK.search(head) else None
    if (when and (found := _BEHIND.match(head, when.end()))) or (found := _COLUMN.search(head)):
        return _NAMES[found[1].upper()]
    return None


def template(line: str) -> str:
    """Return a line with variable parts replaced, so that similar lines are equal; for JSON its message."""
    return _VARIABLE.sub("<*>", _COLOUR.sub("", _message(line)).strip())[:400]


def _message(line: str) -> str:
    """Return the message of a JSON line, any other line as it is."""
    if not (line.startswith("{") and line.rstrip().endswith("}")):
        return line
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return next((each for key in _MESSAGE_KEYS if isinstance(each := fields.get(key), str) and each.strip()), line)


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text; a line break at the end does not begin another line."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    if start < len(text):
        yield text[start:]


def read_lines(text: str, *, now: datetime, most: int | None = None) -> list[LogLine]:
    """Return the lines of a log, or the first `most` of them."""
    lines = list(islice(lines_of(text), most))
    templates = [template(line) for line in lines]
    merged = merge_templates(set(templates))
    return [
        LogLine(
            line=number,
            text=line,
            timestamp=moment(line, now=now),
            severity=severity(line),
            template=merged.get(alike, alike),
        )
        for number, (line, alike) in enumerate(zip(lines, templates, strict=True), 1)
    ]


def merge_templates(templates: Collection[str]) -> dict[str, str]:
    """Return the templates that many others equal but for one word, by the template that they have in common.

    So a name that differs from line to line is variable, too. The idea is that of Drain and Logram: a word is constant
    where its neighbours say so; here it is only taken for variable after `_ALIKE` different ones.
    """
    merged: dict[str, str] = {}
    left = {each: tuple(each.split(" ")) for each in templates}
    if len(left) > _MAX_MERGED:
        return merged
    for _ in range(_MERGES):
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for each, words in left.items():
            if 4 <= len(words) <= _MERGED_WORDS:
                for at, word in enumerate(words):
                    if "<*>" not in word:
                        alike[(*words[:at], "<*>", *words[at + 1 :])].append(each)
        found = {each: " ".join(words) for words, group in alike.items() if len(group) >= _ALIKE for each in group}
        if not found:
            break
        merged = found | {each: found.get(into, into) for each, into in merged.items()}
        left = {each: words for each, words in left.items() if each not in found}
        left |= {into: tuple(into.split(" ")) for into in found.values()}
    return merged


def lacks_year(line: str) -> bool:
    """Return whether a line begins with a timestamp without a year, so that its year is a guess."""
    head = _head(line)
    found = _KLOG.match(head) or _SYSLOG.match(head)
    return found is not None and not _FORMS[-1].match(head, found.start("month"))


def looks_like_log(text: str) -> bool:
    """Return whether most of the first lines begin with a timestamp."""
    head = [line for line in text[:20_000].split("\n")[:200] if line.strip()]
    timed = sum(moment(line) is not None or lacks_year(line) for line in head)
    return len(head) >= 3 and timed >= 0.6 * len(head)
