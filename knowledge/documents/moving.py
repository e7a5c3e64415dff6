"""Documents where a whole store is rebuilt, changes its embedding model, or came out of an archive.

Passages stay as they were cut and keep their ids: what changes is their vectors, and where those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from knowledge.documents.indexing import Room, longest_passage
from knowledge.documents.upkeep import DocumentUpkeep
from knowledge.logs import get_logger
from knowledge.models import EmbeddingSpace, IndexDrift, RefillReport, Vector
from knowledge.ports import Embedder, Progress

log = get_logger(__name__)

_AT_ONCE: Final = 64


class MovingStore(Protocol):
    """What of one workspace's passages has embeddings in which space."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return how many passages are shown, and how many of them have no embedding in a space."""
        ...

    async def missing_texts(self, space: EmbeddingSpace, limit: int) -> Mapping[bytes, str]:
        """Return texts of shown passages without an embedding in a space, by their hashes."""
        ...

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` texts of passages in two spaces, (n, dims) each, row by row alike.

        They are spread over all that have one in both.
        """
        ...

    async def adopt(self, before: EmbeddingSpace, space: EmbeddingSpace) -> int:
        """Have what was indexed for a space count as indexed for another; return how many versions."""
        ...

    async def forget(self, space: EmbeddingSpace) -> None:
        """Delete embeddings and measured scale of a space."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentMoves:
    """The documents of one workspace. `within`: an embedder that gets only texts that may go to it."""

    store: MovingStore
    upkeep: DocumentUpkeep
    within: Callable[[Embedder], Embedder]

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return how many points the index is to hold, and how many of them have no embedding in a space."""
        return await self.store.tally(space)

    async def verify(self, *, repair: bool = False) -> IndexDrift:
        """Compare the points of the space in use with Postgres; with `repair` put right what differs.

        A second repair writes nothing, and work that goes on meanwhile is no fault. A point is what its id says: none
        is ever changed, so it is there or not.
        """
        if not (await self._any()):
            return IndexDrift()
        indexing = self.upkeep.indexing
        room = await indexing.room()
        await indexing.index.ensure(room.space)
        if repair:
            await indexing.remove_stale()
        points, _ = await self.store.tally(room.space)
        missing, orphan = await self.upkeep.differing(room)
        if repair and (missing or orphan):
            await self.refill()
        return IndexDrift(points=points, missing=missing, orphan=orphan)

    async def drop(self, space: EmbeddingSpace) -> None:
        """Drop the points of a space, those of all workspaces, and make room for them anew."""
        await self.upkeep.indexing.index.anew(space)

    async def refill(self, *, progress: Progress | None = None) -> RefillReport:
        """Put every point that lacks into the index in use, from kept embeddings where there are any.

        What is found changes, so no answer that was kept meanwhile is given afterwards.
        """
        if not (await self._any()):
            return RefillReport()
        moved = await self._filled(await self.upkeep.indexing.room(), progress)
        await self.upkeep.indexing.store.renew()
        return moved

    async def backfill(
        self, space: EmbeddingSpace, embedder: Embedder, *, progress: Progress | None = None
    ) -> RefillReport:
        """Put every point into the index of another space, embedded by its embedder; what was embedded is kept."""
        if not (await self._any()):
            return RefillReport()
        return await self._filled(Room(space=space, embedder=self.within(embedder)), progress)

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        """Return vectors of up to `limit` of their texts in two spaces, (n, dims) each, row by row alike."""
        return await self.store.sample_in_both(one, other, limit)

    async def note_switch(self, before: EmbeddingSpace, space: EmbeddingSpace) -> None:
        """Take note that another space is in use now, and was filled.

        Where its model reads less than passages were cut for, they are found by their beginnings until `reconcile` has
        had them cut anew.
        """
        if not (await self._any()):
            return
        most = self.upkeep.indexing.chunk_tokens
        if longest_passage(space, most) >= longest_passage(before, most):
            await self.store.adopt(before, space)
        await self.upkeep.indexing.store.renew()

    async def leave(self, space: EmbeddingSpace) -> None:
        """Drop the points of a space that is not in use, those of all workspaces; embeddings stay.

        No search looks there any more, and what is deleted from now on is deleted where one does.
        """
        await self.upkeep.indexing.index.drop(space)

    async def forget(self, space: EmbeddingSpace) -> None:
        """Drop what there is of a space that is not in use."""
        await self.upkeep.indexing.index.drop(space)
        await self.store.forget(space)

    async def _any(self) -> bool:
        return await self.upkeep.indexing.store.anything()

    async def _filled(self, room: Room, progress: Progress | None) -> RefillReport:
        indexing = self.upkeep.indexing
        await indexing.index.ensure(room.space)
        embedded = 0
        while texts := await self.store.missing_texts(room.space, _AT_ONCE):
            made = await room.embedder.embed(list(texts.values()), "document")
            await indexing.store.keep_vectors(room.space, dict(zip(texts, made.vectors, strict=True)))
            embedded += len(texts)
            if progress:
                progress(embedded, None)
        points, _ = await self.upkeep.compare(room)
        log.info("passages_written", points=points, embedded=embedded, model=room.space.model)
        return RefillReport(points=points, embedded=embedded)
