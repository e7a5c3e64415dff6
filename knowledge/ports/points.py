"""What stands in the index, as Postgres has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from knowledge.models import BoundSpace, EmbeddingSpace, Entry, EntryId, PointId, StoredPoint, TextPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Points with which the index may differ: those to be as stored, and those that nothing stands behind any more.

    They are to be as stored in the space in use, `bound`; what is gone is to be in none of all `spaces`.
    """

    bound: BoundSpace | None = field(default=None, compare=False)
    spaces: tuple[EmbeddingSpace, ...] = field(default=(), compare=False)
    stored: tuple[StoredPoint, ...] = ()
    gone: tuple[PointId, ...] = ()


class PointStore(Protocol):
    """What the index is to hold of one workspace, and where it may hold something else."""

    async def known(self, point_ids: Sequence[PointId]) -> set[PointId]:
        """Return those of the ids that are points of this workspace with an entry behind them."""
        ...

    async def doubt(self, point_ids: Sequence[PointId]) -> None:
        """Note down that the index may differ from these."""
        ...

    async def doubt_all(self) -> int:
        """Note down every point that is not yet, since the index was dropped or lost; return how many.

        Those that a checkpoint decided about and has not marked yet are settled once it has: what it put into an index
        that was dropped meanwhile is put there again.
        """
        ...

    async def fewest(self, space: EmbeddingSpace, now: datetime, *, roughly: bool) -> int:
        """Return how many points the index must hold in a space: live ones with a vector, none of them noted down.

        `roughly`: at a tenth of the time, and rather too many than too few.
        """
        ...

    async def standing(
        self, space: EmbeddingSpace, now: datetime, *, after: PointId | None, limit: int
    ) -> dict[PointId, bool]:
        """Return points ascending by id, and of each whether the index must hold it in a space, as `fewest` counts."""
        ...

    async def any_learned(self, now: datetime) -> bool:
        """Return whether the index is to hold any point of this workspace, noted down or not."""
        ...

    async def overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        """Note down those that a later decision was made about than that of `embedded_at`, and those noted down since.

        Whoever decided then has written them just now: others may have taken them from the index before. Returns how
        many.
        """
        ...

    def settling(
        self,
        *,
        now: datetime,
        again_at: datetime,
        limit: int,
        also: Sequence[PointId] = (),
        dropped: bool = True,
    ) -> AbstractAsyncContextManager[Unsettled]:
        """Give up to `limit` points noted down, and `also`, with no entry joining or leaving until the block ends.

        None while nothing was ever embedded. Left out are those that a checkpoint is about to write: they stay noted;
        and, unless `dropped`, those noted only because the index was dropped or lost, which else come last. When it
        ends well they are settled; those gone come once more after `again_at`, and are forgotten then. Raises
        SpaceSwitched where another space came into use by the end, and settles nothing.
        """
        ...

    async def out_of_reach(
        self, now: datetime, limit: int, *, without: Collection[EntryId] = (), tries: int | None = None
    ) -> list[Entry]:
        """Return live entries that no point stands for, whose patterns have room for them, the latest of each first.

        They came to a pattern that had `MAX_POINTS` others, some of which went since. Passed over, as if they were not
        there, are those of `without`, and those with so many `tries` behind them.
        """
        ...

    async def tried(self, entry_ids: Collection[EntryId]) -> None:
        """Count one attempt more of embedded entries: their texts were refused."""
        ...

    async def reach(self, given: Sequence[tuple[Entry, Sequence[TextPoint]]], space: EmbeddingSpace) -> int:
        """Let points stand for entries, as far as their patterns have room, and note these down; return how many.

        Entries that went, came to another pattern or have points by now are passed over. Raises SpaceSwitched, and
        keeps nothing, where another space came into use by the end.
        """
        ...

    async def count_words(self, counted: Mapping[PointId, Collection[int]]) -> None:
        """Add the distinct words of these points to the lexicon, of each point once, whoever comes first."""
        ...

    async def uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        """Return up to `limit` points of embedded entries whose words were not counted."""
        ...
