"""Work that is done in every workspace, in one after the other or in a few at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.memory.in_turn import process_each
from knowledge.wiring import Knowledge


async def in_each_workspace(
    knowledge: Knowledge, work: Callable[[Knowledge], Awaitable[int]], *, at_once: int = 1
) -> int:
    """Do some work in every workspace; return how many things it dealt with. One holds up no other (`process_each`).

    Also where only what was deleted, or is on record of the work, has yet to go.
    """
    return sum(
        await process_each(
            map(knowledge.in_workspace, await knowledge.jobs.workspaces_with_work()), work, at_once=at_once
        )
    )
