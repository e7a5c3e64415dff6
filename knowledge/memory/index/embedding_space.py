"""The embedding space of a store: bound at its first checkpoint, checked at each use, recalibrated as it grows."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knowledge.memory.index.residency import WorkspaceEmbedder, refuse_remote
from knowledge.memory.rules import embedding_text
from knowledge.models import BoundSpace, Entry, TermStatistics, Vector, View
from knowledge.ports import Embedder, Stores
from knowledge.retrieval.calibration import default_calibration, recalibrate
from knowledge.retrieval.cosine_scale import rescale_cosine, stretch_factor
from knowledge.retrieval.fusion import fuse
from knowledge.retrieval.space_mismatch import space_mismatch
from knowledge.text.bm25 import DEFAULT_MEAN_TERMS, document_vector, mean_terms, query_vector, term_counts

MIN_SITUATIONS = 200
"""From this many on, relevance 0 is calibrated on the store's own unrelated texts; again at each doubling."""

_MIN_ENTRIES_FOR_MEAN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceInUse:
    """The bound space and its embedder, together, since the store may switch to another model at any time."""

    bound: BoundSpace
    embedder: Embedder


async def space_in_use(stores: Stores) -> SpaceInUse | None:
    """Return the bound space, None before the first embedding. Raises SpaceMismatch for another embedder's."""
    bound = await stores.spaces.bound()
    return None if bound is None else await use_space(stores, bound)


async def use_space(stores: Stores, bound: BoundSpace) -> SpaceInUse:
    """Return the bound space with its embedder. Raises SpaceMismatch for another embedder's."""
    embedder = await _embedder_of(stores, bound)
    if embedder is None:
        raise space_mismatch(bound.space, await stores.embedder.space())
    return SpaceInUse(bound=bound, embedder=WorkspaceEmbedder(stores, embedder))


async def bind_space(stores: Stores, entries: Sequence[Entry], *, previous: SpaceInUse | None) -> SpaceInUse:
    """Return the space to embed into; the first caller binds it, with the mean length of the texts it will embed.

    `previous`: the caller's previous result, whose collection exists.
    """
    bound = await stores.spaces.bound()
    if bound is None or (await _embedder_of(stores, bound)) is None:
        space = await stores.embedder.space()
        await refuse_remote(stores, space)
        length = await asyncio.to_thread(_mean_terms, entries)
        bound = await stores.spaces.bind(space, mean_terms=length, calibration=default_calibration(space.model))
    if previous is None or previous.bound.space.collection != bound.space.collection:
        await stores.index.ensure(bound.space)
    return SpaceInUse(bound=bound, embedder=WorkspaceEmbedder(stores, await stores.embedder.embedder_for(bound.space)))


def _mean_terms(entries: Sequence[Entry]) -> float:
    if len(entries) < _MIN_ENTRIES_FOR_MEAN:
        return DEFAULT_MEAN_TERMS
    return mean_terms(term_counts(text) for entry in entries for text in embedding_text.views(entry).values())


async def is_retired(stores: Stores, bound: BoundSpace) -> bool:
    """Return whether another collection is in use now; that of this space may have been dropped."""
    now = await stores.spaces.bound()
    return now is not None and now.space.collection != bound.space.collection


async def _embedder_of(stores: Stores, bound: BoundSpace) -> Embedder | None:
    embedder = await stores.embedder.embedder_for(bound.space)
    return embedder if (await embedder.space()).fingerprint == bound.space.fingerprint else None


async def recalibrate_if_grown(stores: Stores, bound: BoundSpace, documents_before: int, documents: int) -> None:
    """Recalibrate the space when the number of situations crossed `MIN_SITUATIONS` times a power of two."""

    def steps(number: int) -> int:
        return math.floor(math.log2(number / MIN_SITUATIONS)) if number >= MIN_SITUATIONS else -1

    if steps(documents) <= steps(documents_before):
        return
    now = await stores.spaces.bound()  # another model's space was calibrated with its first vectors
    if now is None or now.space.fingerprint != bound.space.fingerprint:
        return
    entries, vectors = await stores.spaces.sample_situations(now.space, 2 * MIN_SITUATIONS)
    read = await embedding_text.all_as_embedded(entries)
    situations = [read[entry.entry_id][View.SITUATION] for entry in entries]
    scores = await asyncio.to_thread(score_unrelated, situations, vectors, now.mean_terms, stretch_factor(now))
    await stores.spaces.recalibrate(now.space, recalibrate(default_calibration(now.space.model), scores))


def score_unrelated(situations: Sequence[str], vectors: Vector, length: float, by: float | None = None) -> list[float]:
    """Return the fused scores of each text, as a query, with the text half the list away.

    Two texts picked at random are nearly always unrelated; the median is robust against the rest. `vectors`: (n, dims);
    their cosines are stretched `by` this factor (`knowledge.retrieval.cosine_scale`).
    """
    term_counts_of_texts = [term_counts(text) for text in situations]
    statistics = TermStatistics(
        documents=len(term_counts_of_texts),
        frequencies=Counter(term for counts in term_counts_of_texts for term in counts),
    )
    scores = []
    for place in range(len(term_counts_of_texts)):
        other = (place + len(term_counts_of_texts) // 2) % len(term_counts_of_texts)
        if other == place:
            continue
        query, weight = query_vector(term_counts_of_texts[place], statistics)
        document = document_vector(term_counts_of_texts[other], length)
        weights = dict(zip(document.indices, document.values, strict=True))
        bm25 = sum(value * weights.get(index, 0.0) for index, value in zip(query.indices, query.values, strict=True))
        cosine = rescale_cosine(float(np.dot(vectors[place], vectors[other])), by)
        scores.append(fuse(cosine, bm25, weight))
    return scores
