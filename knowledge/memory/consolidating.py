"""What the entries of a checkpoint may join beyond equal texts: looked up before a decision is made about them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial

from knowledge.memory import consolidation, likeness, texts
from knowledge.memory.commonness import TermFrequencies
from knowledge.memory.comparing import NEAR_ENOUGH, TextComparer
from knowledge.memory.consolidation import Candidate, Embedding, Nearby, rounded_cosine
from knowledge.memory.spaces import SpaceInUse
from knowledge.models import (
    BoundSpace,
    Decision,
    EmbeddingSpace,
    EntryId,
    EntryType,
    Founder,
    LeaseToken,
    PointId,
    Vector,
    View,
    Where,
)
from knowledge.ports import Stores
from knowledge.search.wording import Reading

_BATCHES_ON_THEIR_WAY = 3
"""So many batches may be decided whose points the index does not have yet."""

_MOST_KEPT = 500_000
"""Characters of situations that are kept taken apart, some 20 MB."""


@dataclass(slots=True, kw_only=True)
class Consolidating:
    """Finds the patterns near the entries of one checkpoint, batch after batch.

    Under an embedding model without fitted weights nothing is looked for: only equal texts join (`likeness.shipped`).
    """

    stores: Stores
    _commonness: TermFrequencies = field(init=False)
    _on_their_way: deque[tuple[EmbeddingSpace, list[Founder]]] = field(
        default_factory=lambda: deque(maxlen=_BATCHES_ON_THEIR_WAY)
    )
    _readings: dict[str, Reading] = field(default_factory=dict)
    """Situations taken apart, those used last at the end: many are near those of the next batch as well."""

    def __post_init__(self) -> None:
        """Begin with nothing seen."""
        self._commonness = TermFrequencies(stores=self.stores)

    async def around(self, batch: LeaseToken, in_use: SpaceInUse, embeddings: Sequence[Embedding]) -> Nearby | None:
        """Return the patterns that the entries of a batch may join, and what it takes to compare them."""
        model = in_use.bound.space.model
        if likeness.weights_for(model) is None or not embeddings:
            return None
        self._commonness.saw(batch, [embedding.counts[View.SITUATION] for embedding in embeddings])
        candidates = await self._candidates(in_use.bound, embeddings)
        nearby = Nearby(
            comparing=await self._comparing(model, embeddings, candidates),
            within=await asyncio.to_thread(consolidation.near_in_batch, embeddings),
            candidates=candidates,
        )
        # in threads, for it takes as long as embedding a text of the batch or two
        look = partial(consolidation.missing, embeddings, workspace=self.stores.workspace, nearby=nearby)
        while (missing := await asyncio.to_thread(look)).unread:
            asked = await asyncio.to_thread(_terms_of, missing.unread)
            nearby.comparing.learn((await self._commonness.of(asked)).frequencies)
        if not missing.resolutions:
            return nearby
        embedded = await in_use.embedder.embed(missing.resolutions, "document")
        return replace(nearby, resolutions=dict(zip(missing.resolutions, embedded.vectors, strict=True)))

    def decided(self, space: EmbeddingSpace, decisions: Sequence[Decision]) -> None:
        """Remember what a batch founded, until the index has it."""
        founders = [
            Founder(pattern_id=decision.pattern_id, words=decision.entry, situation=point.vector)
            for decision in decisions
            if decision.founds
            for point in decision.points
            if point.view is View.SITUATION
        ]
        self._on_their_way.append((space, founders))

    def given_back(self, batch: LeaseToken) -> None:
        """Forget the terms of a batch that is to be embedded again."""
        self._commonness.forget(batch)

    def counting(self, batches: Collection[LeaseToken]) -> AbstractAsyncContextManager[None]:
        """Let the lexicon count the terms of batches."""
        return self._commonness.counting(batches)

    async def _candidates(
        self, bound: BoundSpace, embeddings: Sequence[Embedding]
    ) -> Mapping[EntryId, Sequence[Candidate]]:
        stored = await self._stored(bound, embeddings)
        late = [
            founder
            for space, founders in self._on_their_way
            if space.fingerprint == bound.space.fingerprint
            for founder in founders
        ]
        return await asyncio.to_thread(_candidates_of, embeddings, stored, late)

    async def _stored(self, bound: BoundSpace, embeddings: Sequence[Embedding]) -> Mapping[EntryId, Sequence[Founder]]:
        """Return the nearest patterns that the index has."""
        points: dict[EntryId, Sequence[PointId]] = {}
        for entry_type in dict.fromkeys(embedding.entry.entry_type for embedding in embeddings):
            where = Where(
                workspace=self.stores.workspace,
                live_at=self.stores.clock.now(),
                view=View.SITUATION,
                entry_types=frozenset({EntryType(entry_type)}),
            )
            asking = [embedding for embedding in embeddings if embedding.entry.entry_type == entry_type]
            found = await self.stores.index.nearest(
                bound.space,
                [embedding.vectors[View.SITUATION] for embedding in asking],
                where,
                limit=consolidation.MAX_COMPARED,
                at_least=NEAR_ENOUGH,
            )
            points |= {embedding.entry.entry_id: near for embedding, near in zip(asking, found, strict=True)}
        told = {point_id for near in points.values() for point_id in near}
        founders = await self.stores.patterns.founders(bound.space, sorted(told)) if told else {}
        return {
            entry_id: [founder for point_id in near if (founder := founders.get(point_id))]
            for entry_id, near in points.items()
        }

    async def _comparing(
        self, model: str, embeddings: Sequence[Embedding], candidates: Mapping[EntryId, Sequence[Candidate]]
    ) -> TextComparer:
        """Return how to compare situations; resolutions are read where they are needed, which is seldom."""
        told = {candidate.situation for around in candidates.values() for candidate in around}
        told.update(embedding.told[View.SITUATION] for embedding in embeddings)
        readings = self._read(told)
        asked = await asyncio.to_thread(_terms_of, readings.values())
        return TextComparer(await self._commonness.of(asked), model, readings)

    def _read(self, told: Collection[str]) -> Mapping[str, Reading]:
        kept = self._readings
        readings = {text: kept.pop(text) if text in kept else Reading(text) for text in told}
        kept |= readings
        length = sum(map(len, kept))
        while length > _MOST_KEPT:
            oldest = next(iter(kept))
            length -= len(oldest)
            del kept[oldest]
        return readings


def _terms_of(readings: Iterable[Reading]) -> Collection[int]:
    """Return the terms of texts."""
    return frozenset[int]().union(*(reading.term_ids for reading in readings))


def _candidates_of(
    embeddings: Sequence[Embedding], stored: Mapping[EntryId, Sequence[Founder]], late: Collection[Founder]
) -> Mapping[EntryId, Sequence[Candidate]]:
    """Return what entries may join: what the index found, and the nearest of what it may not have yet."""
    founders = consolidation.nearest_founders(embeddings, late) if late else [[] for _ in embeddings]
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
        situation=texts.situation(founder.words),
        resolution=texts.resolution(founder.words),
        situation_cosine=rounded_cosine(founder.situation, vector),
    )
