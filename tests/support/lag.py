"""How long an event loop was held by one piece of work, in which nobody else was answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

_STEP = 0.005


@dataclass(slots=True)
class Lag:
    """`worst`: the longest that a task which wanted its turn waited for it, in seconds.

    `computed`: the most that the loop's thread computed meanwhile, however busy the machine is otherwise.
    """

    worst: float = 0.0
    computed: float = 0.0


@asynccontextmanager
async def lag() -> AsyncIterator[Lag]:
    """Measure a block."""
    seen = Lag()

    async def look() -> None:
        while True:
            began, computed = time.perf_counter(), time.thread_time()
            await asyncio.sleep(_STEP)
            seen.worst = max(seen.worst, time.perf_counter() - began - _STEP)
            seen.computed = max(seen.computed, time.thread_time() - computed)

    looking = asyncio.create_task(look())
    await asyncio.sleep(0)
    try:
        yield seen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
