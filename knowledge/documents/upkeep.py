"""Keeping the index as Postgres says, and letting go of what nobody may see any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.documents.indexing import DocumentIndexing, Room
from knowledge.documents.library import DocumentLibrary
from knowledge.documents.models import PassageId, PassagePoint
from knowledge.documents.texts import MEAN_TERMS
from knowledge.logs import get_logger
from knowledge.ports import SpaceStore
from knowledge.search.lexical import document_vector, term_counts
from knowledge.turns import let_others_run

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

    async def reconcile(self) -> Reconciled:
        """Remove what is stale; have documents of another embedding model indexed again; compare the index.

        Where the index holds another number of points than Postgres, each point is compared: those that are missing
        are written, from kept embeddings, and those that nothing stands for are removed.
        """
        store, index = self.indexing.store, self.indexing.index
        if await self.spaces.bound() is None:
            return Reconciled()  # nothing was embedded yet
        room = await self.indexing.room()
        await index.ensure(room.space)
        removed = await self.indexing.remove_stale()
        requeued = await store.requeue(room.space)
        for other in await self.spaces.known():
            if other.fingerprint != room.space.fingerprint:
                await index.drop(other)  # no search looks there any more
        written = 0
        if await index.count(room.space, self.indexing.workspace) != await store.count_points():
            written, strange = await self.compare(room)
            if written or strange:
                log.warning("passages_reconciled", written=written, removed=strange)
            removed += strange
        return Reconciled(requeued=requeued, written=written, removed=removed)

    async def compare(self, room: Room) -> tuple[int, int]:
        """Write the points that lack in the index of a space, and remove those of nothing; return how many of each.

        What is being indexed is in the index before it is shown. So what is on its way is read after the index and
        before what is shown: a point of neither is of something that was over before.
        """
        there: set[PassageId] = set()
        after: PassageId | None = None
        while found := await self.indexing.index.scan(room.space, self.indexing.workspace, after=after, limit=_PAGE):
            there.update(found)
            after = found[-1]
        on_their_way = set(await self.indexing.store.on_their_way())
        written, known, last = 0, set[PassageId](), None
        while page := await self.indexing.store.points(room.space, after=last, limit=_PAGE):
            last = page[-1][0].passage_id
            known.update(point.passage_id for point, _ in page)
            missing = [each for each in page if each[0].passage_id not in there]
            await self.indexing.index.upsert(room.space, _with_words(missing))
            written += len(missing)
            await let_others_run()
        strange = sorted(there - known - on_their_way)
        await self.indexing.index.delete(room.space, strange)
        return written, len(strange)

    async def sweep_cases(self) -> int:
        """Hide what is left of closed cases, then remove it from the index; return how many documents."""
        swept = await self.library.documents.close_due()
        if swept:
            await self.indexing.remove_stale()
        return swept

    async def purge(self) -> int:
        """Delete embeddings of texts that no passage has any more; return how many."""
        return await self.indexing.store.purge_vectors()


def _with_words(found: Sequence[tuple[PassagePoint, str]]) -> list[PassagePoint]:
    """Return points with the lexical vectors of their texts."""
    return [replace(point, lexical=document_vector(term_counts(text), MEAN_TERMS)) for point, text in found]
