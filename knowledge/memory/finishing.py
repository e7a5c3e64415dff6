"""The end of work that is broken off: it waits for nothing that may never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Final

from knowledge.errors import HardwonError

FINISH_SECONDS: Final = 5.0
"""What a step that is under way may take when a checkpoint is broken off."""


async def if_in_time(work: Awaitable[object]) -> None:
    """Do what somebody else does later otherwise: its errors are nobody's, and it is broken off where it takes long."""
    with suppress(HardwonError, TimeoutError):
        async with asyncio.timeout(FINISH_SECONDS):
            await work


_going_on: set[asyncio.Task[None]] = set()
"""Held here, since the event loop alone does not keep a task from being collected."""


async def to_the_end(work: Coroutine[object, object, None]) -> None:
    """Do what must be done however often its caller is cancelled: it goes on by itself then.

    A deadline and the deadline of whoever called are two cancellations, and the second one comes in the middle of what
    is done about the first.
    """
    going_on = asyncio.create_task(work)
    _going_on.add(going_on)
    going_on.add_done_callback(_done)
    await asyncio.shield(going_on)


def _done(work: asyncio.Task[None]) -> None:
    _going_on.discard(work)
    if not work.cancelled():
        work.exception()  # of whoever still waits; else nobody's
