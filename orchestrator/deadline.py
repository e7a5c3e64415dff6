"""Waiting no longer than one may: what is late is given up and not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from knowledge.errors import reason_of
from knowledge.logs import get_logger

log = get_logger(__name__)

_Answer = TypeVar("_Answer")

_left_behind: set[asyncio.Task[Any]] = set()
"""Calls that were given up, until they are gone: the loop itself holds tasks weakly."""


async def within(seconds: float, work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Return what work returns, or raise TimeoutError; what is cancelled then is not waited for.

    A driver may take seconds to leave a connection that is dead.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            _left_behind.add(task)
            task.add_done_callback(_forget)
            task.cancel()
    if not task.done():
        raise TimeoutError
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    if not task.cancelled() and (error := task.exception()):
        log.info("late_answer_failed", reason=reason_of(error))
