"""Settling: reconcile the index with Postgres wherever they may differ.

A checkpoint writes the points of its own entries. Any other change of a point (an entry is deleted, abandoned, expires,
or another checkpoint overtook) marks the point's row in the same transaction, and the next process settles it under
the patterns' lock, so that no entry joins between the read and the write. Repairs (`verify --repair`, `rebuild`, an
import) write here, too: a point read before and written after a checkpoint wrote it would undo that. A rebuild marks
every point before it drops the index, so that after a kill the next process restores the rest. The same happens when
the index holds fewer points than it must: a Qdrant server lost its volume, or got last week's. Ids and
expiries are compared hourly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hardwon.errors import HardwonError, SpaceSwitched, StorageUnavailable
from hardwon.event_log import get_logger
from knowledge.memory.index.points import from_stored
from knowledge.models import BoundSpace, EmbeddingSpace, Point, PointId, StoredPoint
from knowledge.ports import DirtyPoints, Stores
from knowledge.retrieval.reconcile import Difference, compare_pages
from knowledge.runtime.scheduling import yield_to_loop

GRACE = timedelta(hours=24)
"""A deleted point is deleted from the index once more after this time: a checkpoint that wrote it after the deletion
and was killed before it could settle it has ended by then (its deadline is 6 hours)."""

SLICE = 256

_PAGE = 1024
"""Ids compared at a time: the embedded engine reads 20,000 with their expiries in 0.13 s, 9 to 34 ms at a time."""

SWITCH_POLL_SECONDS = 0.5
"""Interval at which points are reconciled again that a change of model or layout overtook."""

_MAX_COUNTS = 3
"""Counts that must all be too low before points are considered lost."""

log = get_logger(__name__)


Written = Callable[[Sequence[Point]], None]
"""Callback with the points written to the index."""


async def settle(stores: Stores, *, whole: bool = True, written: Written | None = None) -> None:
    """Settle the marked points and, with `whole`, all points where the index lost some.

    `whole` may take as long as a rebuild. Raises Unavailable when a store does not answer; the rest stays marked.
    """
    if whole:
        await _note_if_lost(stores)
    while await _settle_slice(stores, limit=SLICE, dropped=whole, written=written):
        pass


async def _note_if_lost(stores: Stores) -> None:
    """Mark all points where the index holds fewer than it must: it was lost, or restored from an older copy.

    A node that came back counts too few for some seconds, so the last count waits for that.
    """
    bound = await stores.spaces.bound()
    if bound is None:
        return
    await stores.index.ensure(bound.space, in_use=False)
    for look in range(_MAX_COUNTS):  # Postgres first: points that expire in between are not lost
        if look == _MAX_COUNTS - 1:
            await stores.index.wait_until_consistent()
        minimum = await stores.points.min_count(bound.space, stores.clock.now(), roughly=look == 0)
        count = await stores.index.count(bound.space, stores.workspace)
        if count >= minimum:
            return
    log.warning("index_lost_points", workspace=stores.workspace, found=count, fewest=minimum)
    await stores.points.mark_all_dirty()


async def settle_differing(stores: Stores) -> None:
    """Settle each point that the index lacks, must not hold, or holds with another expiry. Raises as `settle` does.

    An index restored from a copy may hold the right number of points but the wrong ones, and a node of a cluster that
    hung may make a write late, when another node has made it and later ones. Postgres is read after the index, since a
    checkpoint writes it first: a point without a row by then is orphaned. Both are read in id order. What differs is
    read again once the nodes of the index agree.
    """
    bound = await stores.spaces.bound()
    if bound is None:
        return
    await stores.index.ensure(bound.space, in_use=False)
    after: PointId | None = None
    while True:
        page = await _compare_page(stores, bound.space, after)
        if page.differing:
            await stores.index.wait_until_consistent()
            page = await _compare_page(stores, bound.space, after)
        if page.differing:
            log.warning(
                "index_differed",
                workspace=stores.workspace,
                missing=len(page.ids.missing),
                unexpected=len(page.ids.unexpected),
                stale=len(page.stale),
            )
        for start in range(0, len(page.differing), SLICE):
            await settle_points(stores, page.differing[start : start + SLICE])
        if page.ids.end is None:
            return
        after = page.ids.end
        await yield_to_loop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """The differences of a page; `stale`: points with another expiry."""

    ids: Difference[PointId]
    stale: frozenset[PointId]

    @property
    def differing(self) -> list[PointId]:
        """The points to settle, ascending."""
        return sorted({*self.ids.missing, *self.ids.unexpected, *self.stale})


async def _compare_page(stores: Stores, space: EmbeddingSpace, after: PointId | None) -> _Comparison:
    found = await stores.index.expiries(space, stores.workspace, after=after, limit=_PAGE)
    stored_ids = await stores.points.index_membership(space, stores.clock.now(), after=after, limit=_PAGE)
    in_both = [each for each in found if stored_ids.get(each)]
    expected = await stores.points.expiries(in_both) if in_both else {}
    return _Comparison(
        ids=compare_pages([*found], stored_ids, page=_PAGE),
        stale=frozenset(each for each, expiry in expected.items() if found[each] != expiry),
    )


async def settle_points(stores: Stores, point_ids: Sequence[PointId], *, written: Written | None = None) -> None:
    """Settle these points, marked or not. Raises as `settle` does."""
    await _settle_slice(stores, limit=0, also=point_ids, written=written)


async def _settle_slice(
    stores: Stores,
    *,
    limit: int,
    also: Sequence[PointId] = (),
    dropped: bool = True,
    written: Written | None,
) -> int:
    """Settle up to `limit` marked points and those of `also`; return the number of points compared."""
    while True:
        now = stores.clock.now()
        written_points: list[Point] = []
        touched: list[PointId] = []
        try:
            async with stores.points.begin_reconciliation(
                now=now, again_at=now + GRACE, limit=limit, also=also, dropped=dropped
            ) as unsettled:
                touched = [*unsettled.gone, *(stored.point_id for stored in unsettled.stored)]
                if unsettled.bound is None or not touched:
                    return 0
                written_points = await _write_points(stores, unsettled, unsettled.bound, now)
        except SpaceSwitched:
            await asyncio.sleep(SWITCH_POLL_SECONDS)
            continue
        except StorageUnavailable:
            # Postgres may have ended the transaction before the index applied the write, and others may have changed
            # these points in between: mark them to be compared again
            if touched:
                await stores.points.mark_dirty(touched)
            raise
        if written:
            written(written_points)
        return len(touched)


async def _write_points(stores: Stores, unsettled: DirtyPoints, bound: BoundSpace, now: datetime) -> list[Point]:
    """Write the stored points to the index and delete the others; return the points written."""
    if unsettled.gone:
        for space in unsettled.spaces:
            await stores.index.delete(space, unsettled.gone)
    live = [stored for stored in unsettled.stored if stored.expires_at > now]
    # in a thread: a second for a slice of long texts
    expected = await asyncio.to_thread(_build_points, live, stores.workspace, bound.mean_terms)
    if expected:
        await stores.index.ensure(bound.space, in_use=False)  # a killed rebuild may have dropped it
        await stores.index.upsert(bound.space, expected)
    if expired := [stored.point_id for stored in unsettled.stored if stored.expires_at <= now]:
        # pruning deletes these from the index first: written now, they would outlive their rows
        await stores.index.delete(bound.space, expired)
    return expected


def _build_points(live: Sequence[StoredPoint], workspace: str, mean_terms: float) -> list[Point]:
    """Return the points that the index must hold."""
    return [
        from_stored(stored, stored.vector, workspace=workspace, mean_terms=mean_terms)
        for stored in live
        if stored.vector is not None
    ]


async def settle_if_possible(stores: Stores, *, whole: bool = True) -> None:
    """Settle now, or leave it to the next process on an error; the points are marked already."""
    try:
        await settle(stores, whole=whole)
    except HardwonError as error:
        log.warning("settling_put_off", reason=str(error))
