"""The points that the index must hold, as Postgres has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from knowledge.models import BoundSpace, EmbeddingSpace, Entry, EntryId, PointId, StoredPoint, TextPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyPoints:
    """Points in which the index may differ: those to be written as stored, and those to be deleted.

    `stored` ones are written to the space in use, `bound`; `gone` ones are deleted from all `spaces`.
    """

    bound: BoundSpace | None = field(default=None, compare=False)
    spaces: tuple[EmbeddingSpace, ...] = field(default=(), compare=False)
    stored: tuple[StoredPoint, ...] = ()
    gone: tuple[PointId, ...] = ()


class PointStore(Protocol):
    """The points that the index must hold for one workspace, and those in which it may differ (dirty points)."""

    async def find_existing(self, point_ids: Sequence[PointId]) -> set[PointId]:
        """Return those of the ids that are points of this workspace with an entry."""

    async def mark_dirty(self, point_ids: Sequence[PointId]) -> None:
        """Mark points dirty: the index may differ from them."""

    async def mark_all_dirty(self) -> int:
        """Mark every point dirty, because the index was dropped or lost; return how many were not yet.

        Points that a checkpoint has decided on and not marked yet are reconciled after it has: what it wrote to an
        index that was dropped meanwhile is written again.
        """

    async def min_count(self, space: EmbeddingSpace, now: datetime, *, roughly: bool) -> int:
        """Return the number of points the index must hold in a space: live, with a vector, and not dirty.

        `roughly`: without counting, and rather too many than too few: those are with it that are expired.
        """

    async def index_membership(
        self, space: EmbeddingSpace, now: datetime, *, after: PointId | None, limit: int
    ) -> dict[PointId, bool]:
        """Return points ascending by id, and for each whether the index must hold it, by the rule of `min_count`.

        Those that were deleted from the index and wait for their second deletion are left out: it must not hold them.
        """

    async def expiries(self, point_ids: Collection[PointId]) -> dict[PointId, datetime]:
        """Return the expiry of those of these points that are not dirty."""

    async def has_any(self, now: datetime) -> bool:
        """Return whether the index must hold any point of this workspace, dirty or not."""

    async def mark_overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        """Mark dirty those points that were decided on after `embedded_at` or marked dirty since; return how many.

        The caller has just written them by the decision of `embedded_at`, while others may have deleted them from the
        index.
        """

    def begin_reconciliation(
        self,
        *,
        now: datetime,
        again_at: datetime,
        limit: int,
        also: Sequence[PointId] = (),
        dropped: bool = True,
    ) -> AbstractAsyncContextManager[DirtyPoints]:
        """Yield up to `limit` dirty points, and `also`; no entry joins or leaves them until the block ends.

        Yields none while nothing was ever embedded. Points that a checkpoint is about to write are left out and stay
        dirty; so are, unless `dropped`, those dirty only because the index was dropped or lost, which else come last.
        If the block succeeds, the points are clean; those gone come once more after `again_at`, and are forgotten then.
        Raises SpaceSwitched, and cleans nothing, if another space came into use by the end.
        """

    async def entries_without_points(
        self, now: datetime, limit: int, *, without: Collection[EntryId] = (), tries: int | None = None
    ) -> list[Entry]:
        """Return live entries that have no point and whose patterns have room for points, latest of each pattern first.

        They joined a pattern that had `MAX_POINTS` points, some of which went since. Ignored as if absent: those of
        `without`, and those with `tries` attempts.
        """

    async def count_attempt(self, entry_ids: Collection[EntryId]) -> None:
        """Count one more attempt for embedded entries whose texts were refused."""

    async def attach(self, entry_points: Sequence[tuple[Entry, Sequence[TextPoint]]], space: EmbeddingSpace) -> int:
        """Attach points to entries, as far as their patterns have room, and mark the points dirty; return how many.

        Entries that are gone, moved to another pattern or have points by now are skipped. Raises SpaceSwitched, and
        stores nothing, if another space came into use by the end.
        """

    async def find_live(
        self, space: EmbeddingSpace, point_ids: Sequence[PointId], *, now: datetime
    ) -> list[StoredPoint]:
        """Return those of the ids that are unexpired points of embedded entries, with their vectors in the space."""

    async def count_words(self, words: Mapping[PointId, Collection[int]]) -> None:
        """Add the distinct words of these points to the lexicon; each point is counted once, by whoever comes first."""

    async def find_uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        """Return up to `limit` points of embedded entries whose words are not counted yet."""
