"""How common terms are while a checkpoint runs: by the lexicon when they were first asked for, and as seen since."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from knowledge.models import LeaseToken, TermStatistics
from knowledge.ports import Stores

_MOST_KEPT = 50_000
"""Terms whose commonness is kept, some 8 MB; then all are asked for anew."""


@dataclass(slots=True, kw_only=True)
class TermFrequencies:
    """The term statistics of a workspace, those of batches that the lexicon has not counted yet included."""

    stores: Stores
    _seen: Counter[int] = field(default_factory=Counter)
    """In how many situations each term was seen that the lexicon has not counted yet."""
    _batches: dict[LeaseToken, tuple[int, Counter[int]]] = field(default_factory=dict)
    """The same, and the number of situations, of each batch, by its lease."""
    _lexicon: dict[int, int] = field(default_factory=dict)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the lexicon is asked or counts, so that nothing is taken twice."""

    def saw(self, batch: LeaseToken, situations: Sequence[Mapping[int, int]]) -> None:
        """Take in the terms of a batch of situations."""
        seen = Counter([term for counts in situations for term in counts])
        self._batches[batch] = len(situations), seen
        self._seen.update(seen)

    def forget(self, batch: LeaseToken) -> None:
        """Take out the terms of a batch that was given back: it will be seen again."""
        _, seen = self._batches.pop(batch, (0, Counter()))
        self._seen -= seen

    async def of(self, asked: Collection[int]) -> TermStatistics:
        """Return how common terms are."""
        async with self._lock:
            if len(self._lexicon) > _MOST_KEPT:
                self._lexicon.clear()
            unknown = sorted(term for term in asked if term not in self._lexicon)
            counted = await self.stores.spaces.statistics(unknown)
            self._lexicon |= {term: counted.frequencies.get(term, 0) for term in unknown}
            lexicon, seen = self._lexicon, self._seen
            return TermStatistics(
                documents=counted.documents + sum(situations for situations, _ in self._batches.values()),
                frequencies={term: lexicon[term] + seen[term] for term in asked},
            )

    @asynccontextmanager
    async def counting(self, batches: Collection[LeaseToken]) -> AsyncIterator[None]:
        """Let the lexicon count the terms of batches."""
        async with self._lock:
            yield
            for batch in batches:
                _, seen = self._batches.pop(batch, (0, Counter()))
                self._seen -= seen
                for term in seen.keys() & self._lexicon.keys():
                    self._lexicon[term] += seen[term]
