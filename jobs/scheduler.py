"""The scheduler of the jobs: APScheduler with cron triggers; each slot runs once over all replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from hardwon.errors import HardwonError, reason_of
from hardwon.event_log import get_logger
from hardwon.models.maintenance import JobState
from jobs.table import JOBS, Job, RemoteJobs, retry_delays, run_job
from knowledge.wiring.open import Knowledge

log = get_logger(__name__)

CLOCK_CHECK_INTERVAL = timedelta(minutes=1)
"""Interval of the check whether the clock was set back."""
JITTER = timedelta(minutes=1)
MAP_DELAY_SECONDS = 1.0
"""Ours: checkpoints of several projects in a row are one map."""
MAX_RUNS = 30
"""Runs of a job that are listed; ours."""
STOP_GRACE_SECONDS = 30.0


@asynccontextmanager
async def run_scheduler(knowledge: Knowledge | RemoteJobs) -> AsyncIterator[AsyncIOScheduler]:
    """Run the scheduled jobs for a block, each also once at its start; at its end running ones may finish.

    A failed job is retried within its slot, by whichever process comes first once the retry is due.
    """
    running: set[asyncio.Task[bool]] = set()
    ending = asyncio.Event()
    cron = AsyncIOScheduler(
        timezone=UTC,
        # however late, as on a machine that slept: a slot runs once
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )

    async def run_with_retries(job: Job) -> None:
        next_delays: list[timedelta | None] = [*retry_delays(job), None]
        for delay, following in zip((timedelta(0), *retry_delays(job)), next_delays, strict=True):
            try:
                await asyncio.sleep(delay.total_seconds())
            except asyncio.CancelledError:
                return  # at the end; raised, it would be logged as a failure
            if ending.is_set():  # a retry that begins while others finish would outlive the stores
                return
            # shutdown cancels coroutines without waiting, so we wait for running ones ourselves
            task = asyncio.create_task(_run_logged(knowledge, job, partial(_retry_time, cron, job, following)))
            running.add(task)
            task.add_done_callback(running.discard)
            if await asyncio.shield(task):
                return

    for job in JOBS.values():
        cron.add_job(run_with_retries, _trigger(job), args=[job], id=job.name)
        cron.add_job(run_with_retries, args=[job], id=f"{job.name} at start")
    cron.start()
    watchers = [asyncio.create_task(_watch_clock(cron)), asyncio.create_task(_map_after_checkpoints(knowledge))]
    try:
        yield cron
    finally:
        for each in watchers:
            each.cancel()
        ending.set()
        cron.pause()
        unfinished = set(running)
        if unfinished:
            await asyncio.wait(unfinished, timeout=STOP_GRACE_SECONDS)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*watchers, *unfinished, return_exceptions=True)
        cron.shutdown(wait=False)


async def _map_after_checkpoints(knowledge: Knowledge | RemoteJobs) -> None:
    """Make maps soon after each checkpoint of this process; the scheduled run makes those that failed."""
    if isinstance(knowledge, RemoteJobs):  # the checkpoints are those of the server
        return
    while True:
        await knowledge.stores.embedded.wait()
        await asyncio.sleep(MAP_DELAY_SECONDS)
        knowledge.stores.embedded.clear()
        await _run_logged(knowledge, JOBS["project_map"], lambda: None, once_per_slot=False)


async def _watch_clock(cron: AsyncIOScheduler) -> None:
    while True:
        await asyncio.sleep(CLOCK_CHECK_INTERVAL.total_seconds())
        reschedule_delayed(cron, _system_time())


def reschedule_delayed(cron: AsyncIOScheduler, now: datetime) -> None:
    """Reschedule jobs that were planned by a clock that was ahead and has been set back since.

    Otherwise they would wait for a time that may be years away.
    """
    for planned in cron.get_jobs():
        job = JOBS.get(planned.id)
        if job is not None and planned.next_run_time - now > job.slot + JITTER:
            log.warning("clock_set_back", job=job.name, planned_at=planned.next_run_time.isoformat())
            planned.reschedule(_trigger(job))


async def list_jobs(knowledge: Knowledge) -> list[JobState]:
    """Return the jobs with their schedules, last runs and next times."""
    knowledge.principal.require("list_jobs")
    now = knowledge.stores.clock.now()
    runs = await knowledge.jobs.last_runs(JOBS, limit=MAX_RUNS)
    return [
        JobState(
            name=job.name,
            description=job.description,
            schedule=_write_cron(job),
            next_run_at=CronTrigger(timezone=UTC, **job.cron).get_next_fire_time(None, now),
            item_names=job.item_names,
            runs=tuple(runs[job.name]),
        )
        for job in JOBS.values()
    ]


def _write_cron(job: Job) -> str:
    """Return the schedule of a job as cron writes it; a job that names an hour only runs at its beginning."""
    minute = job.cron.get("minute", "0" if "hour" in job.cron else "*")
    return f"{minute} {job.cron.get('hour', '*')} * * *"


def _trigger(job: Job) -> CronTrigger:
    return CronTrigger(timezone=UTC, jitter=int(JITTER.total_seconds()), **job.cron)


def _retry_time(cron: AsyncIOScheduler, job: Job, following: timedelta | None) -> datetime | None:
    """Return the time of a job's next try: after a delay, or in the next slot if this one has no further try."""
    if following is not None:
        return _system_time() + following
    planned: datetime | None = cron.get_job(job.name).next_run_time
    return planned


def _system_time() -> datetime:
    """Return the time that APScheduler plans by: it has no injected clock."""
    return datetime.now(UTC)


async def _run_logged(
    knowledge: Knowledge | RemoteJobs,
    job: Job,
    again_at: Callable[[], datetime | None],
    *,
    once_per_slot: bool = True,
) -> bool:
    """Run a job's slot and log a failure; return whether it is done: another process that has begun it may yet fail.

    An expected error, as in an outage, is logged with its message; any other with its traceback.
    """
    try:
        return await run_job(knowledge, job.name, once_per_slot=once_per_slot) is not None
    except HardwonError as error:
        log.warning("job_failed", job=job.name, reason=reason_of(error), again_at=_iso(again_at()))
    except Exception:  # the scheduler goes on after any failure of a job
        log.exception("job_failed", job=job.name, again_at=_iso(again_at()))
    return False


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
