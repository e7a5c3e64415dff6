"""State of the index: recall of searches under the conditions of real queries, layout, nodes and replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from hardwon.models.maintenance import LEAST_RECALL, IndexHealth, RecallReport, RecallSample
from knowledge.memory.index.embedding_space import space_in_use
from knowledge.memory.maintenance.ports import DocumentUpkeep
from knowledge.models import EmbeddingSpace, Entry, PointFilter, SparseVector, Vector
from knowledge.ports import Stores
from knowledge.retrieval.recall import RECALL_AT, recall_at_k

_NO_WORDS = SparseVector(indices=(), values=())
_REBUILD = "run `hardwon rebuild --layout`"


async def layout_differences(stores: Stores, documents: DocumentUpkeep, space: EmbeddingSpace) -> tuple[str, ...]:
    """Return in which points the collections in use are not laid out as the settings ask, in words."""
    of_points = await stores.index.layout_differences(space)
    of_passages = await documents.layout_differences(space)
    return tuple(dict.fromkeys([*of_points, *of_passages]))


async def examine_index(stores: Stores, documents: DocumentUpkeep) -> IndexHealth:
    """Return the state of the index and of the collections in use. Raises IndexUnavailable."""
    bound = await stores.spaces.bound()
    if bound is None:
        return IndexHealth()
    of_points, of_passages = await stores.index.health(bound.space), await documents.health(bound.space)
    return replace(
        of_points,
        collections=(*of_points.collections, *of_passages.collections),
        problems=tuple(dict.fromkeys([*of_points.problems, *of_passages.problems])),
        advice=tuple(dict.fromkeys([*of_points.advice, *of_passages.advice])),
    )


async def measure_recall(stores: Stores, documents: DocumentUpkeep, limit: int) -> RecallReport:
    """Search for up to `limit` stored situations, and as many passages, as queries do and exactly; compare both."""
    in_use = await space_in_use(stores)
    if in_use is None:
        return RecallReport()
    space = in_use.bound.space
    entries, vectors = await stores.spaces.sample_situations(space, limit)
    samples = [*await _sample_patterns(stores, space, entries, vectors), *await documents.recall(space, limit)]
    advice = [
        f"searches of {each.collection} by {each.conditions} find {each.recall:.0%} of what an exact one finds:"
        f" {_REBUILD}, and if that does not help, tell us"
        for each in samples
        if each.recall < LEAST_RECALL
    ]
    if differences := await layout_differences(stores, documents, space):
        advice.append(f"the collections are not laid out as the settings ask ({'; '.join(differences)}): {_REBUILD}")
    return RecallReport(samples=tuple(samples), advice=tuple(advice))


async def _sample_patterns(
    stores: Stores, space: EmbeddingSpace, entries: Sequence[Entry], vectors: Vector
) -> list[RecallSample]:
    recalls: defaultdict[str, list[float]] = defaultdict(list)
    for entry, vector in zip(entries, vectors, strict=True):
        for conditions, where in _filters(entry, PointFilter(workspace=stores.workspace, live_at=stores.clock.now())):
            exact, found = [
                await stores.index.search(space, vector, _NO_WORDS, where, limit=RECALL_AT, exact=exact)
                for exact in (True, False)
            ]
            recalls[conditions].append(recall_at_k([hit.cosine for hit in exact], [hit.cosine for hit in found]))
    return [
        RecallSample(collection="patterns", conditions=conditions, searches=len(each), recall=fmean(each))
        for conditions, each in recalls.items()
    ]


def _filters(entry: Entry, anywhere: PointFilter) -> list[tuple[str, PointFilter]]:
    """Return the conditions that a query for such an entry has: the workspace alone, then its fields, one more each."""
    filters = [("workspace", anywhere)]
    for name in ("technology", "agent_type", "task_type"):
        value = getattr(entry, name)
        if value is not None:
            named, where = filters[-1]
            filters.append((f"{named}, {name}", replace(where, **{name: value})))
    return filters
