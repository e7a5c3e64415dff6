"""Cooperative scheduling for CPU-bound work on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

_Read = TypeVar("_Read")
_Result = TypeVar("_Result")

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
