"""Stores as upkeep and archives see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from knowledge.models import (
    BoundSpace,
    Calibration,
    DeadEntry,
    EmbeddingSpace,
    Entry,
    EntryId,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The store that an archive was written from. `schema`: its Alembic revision; `postgres`: its server's version."""

    schema: str
    postgres: str
    workspaces: tuple[str, ...]


class Snapshot(Protocol):
    """A whole store, all workspaces, at one moment, whatever is written meanwhile."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The tables of an archive, each after those that its rows refer to, and their columns."""
        ...

    async def origin(self) -> Origin:
        """Return where an archive of this snapshot is from."""
        ...

    async def total(self) -> int:
        """Return how many rows there are in all tables."""
        ...

    async def copy(self, table: str, into: BinaryIO) -> None:
        """Write the rows of a table into a file, in one order, in the text format of COPY."""
        ...


class Restore(Protocol):
    """The import of one archive, as one transaction: all of it is stored at its end, or nothing."""

    async def load(self, table: str, pieces: AsyncIterator[bytes]) -> None:
        """Read the rows of a table, which nobody sees yet. Raises InvalidInput (field `archive`) for other rows."""
        ...

    async def spaces(self) -> Mapping[EmbeddingSpace, bool]:
        """Return the embedding spaces of the archive, and whether each was in use. Raises as `load` does."""
        ...

    async def merge(self) -> dict[str, int]:
        """Store what is not here yet; return how many rows of each table were new. Counts are derived anew.

        What is further in its life in the archive than here (an entry, a document) goes on to there. Raises
        InvalidInput (field `archive`) for rows that cannot be, Conflict for those that contradict what is here.
        """
        ...


class ArchiveStore(Protocol):
    """A whole store, all workspaces, as an archive; ids are kept."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Open the store as it is now, for reading."""
        ...

    def restore(self, schema: str, columns: Mapping[str, Sequence[str]]) -> AbstractAsyncContextManager[Restore]:
        """Begin the import of an archive with these tables and columns, committed when the block ends well.

        Raises InvalidInput (field `archive`) for one of a later schema, or with tables or columns that none has.
        """
        ...

    def entries(self, workspace: str) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries of a workspace, the oldest first, but for those held back for review."""
        ...
