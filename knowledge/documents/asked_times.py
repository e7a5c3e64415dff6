"""What times the words of a question name, and which of its words about time are not understood; pure.

A time that is not understood is never dropped: what is counted without it would be told for certain, and wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final

from knowledge.documents.log_lines import ZONES, offset_of
from knowledge.documents.plain_words import unquoted
from knowledge.documents.untold_times import MONTHS, untold_in

REVERSED: Final = "the time that it asks for ends before it begins"
_MONTH: Final = (
    r"(?P<name{0}>(?i:jan(?:uary)?|feb(?:ruary)?|apr(?:il)?|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)|Mar(?:ch)?|May)\b\.?"
)
_DAY: Final = r"(?P<{0}>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year{0}>(?:19|20)\d\d)(?!\d|:\d\d(?!:))"
_DATE: Final = "|".join(
    (
        r"(?P<iso>\d{4})(?P<mark>[-/])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?)",
        r"(?P<dotted>\d{1,2}\.\d{1,2}\.(?:19|20)\d\d)",
        r"(?P<slashed>\d{1,2}/\d{1,2}/(?:19|20)\d\d)",
        _DAY.format("day1") + r"(?:\s(?:of\s)?|[-/])" + _MONTH.format(1) + rf"(?:(?:,?\s|[-/]){_YEAR.format(1)})?",
        _MONTH.format(2) + r"\s(?:the\s)?" + _DAY.format("day2") + rf"(?!\d|:\d)(?:,?\s{_YEAR.format(2)})?",
    )
)
_CLOCK: Final = (
    r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d{1,6}))?)?"
    r"(?:\s?(?P<half>[AaPp])\.?[Mm]\b)?"
    r"|(?P<hour12>1[0-2]|0?[1-9])\s?(?P<half12>[AaPp])\.?[Mm]\b|(?P<sharp>[01]?\d|2[0-3])\s?o['\u2019]?\s?clock\b"
)
_ZONE: Final = rf"(?:\s?(?P<zone>(?:{'|'.join(sorted(ZONES, key=len, reverse=True))})\b|\+\d\d:?\d\d|-\d{{4}}))?"
_TOKEN: Final = re.compile(
    rf"(?<![\w./:+])(?:(?:{_DATE})(?P<t>[T:](?=\d))?(?(t)|(?![\w/-]|\.\w))|(?:{_CLOCK}){_ZONE}(?![\w:]|\.\w))"
)
_WITHIN: Final = re.compile(rf"(?:{_CLOCK})(?:{_ZONE}(?![\w:+-])|(?P<west>-\d\d:\d\d)(?![\w:])|(?![\w:]))")
"""The time of a day that is joined to it by a T: there a minus begins a zone."""
_LEAD: Final = re.compile(
    r"(?i)(?:\b(?P<word>since|after|from|between|within|starting|before|until|till|(?:up )?to|by|through|and|on|at"
    r"|during|in|of|for)|(?P<mark>[-\u2013\u2014&]))\s{0,9}(?:(?:on|at|the|from)\s{1,9}){0,2}\Z"
)
_LOWER: Final = frozenset({"since", "after", "from", "between", "within", "starting"})
_UPPER: Final = frozenset({"until", "till", "to", "by", "through", "-", "\u2013", "\u2014"})
_RANGES: Final = frozenset({"from", "between", "within"})
_BESIDE: Final = re.compile(
    r"(?i)\s{0,9},?\s{0,9}(?:(?:at|on|of|from|between|since|after|before|until|till)\s{1,9})?(?:the\s{1,9})?"
)
_NO_LEAD: Final = frozenset({"", "on", "at", "during", "in", "of", "for"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """What a time is of that names no zone, no year or no day: what the lines of a log name first and last."""

    zone: tzinfo = UTC
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """The first and the last moment that are asked for, or in words why they are not known.

    `needs_day`: a time of day is asked for of a log with entries of several days.
    """

    since: datetime | None = None
    until: datetime | None = None
    untold: str = ""
    needs_day: bool = False

    def __bool__(self) -> bool:
        """Return whether any time is asked for."""
        return self != AskedTime()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A time as it stands in a question: `length` is that of the day, hour, minute or second that begins then."""

    start: int
    end: int
    text: str
    lead: str
    day: date | None = None
    clock: timedelta | None = None
    length: timedelta = timedelta(days=1)
    zone: tzinfo | None = None
    untold: str = ""


def asked_time(question: str, calendar: Calendar, *, led: bool = False) -> AskedTime:
    """Return what time a question asks for, outside what it quotes.

    `led`: only where one stands behind a word such as on or since; what else looks like one may name a release.
    """
    question = unquoted(question)
    told = list(_merged(question, list(_told(question, calendar))))
    if led and not any(each.lead for each in told):
        return AskedTime()
    if words := untold_in(_without(question, told)):
        return AskedTime(untold=f"{words!r} is no time that is understood here")
    if not told:
        return AskedTime()
    if untold := next((each.untold for each in told if each.untold), ""):
        return AskedTime(untold=untold)
    told = _with_days(told, calendar)
    zones = {each.zone for each in told if each.zone}
    if len(zones) == 1:  # "from 9:00 to 9:10 UTC" is of one zone
        told = [replace(each, zone=each.zone or next(iter(zones))) for each in told]
    if any(each.day is None for each in told):
        return AskedTime(needs_day=True)
    return _between(told, calendar.zone)


def without_times(question: str) -> str:
    """Return a question without the times that it names and the words before them, and of no other length."""
    return _without(question, list(_told(unquoted(question), Calendar())))


def names_a_time(question: str) -> bool:
    """Return whether a question names a day or a time of day outside what it quotes."""
    return any(True for _ in _told(unquoted(question), Calendar()))


def _without(question: str, told: Sequence[_Told]) -> str:
    for each in told:
        found = _LEAD.search(question[: each.start])
        start = found.start() if found else each.start
        question = question[:start] + "," + " " * (each.end - start - 1) + question[each.end :]
    return question


def _told(question: str, calendar: Calendar) -> Iterator[_Told]:
    """Yield the days and the times of day of a question, in its order."""
    end = 0
    for found in _TOKEN.finditer(question):
        if found.start() < end:
            continue  # the zone of what was read before
        lead = _LEAD.search(question[: found.start()])
        each = _Told(
            start=found.start(),
            end=found.end(),
            text=found[0],
            lead=(lead["word"] or lead["mark"]).lower().removeprefix("up ") if lead else "",
        )
        if found["hour"] or found["hour12"] or found["sharp"]:
            end = each.end
            yield _with_clock(each, found)
            continue
        each = _with_day(each, found, calendar)
        if found["t"] and (clock := _WITHIN.match(question, found.end())):
            each = _with_clock(replace(each, end=clock.end(), text=question[each.start : clock.end()]), clock)
        end = each.end
        yield each


def _with_day(each: _Told, found: re.Match[str], calendar: Calendar) -> _Told:
    days = list(_days(found, calendar))
    if len(set(days)) == 1:
        return replace(each, day=days[0])
    if days:
        return replace(each, untold=f"{each.text!r} may be either of two days: tell the month by its name")
    named = found["name1"] or found["name2"]
    if named and not (found["year1"] or found["year2"]):
        return replace(each, untold=f"{each.text!r} needs its year")
    return replace(each, untold=f"{each.text!r} is no day that there is")


def _days(found: re.Match[str], calendar: Calendar) -> Iterator[date]:
    """Yield which days a match may be."""
    if found["iso"]:
        parts = [(found["iso"], found["month"], found["day"])]
    elif found["dotted"]:
        parts = [tuple(reversed(found["dotted"].split(".")))]
    elif found["slashed"]:
        one, two, year = found["slashed"].split("/")
        parts = [(year, two, one), (year, one, two)]
    else:
        years = {each.year for each in (calendar.first, calendar.last) if each}
        year = found["year1"] or found["year2"] or (str(*years) if len(years) == 1 else "0")
        month = MONTHS[(found["name1"] or found["name2"])[:3].lower()]
        parts = [(year, str(month), found["day1"] or found["day2"])]
    for part in parts:
        try:
            when = date(*map(int, part))
        except ValueError:
            continue
        if MINYEAR < when.year < MAXYEAR:
            yield when


def _with_clock(each: _Told, found: re.Match[str]) -> _Told:
    told = found.groupdict()
    hour, half = int(told["hour"] or told["hour12"] or told["sharp"]), told["half"] or told["half12"]
    if half is not None:
        if not 1 <= hour <= 12:
            return replace(each, untold=f"{each.text!r} is no time that there is")
        hour = hour % 12 + (12 if half in "Pp" else 0)
    length = timedelta(hours=1)
    if told["minute"]:
        length = timedelta(minutes=1)
    if told["second"]:
        length = timedelta(seconds=1)
    fraction = told["fraction"] or ""
    if fraction:
        length = timedelta(microseconds=10 ** (6 - len(fraction)))
    clock = timedelta(
        hours=hour,
        minutes=int(told["minute"] or 0),
        seconds=int(told["second"] or 0),
        microseconds=int(fraction.ljust(6, "0") or 0) if fraction else 0,
    )
    zone = told.get("west") or told["zone"]
    return replace(each, clock=clock, length=length, zone=timezone(offset_of(zone)) if zone else None)


def _merged(question: str, told: Sequence[_Told]) -> Iterator[_Told]:
    """Yield the times, a day and a time of day beside each other as one: "on 3 November at 10:15"."""
    rest = list(told)
    while rest:
        one = rest.pop(0)
        if rest and _BESIDE.fullmatch(question, one.end, rest[0].start):
            two = rest[0]
            if (
                one.clock is None
                and two.clock is not None
                and two.day is None
                and not {one.lead, two.lead}.isdisjoint(_NO_LEAD)
            ):
                rest[0] = replace(
                    two,
                    start=one.start,
                    day=one.day,
                    untold=one.untold or two.untold,
                    text=question[one.start : two.end],
                    lead=one.lead if two.lead in _NO_LEAD else two.lead,
                )
                continue
            if one.day is None and one.clock is not None and two.clock is None and two.lead in _NO_LEAD:
                rest[0] = replace(
                    one, end=two.end, day=two.day, untold=one.untold or two.untold, text=question[one.start : two.end]
                )
                continue
        yield one


def _with_days(told: Sequence[_Told], calendar: Calendar) -> list[_Told]:
    """Return the times with the one day that all are of: the only one that is told, or that the log has."""
    if all(each.day for each in told):
        return list(told)
    days = {each.day for each in told if each.day}
    if len(days) == 1:
        told = [each for each in told if each.clock is not None or each.lead not in _NO_LEAD]
    elif not days and calendar.first is not None and calendar.first == calendar.last:
        days = {calendar.first}
    else:
        return list(told)
    (day,) = days
    return [replace(each, day=each.day or day) for each in told]


def _between(told: Sequence[_Told], zone: tzinfo) -> AskedTime:
    """Return the time between the first and the last moment that are told, or the one that is."""
    sides: list[str] = []
    for number, each in enumerate(told):
        before = told[number - 1].lead if number else ""
        side = "lower" if each.lead in _LOWER else "upper" if each.lead in {*_UPPER, "before"} else "at"
        if each.lead in {"and", "&"} and before in _RANGES:
            side = "upper"
        if side == "upper" and each.lead != "before" and sides[-1:] == ["at"]:
            sides[-1] = "lower"
        sides.append(side)
    ranged = any(each.lead in {"between", "within"} for each in told) and "upper" not in sides
    if ranged or sorted(sides) not in (["at"], ["lower"], ["upper"], ["lower", "upper"]):
        return AskedTime(untold="the times that it names are not one time: ask for each alone, or between two of them")
    since = until = None
    for side, each in zip(sides, told, strict=True):
        begins = _moment(each, zone)
        if side != "upper":
            since = begins
        if side == "at" or (side == "upper" and each.clock is None and each.lead != "before"):
            until = begins + (each.length - datetime.resolution)
        elif side == "upper":
            until = begins - (datetime.resolution if each.lead == "before" else timedelta(0))
    if since and until and since > until:
        return AskedTime(untold=REVERSED)
    return AskedTime(since=since, until=until)


def _moment(each: _Told, zone: tzinfo) -> datetime:
    day = each.day or date.min
    begins = datetime(day.year, day.month, day.day, tzinfo=each.zone or zone) + (each.clock or timedelta(0))
    return begins.astimezone(zone)
