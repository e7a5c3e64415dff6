"""Stores as upkeep and archives see them: row after row, in the order of keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from knowledge.models import (
    BoundSpace,
    Calibration,
    DeadEntry,
    EmbeddingSpace,
    EntryId,
    LeaseToken,
    PointId,
    StoredPoint,
    Vector,
)


class UpkeepStore(Protocol):
    """What keeping the index true needs of one workspace."""

    async def points(
        self, space: EmbeddingSpace, *, after: PointId | None, limit: int, lacking: bool = False
    ) -> list[StoredPoint]:
        """Return up to `limit` points with ids above `after`, ascending; `lacking`: only those without a vector."""
        ...

    async def put_vectors(self, space: EmbeddingSpace, vectors: Mapping[PointId, Vector]) -> None:
        """Keep vectors of points in a space; points that are gone are passed over."""
        ...

    async def doubt_unsupported(self) -> int:
        """Note down the points that no entry stands behind any more; return how many."""
        ...

    async def replace_terms(self, frequencies: Mapping[int, int], counted: Collection[PointId]) -> None:
        """Replace the term statistics of the workspace by those of some points; checkpoints count what is in no other.

        `frequencies`: in how many of these points each term occurs.
        """
        ...

    async def retry_dead(self) -> int:
        """Stage dead entries again; return how many."""
        ...

    async def dead(self, limit: int, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return up to `limit` dead entries with their reasons, the latest first, from behind `after` on.

        Raises NotFound where that one is gone.
        """
        ...

    async def prepare(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Write down a space beside the one in use; one that was used before keeps what was fixed for it."""
        ...

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Let nobody else change the embedding model of the store until the block ends.

        Raises Conflict where somebody does. The work of a process that died is free at once.
        """
        ...

    def switching(self, space: EmbeddingSpace) -> AbstractAsyncContextManager[None]:
        """Make a prepared space the one in use when the block ends well; nothing is marked meanwhile.

        The change is `unfinished` from then on, until `finished` is told.
        Raises Conflict where that space was forgotten, StorageUnavailable where the block takes more than a minute.
        """
        ...

    async def unfinished(self) -> bool:
        """Return whether a change of model switched, and nobody told that it is finished: it goes on, or died."""
        ...

    async def finished(self) -> None:
        """Take note that nothing is left to do of any change of model."""
        ...

    async def forget_space(self, space: EmbeddingSpace) -> None:
        """Delete the vectors of a space that is not in use."""
        ...

    async def forget_unknown(self) -> None:
        """Delete vectors that a checkpoint kept, which was under way, of spaces that were forgotten meanwhile."""
        ...

    async def unused_spaces(self) -> list[EmbeddingSpace]:
        """Return the spaces of the store that are not in use, and whose vectors may still be kept."""
        ...

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Return how many points the workspace has, and how many of them have no vector in a space."""
        ...


class Snapshot(Protocol):
    """What a whole store holds at one moment, whatever is written meanwhile."""

    async def total(self) -> int:
        """Return how many rows there are in all parts."""
        ...

    def rows(self, part: str) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """Yield the rows of a part of `knowledge.memory.archive`, in one order, a slice at a time."""
        ...


class ArchiveStore(Protocol):
    """A whole store, all workspaces, as the parts of an archive; ids are kept."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Open the store as it is now, for reading."""
        ...

    async def foreign(self, part: str, rows: Sequence[Mapping[str, Any]], *, token: LeaseToken) -> str | None:
        """Return why rows of an archive cannot be written here, ever or yet, in a sentence, if so. Writes nothing.

        Raises InvalidInput (field `archive`) for rows that are none. `token`: as for `write`.
        """
        ...

    async def write(self, part: str, rows: Sequence[Mapping[str, Any]], *, token: LeaseToken) -> int:
        """Write a slice of a part in one transaction; what is there already stays; return how many rows were new.

        An entry that is further in its life in the archive than here goes on to there. Documents are held by `token`,
        and not shown, until `show`. Raises InvalidInput (field `archive`) for rows that cannot be, Conflict for those
        that contradict what is here.
        """
        ...

    async def hold(self, token: LeaseToken) -> None:
        """Go on holding the documents of an import; called every few minutes."""
        ...

    async def show(self, rows: Sequence[Mapping[str, Any]], *, token: LeaseToken) -> None:
        """Show documents of which all parts are written, and let go of them."""
        ...

    async def analyse(self) -> None:
        """Have the store look at what it holds now, so that it plans its queries well after much came in."""
        ...

    async def recount(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Derive the counts of patterns of an archive from the evidence that is here."""
        ...
