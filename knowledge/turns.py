"""Turns at the event loop: whoever computes for long lets others have theirs between two slices of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

_Read = TypeVar("_Read")
_Result = TypeVar("_Result")

AT_ONCE = 20_000
"""Characters that are read while others wait: redacted and searched for orders, or for what went wrong, they take 10 to
20 ms (measured)."""

_ROUNDS = 4
"""An answer of Postgres is read in one round of the loop, handed on in the next, and acted upon in a third."""


async def let_others_run() -> None:
    """Let whatever waits for its turn take it, as far as it gets without waiting for anything again."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)


async def aside_if_long(characters: int, read: Callable[[], _Read]) -> _Read:
    """Return what comes of reading so many characters, in a thread where they are more than `AT_ONCE`."""
    return await asyncio.to_thread(read) if characters > AT_ONCE else read()


async def all_of(work: Iterable[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Run all side by side and return their results in order; the first error ends the others and is raised itself."""
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
