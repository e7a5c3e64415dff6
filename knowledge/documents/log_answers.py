"""Answer a query plan from one log: counts, lists, groups and single lines, all computed by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, tzinfo

from knowledge.amounts import plain_count_of
from knowledge.documents.access import Scope
from knowledge.documents.log_lines import zone_of
from knowledge.documents.log_passages import (
    computed_passage,
    counted_passage,
    described,
    listed_lines,
    listing_passage,
    text_passage,
    told_time,
    worded,
)
from knowledge.documents.log_query import MOST_LISTED, TOP, Group, LineFilter, LogQuery, Moment, instant
from knowledge.documents.models import Document, LogLine, Passage, Severity
from knowledge.documents.ports import LogStore

NEIGHBOURS = 2
_ANY_STATUS = "xxx"
_ALL = LineFilter()
_WORST_FIRST = tuple(reversed(list(Severity)))


class _UnansweredError(Exception):
    """A plan that a log cannot answer, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswers:
    """Answers plans from one log of a scope."""

    logs: LogStore
    log: Document
    scope: Scope

    async def answer(self, query: LogQuery, *, addressed: bool) -> list[Passage]:
        """Return the passages that answer a plan.

        Where the question may be one to other documents, not `addressed`, nothing is told of what no line holds.
        """
        try:
            only = await self._filter(query)
        except _UnansweredError as reason:
            return [text_passage(self.log, str(reason))] if addressed else []
        if not query.selects and not query.listed:
            return [await self._overview(query)]
        filters = await self._filters(query, only)
        return [passage for each in filters for passage in await self._told(query, each, addressed=addressed)]

    async def numbered(self, numbers: Sequence[int]) -> list[Passage]:
        """Return a passage for each line number: the line with its neighbours, or that there is none."""
        passages = []
        for number in numbers:
            lines = await self.logs.around(self.log.document_id, self.scope, number, neighbours=NEIGHBOURS)
            told = listed_lines(lines, mark=number)
            if all(line.line != number for line in lines):
                told = f"{self.log.name} has {plain_count_of(self.log.lines, 'line')}; there is no line {number}."
                lines = []
            passages.append(computed_passage(self.log, told, lines, lines, section=f"line {number}"))
        return passages

    async def _filter(self, query: LogQuery) -> LineFilter:
        """Return the severities and the time of a plan as this log has them. Raises _UnansweredError."""
        severities: tuple[Severity, ...] = ()
        if query.severities:
            counts = await self.logs.by_severity(self.log.document_id, self.scope, _ALL)
            if not any(map(counts.get, Severity)):
                raise _UnansweredError(
                    f"{self.log.name}: none of its {plain_count_of(self.log.lines, 'line')} names a severity:"
                    " errors are not told from other lines."
                )
            held = [each for each in Severity if each in query.severities and counts.get(each)]
            severities = tuple(held) or query.severities[:1]
        if query.since is None and query.until is None:
            return LineFilter(severities=severities)
        first, last = await self.logs.span(self.log.document_id, self.scope)
        if first is None or last is None:
            raise _UnansweredError(
                f"{self.log.name}: none of its {plain_count_of(self.log.lines, 'line')} names a time that is read here;"
                " they cannot be told by time."
            )
        zone = await self._zone(first)
        if any(isinstance(each, time) for each in (query.since, query.until)):
            ends = [each.astimezone(zone) for each in (first, last)]
            if ends[0].date() != ends[1].date():
                raise _UnansweredError(
                    f"{self.log.name} has entries of several days, from {' to '.join(map(told_time, ends))}:"
                    " a time of day needs its day."
                )

        async def read(moment: Moment | None, *, end: bool = False) -> datetime | None:
            if moment is None:
                return None
            day = first.astimezone(zone).date()
            begins = instant(moment, zone, day=day, end=end)
            printed = await self._zone(min(begins, last))  # it may be another after a change to summer time
            return instant(moment, printed, day=day, end=end)

        since, until = await read(query.since), await read(query.until, end=True)
        if since and until and since > until:
            raise _UnansweredError(f"{self.log.name}: the time that is asked for ends before it begins.")
        return LineFilter(severities=severities, since=since, until=until)

    async def _zone(self, since: datetime) -> tzinfo:
        """Return the zone that the first line since a moment names, UTC where it names none."""
        _, lines = await self.logs.select(self.log.document_id, self.scope, LineFilter(since=since), limit=1)
        return next((zone for line in lines if (zone := zone_of(line.text))), UTC)

    async def _filters(self, query: LogQuery, only: LineFilter) -> list[LineFilter]:
        """Return what is counted one by one: of each status, of all terms together, of each term where none has all."""
        terms, any_term = query.terms, query.any_term
        if query.statuses:
            if await self._count(LineFilter(status=_ANY_STATUS)):
                return [replace(only, status=each, terms=terms) for each in query.statuses]
            terms, any_term = (*terms, *query.statuses), any_term or not terms
        together = replace(only, terms=terms)
        if len(terms) < 2:
            return [together]
        alone = [replace(only, terms=(each,)) for each in terms]
        if await self._count(together):
            return [together, *alone] if any_term else [together]
        return alone if any_term else [together, *alone]

    async def _count(self, only: LineFilter) -> int:
        total, _ = await self.logs.select(self.log.document_id, self.scope, only, limit=0)
        return total

    async def _told(self, query: LogQuery, only: LineFilter, *, addressed: bool) -> list[Passage]:
        """Return how many lines fit, the first and the last of them, and the list or the groups that are asked for.

        Words that no line holds are dropped beside an exact term, and it is said; alone they leave nothing to count.
        """
        note = ""
        if query.words:
            narrowed = replace(only, terms=(*only.terms, *query.words))
            if await self._count(narrowed) or not (lacking := await self._lacking(only, query.words)):
                only = narrowed
            elif only.terms or only.status:
                note = f"; none of these lines holds {lacking}"
            else:
                told = f"{self.log.name}: no line holds {lacking}: what it says in other words is not counted."
                return [text_passage(self.log, told)] if addressed else []
        total, first = await self._lines(only, 1)
        if not total and not addressed:
            return []
        _, last = await self._lines(only, 1, last_first=True)
        what = described(total, only)
        counted = counted_passage(self.log, what, total, first, last, note=note if total else "")
        if not total:
            return [counted]
        if query.listed:
            _, lines = await self._lines(only, query.top or MOST_LISTED, last_first=query.order == "last")
            lines.sort(key=lambda line: line.line)
            listing = listing_passage(self.log, what, total, lines, end=query.order)
            return [counted, listing] if query.selects else [listing]
        told = "\n".join(await self._groups(query, only))
        return [counted, text_passage(self.log, told)] if told else [counted]

    async def _lines(self, only: LineFilter, limit: int, *, last_first: bool = False) -> tuple[int, list[LogLine]]:
        return await self.logs.select(self.log.document_id, self.scope, only, last_first=last_first, limit=limit)

    async def _lacking(self, only: LineFilter, words: Sequence[str]) -> str:
        """Return in words which of some words no line with the exact terms holds, whatever its time and severity.

        Nothing where a line holds them all.
        """
        named = LineFilter(status=only.status, terms=only.terms)
        if await self._count(replace(named, terms=(*named.terms, *words))):
            return ""
        lacking = [each for each in words if not await self._count(replace(named, terms=(*named.terms, each)))]
        return " or ".join(map(repr, lacking)) or f"{worded(words)} together"

    async def _groups(self, query: LogQuery, only: LineFilter) -> list[str]:
        log, top, told = self.log.document_id, query.top or TOP, list[str]()
        if Group.SEVERITY in query.group_by and len(only.severities) != 1:
            counts = await self.logs.by_severity(log, self.scope, only)
            for each in only.severities or _WORST_FIRST:
                number = counts.get(each, 0)
                told.append(f"{self.log.name}: {number} {described(number, replace(only, severities=(each,)))}.")
        if Group.TEMPLATE in query.group_by:
            kinds = await self.logs.templates(log, self.scope, only, limit=top)
            told += [f"{plain_count_of(number, 'time')}: {template}" for template, number in kinds]
        if Group.PATH in query.group_by:
            paths = await self.logs.paths(log, self.scope, only, limit=top)
            told += [f"{path}: {number} {described(number, only)}." for path, number in paths]
        return told

    async def _overview(self, query: LogQuery) -> Passage:
        """Return how many lines there are, of each severity and of the kinds with most lines, and when they begin."""
        log, told = self.log.document_id, [f"{self.log.name}: {plain_count_of(self.log.lines, 'line')}."]
        if query.group_by == (Group.PATH,):
            return text_passage(self.log, "\n".join(told + await self._groups(query, _ALL)))
        counts = await self.logs.by_severity(log, self.scope, _ALL)
        first, last = await self.logs.span(log, self.scope)
        told = [f"{self.log.name}: {plain_count_of(sum(counts.values()), 'line')}."]
        told += [plain_count_of(counts[each], f"{each} entry") + "." for each in _WORST_FIRST if counts.get(each)]
        if counts.get(""):
            told.append(f"{plain_count_of(counts[''], 'line')} without a severity.")
        if first and last:
            zone = await self._zone(first)
            told.append(
                f"First entry {told_time(first.astimezone(zone))}, last entry {told_time(last.astimezone(zone))}."
            )
        kinds = await self.logs.templates(log, self.scope, _ALL, limit=query.top or TOP)
        told += [f"{number} times: {template}" for template, number in kinds if number > 1]
        return text_passage(self.log, "\n".join(told))
