"""Learning from the runs of coding agents as their hooks tell that there is news."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from hardwon.errors import HardwonError
from hardwon.event_log import get_logger
from knowledge.models import CaptureResult
from knowledge.wiring.open import Knowledge
from orchestrator.agent_hooks.spool import clear_sessions, pending_sessions
from orchestrator.importers.sessions.formats import find_transcripts
from orchestrator.importers.sessions.lessons.learner import SessionLearner, SessionReader, select_changed
from orchestrator.importers.sessions.lessons.read_marks import open_marks
from orchestrator.server.span_learning import SpanLearning

log = get_logger(__name__)

POLL_SECONDS = 10.0
"""Time between two looks at the spool: two calls of the file system where there is no news; ours."""


@contextlib.asynccontextmanager
async def learn_from_hooks(knowledge: Knowledge, home: Path, *, checks: Sequence[str] = ()) -> AsyncIterator[None]:
    """Learn for a block from the sessions that hooks note, and from the spans that are received, in a data directory.

    `checks`: the beginnings of commands that a setting makes checks. A session that cannot be read is logged and left.
    """
    task = asyncio.create_task(_learn_forever(knowledge, home, checks))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _learn_forever(knowledge: Knowledge, home: Path, checks: Sequence[str]) -> None:
    spans = SpanLearning(knowledge=knowledge, home=home, checks=checks)
    while True:
        try:
            await learn_pending(knowledge, home, checks=checks)
            await spans.learn_pending()
        except (HardwonError, OSError, sqlite3.Error) as error:
            log.warning("sessions_not_learned", error=str(error))
        await asyncio.sleep(POLL_SECONDS)


async def learn_pending(knowledge: Knowledge, home: Path, *, checks: Sequence[str] = ()) -> int:
    """Learn from the sessions that have news; return how many lessons were captured."""
    paths = await asyncio.to_thread(pending_sessions, home)
    if not paths:
        await asyncio.to_thread(clear_sessions, home)  # of sessions that left no transcript
        return 0
    captured: list[CaptureResult] = []
    found = await asyncio.to_thread(find_transcripts, paths)
    reader = SessionReader(named=checks, left_out=found.left_out, unread=found.unread)
    with open_marks(home, knowledge.stores.workspace, for_writing=True) as marks:
        learner = SessionLearner(knowledge=knowledge, marks=marks, tell=captured.append, left_out=reader.left_out)
        for files in select_changed(found, marks):
            await learner.learn_files(files, reader)
    await asyncio.to_thread(clear_sessions, home)
    stored = sum(each.entry_id is not None for each in captured)
    log.info("sessions_learned", sessions=len(paths), lessons=stored, unread=len(reader.unread))
    return stored
