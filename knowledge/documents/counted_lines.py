"""Lines of a log, counted or listed: how many there are of a kind, the first and the last, or all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.amounts import plain_amount
from knowledge.documents.access import Scope
from knowledge.documents.log_passages import computed_passage, counted_passage, described, listing_passage, told_time
from knowledge.documents.log_questions import LAST, ONE_END, SOME_OF_AN_END, Asked
from knowledge.documents.log_times import LogTimes
from knowledge.documents.models import Document, LogLine, Passage, Severity, Wanted
from knowledge.documents.ports import LogStore

_MOST_LISTED: Final = 500
"""Lines that a listing holds; the passage says where there are more."""
TEMPLATES: Final = 5
"""The kinds of lines that are named: those that occur most often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLines:
    """Counts the lines of one log by what Postgres holds of each."""

    logs: LogStore
    log: Document
    scope: Scope

    async def selected(
        self,
        wish: Wanted,
        only: Sequence[Severity],
        terms: Collection[str],
        *,
        listing: bool,
        note: str = "",
    ) -> list[Passage]:
        """Return how many lines of these severities hold each of these terms, with the first and last."""

        async def select(limit: int, *, last_first: bool = False) -> tuple[int, list[LogLine]]:
            total, lines = await self.logs.select(
                [self.log.document_id],
                self.scope,
                severities=only,
                terms=terms,
                since=wish.since,
                until=wish.until,
                last_first=last_first,
                limit=limit,
            )
            return total, [line for _, line in lines]

        total, lines = await select(_MOST_LISTED if listing else 1)
        _, last = await select(1, last_first=True)
        what = described(total, only, terms, wish)
        counted = counted_passage(self.log, what, total, lines, last, note=note if total else "")
        return [counted, listing_passage(self.log, what, total, lines)] if listing and total else [counted]

    async def of_each_severity(self, wish: Wanted, only: Sequence[Severity], terms: Collection[str]) -> list[Passage]:
        """Return how many lines with these terms there are of each of several severities."""
        told = []
        for each in only if len(only) > 1 else ():
            total, _ = await self.logs.select(
                [self.log.document_id],
                self.scope,
                severities=[each],
                terms=terms,
                since=wish.since,
                until=wish.until,
                limit=0,
            )
            told.append(f"{self.log.name}: {total} {described(total, [each], terms, wish)}.")
        return [computed_passage(self.log, "\n".join(told), (), (), section="counted")] if told else []

    async def whole(self, asked: Asked) -> Passage:
        """Return a passage on all lines: those of an end where these are asked for, else the overview."""
        if some := SOME_OF_AN_END.search(asked.question):
            last = some[1].lower() in LAST
            most = min(int(some[2]), _MOST_LISTED)
            total, found = await self.logs.select([self.log.document_id], self.scope, last_first=last, limit=most)
            lines = sorted((line for _, line in found), key=lambda line: line.line)
            return listing_passage(self.log, "lines", total, lines, end="last" if last else "first")
        if ONE_END.search(asked.question):
            return (await self.selected(Wanted(), (), (), listing=False))[0]
        return await self.overview()

    async def overview(self) -> Passage:
        """Return how many lines there are, of each severity and of the kinds with most lines, and when they begin."""
        counts = await self.logs.by_severity([self.log.document_id], self.scope)
        first, last = await self.logs.span([self.log.document_id], self.scope)
        zone = (await LogTimes(logs=self.logs).calendar(self.log, self.scope)).zone
        templates = await self.logs.templates([self.log.document_id], self.scope, limit=TEMPLATES)
        told = [f"{self.log.name}: {plain_amount(sum(counts.values()), 'line')}."]
        severities = reversed(list(Severity))
        told += [f"{plain_amount(counts[each], f'{each} entry')}." for each in severities if counts.get(each)]
        if counts.get(""):
            told.append(f"{plain_amount(counts[''], 'line')} without a severity.")
        if first and last:
            told.append(
                f"First entry {told_time(first.astimezone(zone))}, last entry {told_time(last.astimezone(zone))}."
            )
        told += [f"{number} times: {template}" for template, number in templates if number > 1]
        return computed_passage(self.log, "\n".join(told), (), (), section="counted")
