"""Term statistics during a checkpoint: cached from the lexicon, plus the terms of batches not counted yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from knowledge.models import LeaseToken, TermStatistics
from knowledge.ports import Stores

_MAX_CACHED = 50_000
"""Cached terms, some 8 MB; when exceeded, the cache is cleared."""


@dataclass(slots=True, kw_only=True)
class TermFrequencies:
    """Term statistics of a workspace, including batches that the lexicon has not counted yet."""

    stores: Stores
    _seen: Counter[int] = field(default_factory=Counter)
    """Number of situations with each term that the lexicon has not counted yet."""
    _batches: dict[LeaseToken, tuple[int, Counter[int]]] = field(default_factory=dict)
    """Number of situations and the same counts for each batch, by its lease."""
    _lexicon: dict[int, int] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the lexicon is read or updated, so that nothing is counted twice."""

    def add(self, batch: LeaseToken, situations: Sequence[Mapping[int, int]]) -> None:
        """Add the terms of a batch of situations."""
        seen = Counter([term for counts in situations for term in counts])
        self._batches[batch] = len(situations), seen
        self._seen.update(seen)

    def forget(self, batch: LeaseToken) -> None:
        """Remove the terms of a released batch, which will be added again."""
        _, seen = self._batches.pop(batch, (0, Counter()))
        self._seen -= seen

    async def of(self, terms: Collection[int]) -> TermStatistics:
        """Return the statistics of these terms."""
        async with self._lock:
            if len(self._lexicon) > _MAX_CACHED:
                self._lexicon.clear()
            unknown = sorted(term for term in terms if term not in self._lexicon)
            counted = await self.stores.spaces.statistics(unknown)
            self._lexicon |= {term: counted.frequencies.get(term, 0) for term in unknown}
            lexicon, seen = self._lexicon, self._seen
            return TermStatistics(
                documents=counted.documents + sum(situations for situations, _ in self._batches.values()),
                frequencies={term: lexicon[term] + seen[term] for term in terms},
            )

    @asynccontextmanager
    async def count_in_lexicon(self, batches: Collection[LeaseToken]) -> AsyncIterator[None]:
        """Move the terms of batches to the lexicon, which the block updates."""
        async with self._lock:
            yield
            for batch in batches:
                _, seen = self._batches.pop(batch, (0, Counter()))
                self._seen -= seen
                for term in seen.keys() & self._lexicon.keys():
                    self._lexicon[term] += seen[term]
