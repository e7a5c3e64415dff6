"""Documents during a rebuild, a change of the embedding model, or an import from an archive.

Passages keep their texts and ids; only their vectors change, and the index that holds these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, Protocol

from hardwon.event_log import get_logger
from hardwon.models.maintenance import IndexHealth, RecallSample
from knowledge.documents.ingestion.queue import ActiveSpace, max_passage_tokens
from knowledge.documents.ingestion.reconcile import DocumentUpkeep
from knowledge.documents.models import PassageWhere
from knowledge.models import EmbeddingSpace, IndexDrift, RefillReport, SparseVector, Vector
from knowledge.ports import Embedder, Progress
from knowledge.retrieval.recall import RECALL_AT, recall_at_k

log = get_logger(__name__)

_BATCH: Final = 64
_NO_WORDS: Final = SparseVector(indices=(), values=())


class MovingStore(Protocol):
    """Embeddings of the passages of one workspace, by space."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return the number of shown passages, and of those among them without an embedding in a space."""

    async def missing_texts(self, space: EmbeddingSpace, limit: int) -> Mapping[bytes, str]:
        """Return texts of shown passages without an embedding in a space, by their hashes."""

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` texts of passages in two spaces, (n, dims) each, row by row alike.

        They are sampled evenly from all that have one in both.
        """

    async def adopt(self, before: EmbeddingSpace, space: EmbeddingSpace) -> int:
        """Mark the versions indexed for a space as indexed for another; return their number."""

    async def forget(self, space: EmbeddingSpace) -> None:
        """Delete the embeddings and the measured scale of a space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentMoves:
    """Moves the documents of one workspace. `within` wraps an embedder so that it gets only texts that it may see."""

    store: MovingStore
    upkeep: DocumentUpkeep
    within: Callable[[Embedder], Embedder]

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return the number of points that the index must hold, and of those without an embedding in a space."""
        return await self.store.tally(space)

    async def verify(self, *, repair: bool = False) -> IndexDrift:
        """Compare the points of the space in use with Postgres; with `repair` fix the differences.

        A second repair writes nothing, and work in progress does not count as a difference. Points are immutable: one
        exists or is missing.
        """
        if not (await self._has_documents()):
            return IndexDrift()
        indexing = self.upkeep.indexing
        active = await indexing.active_space()
        await indexing.index.ensure(active.space)
        if repair:
            await indexing.remove_stale()
        points, _ = await self.store.tally(active.space)
        missing, orphan = await self.upkeep.count_differences(active)
        if repair and (missing or orphan):
            await self.refill()
        return IndexDrift(points=points, missing=missing, orphan=orphan)

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the points of a space, those of all workspaces, and create its collection again."""
        await self.upkeep.indexing.index.recreate(space)

    async def refill(self, *, progress: Progress | None = None) -> RefillReport:
        """Write every missing point into the index in use, from stored embeddings where there are any.

        Search results change, so cached answers are invalidated.
        """
        if not (await self._has_documents()):
            return RefillReport()
        moved = await self._fill(await self.upkeep.indexing.active_space(), progress)
        await self.upkeep.indexing.store.renew()
        return moved

    async def backfill(
        self, space: EmbeddingSpace, embedder: Embedder, *, progress: Progress | None = None
    ) -> RefillReport:
        """Write every point into the index of another space, embedded by its embedder; stored embeddings are reused."""
        if not (await self._has_documents()):
            return RefillReport()
        return await self._fill(ActiveSpace(space=space, embedder=self.within(embedder)), progress)

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` of their texts in two spaces, (n, dims) each, row by row alike."""
        return await self.store.sample_in_both(one, other, limit)

    async def recall(self, space: EmbeddingSpace, limit: int) -> list[RecallSample]:
        """Search for up to `limit` passages as questions do and exactly; return the recall by conditions."""
        index, stored = (
            self.upkeep.indexing.index,
            await self.upkeep.indexing.store.points(space, after=None, limit=limit),
        )
        recalls: defaultdict[str, list[float]] = defaultdict(list)
        for point, _ in stored:
            base = PassageWhere(workspace=point.workspace, partitions=(point.partition,))
            document = replace(base, documents=frozenset([point.document_id]))
            for conditions, where in (("knowledge base", base), ("knowledge base, document", document)):
                exact, found = [
                    await index.search(space, point.dense, _NO_WORDS, where, limit=RECALL_AT, exact=exact)
                    for exact in (True, False)
                ]
                recalls[conditions].append(recall_at_k([hit.cosine for hit in exact], [hit.cosine for hit in found]))
        return [
            RecallSample(collection="passages", conditions=conditions, searches=len(each), recall=fmean(each))
            for conditions, each in recalls.items()
        ]

    async def health(self, space: EmbeddingSpace) -> IndexHealth:
        """Return the state of the collection of a space. Raises IndexUnavailable."""
        if not (await self._has_documents()):
            return IndexHealth()
        return await self.upkeep.indexing.index.health(space)

    async def layout_differences(self, space: EmbeddingSpace) -> list[str]:
        """Return in which points the collection of a space is not laid out as the settings ask, in words."""
        return await self.upkeep.indexing.index.layout_differences(space)

    async def is_built(self, space: EmbeddingSpace) -> bool:
        """Return whether the index has finished its work on the collection of a space; True where there is none."""
        return await self.upkeep.indexing.index.is_built(space)

    async def note_switch(self, before: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Record that another space is in use now, and is filled.

        If its model reads fewer tokens than passages have, these are found by their beginnings until `reconcile` has
        queued them to be split again.
        """
        if not (await self._has_documents()):
            return
        most = self.upkeep.indexing.chunk_tokens
        if max_passage_tokens(space, most) >= max_passage_tokens(before, most):
            await self.store.adopt(before, space)
        await self.upkeep.indexing.store.renew()

    async def leave(self, space: EmbeddingSpace) -> None:
        """Delete the points of a space that is not in use, those of all workspaces; embeddings stay.

        No search uses them any more, and later deletions do not reach them.
        """
        await self.upkeep.indexing.index.drop(space)

    async def forget(self, space: EmbeddingSpace) -> None:
        """Delete the points and embeddings of a space that is not in use."""
        await self.upkeep.indexing.index.drop(space)
        await self.store.forget(space)

    async def _has_documents(self) -> bool:
        return await self.upkeep.indexing.store.has_documents()

    async def _fill(self, active: ActiveSpace, progress: Progress | None) -> RefillReport:
        indexing = self.upkeep.indexing
        await indexing.index.ensure(active.space)
        embedded = 0
        while texts := await self.store.missing_texts(active.space, _BATCH):
            made = await active.embedder.embed(list(texts.values()), "document")
            await indexing.store.keep_vectors(active.space, dict(zip(texts, made.vectors, strict=True)))
            embedded += len(texts)
            if progress:
                progress(embedded, None)
        points, _ = await self.upkeep.compare(active)
        log.info("passages_written", points=points, embedded=embedded, model=active.space.model)
        return RefillReport(points=points, embedded=embedded)
