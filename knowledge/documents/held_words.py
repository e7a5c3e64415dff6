"""Which of the words that a question says some line of a log holds, alone or together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from knowledge.documents.access import Scope
from knowledge.documents.log_passages import worded
from knowledge.documents.log_questions import alternatives
from knowledge.documents.models import Document, Severity, Wanted
from knowledge.documents.ports import LogStore
from knowledge.documents.statuses import placed


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWords:
    """Looks words up in the lines of one log."""

    logs: LogStore
    log: Document
    scope: Scope

    async def hold(self, words: Sequence[str], wish: Wanted | None = None, only: Collection[Severity] = ()) -> bool:
        """Return whether lines of these severities and of the time that is wished hold all of some words."""
        wish = wish or Wanted()
        total, _ = await self.logs.select(
            [self.log.document_id],
            self.scope,
            severities=only,
            terms=words,
            since=wish.since,
            until=wish.until,
            limit=0,
        )
        return total > 0

    async def lacking(self, named: tuple[str, ...], words: Sequence[str]) -> str:
        """Return in words which of some words no line with what is named holds, or that none holds them together.

        Whatever its time and severity; nothing where a line holds them all.
        """
        if await self.hold((*named, *words)):
            return ""
        lacking = [word for word in words if not await self.hold((*named, word))]
        return " or ".join(map(worded, ([word] for word in lacking))) or f"{worded(words)} together"

    async def together(self, terms: Sequence[str], question: str, *, statuses: bool) -> list[tuple[str, ...]]:
        """Return which terms lines are to hold together, those that some do first; each where "and" joins them.

        `statuses`: numbers of three digits are looked for where access logs have them.
        """

        def as_held(terms: Sequence[str]) -> tuple[str, ...]:
            return tuple(map(placed, terms)) if statuses else tuple(terms)

        groups = [as_held(each) for each in alternatives(terms, question)]
        alone = [as_held([term]) for term in terms]
        if len(alone) > 1 and set(groups) == set(alone):
            every = as_held(terms)
            groups = [every] if await self.hold(every) else []
        elif len(alone) < 2 or any([await self.hold(each) for each in groups]):
            return groups
        return [*groups, *alone]
