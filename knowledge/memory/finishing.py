"""Cleanup of cancelled work, which must not wait for a service that may never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Final

from knowledge.errors import HardwonError

FINISH_SECONDS: Final = 5.0
"""Time that a running step gets when a checkpoint is cancelled."""


async def try_finish(work: Awaitable[object]) -> None:
    """Run best-effort cleanup for at most `FINISH_SECONDS`, ignoring errors; the next checkpoint makes up for it."""
    with suppress(HardwonError, TimeoutError):
        async with asyncio.timeout(FINISH_SECONDS):
            await work


_running: set[asyncio.Task[None]] = set()
"""References to running tasks; the event loop alone does not keep them from being garbage collected."""


async def run_to_completion(work: Coroutine[object, object, None]) -> None:
    """Run work to its end even if its caller is cancelled, any number of times.

    A deadline and the caller's deadline are two cancellations; the second one arrives while the first is handled.
    """
    task = asyncio.create_task(work)
    _running.add(task)
    task.add_done_callback(_discard_finished)
    await asyncio.shield(task)


def _discard_finished(work: asyncio.Task[None]) -> None:
    _running.discard(work)
    if not work.cancelled():
        work.exception()  # marks the error as retrieved
