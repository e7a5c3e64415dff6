"""Processing of items with bounded concurrency, where one item must not hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from knowledge.errors import BudgetSpent, HardwonError, TookTooLong, Unavailable, reason_of
from knowledge.logs import get_logger

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
