"""The clock behind the jobs: APScheduler with cron in code, each slot run once whatever the number of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from jobs.table import JOBS, Job, RunsJobs, run_job, waits
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge

log = get_logger(__name__)

MISFIRE_GRACE_SECONDS = 3600
"""APScheduler's own second would skip a job whenever the loop was busy for two."""
STOP_GRACE_SECONDS = 30.0


@asynccontextmanager
async def scheduling(knowledge: Knowledge | RunsJobs) -> AsyncIterator[None]:
    """Run the jobs of the table for a block, each also once at its start; at its end running ones may finish.

    What failed is tried again within its slot, by whichever process asks first once it is due.
    """
    running: set[asyncio.Task[bool]] = set()
    cron = AsyncIOScheduler(
        timezone=UTC,
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": MISFIRE_GRACE_SECONDS},
    )

    async def tracked(job: Job) -> None:
        for wait in (timedelta(0), *waits(job)):
            try:
                await asyncio.sleep(wait.total_seconds())
            except asyncio.CancelledError:
                return  # at the end; raised, it would be logged as a failure
            # shutdown waits for no coroutine but cancels it, so that we wait ourselves for one that does its work
            task = asyncio.create_task(_logged(knowledge, job))
            running.add(task)
            task.add_done_callback(running.discard)
            if await asyncio.shield(task):
                return

    for job in JOBS.values():
        cron.add_job(tracked, CronTrigger(timezone=UTC, jitter=60, **job.cron), args=[job], id=job.name)
        cron.add_job(tracked, args=[job], id=f"{job.name} at start")
    cron.start()
    try:
        yield
    finally:
        cron.pause()
        left = set(running)
        if left:
            await asyncio.wait(left, timeout=STOP_GRACE_SECONDS)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        cron.shutdown(wait=False)


async def _logged(knowledge: Knowledge | RunsJobs, job: Job) -> bool:
    """Run a job's slot; return whether it is known to be done: another process that has begun it may fail."""
    try:
        return await run_job(knowledge, job.name, once_per_slot=True) is not None
    except Exception:  # the scheduler's loop goes on whatever one run met
        log.exception("job_failed", job=job.name)
        return False
