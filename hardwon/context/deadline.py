"""Deadlines for calls: a late call is abandoned, not awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hardwon.errors import reason_of
from hardwon.event_log import get_logger

log = get_logger(__name__)

_Result = TypeVar("_Result")

_abandoned_tasks: set[asyncio.Task[Any]] = set()
"""Calls that were abandoned, until they end: the loop itself holds only weak references to tasks."""

_overrunning_tasks: set[asyncio.Task[Any]] = set()
"""Those of them that may still finish."""
_MAX_OVERRUNNING = 8
"""Calls that may overrun at a time, ours: if a server hangs none of them ends, and each may hold a connection."""


async def run_within(
    seconds: float,
    work: Coroutine[Any, Any, _Result],
    *,
    overrun_seconds: float = 0.0,
    on_overrun_end: Callable[[bool], None] = lambda _: None,
) -> _Result:
    """Return the result of `work`, or raise TimeoutError without waiting for its end.

    Late work is cancelled at once, or after `overrun_seconds` more: cancelling a call also drops its connection, and
    the next call has to open another one first. `on_overrun_end` is called once such work has ended, with whether it
    did so with a result: then it was late, and nothing is broken.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except BaseException:
        _abandon(task)
        raise
    if not task.done():
        if _abandon(task, overrun_seconds):
            task.add_done_callback(lambda ended: on_overrun_end(not ended.cancelled() and ended.exception() is None))
        raise TimeoutError
    return task.result()


def _abandon(task: asyncio.Task[Any], overrun_seconds: float = 0.0) -> bool:
    """Cancel a task at once, or after `overrun_seconds` if not too many overrun already; return whether it may overrun.

    A driver may take seconds to end.
    """
    _abandoned_tasks.add(task)
    task.add_done_callback(_forget)
    overruns = bool(overrun_seconds) and len(_overrunning_tasks) < _MAX_OVERRUNNING
    if overruns:
        _overrunning_tasks.add(task)
        ends = asyncio.get_running_loop().call_later(overrun_seconds, task.cancel)
        task.add_done_callback(lambda _: ends.cancel())
    else:
        task.cancel()
    return overruns


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned_tasks.discard(task)
    _overrunning_tasks.discard(task)
    if not task.cancelled() and (error := task.exception()):
        log.info("late_answer_failed", reason=reason_of(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Times of the event loop up to which a question waits for the index.

    `known_by`: where something is known word for word; `index_by`: where nothing is.
    """

    known_by: float
    index_by: float
