"""Keeping the index as Postgres says, and letting go of what nobody may see any more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.differing import compare_pages
from knowledge.documents.answer_cache import AnswerCache
from knowledge.documents.indexing import DocumentIndexing, Room
from knowledge.documents.library import DocumentLibrary
from knowledge.documents.models import PassageId, PassagePoint
from knowledge.documents.texts import MEAN_TERMS
from knowledge.logs import get_logger
from knowledge.models import EmbeddingSpace
from knowledge.ports import SpaceStore
from knowledge.search.lexical import document_vector, term_counts
from knowledge.turns import yield_to_loop

log = get_logger(__name__)

_PAGE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a comparison of the index with Postgres put right."""

    requeued: int = 0
    written: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentUpkeep:
    """The jobs of one workspace's documents."""

    indexing: DocumentIndexing
    library: DocumentLibrary
    spaces: SpaceStore
    answers: AnswerCache

    async def reconcile(self) -> Reconciled:
        """Remove what is stale; have documents of another embedding model indexed again; compare the index.

        Points that are missing are written, from kept embeddings, and those that nothing stands for are removed. As
        many may be there as there should be, and be others: of an index that was put back from a copy. Where any were
        missing, answers that were kept meanwhile are not given any more.
        """
        store, index = self.indexing.store, self.indexing.index
        if await self.spaces.bound() is None:
            return Reconciled()  # nothing was embedded yet
        room = await self.indexing.room()
        await index.ensure(room.space)
        removed = await self.indexing.remove_stale()
        requeued = await store.requeue(room.space)
        written, strange = await self.compare(room)
        if written:
            await store.renew()
        if written or strange:
            log.warning("passages_reconciled", written=written, removed=strange)
        return Reconciled(requeued=requeued, written=written, removed=removed + strange)

    async def put_back(self) -> int:
        """Write what the index lost, where it holds fewer points than it must; return how many.

        A rebuild that was killed leaves that, or an older copy: where no jobs run, nobody else comes to it.
        """
        if not await self.indexing.store.anything():
            return 0
        room = await self.indexing.room()
        await self.indexing.index.ensure(room.space)
        shown = await self.indexing.store.shown(room.space)  # first: what comes and goes in between is no loss
        if await self.indexing.index.count(room.space, self.indexing.workspace) >= shown:
            return 0
        written, _ = await self.compare(room)
        if written:
            await self.indexing.store.renew()
            log.warning("passages_put_back", written=written)
        return written

    async def compare(self, room: Room) -> tuple[int, int]:
        """Write the points that lack in the index of a space, and remove those of nothing; return how many of each."""
        written = removed = 0
        async for after, lacking, strange in self._stretches(room.space):
            await self.indexing.index.delete(room.space, strange)
            removed += len(strange)
            if lacking:
                stretch = await self.indexing.store.points(room.space, after=after, limit=_PAGE)
                missing = [each for each in stretch if each[0].passage_id in lacking]
                await self.indexing.index.upsert(room.space, _with_words(missing))
                written += len(missing)
        return written, removed

    async def differing(self, room: Room) -> tuple[int, int]:
        """Return how many points lack in the index of a space, and how many are of nothing; what goes on is no fault.

        What differs is looked at again: a point is there before it is shown, and gone before its row is.
        """
        index, store = self.indexing.index, self.indexing.store
        missing = orphan = 0
        async for after, lacking, strange in self._stretches(room.space):
            if lacking:
                gone = set(await index.find_missing(room.space, [*lacking]))
                standing = await store.standing(after=after, limit=_PAGE)
                missing += sum(standing.get(each, False) for each in gone)
            if strange:  # what has a row and is not shown is to be removed, and will be
                known = await store.written(strange)
                gone = set(await index.find_missing(room.space, strange))
                orphan += len(set(strange) - known - gone)
        return missing, orphan

    async def _stretches(
        self, space: EmbeddingSpace
    ) -> AsyncIterator[tuple[PassageId | None, frozenset[PassageId], tuple[PassageId, ...]]]:
        """Yield the points of a space that lack in the index and those of nothing, a stretch of ids at a time.

        With the id that the stretch is behind. What is being indexed is in the index before it is shown, so Postgres is
        read after the index: a point that is neither shown nor on its way by then is of something that was over before.
        """
        index, store = self.indexing.index, self.indexing.store
        after: PassageId | None = None
        while True:
            there = await index.scan(space, self.indexing.workspace, after=after, limit=_PAGE)
            standing = await store.standing(after=after, limit=_PAGE)
            stretch = compare_pages(there, standing, page=_PAGE)
            yield after, stretch.missing, stretch.unexpected
            if stretch.end is None:
                return
            after = stretch.end
            await yield_to_loop()

    async def sweep_cases(self) -> int:
        """Hide what is left of closed cases, then remove it from the index; return how many documents."""
        swept = await self.library.documents.close_due()
        if swept:
            await self.indexing.remove_stale()
        return swept

    async def purge(self) -> int:
        """Delete embeddings of texts that no passage has any more; return how many."""
        return await self.indexing.store.purge_vectors()

    async def purge_answers(self) -> int:
        """Delete kept answers that are past their time; return how many."""
        return await self.answers.purge()


def _with_words(found: Sequence[tuple[PassagePoint, str]]) -> list[PassagePoint]:
    """Return points with the lexical vectors of their texts."""
    return [replace(point, lexical=document_vector(term_counts(text), MEAN_TERMS)) for point, text in found]
