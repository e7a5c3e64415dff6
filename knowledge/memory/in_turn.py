"""Work that is done on one thing after the other, where none may hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from knowledge.errors import BudgetSpent, HardwonError, TookTooLong, Unavailable, reason_of
from knowledge.logs import get_logger

log = get_logger(__name__)

_Thing = TypeVar("_Thing")
_Done = TypeVar("_Done")


async def process_each(
    things: Iterable[_Thing], work: Callable[[_Thing], Awaitable[_Done]], *, at_once: int = 1
) -> list[_Done]:
    """Do some work on each, on so many at once; return what came of it, as it was done.

    One on which it fails holds up no other: its error is raised once the others are done. Where a store or the embedder
    does not answer, that is raised at once, and what is under way is cancelled; not so where one alone took too long,
    or has spent its own budget.
    """
    done: list[_Done] = []
    failed: list[HardwonError] = []
    left = iter(things)

    async def each_that_is_left() -> None:
        for thing in left:
            try:
                done.append(await work(thing))
            except HardwonError as error:
                if isinstance(error, Unavailable) and not isinstance(error, TookTooLong | BudgetSpent):
                    raise
                log.warning("put_off", reason=reason_of(error))
                failed.append(error)

    if at_once == 1:
        await each_that_is_left()
    else:
        workers = [asyncio.create_task(each_that_is_left()) for _ in range(at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    if failed:
        raise failed[0]
    return done
