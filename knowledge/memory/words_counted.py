"""The words of what a checkpoint embeds, on their way into the lexicon."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from knowledge.memory.consolidating import Consolidating
from knowledge.memory.points import stored_text
from knowledge.models import EmbeddingSpace, LeaseToken, PointId
from knowledge.ports import Stores
from knowledge.search.lexical import term_counts

_AT_ONCE = 2048
"""New texts whose words are counted together: common words are then written once, not once a batch."""

_BEFORE_THE_LAST = 128
"""From so many on they are counted while the last batches are embedded, so that few are left once nothing is."""


@dataclass(slots=True, kw_only=True)
class WordsCounted:
    """Words that wait to be counted: those of this checkpoint, and what one that was killed left."""

    stores: Stores
    consolidating: Consolidating
    _waiting: dict[PointId, Collection[int]] = field(default_factory=dict)
    _batches: list[LeaseToken] = field(default_factory=list)
    _leftover: asyncio.Task[None] | None = None

    def begin(self, space: EmbeddingSpace) -> None:
        """Begin to count what was left, unless that was begun."""
        if self._leftover is None:
            self._leftover = asyncio.create_task(self._count_leftover(space))

    async def leftover(self) -> None:
        """Wait until what was left is counted."""
        if self._leftover is not None:
            await asyncio.shield(self._leftover)

    async def close(self) -> None:
        """Leave to the next checkpoint what was left and is not counted yet."""
        if self._leftover is not None:
            self._leftover.cancel()
            await asyncio.gather(self._leftover, return_exceptions=True)

    async def add(self, batch: LeaseToken, words: Mapping[PointId, Collection[int]], *, last: bool) -> None:
        """Take in the words of a batch and count when it is worth it. `last`: only the last batches are to come."""
        self._waiting |= words
        self._batches.append(batch)
        if len(self._waiting) >= (_BEFORE_THE_LAST if last else _AT_ONCE):
            await self.count()

    async def count(self) -> None:
        """Count all that wait."""
        words, self._waiting = self._waiting, {}
        batches, self._batches = self._batches, []
        async with self.consolidating.counting(batches):
            if words:
                await self.stores.points.count_words(words)

    async def _count_leftover(self, space: EmbeddingSpace) -> None:
        while left := await self.stores.points.uncounted(space, _AT_ONCE):
            await self.stores.points.count_words(
                {stored.point_id: term_counts(stored_text(stored)).keys() for stored in left}
            )
