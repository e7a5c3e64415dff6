"""Settling: where the index may hold something else than Postgres says, it is made to hold that.

A checkpoint writes the points of its own entries. Whatever else changes what a point should be (an entry is deleted,
abandoned, expires, or another checkpoint came in between) leaves a note at the point's row in the same transaction, and
whoever comes next settles it: alone with the patterns, so that no entry joins between the look and the write. Whoever
puts points right or back (`verify --repair`, `rebuild`, an import) does so here, too: what was read before and written
after a checkpoint wrote the same point would undo it. A rebuild notes down every point before it drops the index, so
that whoever comes after its death puts back the rest. Whoever finds fewer points in the index than it must hold does so
as well: a Qdrant server came back without its volume, or with that of last week. By the hour the ids are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from knowledge.differing import compared
from knowledge.errors import HardwonError, SpaceSwitched, StorageUnavailable
from knowledge.logs import get_logger
from knowledge.memory.points import from_stored
from knowledge.models import BoundSpace, Point, PointId, StoredPoint
from knowledge.ports import Stores, Unsettled
from knowledge.turns import let_others_run

GRACE = timedelta(hours=24)
"""A point that went from the index is deleted there once more after this time: a checkpoint that was about to write it
when its entry was deleted, and died before it could take it back, has ended by then (its deadline is 6 hours)."""

SLICE = 256

_STRETCH = 1024
"""Points looked at together: of 20,000 ids in the embedded engine, all are read in 0.1 s, 9 ms at a time."""

_LOOKS = 3
"""So often fewer points than there must be are found before they are taken for lost."""

log = get_logger(__name__)


Written = Callable[[Sequence[Point]], None]
"""Is told what was put into the index."""


async def settle(stores: Stores, *, whole: bool = True, written: Written | None = None) -> None:
    """Settle what is noted down and, where the index lost points, all of them; not the latter unless `whole`.

    `whole` may take as long as a rebuild. Raises Unavailable when a store does not answer; what is not settled stays
    noted.
    """
    if whole:
        await _note_if_lost(stores)
    while await _settle_slice(stores, limit=SLICE, dropped=whole, written=written):
        pass


async def _note_if_lost(stores: Stores) -> None:
    """Note down all points where the index holds fewer than it must: it was lost, or restored from an older copy."""
    bound = await stores.spaces.bound()
    if bound is None:
        return
    await stores.index.ensure(bound.space, in_use=False)
    for look in range(_LOOKS):  # Postgres first, as what comes and goes in between is no loss
        fewest = await stores.points.fewest(bound.space, stores.clock.now(), roughly=look == 0)
        found = await stores.index.count(bound.space, stores.workspace)
        if found >= fewest:
            return
    log.warning("index_lost_points", workspace=stores.workspace, found=found, fewest=fewest)
    await stores.points.doubt_all()


async def settle_differing(stores: Stores) -> None:
    """Settle each point that the index lacks, or has although nothing stands behind it. Raises as `settle` does.

    An index that was put back from a copy holds as many points as it must, and others, where some were deleted since.
    Postgres is read after the index, which a checkpoint writes second: what has no row by then is nobody's. Both are
    read in the order of ids.
    """
    bound = await stores.spaces.bound()
    if bound is None:
        return
    await stores.index.ensure(bound.space, in_use=False)
    after: PointId | None = None
    while True:
        there = await stores.index.ids(bound.space, stores.workspace, after=after, limit=_STRETCH)
        standing = await stores.points.standing(bound.space, stores.clock.now(), after=after, limit=_STRETCH)
        stretch = compared(there, standing, page=_STRETCH)
        wrong = sorted(stretch.lacking.union(stretch.strange))
        if wrong:
            lacking, strange = len(stretch.lacking), len(stretch.strange)
            log.warning("index_differed", workspace=stores.workspace, lacking=lacking, strange=strange)
        for start in range(0, len(wrong), SLICE):
            await settle_points(stores, wrong[start : start + SLICE])
        if stretch.end is None:
            return
        after = stretch.end
        await let_others_run()


async def settle_points(stores: Stores, which: Sequence[PointId], *, written: Written | None = None) -> None:
    """Settle these points, noted down or not. Raises as `settle` does."""
    await _settle_slice(stores, limit=0, also=which, written=written)


async def _settle_slice(
    stores: Stores,
    *,
    limit: int,
    also: Sequence[PointId] = (),
    dropped: bool = True,
    written: Written | None,
) -> int:
    """Settle up to `limit` points and those of `also`; return how many were looked at."""
    while True:
        now = stores.clock.now()
        truth: list[Point] = []
        touched: list[PointId] = []
        try:
            async with stores.points.settling(
                now=now, again_at=now + GRACE, limit=limit, also=also, dropped=dropped
            ) as unsettled:
                touched = [*unsettled.gone, *(stored.point_id for stored in unsettled.stored)]
                if unsettled.bound is None or not touched:
                    return 0
                truth = await _as_stored(stores, unsettled, unsettled.bound, now)
        except SpaceSwitched:
            continue
        except StorageUnavailable:
            # Postgres may have ended the transaction before the index did what it was told, and others been at these
            # points in between: whoever comes next compares them once more
            if touched:
                await stores.points.doubt(touched)
            raise
        if written:
            written(truth)
        return len(touched)


async def _as_stored(stores: Stores, unsettled: Unsettled, bound: BoundSpace, now: datetime) -> list[Point]:
    """Make the index hold what is stored; return the points that were put there."""
    if unsettled.gone:
        for space in unsettled.spaces:
            await stores.index.delete(space, unsettled.gone)
    live = [stored for stored in unsettled.stored if stored.expires_at > now]
    # in a thread: a second for a slice of long texts
    truth = await asyncio.to_thread(_truth, live, stores.workspace, bound.mean_terms)
    if truth:
        await stores.index.ensure(bound.space, in_use=False)  # whoever dropped it may have died
        await stores.index.upsert(bound.space, truth)
    if expired := [stored.point_id for stored in unsettled.stored if stored.expires_at <= now]:
        # pruning takes these from the index first: put back now, they would outlive their rows
        await stores.index.delete(bound.space, expired)
    return truth


def _truth(live: Sequence[StoredPoint], workspace: str, mean_terms: float) -> list[Point]:
    """Return the points that the index is to hold."""
    return [
        from_stored(stored, stored.vector, workspace=workspace, mean_terms=mean_terms)
        for stored in live
        if stored.vector is not None
    ]


async def settle_if_possible(stores: Stores, *, whole: bool = True) -> None:
    """Settle now, or leave it to whoever comes next: what was asked for is done, and the note is written."""
    try:
        await settle(stores, whole=whole)
    except HardwonError as error:
        log.warning("settling_put_off", reason=str(error))
