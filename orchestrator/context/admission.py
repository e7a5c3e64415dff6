"""Admission of contexts: as many at work as there are cores, the others in line by deadline.

Contexts that are all worked on at once are all late together: of sixteen none made its deadline (measured).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class DeadlineQueue:
    """Lets `limit` blocks run at a time; of those that wait, the one whose deadline is the earliest comes next."""

    def __init__(self, limit: int | None = None) -> None:
        self._free = limit or _count_cores()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    @asynccontextmanager
    async def admit(self, deadline: float) -> AsyncIterator[None]:
        """Wait for a place, and hold it for a block. `deadline` is a time of the event loop; TimeoutError after it."""
        async with asyncio.timeout_at(deadline):
            await self._acquire(deadline)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, deadline: float) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (deadline, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given the place just then
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
