"""Search for the patterns that a checkpoint's entries may join, before a decision is made about them."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from knowledge.memory.consolidation import decision as consolidation
from knowledge.memory.consolidation.comparison import MIN_COSINE, TextComparer
from knowledge.memory.consolidation.decision import Candidate, Embedding, Nearby, cosine_between
from knowledge.memory.index.embedding_space import SpaceInUse
from knowledge.memory.index.points import point_text
from knowledge.memory.rules import embedding_text, similarity
from knowledge.models import (
    BoundSpace,
    Decision,
    EmbeddingSpace,
    EntryId,
    EntryType,
    Founder,
    LeaseToken,
    PointFilter,
    PointId,
    TermStatistics,
    Vector,
    View,
)
from knowledge.ports import Stores
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import ParsedText

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


_MAX_UNINDEXED_BATCHES = 3
"""Maximum number of batches that are decided but not indexed yet."""
_MAX_CACHED_CHARS = 500_000
"""Characters of situations whose parsed form is cached, some 20 MB."""


@dataclass(slots=True, kw_only=True)
class PatternFinder:
    """Finds the patterns near the entries of one checkpoint, batch after batch.

    Under an embedding model without fitted weights it finds nothing: only equal texts join (`likeness.weights_for`).
    """

    stores: Stores
    _frequencies: TermFrequencies = field(init=False)
    _unindexed: deque[tuple[EmbeddingSpace, list[Founder]]] = field(
        default_factory=lambda: deque(maxlen=_MAX_UNINDEXED_BATCHES)
    )
    _readings: dict[str, ParsedText] = field(default_factory=dict)
    """LRU cache of parsed situations: many are near the next batch's as well."""

    def __post_init__(self) -> None:
        """Create the term statistics."""
        self._frequencies = TermFrequencies(stores=self.stores)

    async def find_nearby(
        self, batch: LeaseToken, in_use: SpaceInUse, embeddings: Sequence[Embedding]
    ) -> Nearby | None:
        """Return the patterns that a batch's entries may join, and the data to compare them."""
        model = in_use.bound.space.model
        if similarity.weights_for(model) is None or not embeddings:
            return None
        self._frequencies.add(batch, [embedding.counts[View.SITUATION] for embedding in embeddings])
        candidates = await self._candidates(in_use.bound, embeddings)
        nearby = Nearby(
            comparer=await self._make_comparer(model, embeddings, candidates),
            within=await asyncio.to_thread(consolidation.near_in_batch, embeddings),
            candidates=candidates,
        )
        # in threads: it takes as long as embedding one or two of the batch's texts
        find_missing = partial(consolidation.find_missing, embeddings, workspace=self.stores.workspace, nearby=nearby)
        while (missing := await asyncio.to_thread(find_missing)).unread:
            terms = await asyncio.to_thread(_terms_of, missing.unread)
            nearby.comparer.learn((await self._frequencies.of(terms)).frequencies)
        if not missing.resolutions:
            return nearby
        embedded = await in_use.embedder.embed(missing.resolutions, "document")
        return replace(nearby, resolutions=dict(zip(missing.resolutions, embedded.vectors, strict=True)))

    def add_founders(self, space: EmbeddingSpace, decisions: Sequence[Decision]) -> None:
        """Remember the patterns that a batch founded until they are indexed."""
        founders = [
            Founder(pattern_id=decision.pattern_id, words=decision.entry, situation=point.vector)
            for decision in decisions
            if decision.founds
            for point in decision.points
            if point.view is View.SITUATION
        ]
        self._unindexed.append((space, founders))

    def forget(self, batch: LeaseToken) -> None:
        """Forget the terms of a batch that will be embedded again."""
        self._frequencies.forget(batch)

    def count_in_lexicon(self, batches: Collection[LeaseToken]) -> AbstractAsyncContextManager[None]:
        """Move the terms of batches to the lexicon, which the block updates."""
        return self._frequencies.count_in_lexicon(batches)

    async def _candidates(
        self, bound: BoundSpace, embeddings: Sequence[Embedding]
    ) -> Mapping[EntryId, Sequence[Candidate]]:
        stored = await self._nearest_stored(bound, embeddings)
        unindexed = [
            founder
            for space, founders in self._unindexed
            if space.fingerprint == bound.space.fingerprint
            for founder in founders
        ]
        return await asyncio.to_thread(_candidates_of, embeddings, stored, unindexed)

    async def _nearest_stored(
        self, bound: BoundSpace, embeddings: Sequence[Embedding]
    ) -> Mapping[EntryId, Sequence[Founder]]:
        """Return the nearest patterns in the index."""
        points: dict[EntryId, Sequence[PointId]] = {}
        for entry_type in dict.fromkeys(embedding.entry.entry_type for embedding in embeddings):
            where = PointFilter(
                workspace=self.stores.workspace,
                live_at=self.stores.clock.now(),
                view=View.SITUATION,
                entry_types=frozenset({EntryType(entry_type)}),
            )
            of_type = [embedding for embedding in embeddings if embedding.entry.entry_type == entry_type]
            nearest = await self.stores.index.nearest(
                bound.space,
                [embedding.vectors[View.SITUATION] for embedding in of_type],
                where,
                limit=consolidation.MAX_COMPARED,
                at_least=MIN_COSINE,
            )
            points |= {embedding.entry.entry_id: near for embedding, near in zip(of_type, nearest, strict=True)}
        point_ids = {point_id for near in points.values() for point_id in near}
        founders = await self.stores.patterns.founders(bound.space, sorted(point_ids)) if point_ids else {}
        return {
            entry_id: [founder for point_id in near if (founder := founders.get(point_id))]
            for entry_id, near in points.items()
        }

    async def _make_comparer(
        self, model: str, embeddings: Sequence[Embedding], candidates: Mapping[EntryId, Sequence[Candidate]]
    ) -> TextComparer:
        """Return a comparer that knows these situations; resolutions are read when needed, which is rare."""
        situations = {candidate.situation for around in candidates.values() for candidate in around}
        situations.update(embedding_text.compared_situation(embedding.entry) for embedding in embeddings)
        readings = self._readings_of(situations)
        terms = await asyncio.to_thread(_terms_of, readings.values())
        return TextComparer(await self._frequencies.of(terms), model, readings)

    def _readings_of(self, situations: Collection[str]) -> Mapping[str, ParsedText]:
        cache = self._readings
        readings = {text: cache.pop(text) if text in cache else ParsedText(text) for text in situations}
        cache |= readings
        length = sum(map(len, cache))
        while length > _MAX_CACHED_CHARS:
            oldest = next(iter(cache))
            length -= len(oldest)
            del cache[oldest]
        return readings


def _terms_of(readings: Iterable[ParsedText]) -> Collection[int]:
    """Return the terms of texts."""
    return frozenset[int]().union(*(reading.term_ids for reading in readings))


def _candidates_of(
    embeddings: Sequence[Embedding], stored: Mapping[EntryId, Sequence[Founder]], unindexed: Collection[Founder]
) -> Mapping[EntryId, Sequence[Candidate]]:
    """Return the patterns that entries may join: those from the index, and the nearest not indexed yet."""
    founders = consolidation.nearest_founders(embeddings, unindexed) if unindexed else [[] for _ in embeddings]
    candidates: dict[EntryId, Sequence[Candidate]] = {}
    for embedding, nearest in zip(embeddings, founders, strict=True):
        entry_id = embedding.entry.entry_id
        around = {founder.pattern_id: founder for founder in (*stored[entry_id], *nearest)}
        if around:
            vector = embedding.vectors[View.SITUATION]
            candidates[entry_id] = [_candidate(founder, vector) for founder in around.values()]
    return candidates


def _candidate(founder: Founder, vector: Vector) -> Candidate:
    return Candidate(
        pattern_id=founder.pattern_id,
        entry_type=founder.words.entry_type,
        situation=embedding_text.compared_situation(founder.words),
        resolution=embedding_text.compared_resolution(founder.words),
        situation_cosine=cosine_between(founder.situation, vector),
    )
