"""Settling: where the index may hold something else than Postgres says, it is made to hold that.

A checkpoint writes the points of its own entries. Whatever else changes what a point should be (an entry is deleted,
abandoned, expires, or another checkpoint came in between) leaves a note at the point's row in the same transaction, and
whoever comes next settles it: alone with the patterns, so that no entry joins between the look and the write.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from knowledge.memory.points import from_stored
from knowledge.models import BoundSpace, PointId
from knowledge.ports import Stores

GRACE = timedelta(hours=24)
"""A point that went from the index is deleted there once more after this time: a checkpoint that was about to write it
when its entry was deleted, and died before it could take it back, has ended by then (its deadline is 6 hours)."""

SLICE = 256

log = get_logger(__name__)


async def settle(stores: Stores, bound: BoundSpace | None, *, also: Sequence[PointId] = ()) -> int:
    """Settle what is noted down, and the points of `also`; return how many points were looked at.

    Raises Unavailable when a store does not answer; what is not settled stays noted.
    """
    if bound is None:
        return 0
    now = stores.clock.now()
    looked_at = 0
    while True:
        settling = stores.points.settling(bound.space, now=now, again_at=now + GRACE, limit=SLICE, also=also)
        async with settling as unsettled:
            if not (unsettled.stored or unsettled.gone):
                return looked_at
            for space in await stores.spaces.known() if unsettled.gone else ():
                await stores.index.delete(space, unsettled.gone)
            truth = [
                from_stored(stored, stored.vector, workspace=stores.workspace, mean_terms=bound.mean_terms)
                for stored in unsettled.stored
                if stored.vector is not None
            ]
            if truth:
                await stores.index.upsert(bound.space, truth)
        looked_at += len(unsettled.stored) + len(unsettled.gone)
        also = ()


async def settle_if_possible(stores: Stores) -> None:
    """Settle now, or leave it to whoever comes next: what was asked for is done, and the note is written."""
    try:
        await settle(stores, await stores.spaces.bound())
    except HardwonError as error:
        log.warning("settling_put_off", reason=str(error))
