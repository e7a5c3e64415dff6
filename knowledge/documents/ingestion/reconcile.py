"""Reconcile the index with Postgres, and purge expired data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hardwon.event_log import get_logger
from hardwon.models.documents import PassageId
from knowledge.documents.answer_cache import AnswerCache
from knowledge.documents.ingestion.queue import ActiveSpace, DocumentIndexing
from knowledge.documents.ingestion.service import DocumentLibrary
from knowledge.documents.models import PassagePoint
from knowledge.documents.parsing.passage_text import MEAN_TERMS
from knowledge.models import EmbeddingSpace
from knowledge.ports import SpaceStore
from knowledge.retrieval.reconcile import compare_pages
from knowledge.runtime.scheduling import yield_to_loop
from knowledge.text.bm25 import document_vector, term_counts

log = get_logger(__name__)

_PAGE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileReport:
    """Repairs of a comparison of the index with Postgres."""

    requeued: int = 0
    written: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUpkeep:
    """Maintenance jobs of the documents of one workspace."""

    indexing: DocumentIndexing
    library: DocumentLibrary
    spaces: SpaceStore
    answers: AnswerCache

    async def reconcile(self) -> ReconcileReport:
        """Remove stale generations, queue documents of another embedding model again, and repair the index.

        Missing points are written from stored embeddings, orphaned ones deleted. Equal numbers of points do not prove
        equality: an index restored from a backup may hold others. If any were missing, cached answers are invalidated.
        """
        store, index = self.indexing.store, self.indexing.index
        if await self.spaces.bound() is None:
            return ReconcileReport()  # nothing is embedded yet
        active = await self.indexing.active_space()
        await index.ensure(active.space)
        removed = await self.indexing.remove_stale()
        requeued = await store.requeue(active.space)
        written, strange = await self.compare(active)
        if written:
            await store.renew()
        if written or strange:
            log.warning("passages_reconciled", written=written, removed=strange)
        return ReconcileReport(requeued=requeued, written=written, removed=removed + strange)

    async def restore_missing(self) -> int:
        """Write the missing points if the index holds fewer than it must; return their number.

        A killed rebuild or an older backup leaves such an index; without scheduled jobs nothing else repairs it.
        """
        if not await self.indexing.store.has_documents():
            return 0
        active = await self.indexing.active_space()
        await self.indexing.index.ensure(active.space)
        shown = await self.indexing.store.count_shown(
            active.space
        )  # before the count: changes in between are not a loss
        if await self.indexing.index.count(active.space, self.indexing.workspace) >= shown:
            return 0
        written, _ = await self.compare(active)
        if written:
            await self.indexing.store.renew()
            log.warning("passages_put_back", written=written)
        return written

    async def compare(self, active: ActiveSpace) -> tuple[int, int]:
        """Write the points missing from the index of a space, and delete orphaned ones; return both numbers."""
        written = removed = 0
        async for after, lacking, strange in self._pages(active.space):
            await self.indexing.index.delete(active.space, strange)
            removed += len(strange)
            if lacking:
                points = await self.indexing.store.points(active.space, after=after, limit=_PAGE)
                missing = [each for each in points if each[0].passage_id in lacking]
                await self.indexing.index.upsert(active.space, _with_lexical_vectors(missing))
                written += len(missing)
        return written, removed

    async def count_differences(self, active: ActiveSpace) -> tuple[int, int]:
        """Return the number of missing points of a space, and of orphaned ones; work in progress does not count.

        Differences are checked again: a point is written before it is shown, and deleted before its row is.
        """
        index, store = self.indexing.index, self.indexing.store
        missing = orphan = 0
        async for after, lacking, strange in self._pages(active.space):
            if lacking:
                gone = set(await index.find_missing(active.space, [*lacking]))
                membership = await store.index_membership(after=after, limit=_PAGE)
                missing += sum(membership.get(each, False) for each in gone)
            if strange:  # those with a row that is not shown will be removed as stale
                existing = await store.find_existing(strange)
                gone = set(await index.find_missing(active.space, strange))
                orphan += len(set(strange) - existing - gone)
        return missing, orphan

    async def _pages(
        self, space: EmbeddingSpace
    ) -> AsyncIterator[tuple[PassageId | None, frozenset[PassageId], tuple[PassageId, ...]]]:
        """Yield the missing and the orphaned points of a space, page by page, with the id that the page comes after.

        A document's points are written before it is shown, so Postgres is read after the index: a point that is neither
        shown nor about to be by then is orphaned.
        """
        index, store = self.indexing.index, self.indexing.store
        after: PassageId | None = None
        while True:
            ids = await index.scan(space, self.indexing.workspace, after=after, limit=_PAGE)
            membership = await store.index_membership(after=after, limit=_PAGE)
            stretch = compare_pages(ids, membership, page=_PAGE)
            yield after, stretch.missing, stretch.unexpected
            if stretch.end is None:
                return
            after = stretch.end
            await yield_to_loop()

    async def sweep_cases(self) -> int:
        """Hide documents of closed cases whose retention is over, and remove their points; return their number."""
        swept = await self.library.documents.close_due()
        if swept:
            await self.indexing.remove_stale()
        return swept

    async def purge(self) -> int:
        """Delete embeddings of texts that no passage has any more; return their number."""
        return await self.indexing.store.purge_vectors()

    async def purge_answers(self) -> int:
        """Delete expired answers; return their number."""
        return await self.answers.purge()


def _with_lexical_vectors(points: Sequence[tuple[PassagePoint, str]]) -> list[PassagePoint]:
    """Return points with the lexical vectors of their texts."""
    return [replace(point, lexical=document_vector(term_counts(text), MEAN_TERMS)) for point, text in points]
