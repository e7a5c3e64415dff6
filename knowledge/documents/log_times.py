"""What time a question asks for of one log: by the zone, the day and the year that its lines name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

from knowledge.amounts import plain_amount
from knowledge.documents.access import Scope
from knowledge.documents.asked_times import REVERSED, AskedTime, Calendar, asked_time
from knowledge.documents.log_lines import zone_of
from knowledge.documents.log_passages import computed_passage, told_time
from knowledge.documents.models import Document, Passage, Wanted
from knowledge.documents.ports import LogStore

_UNDERSTOOD: Final = (
    "Times are understood as 2025-10-19, 19 October 2025, 14:32 or 2 pm: on or at one, since or until one, or between"
    " two."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTimes:
    """Reads times as the logs of one workspace have them."""

    logs: LogStore

    async def calendar(self, log: Document, scope: Scope) -> Calendar:
        """Return the zone that the first timed line of a log names, and its first and last day there."""
        first, last = await self.logs.span([log.document_id], scope)
        if first is None or last is None:
            return Calendar()
        zone = await self._zone(log, scope, first, last)
        return Calendar(zone=zone, first=first.astimezone(zone).date(), last=last.astimezone(zone).date())

    async def within(self, log: Document, scope: Scope, wish: Wanted, question: str) -> tuple[Wanted, Passage | None]:
        """Return what is asked of a log with the time as it has it, or a passage that says why that is not known."""
        if not asked_time(question, Calendar()):
            return replace(wish, since=None, until=None), None
        calendar = await self.calendar(log, scope)
        if calendar.first is None:
            lines = plain_amount(log.lines, "line")
            told = f"none of its {lines} names a time that is read here; they cannot be told by time."
            return wish, computed_passage(log, f"{log.name}: {told}", (), (), section="counted")
        asked = asked_time(question, calendar)
        if asked.needs_day or asked.untold:
            told = await self._days(log, scope, calendar) if asked.needs_day else _untold(log, asked)
            return wish, computed_passage(log, told, (), (), section="counted")
        since, until = await self._ends(log, scope, question, asked, calendar)
        if since and until and since > until:
            return wish, computed_passage(log, _untold(log, AskedTime(untold=REVERSED)), (), (), section="counted")
        return replace(wish, since=since, until=until), None

    async def _ends(
        self, log: Document, scope: Scope, question: str, asked: AskedTime, calendar: Calendar
    ) -> tuple[datetime | None, datetime | None]:
        """Return the ends of the time that is asked for, each in the zone that lines print then.

        A log that goes over a change to summer time prints two.
        """
        first, last = await self.logs.span([log.document_id], scope)
        if first is None or last is None or await self._zone(log, scope, first, last, latest=True) == calendar.zone:
            return asked.since, asked.until
        zones = [await self._zone(log, scope, min(end or first, last), last) for end in (asked.since, asked.until)]
        since, until = (asked_time(question, replace(calendar, zone=zone)) for zone in zones)
        return since.since, until.until

    async def _zone(
        self, log: Document, scope: Scope, first: datetime, last: datetime, *, latest: bool = False
    ) -> tzinfo:
        """Return the zone that the first or the latest line of a time names, UTC where it names none."""
        _, lines = await self.logs.select([log.document_id], scope, since=first, until=last, last_first=latest, limit=1)
        return next((zone for _, line in lines if (zone := zone_of(line.text))), UTC)

    async def _days(self, log: Document, scope: Scope, calendar: Calendar) -> str:
        """Return that a log cannot be told by a time of day alone."""
        ends = [each for each in await self.logs.span([log.document_id], scope) if each]
        days = " to ".join(told_time(each.astimezone(calendar.zone)) for each in ends)
        return f"{log.name} has entries of several days, from {days}: a time of day needs its day."


def _untold(log: Document, asked: AskedTime) -> str:
    return f"{log.name}: this cannot be counted: {asked.untold}. {_UNDERSTOOD}"


def without_names(question: str, names: Collection[str]) -> str:
    """Return a question of the same length without the names of files: what they say of days is none of the question's.

    Something stands in their place, so that "from app.log at 15:03" is not from 15:03 on.
    `names`: in small letters.
    """
    for name in sorted((each for each in names if "." in each or "/" in each), key=len, reverse=True):
        question = re.sub(rf"(?i)(?<![\w-]){re.escape(name)}(?![\w-])", lambda found: "~" * len(found[0]), question)
    return question
