"""Work in every workspace, sequential or with bounded concurrency."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.memory.in_turn import process_each
from knowledge.wiring import Knowledge


async def for_each_workspace(
    knowledge: Knowledge, work: Callable[[Knowledge], Awaitable[int]], *, at_once: int = 1
) -> int:
    """Do some work in every workspace; return the number of items processed. A failure in one does not stop others.

    Workspaces that hold nothing but deleted entries or records of work are included.
    """
    return sum(
        await process_each(
            map(knowledge.in_workspace, await knowledge.jobs.workspaces_with_work()), work, at_once=at_once
        )
    )
