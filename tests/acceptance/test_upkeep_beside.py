"""Verify, rebuild and a change of model in the middle of a checkpoint: nothing is lost, and nothing wrongly accused."""

from __future__ import annotations

from datetime import timedelta

from knowledge.memory.upkeep import VerifyReport
from knowledge.wiring import Knowledge
from tests.conftest import SetClock
from tests.support.entries import capture, failure
from tests.support.faults import Trips, wired


async def test_g14_a_point_that_a_checkpoint_is_about_to_write_again_is_no_fault(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """G14: its row says already until when the text lives that was told again, and the index not yet."""
    await capture(knowledge, failure(task_id="1"))
    await knowledge.checkpoints.process_all()
    clock.move(timedelta(days=3))
    await capture(knowledge, failure(task_id="2"))
    found: list[VerifyReport] = []

    async def look() -> None:
        found.append(await knowledge.upkeep.verify())

    await wired(knowledge, Trips({"index.upsert:before:1": look})).checkpoints.process_all()
    assert [report.sound for report in found] == [True]
    assert (await knowledge.upkeep.verify()).sound
