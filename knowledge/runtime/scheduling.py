"""Processing of items with bounded concurrency, where one item must not hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

from hardwon.errors import BudgetSpent, HardwonError, TookTooLong, Unavailable, reason_of
from hardwon.event_log import get_logger

FINISH_SECONDS: Final = 5.0
"""Time that a running step gets when a checkpoint is cancelled."""


async def try_finish(work: Awaitable[object]) -> None:
    """Run best-effort cleanup for at most `FINISH_SECONDS`, ignoring errors; the next checkpoint makes up for it."""
    with suppress(HardwonError, TimeoutError):
        async with asyncio.timeout(FINISH_SECONDS):
            await work


_running: set[asyncio.Task[None]] = set()
"""References to running tasks; the event loop alone does not keep them from being garbage collected."""


async def run_to_completion(work: Coroutine[object, object, None]) -> None:
    """Run work to its end even if its caller is cancelled, any number of times.

    A deadline and the caller's deadline are two cancellations; the second one arrives while the first is handled.
    """
    task = asyncio.create_task(work)
    _running.add(task)
    task.add_done_callback(_discard_finished)
    await asyncio.shield(task)


def _discard_finished(work: asyncio.Task[None]) -> None:
    _running.discard(work)
    if not work.cancelled():
        work.exception()  # marks the error as retrieved


log = get_logger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def process_each(
    items: Iterable[_Item], work: Callable[[_Item], Awaitable[_Result]], *, at_once: int = 1
) -> list[_Result]:
    """Apply `work` to each item, `at_once` at a time; return the results in completion order.

    An error does not stop the other items: the first one is raised at the end. Unavailable stores or embedders are
    raised at once, and running work is cancelled; not so where one item took too long or has spent its own budget.
    """
    results: list[_Result] = []
    errors: list[HardwonError] = []
    remaining = iter(items)

    async def work_through() -> None:
        for item in remaining:
            try:
                results.append(await work(item))
            except HardwonError as error:
                if isinstance(error, Unavailable) and not isinstance(error, TookTooLong | BudgetSpent):
                    raise
                log.warning("put_off", reason=reason_of(error))
                errors.append(error)

    if at_once == 1:
        await work_through()
    else:
        workers = [asyncio.create_task(work_through()) for _ in range(at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    if errors:
        raise errors[0]
    return results


_Read = TypeVar("_Read")
MAX_INLINE_CHARS = 20_000
"""Characters processed on the loop itself; redaction and injection checks take 10 to 20 ms for them (measured)."""
_ROUNDS = 4
"""Rounds of the loop that an answer of Postgres takes from the socket to the waiting task."""


async def yield_to_loop() -> None:
    """Let every ready task run until it waits again."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)


async def run_in_thread_if_long(characters: int, read: Callable[[], _Read]) -> _Read:
    """Return the result of `read`, called in a thread if it processes more than `MAX_INLINE_CHARS` characters."""
    return await asyncio.to_thread(read) if characters > MAX_INLINE_CHARS else read()


async def gather_all(work: Iterable[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Run all concurrently and return their results in order; the first error cancels the others and is raised."""
    failed: BaseException | None = None
    tasks: list[asyncio.Task[_Result]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks.extend(group.create_task(part) for part in work)
    except BaseExceptionGroup as errors:
        failed = errors.exceptions[0]
    if failed is not None:
        raise failed
    return [task.result() for task in tasks]
