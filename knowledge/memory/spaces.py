"""Which embedding space a store is in: bound at its first checkpoint, checked at each use, recalibrated in time."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knowledge.memory import texts
from knowledge.memory.locality import WorkspaceEmbedder, refuse_remote
from knowledge.mismatch import mismatch
from knowledge.models import BoundSpace, Entry, TermStatistics, Vector, View
from knowledge.ports import Embedder, Stores
from knowledge.search.calibration import recalibrate, shipped
from knowledge.search.cosines import stretch, stretched
from knowledge.search.fusion import fuse
from knowledge.search.lexical import DEFAULT_MEAN_TERMS, document_vector, mean_terms, query_vector, term_counts

ENOUGH_SITUATIONS = 200
"""From this many on, a store's own unrelated texts say where relevance 0 lies; again at each doubling."""

_ENOUGH_FOR_A_MEAN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceInUse:
    """The bound space, and the embedder of it: a switch to another one may come at any time, and mixes nothing."""

    bound: BoundSpace
    embedder: Embedder


async def space_in_use(stores: Stores) -> SpaceInUse | None:
    """Return the bound space, None while nothing was ever embedded. Raises SpaceMismatch for another embedder's."""
    bound = await stores.spaces.bound()
    if bound is None:
        return None
    embedder = await _embedder_of(stores, bound)
    if embedder is None:
        raise mismatch(bound.space, await stores.embedder.space())
    return SpaceInUse(bound=bound, embedder=WorkspaceEmbedder(stores, embedder))


async def bind_space(stores: Stores, entries: Sequence[Entry], *, known: SpaceInUse | None) -> SpaceInUse:
    """Return the space to embed into; the first caller binds it, with the mean length of what it is about to embed.

    `known` is what the caller got before: its collection is there.
    """
    bound = await stores.spaces.bound()
    if bound is None or (await _embedder_of(stores, bound)) is None:
        space = await stores.embedder.space()
        await refuse_remote(stores, space)
        length = await asyncio.to_thread(_mean_terms, entries)
        bound = await stores.spaces.bind(space, mean_terms=length, calibration=shipped(space.model))
    if known is None or known.bound.space.fingerprint != bound.space.fingerprint:
        await stores.index.ensure(bound.space)
    return SpaceInUse(bound=bound, embedder=WorkspaceEmbedder(stores, await stores.embedder.of_space(bound.space)))


def _mean_terms(entries: Sequence[Entry]) -> float:
    if len(entries) < _ENOUGH_FOR_A_MEAN:
        return DEFAULT_MEAN_TERMS
    return mean_terms(term_counts(texts.situation(entry)) for entry in entries)


async def was_left(stores: Stores, bound: BoundSpace) -> bool:
    """Return whether another space came into use: the index of this one may have been dropped since."""
    now = await stores.spaces.bound()
    return now is not None and now.space.fingerprint != bound.space.fingerprint


async def _embedder_of(stores: Stores, bound: BoundSpace) -> Embedder | None:
    embedder = await stores.embedder.of_space(bound.space)
    return embedder if (await embedder.space()).fingerprint == bound.space.fingerprint else None


async def recalibrate_if_grown(stores: Stores, bound: BoundSpace, documents_before: int, documents: int) -> None:
    """Recalibrate the space when the number of situations crossed `ENOUGH_SITUATIONS` times a power of two."""

    def steps(number: int) -> int:
        return math.floor(math.log2(number / ENOUGH_SITUATIONS)) if number >= ENOUGH_SITUATIONS else -1

    if steps(documents) <= steps(documents_before):
        return
    now = await stores.spaces.bound()  # how alike its model finds unrelated texts came with its first vectors
    if now is None or now.space.fingerprint != bound.space.fingerprint:
        return
    entries, vectors = await stores.spaces.sample_situations(now.space, 2 * ENOUGH_SITUATIONS)
    read = await texts.all_as_embedded(entries)
    told = [read[entry.entry_id][View.SITUATION] for entry in entries]
    scores = await asyncio.to_thread(score_unrelated, told, vectors, now.mean_terms, stretch(now))
    await stores.spaces.recalibrate(now.space, recalibrate(shipped(now.space.model), scores))


def score_unrelated(situations: Sequence[str], vectors: Vector, length: float, by: float | None = None) -> list[float]:
    """Return the fused scores of each text asked for and another one, half the list away.

    Two texts picked blindly are unrelated nearly always; the median does not mind the rest. `vectors`: (n, dims); their
    cosines are stretched `by` so much (`knowledge.search.cosines`).
    """
    counted = [term_counts(text) for text in situations]
    statistics = TermStatistics(
        documents=len(counted), frequencies=Counter(term for counts in counted for term in counts)
    )
    scores = []
    for asked in range(len(counted)):
        other = (asked + len(counted) // 2) % len(counted)
        if other == asked:
            continue
        query, weight = query_vector(counted[asked], statistics)
        stored = document_vector(counted[other], length)
        weights = dict(zip(stored.indices, stored.values, strict=True))
        bm25 = sum(value * weights.get(index, 0.0) for index, value in zip(query.indices, query.values, strict=True))
        cosine = stretched(float(np.dot(vectors[asked], vectors[other])), by)
        scores.append(fuse(cosine, bm25, weight))
    return scores
