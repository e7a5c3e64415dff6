"""Work that is done in one workspace after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.memory.in_turn import in_turn
from knowledge.wiring import Knowledge


async def in_each_workspace(knowledge: Knowledge, work: Callable[[Knowledge], Awaitable[int]]) -> int:
    """Do some work in every workspace; return how many things it dealt with. One holds up no other (`in_turn`)."""
    return sum(await in_turn(map(knowledge.in_workspace, await knowledge.workspaces()), work))
