"""The clock behind the jobs: APScheduler with cron in code, each slot run once whatever the number of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from jobs.table import JOBS, Job, RunsJobs, run_job, waits
from knowledge.errors import HardwonError, reason_of
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)

LOOKS_EVERY = timedelta(minutes=1)
"""How often the scheduler looks whether the clock was set back."""
JITTER = timedelta(minutes=1)
STOP_GRACE_SECONDS = 30.0


@asynccontextmanager
async def scheduling(knowledge: Knowledge | RunsJobs) -> AsyncIterator[AsyncIOScheduler]:
    """Run the jobs of the table for a block, each also once at its start; at its end running ones may finish.

    What failed is tried again within its slot, by whichever process asks first once it is due.
    """
    running: set[asyncio.Task[bool]] = set()
    ending = asyncio.Event()
    cron = AsyncIOScheduler(
        timezone=UTC,
        # however late it is, as on a machine that slept: a slot is run once
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )

    async def tracked(job: Job) -> None:
        tries: list[timedelta | None] = [*waits(job), None]
        for wait, following in zip((timedelta(0), *waits(job)), tries, strict=True):
            try:
                await asyncio.sleep(wait.total_seconds())
            except asyncio.CancelledError:
                return  # at the end; raised, it would be logged as a failure
            if ending.is_set():  # a further try that is due while others finish would outlive the stores
                return
            # shutdown waits for no coroutine but cancels it, so that we wait ourselves for one that does its work
            task = asyncio.create_task(_logged(knowledge, job, partial(_again_at, cron, job, following)))
            running.add(task)
            task.add_done_callback(running.discard)
            if await asyncio.shield(task):
                return

    for job in JOBS.values():
        cron.add_job(tracked, _trigger(job), args=[job], id=job.name)
        cron.add_job(tracked, args=[job], id=f"{job.name} at start")
    cron.start()
    looking = asyncio.create_task(_look(cron))
    try:
        yield cron
    finally:
        looking.cancel()
        ending.set()
        cron.pause()
        left = set(running)
        if left:
            await asyncio.wait(left, timeout=STOP_GRACE_SECONDS)
        for task in left:
            task.cancel()
        await asyncio.gather(looking, *left, return_exceptions=True)
        cron.shutdown(wait=False)


async def _look(cron: AsyncIOScheduler) -> None:
    while True:
        await asyncio.sleep(LOOKS_EVERY.total_seconds())
        # the scheduler makes its plans by this clock, whatever ours is
        plan_anew(cron, datetime.now(UTC))


def plan_anew(cron: AsyncIOScheduler, now: datetime) -> None:
    """Have each job run in its next slot again, where it was put off by a clock that was ahead, and was set back since.

    Else it would wait for the moment that clock had told, which may be years away.
    """
    for planned in cron.get_jobs():
        job = JOBS.get(planned.id)
        if job is not None and planned.next_run_time - now > job.slot + JITTER:
            log.warning("clock_set_back", job=job.name, planned_at=planned.next_run_time.isoformat())
            planned.reschedule(_trigger(job))


def _trigger(job: Job) -> CronTrigger:
    return CronTrigger(timezone=UTC, jitter=int(JITTER.total_seconds()), **job.cron)


def _again_at(cron: AsyncIOScheduler, job: Job, following: timedelta | None) -> datetime | None:
    """Return when a job is tried again: after a wait, or, where its slot has no further try, in the next slot."""
    if following is not None:
        return datetime.now(UTC) + following
    planned: datetime | None = cron.get_job(job.name).next_run_time
    return planned


async def _logged(knowledge: Knowledge | RunsJobs, job: Job, again_at: Callable[[], datetime | None]) -> bool:
    """Run a job's slot; return whether it is known to be done: another process that has begun it may fail.

    What is raised on purpose, as in an outage, is told in its own sentence; where something went wrong with us is told
    of all else.
    """
    try:
        return await run_job(knowledge, job.name, once_per_slot=True) is not None
    except HardwonError as error:
        log.warning("job_failed", job=job.name, reason=reason_of(error), again_at=_iso(again_at()))
    except Exception:  # the scheduler's loop goes on whatever one run met
        log.exception("job_failed", job=job.name, again_at=_iso(again_at()))
    return False


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
