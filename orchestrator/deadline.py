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

_going_on: set[asyncio.Task[Any]] = set()
"""Those of them that may still end by themselves."""
_MOST_GOING_ON = 8
"""More are not left to go on, ours: of what stands still none ends, and each may hold a connection."""


async def within(seconds: float, work: Coroutine[Any, Any, _Answer], *, ends_within: float = 0.0) -> _Answer:
    """Return what work returns, or raise TimeoutError; what is late then is not waited for.

    It is cancelled at once, or goes on for up to `ends_within` seconds more and is cancelled then: a call that is
    cancelled takes its connection along, and the next one has to make another before it can ask.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except BaseException:
        _leave(task)
        raise
    if not task.done():
        _leave(task, ends_within)
        raise TimeoutError
    return task.result()


def _leave(task: asyncio.Task[Any], ends_within: float = 0.0) -> None:
    """Let a task go on for so long, where not too many do, and cancel it; a driver may take seconds to leave."""
    _left_behind.add(task)
    task.add_done_callback(_forget)
    if ends_within and len(_going_on) < _MOST_GOING_ON:
        _going_on.add(task)
        ends = asyncio.get_running_loop().call_later(ends_within, task.cancel)
        task.add_done_callback(lambda _: ends.cancel())
    else:
        task.cancel()


def _forget(task: asyncio.Task[Any]) -> None:
    _left_behind.discard(task)
    _going_on.discard(task)
    if not task.cancelled() and (error := task.exception()):
        log.info("late_answer_failed", reason=reason_of(error))
