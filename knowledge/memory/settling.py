"""Settling: where the index may hold something else than Postgres says, it is made to hold that.

A checkpoint writes the points of its own entries. Whatever else changes what a point should be (an entry is deleted,
abandoned, expires, or another checkpoint came in between) leaves a note at the point's row in the same transaction, and
whoever comes next settles it: alone with the patterns, so that no entry joins between the look and the write. Whoever
puts points right or back (`verify --repair`, `rebuild`, an import) does so here, too: what was read before and written
after a checkpoint wrote the same point would undo it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.memory.points import from_stored
from knowledge.models import BoundSpace, Point, PointId, StoredPoint
from knowledge.ports import Stores

GRACE = timedelta(hours=24)
"""A point that went from the index is deleted there once more after this time: a checkpoint that was about to write it
when its entry was deleted, and died before it could take it back, has ended by then (its deadline is 6 hours)."""

SLICE = 256

log = get_logger(__name__)


class _Switched(Exception):
    """Another space came into use while points were settled in the one before: their notes must stay."""


async def settle(
    stores: Stores,
    bound: BoundSpace | None,
    *,
    also: Sequence[PointId] = (),
    written: Callable[[Sequence[Point]], None] | None = None,
) -> int:
    """Settle what is noted down, and the points of `also`; return how many points were looked at.

    `bound` is the space in use, as last seen; where another one is by now, points are settled there. `written` is told
    what was put into the index. Raises Unavailable when a store does not answer; what is not settled stays noted.
    """
    looked_at = 0
    while bound is not None:
        try:
            here = await _settle_slice(stores, bound, also, written)
        except _Switched:
            bound = await stores.spaces.bound()
            continue
        if not here:
            break
        looked_at += here
        also = ()
    return looked_at


async def _settle_slice(
    stores: Stores, bound: BoundSpace, also: Sequence[PointId], written: Callable[[Sequence[Point]], None] | None
) -> int:
    """Settle up to `SLICE` points and those of `also`; raise _Switched where they belong into another space by now."""
    now = stores.clock.now()
    settling = stores.points.settling(bound.space, now=now, again_at=now + GRACE, limit=SLICE, also=also)
    async with settling as unsettled:
        if not (unsettled.stored or unsettled.gone):
            return 0
        for space in await stores.spaces.known() if unsettled.gone else ():
            await stores.index.delete(space, unsettled.gone)
        # a second for a slice of long texts, for which the event loop must not wait
        live = [stored for stored in unsettled.stored if stored.expires_at > now]
        truth = await asyncio.to_thread(_truth, live, stores.workspace, bound.mean_terms)
        if truth:
            await stores.index.upsert(bound.space, truth)
        if expired := [stored.point_id for stored in unsettled.stored if stored.expires_at <= now]:
            # pruning takes these from the index first: put back now, they would outlive their rows
            await stores.index.delete(bound.space, expired)
        in_use = await stores.spaces.bound()
        if in_use is None or in_use.space.fingerprint != bound.space.fingerprint:
            raise _Switched
    if written:
        written(truth)
    return len(unsettled.stored) + len(unsettled.gone)


def _truth(live: Sequence[StoredPoint], workspace: str, mean_terms: float) -> list[Point]:
    """Return the points that the index is to hold."""
    return [
        from_stored(stored, stored.vector, workspace=workspace, mean_terms=mean_terms)
        for stored in live
        if stored.vector is not None
    ]


async def settle_if_possible(stores: Stores) -> None:
    """Settle now, or leave it to whoever comes next: what was asked for is done, and the note is written."""
    try:
        await settle(stores, await stores.spaces.bound())
    except HardwonError as error:
        log.warning("settling_put_off", reason=str(error))
