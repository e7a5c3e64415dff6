"""Threads that several calls share."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable

import pytest

from hardwon.errors import EmbedderUnavailable
from knowledge.adapters.embedding.worker_pool import EmbeddingThreads


async def test_each_piece_is_worked_on_once_by_all_threads() -> None:
    threads, seen = EmbeddingThreads(3, "test"), list[tuple[int, int]]()

    def work(number: int) -> None:
        time.sleep(0.001)
        seen.append((number, threading.get_ident()))

    await threads.each(work, range(60))
    assert sorted(number for number, _ in seen) == list(range(60))
    assert len({thread for _, thread in seen}) == 3
    await threads.each(work, [])
    threads.close()


async def test_a_call_of_one_piece_waits_for_one_piece_of_a_long_call() -> None:
    threads, order, begun = EmbeddingThreads(1, "test"), list[int](), threading.Event()

    def work(number: int) -> None:
        begun.set()
        time.sleep(0.005)
        order.append(number)

    long = asyncio.create_task(threads.each(work, range(50)))
    await asyncio.to_thread(begun.wait)
    await threads.each(work, [1000])
    assert order.index(1000) < 10
    await long
    assert sorted(order) == [*range(50), 1000]
    threads.close()


class Slow:
    """Work of which the order is noted, the first piece of which waits until it is told to go on."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def of(self, call: str) -> Callable[[int], None]:
        def work(_: int) -> None:
            self.begun.set()
            self.go_on.wait()
            self.order.append(call)

        return work


async def test_calls_are_worked_on_one_after_the_other_and_very_long_ones_take_turns() -> None:
    threads, slow = EmbeddingThreads(1, "test"), Slow()
    calls = [asyncio.create_task(threads.each(slow.of(name), range(100))) for name in ("first", "second")]
    await asyncio.to_thread(slow.begun.wait)
    slow.go_on.set()
    await asyncio.gather(*calls)
    told = [(name, len(list(pieces))) for name, pieces in itertools.groupby(slow.order)]
    assert told == [("first", 64), ("second", 64), ("first", 36), ("second", 36)]
    threads.close()


async def test_threads_go_on_with_the_next_call_while_the_last_piece_of_one_is_worked_on() -> None:
    threads, both = EmbeddingThreads(2, "test"), threading.Barrier(2, timeout=5)

    def together(_: int) -> None:
        both.wait()

    await asyncio.gather(threads.each(together, range(5)), threads.each(together, range(5)))
    threads.close()


async def test_short_calls_go_first_and_yet_a_long_one_gets_on_beside_any_number_of_them() -> None:
    threads, slow = EmbeddingThreads(1, "test"), Slow()
    first = asyncio.create_task(threads.each(slow.of("long"), range(10)))
    await asyncio.to_thread(slow.begun.wait)
    others = [asyncio.create_task(threads.each(slow.of("short"), [1])) for _ in range(40)]
    others.append(asyncio.create_task(threads.each(slow.of("short"), range(20), at_once=True)))
    await asyncio.sleep(0)
    slow.go_on.set()
    await asyncio.gather(first, *others)
    told = [(name, len(list(pieces))) for name, pieces in itertools.groupby(slow.order)]
    assert told == [
        ("long", 1),
        ("short", 16),
        ("long", 1),
        ("short", 16),
        ("long", 1),
        ("short", 16),
        ("long", 1),
        ("short", 12),
        ("long", 6),
    ]
    threads.close()


async def test_the_first_error_is_raised_and_ends_the_call() -> None:
    threads, done = EmbeddingThreads(2, "test"), list[int]()

    def work(number: int) -> None:
        if number == 3:
            raise OSError("bad piece")
        time.sleep(0.002)
        done.append(number)

    with pytest.raises(OSError, match="bad piece"):
        await threads.each(work, range(1000))
    await asyncio.sleep(0.02)
    assert len(done) < 20
    await threads.each(done.append, [5000])
    assert done[-1] == 5000
    threads.close()


async def test_a_cancelled_call_leaves_nothing_behind_but_what_is_being_worked_on() -> None:
    threads, done = EmbeddingThreads(2, "test"), list[int]()

    def work(number: int) -> None:
        time.sleep(0.005)
        done.append(number)

    call = asyncio.create_task(threads.each(work, range(1000)))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    so_far = len(done)
    await asyncio.sleep(0.05)
    assert len(done) <= so_far + 2
    threads.close()


async def test_calls_fail_once_it_is_closed() -> None:
    threads = EmbeddingThreads(1, "test")
    begun = threading.Event()

    def work(_: int) -> None:
        begun.set()
        time.sleep(0.01)

    call = asyncio.create_task(threads.each(work, range(1000)))
    await asyncio.to_thread(begun.wait)
    await asyncio.to_thread(threads.close)
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await call
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await threads.each(work, [1])
    threads.close()
