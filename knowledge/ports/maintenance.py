"""Stores as upkeep and archives read them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from hardwon.models.entries import EntryVersion
from hardwon.models.seals import SealHead, SealReport
from knowledge.models import (
    AppliesWhen,
    BoundSpace,
    Calibration,
    DeadEntry,
    EmbeddingSpace,
    Entry,
    EntryId,
    PatternId,
    PointId,
    StoredPoint,
    Vector,
)


class UpkeepStore(Protocol):
    """The store operations that keep the index of one workspace true."""

    async def points(
        self, space: EmbeddingSpace, *, after: PointId | None, limit: int, lacking: bool = False
    ) -> list[StoredPoint]:
        """Return up to `limit` points with ids above `after`, ascending; `lacking`: only those without a vector."""

    async def settled_points(self, *, after: PointId | None, limit: int) -> list[PointId]:
        """Return up to `limit` ids above `after` of points that belong to an embedded entry, ascending."""

    async def put_vectors(self, space: EmbeddingSpace, vectors: Mapping[PointId, Vector]) -> None:
        """Store vectors of points in a space; points that are gone are skipped."""

    async def mark_unsupported_dirty(self) -> int:
        """Mark dirty the points that no entry supports any more; return how many."""

    async def replace_terms(self, frequencies: Mapping[int, int], counted: Collection[PointId]) -> None:
        """Replace the workspace's term statistics by those of the `counted` points; checkpoints count all others.

        `frequencies`: in how many of these points each term occurs.
        """

    async def retry_dead(self) -> int:
        """Stage dead entries again; return how many."""

    async def dead(self, limit: int, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return up to `limit` dead entries with their reasons, latest first, starting after `after`.

        Raises NotFound if `after` is gone.
        """

    async def prepare(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        """Record a space beside the one in use; one that was used before keeps its values."""

    def lock_model_change(self) -> AbstractAsyncContextManager[None]:
        """Lock the embedding model of the store against other changes until the block ends.

        Raises Conflict if it is locked. The lock of a process that died is free at once.
        """

    def begin_switch(self, space: EmbeddingSpace) -> AbstractAsyncContextManager[None]:
        """Make a prepared space the one in use if the block succeeds; no entry is marked embedded meanwhile.

        From then on the change is unfinished, until `mark_change_finished`. Raises Conflict if the space was forgotten,
        StorageUnavailable if the block takes more than a minute.
        """

    async def has_unfinished_change(self) -> bool:
        """Return whether a change of model switched spaces and was not marked finished: it is running, or died."""

    async def mark_change_finished(self) -> None:
        """Record that nothing is left to do for any change of model."""

    async def forget_space(self, space: EmbeddingSpace) -> None:
        """Delete the vectors of a space that is not in use."""

    async def forget_unknown(self) -> None:
        """Delete vectors that a running checkpoint stored in spaces that were forgotten meanwhile."""

    async def find_unused_spaces(self) -> list[EmbeddingSpace]:
        """Return the spaces that are not in use and may still have vectors."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        """Count the workspace's points, and those of them that have no vector in a space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedEntry:
    """An entry as it was read, and what redaction makes of it.

    `keys`: each key under which its pattern may be found by equal texts, before and after.
    """

    before: Entry
    texts: Mapping[str, str | list[str]]
    applies_when: AppliesWhen | None
    content_hash: str
    keys: Mapping[str, str]


class StoredTextStore(Protocol):
    """All texts of one workspace but those of documents, to be redacted again."""

    async def entries(self, *, after: EntryId | None, limit: int) -> list[Entry]:
        """Return up to `limit` entries, whatever their status, with ids above `after`, ascending."""

    async def rewrite(self, redacted: Sequence[RedactedEntry]) -> tuple[int, int]:
        """Write entries in one transaction; return how many were rewritten, and how many were the same as another one.

        Those that were embedded are staged again, in their patterns; their profiles, the hashes of their texts and what
        a model wrote of them are gone. One that became the same as another one is deleted. An entry that changed since
        it was read is left out.
        """

    async def rewrite_records(self, redact: Callable[[str], str], *, dry_run: bool) -> int:
        """Write what else has texts (questions, feedback, reasons of failures); return the number of rows changed.

        Answers and texts that were made of others are deleted instead. `dry_run`: only count.
        """

    async def audit_details(self) -> AsyncIterator[str]:
        """Yield the details of the audit log."""
        yield ""


class CorrectionStore(Protocol):
    """Corrections of entries of one workspace, with the texts that they replaced, and tags of patterns."""

    async def correct(self, corrected: RedactedEntry, *, now: datetime, by: str, reason: str | None) -> None:
        """Write new texts of an entry and keep the old ones, in one transaction.

        An embedded or dead entry is staged again, in its pattern, which keeps the keys of the old texts. Raises
        Conflict where it changed since it was read, or where another entry of its task and run has these texts.
        """

    async def tag(self, pattern_id: PatternId, tags: Sequence[str]) -> None:
        """Replace the tags of a pattern. Raises NotFound for one without live evidence."""

    async def history(self, entry_id: EntryId) -> list[EntryVersion]:
        """Return what corrections replaced in an entry, the latest first."""


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

    async def origin(self) -> Origin:
        """Return where an archive of this snapshot is from."""

    async def total(self) -> int:
        """Return how many rows there are in all tables."""

    async def copy(self, table: str, into: BinaryIO) -> None:
        """Write the rows of a table into a file, in one order, in the text format of COPY."""


class Restore(Protocol):
    """The import of one archive, as one transaction: all of it is stored at its end, or nothing."""

    async def load(self, table: str, pieces: AsyncIterator[bytes]) -> None:
        """Read the rows of a table, which nobody sees yet. Raises InvalidInput (field `archive`) for other rows."""

    async def spaces(self) -> Mapping[EmbeddingSpace, bool]:
        """Return the embedding spaces of the archive, and whether each was in use. Raises as `load` does."""

    async def merge(self) -> dict[str, int]:
        """Store what is not here yet; return how many rows of each table were new. Counts are derived anew.

        Raises InvalidInput (field `archive`) for rows that cannot be, Conflict for a store with other rows.
        """


class ArchiveStore(Protocol):
    """A whole store, all workspaces, as an archive; ids are kept."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Open the store as it is now, for reading."""

    def restore(self, schema: str, columns: Mapping[str, Sequence[str]]) -> AbstractAsyncContextManager[Restore]:
        """Begin the import of an archive with these tables and columns, committed when the block ends well.

        Raises InvalidInput (field `archive`) for one of a later schema, or with tables or columns that none has.
        """

    def entries(self, workspace: str) -> AsyncIterator[Sequence[Entry]]:
        """Yield the entries of a workspace, the oldest first, but for those held back for review."""


class SealStore(Protocol):
    """The chains and heads of a store, all workspaces included."""

    def verifies(self, head: SealHead) -> bool:
        """Return whether a head was sealed by a key that is known here."""

    async def last_head(self) -> SealHead | None:
        """Return the last head, None for a store that was never vouched for."""

    async def head(self, number: int) -> SealHead | None:
        """Return a head by its number."""

    async def counts(self) -> tuple[int, int]:
        """Return the numbers of links of all chains, and of rows of the audit log, as they are now."""

    async def take_head(self, now: datetime, *, reason: str | None = None) -> SealHead:
        """Store and return a head over all chains as they are now. `reason`: why the chain begins anew with it."""

    async def adopt(self, *, anew: bool) -> int:
        """Seal the rows that have no seal, with `anew` all of them, and begin their chains; return how many."""

    async def verify(self, workspace: str, *, thorough: bool = True) -> SealReport:
        """Compare every sealed row of a workspace with its seal, and all of them with the totals of the chains.

        What is derived in Postgres is compared with its sources; if `thorough`, the profiles of texts too.
        """

    async def accept(self, workspace: str, entry_id: EntryId) -> str | None:
        """Seal an entry as it is now; return the SHA-256 of what is sealed, None if it verified already."""

    async def accept_totals(self, workspace: str) -> int:
        """Take the rows that are there now for all there are; return by how many rows that differs from the chains."""

    def use_new_key(self) -> str:
        """Seal by a new key from now on; return its name. Raises Conflict unless keys are in a file."""

    async def count_missing(self) -> dict[str, int]:
        """Return by how many counted rows workspaces differ from their chains, without looking at any."""

    @property
    def altered(self) -> int:
        """Number of things found since the start that are not as they were stored, in all workspaces."""

    def note_problems(self, workspace: str, problems: tuple[str, ...]) -> None:
        """Keep what the last check of a workspace found, for whoever asks how it is; "" is the store."""

    def problems(self, workspace: str) -> tuple[str, ...]:
        """Return what the last checks of the workspace and of the store found, and what was refused since."""


class HeadKeeper(Protocol):
    """Keeps heads outside of Postgres."""

    async def keep(self, head: SealHead) -> None:
        """Keep a head, wherever the settings say. Raises WebhookUnavailable or StorageUnavailable."""

    async def last_head(self) -> SealHead | None:
        """Return the last head that was kept in the data directory."""

    async def last_head_elsewhere(self) -> SealHead | None:
        """Return the last head of the file that the settings name; None where they name none, or an address."""
