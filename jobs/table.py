"""Which job runs when, and what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from jobs import documents
from jobs.workspaces import in_each_workspace
from knowledge.errors import Conflict, HardwonError, InvalidInput
from knowledge.logs import get_logger
from knowledge.memory.retention import add_years
from knowledge.ports import CANCELLED, JobStore
from knowledge.wiring import Knowledge

log = get_logger(__name__)

SWEEP_AFTER = timedelta(days=1)
"""A project whose staged entries are older than this never reached a checkpoint: the sweeper makes one."""

SWEPT_AT_ONCE = 4
"""Workspaces swept at a time, ours: 6,000 checkpoints of an entry, one after the other, took 11 minutes on two busy
cores with an embedder that takes no time, and an endpoint takes half a second for each."""

TAKEOVER_AFTER = timedelta(hours=1)
"""A run that gives no sign of life for so long died, and is repeated by another process."""


TRIES = 5
"""How often a slot is begun at most, the first time included; the waits between them double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: its name, what it does, when (cron fields, UTC), the length of a slot, and its work on all workspaces.

    What failed is tried again after `retry_after`. The work returns how many things it dealt with; `of_what` says what
    those are, one and several of them.
    """

    name: str
    does: str
    cron: dict[str, str]
    slot: timedelta
    retry_after: timedelta
    work: Callable[[Knowledge], Awaitable[int]]
    of_what: tuple[str, str]


@runtime_checkable
class RunsJobs(Protocol):
    """Knowledge behind HTTP, where the server runs the job."""

    async def run_job(self, name: str, *, once_per_slot: bool) -> int | None:
        """Run a job."""
        ...


async def _sweep(knowledge: Knowledge) -> int:
    async def sweep(one: Knowledge) -> int:
        return sum(report.embedded for report in await one.checkpoints.sweep(staged_for=SWEEP_AFTER))

    return await in_each_workspace(knowledge, sweep, at_once=SWEPT_AT_ONCE)


async def _prune(knowledge: Knowledge) -> int:
    async def prune(one: Knowledge) -> int:
        report = await one.pruning.prune()
        return report.entries + report.never_resolved

    try:
        pruned = await in_each_workspace(knowledge, prune)
    except Conflict:  # as where the clock seems wrong, by which a key has ended
        await knowledge.jobs.vacuum()
        raise
    except HardwonError:  # one workspace is no reason to keep what is of the whole store
        await _prune_keys(knowledge)
        await knowledge.jobs.vacuum()
        raise
    await _prune_keys(knowledge)
    if pruned:
        await knowledge.jobs.vacuum()
    return pruned


async def _prune_keys(knowledge: Knowledge) -> None:
    await knowledge.keys.prune(add_years(knowledge.stores.clock.now(), -knowledge.settings.retention_years))


_MINUTE = timedelta(minutes=1)
_ENTRIES = ("entry", "entries")
_DOCUMENTS = ("document", "documents")
JOBS = {
    "sweep": Job(
        name="sweep",
        does="checkpoints where something has been staged for a day; puts back what an index lost",
        cron={"minute": "15"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=_sweep,
        of_what=_ENTRIES,
    ),
    "prune": Job(
        name="prune",
        does="deletes what is past its end: entries, keys, records",
        cron={"hour": "3"},
        slot=timedelta(days=1),
        retry_after=20 * _MINUTE,
        work=_prune,
        of_what=_ENTRIES,
    ),
    "index": Job(
        name="index",
        does="indexes the documents that wait for it",
        cron={"minute": "*/10"},
        slot=10 * _MINUTE,
        retry_after=_MINUTE / 3,
        work=documents.index,
        of_what=_DOCUMENTS,
    ),
    "sync": Job(
        name="sync",
        does="fetches the repositories of knowledge bases",
        cron={"minute": "40"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=documents.sync,
        of_what=_DOCUMENTS,
    ),
    "reconcile": Job(
        name="reconcile",
        does="has the index of documents be as Postgres says",
        cron={"minute": "50"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=documents.reconcile,
        of_what=("difference", "differences"),
    ),
    "sweep_cases": Job(
        name="sweep_cases",
        does="lets go of the documents of closed cases",
        cron={"hour": "*/6", "minute": "5"},
        slot=timedelta(hours=6),
        retry_after=20 * _MINUTE,
        work=documents.sweep_cases,
        of_what=_DOCUMENTS,
    ),
}
"""The sweeper runs hourly, the prune daily; both put back what the index lost.

Documents are indexed when they are added; the index job takes what was left, or put off. Repositories are fetched and
the index is compared hourly, closed cases are let go of every six hours. Each job also runs once when the scheduler
starts, for a machine that was off at the time.

The last try of a sweep is half an hour after its first, that of a prune five hours: within their slots.
"""


def waits(job: Job) -> list[timedelta]:
    """Return how long each further try of a slot is waited for; all are over before the next slot begins."""
    return [job.retry_after * 2**tried for tried in range(TRIES - 1)]


def slot_of(job: Job, now: datetime) -> datetime:
    """Return the beginning of the slot that `now` lies in, in UTC."""
    begin = datetime(2000, 1, 1, tzinfo=UTC)
    return begin + (now - begin) // job.slot * job.slot


async def run_job(knowledge: Knowledge | RunsJobs, name: str, *, once_per_slot: bool) -> int | None:
    """Run a job now; return how many things it dealt with, None if its slot was run already, or is, or not yet again.

    With `once_per_slot` one run per slot over any number of processes, repeated where it fails. Raises InvalidInput for
    an unknown name, and what the work raises, after recording it.
    """
    job = JOBS.get(name)
    if job is None:
        raise InvalidInput("job", f"must be one of {', '.join(JOBS)}, not {name!r}")
    if isinstance(knowledge, RunsJobs):
        return await knowledge.run_job(name, once_per_slot=once_per_slot)
    knowledge.principal.require("run_job")
    if not once_per_slot:
        return await job.work(knowledge)
    slot = slot_of(job, knowledge.stores.clock.now())
    tried = await knowledge.jobs.begin(
        name, slot, takeover_after=TAKEOVER_AFTER, retry_after=job.retry_after, tries=TRIES
    )
    if tried is None:
        return None
    error: str | None = CANCELLED
    try:
        async with _kept_alive(knowledge.jobs, name, slot, tried):
            done = await job.work(knowledge)
        error = None
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        raise
    finally:
        await knowledge.jobs.finish(name, slot, tried, error)
    log.info("job_finished", job=name, slot=slot.isoformat(), dealt_with=done)
    return done


@asynccontextmanager
async def _kept_alive(jobs: JobStore, name: str, slot: datetime, tried: int) -> AsyncIterator[None]:
    """Give signs of life while a job is at work: a prune may take longer than a dead one is given."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(TAKEOVER_AFTER.total_seconds() / 4)
            with suppress(HardwonError):  # the next sign may get through
                await jobs.heartbeat(name, slot, tried)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
