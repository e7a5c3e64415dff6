"""Counting the words of newly embedded texts into the lexicon."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from knowledge.memory.consolidating import PatternFinder
from knowledge.memory.points import point_text
from knowledge.models import EmbeddingSpace, LeaseToken, PointId
from knowledge.ports import Stores
from knowledge.search.lexical import term_counts

_MAX_WAITING = 2048
"""Texts whose words are counted together: common words are then written once, not once per batch."""

_MAX_WAITING_AT_END = 128
"""The same while the last batches are embedded, so that few words remain to be counted at the end."""


@dataclass(slots=True, kw_only=True)
class WordCounter:
    """Counts the words of this checkpoint's texts, and those that a killed checkpoint left uncounted."""

    stores: Stores
    finder: PatternFinder
    _waiting: dict[PointId, Collection[int]] = field(default_factory=dict)
    _batches: list[LeaseToken] = field(default_factory=list)
    _leftover: asyncio.Task[None] | None = None

    def begin(self, space: EmbeddingSpace) -> None:
        """Start to count the leftover words, once."""
        if self._leftover is None:
            self._leftover = asyncio.create_task(self._count_leftover(space))

    async def wait_for_leftover(self) -> None:
        """Wait until the leftover words are counted."""
        if self._leftover is not None:
            await asyncio.shield(self._leftover)

    async def close(self) -> None:
        """Stop counting leftover words; the next checkpoint continues."""
        if self._leftover is not None:
            self._leftover.cancel()
            await asyncio.gather(self._leftover, return_exceptions=True)

    async def add(self, batch: LeaseToken, words: Mapping[PointId, Collection[int]], *, last: bool) -> None:
        """Add the words of a batch; count when enough wait. `last`: only the last batches are to come."""
        self._waiting |= words
        self._batches.append(batch)
        if len(self._waiting) >= (_MAX_WAITING_AT_END if last else _MAX_WAITING):
            await self.count()

    async def count(self) -> None:
        """Count all waiting words."""
        words, self._waiting = self._waiting, {}
        batches, self._batches = self._batches, []
        async with self.finder.count_in_lexicon(batches):
            if words:
                await self.stores.points.count_words(words)

    async def _count_leftover(self, space: EmbeddingSpace) -> None:
        while left := await self.stores.points.find_uncounted(space, _MAX_WAITING):
            await self.stores.points.count_words(
                {stored.point_id: term_counts(point_text(stored)).keys() for stored in left}
            )
