"""Contexts in line: as many at work as there are places, the earliest deadline first."""

from __future__ import annotations

import asyncio

import pytest

from orchestrator.context.admission import DeadlineQueue


def in_seconds(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_as_many_run_as_there_are_places_and_then_the_earliest_deadline() -> None:
    queue, order, most, now = DeadlineQueue(2), list[float](), 0, 0

    async def work(seconds: float) -> None:
        nonlocal most, now
        async with queue.admit(in_seconds(seconds)):
            now += 1
            most = max(most, now)
            order.append(seconds)
            await asyncio.sleep(0.01)
            now -= 1

    await asyncio.gather(*(work(seconds) for seconds in (9, 8, 7, 3, 5, 4, 6)))
    assert order == [9, 8, 3, 4, 5, 6, 7]
    assert most == 2


async def test_who_waits_beyond_the_deadline_is_told_and_takes_no_place() -> None:
    queue = DeadlineQueue(1)
    async with queue.admit(in_seconds(9)):
        with pytest.raises(TimeoutError):
            async with queue.admit(in_seconds(0.02)):
                pytest.fail("the place was taken")
    async with asyncio.timeout(1), queue.admit(in_seconds(9)):
        pass


async def test_who_is_cancelled_just_when_given_a_place_passes_it_on() -> None:
    queue = DeadlineQueue(1)

    async def work() -> None:
        async with queue.admit(in_seconds(9)):
            pass

    async with queue.admit(in_seconds(9)):
        waiting = [asyncio.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0)
    waiting[0].cancel()  # its turn has come, and it has not run since
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [task.cancelled() for task in waiting] == [True, False, False]
    async with asyncio.timeout(1), queue.admit(in_seconds(9)):
        pass


async def test_what_fails_gives_its_place_back() -> None:
    queue = DeadlineQueue(1)
    with pytest.raises(RuntimeError):
        async with queue.admit(in_seconds(9)):
            raise RuntimeError("a defect")
    async with asyncio.timeout(1), queue.admit(in_seconds(9)):
        pass
