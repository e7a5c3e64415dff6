"""What is not true yet: each test is a minimal reproduction, and turns red the day the gap is closed.

All of them are about points of the index beside what Postgres says: queries show none of it but where said, and
`verify --repair` mends all of it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from knowledge.models import EntryId
from knowledge.wiring import Knowledge
from tests.acceptance.test_the_loop import fail
from tests.conftest import SetClock
from tests.faults import kills
from tests.faults.ground import Ground
from tests.support.faults import Trips, wired

YEAR = timedelta(days=366)


async def learned(knowledge: Knowledge, run: str) -> EntryId:
    """Embed the same lesson once more."""
    entry_id = await fail(knowledge, run_id=run, task_id="T1")
    await knowledge.checkpoints.process_all()
    return entry_id


@pytest.mark.xfail(reason="a late upsert overwrites the newer times of a point")
def test_a_worker_that_hangs_before_its_upsert_leaves_no_stale_point(shared: Ground) -> None:
    """G4. Two checkpoints that share a pattern write its point in another order than they decided."""
    kills.overtaken(shared, place="index.upsert:before:1")
    assert asyncio.run(shared.truth()).sound


@pytest.mark.xfail(reason="the point goes from the index after another entry joined, and that one cannot be found")
async def test_an_entry_that_joins_while_another_is_deleted_keeps_its_point(knowledge: Knowledge) -> None:
    """G13. The one gap that hides knowledge, until the next repair."""
    first = await learned(knowledge, "R1")

    async def joined() -> None:
        await learned(knowledge, "R2")

    await wired(knowledge, Trips({"index.delete:before:1": joined})).capture.delete(first)
    report = await knowledge.upkeep.verify()
    assert report.sound, report


@pytest.mark.xfail(reason="the index goes by the point's expiry, which an entry that was deleted had put off")
async def test_a_point_goes_with_its_last_entry_when_a_later_one_was_deleted(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G13."""
    await learned(knowledge, "R1")
    clock.move(timedelta(days=100))
    later = await learned(knowledge, "R2")
    await knowledge.capture.delete(later)
    clock.move(timedelta(days=300))
    assert await knowledge.pruning.prune_old_knowledge() == 1
    report = await knowledge.upkeep.verify()
    assert report.sound, report


@pytest.mark.xfail(reason="abandoning an entry whose checkpoint was killed leaves its point until it expires")
async def test_an_entry_that_is_abandoned_after_a_checkpoint_died_leaves_no_point(knowledge: Knowledge) -> None:
    """G2."""
    await fail(knowledge, verified_by=None)

    async def die() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await wired(knowledge, Trips({"index.upsert:after:1": die})).checkpoints.process_all()
    await knowledge.checkpoints.process_checkpoint("web-shop", "cancellation")
    report = await knowledge.upkeep.verify()
    assert report.sound, report


@pytest.mark.xfail(reason="nobody else knows that the point is to be taken back")
def test_a_kill_before_a_deleted_entry_is_taken_back_leaves_no_point(alone: Ground) -> None:
    """G13. Two faults at once: the entry is deleted while it is embedded, and the worker dies before it takes back."""
    kills.kill_at(alone, kills.ORPHANS[0], kills.RARE["index.delete"])
    assert asyncio.run(alone.truth()).sound
