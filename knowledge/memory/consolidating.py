"""What the entries of a checkpoint may join beyond equal texts: looked up before a decision is made about them."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from knowledge.memory import consolidation, likeness, texts
from knowledge.memory.comparing import NEAR_ENOUGH, Comparing
from knowledge.memory.consolidation import Candidate, Embedding, Nearby, rounded_cosine
from knowledge.memory.spaces import SpaceInUse
from knowledge.models import (
    BoundSpace,
    Decision,
    EntryId,
    EntryType,
    Founder,
    PointId,
    TermStatistics,
    Vector,
    View,
    Where,
)
from knowledge.ports import Stores
from knowledge.search.lexical import term_counts
from knowledge.search.wording import glance, term_ids

_BATCHES_ON_THEIR_WAY = 3
"""So many batches may be decided whose points the index does not have yet."""


@dataclass(slots=True, kw_only=True)
class Consolidating:
    """Finds the patterns near the entries of one checkpoint, batch after batch.

    Under an embedding model without fitted weights nothing is looked for: only equal texts join (`likeness.shipped`).
    """

    stores: Stores
    _seen: Counter[int] = field(default_factory=Counter)
    """In how many situations of this checkpoint each term was seen; the lexicon does not count them yet."""
    _situations: int = 0
    _uncounted: deque[tuple[int, Counter[int]]] = field(default_factory=deque)
    """The same batch after batch, the oldest first."""
    _on_their_way: deque[list[Founder]] = field(default_factory=lambda: deque(maxlen=_BATCHES_ON_THEIR_WAY))

    async def around(self, in_use: SpaceInUse, embeddings: Sequence[Embedding]) -> Nearby | None:
        """Return the patterns that the entries may join, and what it takes to compare them."""
        model = in_use.bound.space.model
        if likeness.shipped(model) is None or not embeddings:
            self._uncounted.append((0, Counter()))
            return None
        candidates = await self._candidates(in_use.bound, embeddings)
        nearby = Nearby(comparing=await self._comparing(model, embeddings, candidates), candidates=candidates)
        # in threads, for it takes as long as embedding a text of the batch or two
        look = partial(consolidation.missing, embeddings, workspace=self.stores.workspace, nearby=nearby)
        while (missing := await asyncio.to_thread(look)).unread:
            terms = await asyncio.to_thread(_asked, missing.unread)
            nearby.comparing.learn((await self._statistics(terms)).frequencies)
        if not missing.resolutions:
            return nearby
        embedded = await in_use.embedder.embed(missing.resolutions, "document")
        return replace(nearby, resolutions=dict(zip(missing.resolutions, embedded.vectors, strict=True)))

    def decided(self, decisions: Sequence[Decision]) -> None:
        """Remember what a batch founded, until the index has it."""
        self._on_their_way.append(
            [
                Founder(pattern_id=decision.pattern_id, entry=decision.entry, situation=point.vector)
                for decision in decisions
                if decision.founds
                for point in decision.points
                if point.view is View.SITUATION
            ]
        )

    def counted(self, batches: int) -> None:
        """Forget how often terms were seen in so many batches, the oldest: the lexicon counts them now."""
        for _ in range(batches):
            situations, seen = self._uncounted.popleft()
            self._seen -= seen
            self._situations -= situations

    async def _candidates(
        self, bound: BoundSpace, embeddings: Sequence[Embedding]
    ) -> Mapping[EntryId, Sequence[Candidate]]:
        stored = await self._stored(bound, embeddings)
        late = self._late(embeddings)
        candidates: dict[EntryId, Sequence[Candidate]] = {}
        for embedding in embeddings:
            entry_id = embedding.entry.entry_id
            around = {founder.pattern_id: founder for founder in (*stored[entry_id], *late.get(entry_id, ()))}
            if around:
                vector = embedding.vectors[View.SITUATION]
                candidates[entry_id] = [_candidate(founder, vector) for founder in around.values()]
        return candidates

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
                limit=consolidation.MOST_COMPARED,
                at_least=NEAR_ENOUGH,
            )
            points |= {embedding.entry.entry_id: near for embedding, near in zip(asking, found, strict=True)}
        told = {point_id for near in points.values() for point_id in near}
        founders = await self.stores.patterns.founders(bound.space, sorted(told)) if told else {}
        return {
            entry_id: [founder for point_id in near if (founder := founders.get(point_id))]
            for entry_id, near in points.items()
        }

    def _late(self, embeddings: Sequence[Embedding]) -> Mapping[EntryId, Sequence[Founder]]:
        """Return the nearest patterns of batches that the index may not have yet."""
        late = [founder for batch in self._on_their_way for founder in batch]
        if not late:
            return {}
        asking = np.array([embedding.vectors[View.SITUATION] for embedding in embeddings])
        cosines = consolidation.cosines_of(asking, np.array([founder.situation for founder in late]))
        types = np.array([founder.entry.entry_type for founder in late])
        return {
            embedding.entry.entry_id: [
                late[at] for at in consolidation.nearest(np.where(types == embedding.entry.entry_type, row, -1.0))
            ]
            for embedding, row in zip(embeddings, cosines, strict=True)
        }

    async def _comparing(
        self, model: str, embeddings: Sequence[Embedding], candidates: Mapping[EntryId, Sequence[Candidate]]
    ) -> Comparing:
        """Return how to compare situations by their openings; the situations of the batch are counted."""
        situations = [texts.situation(embedding.entry) for embedding in embeddings]
        seen = Counter(term for situation in situations for term in term_counts(situation))
        self._uncounted.append((len(situations), seen))
        self._seen.update(seen)
        self._situations += len(situations)
        founded = {candidate.situation for around in candidates.values() for candidate in around}
        glances = await asyncio.to_thread(lambda: {text: glance(text) for text in founded.union(situations)})
        openings = frozenset[int]().union(*(seen.opening_terms for seen in glances.values()))
        return Comparing(await self._statistics(openings), model, glances)

    async def _statistics(self, asked: Collection[int]) -> TermStatistics:
        """Return how common terms are: in the lexicon, and in this checkpoint so far."""
        counted = await self.stores.spaces.statistics(sorted(asked))
        frequencies = {term: counted.frequencies.get(term, 0) + self._seen[term] for term in asked}
        return TermStatistics(documents=counted.documents + self._situations, frequencies=frequencies)


def _asked(told: Collection[str]) -> Collection[int]:
    """Return the terms of texts."""
    return frozenset[int]().union(*map(term_ids, told))


def _candidate(founder: Founder, vector: Vector) -> Candidate:
    return Candidate(
        pattern_id=founder.pattern_id,
        entry_type=founder.entry.entry_type,
        situation=texts.situation(founder.entry),
        resolution=texts.resolution(founder.entry),
        situation_cosine=rounded_cosine(founder.situation, vector),
    )
