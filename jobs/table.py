"""The table of jobs: their schedules and their work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from hardwon.errors import Conflict, HardwonError, InvalidInput
from hardwon.event_log import get_logger
from jobs.webhooks import tell_webhook
from knowledge.documents.access import Permission
from knowledge.documents.service import LOCAL
from knowledge.memory.rules.retention import add_years
from knowledge.ports import CANCELLED, JobStore
from knowledge.runtime.scheduling import process_each
from knowledge.wiring.backups import back_up
from knowledge.wiring.open import Knowledge


async def for_each_workspace(
    knowledge: Knowledge, work: Callable[[Knowledge], Awaitable[int]], *, at_once: int = 1
) -> int:
    """Do some work in every workspace; return the number of items processed. A failure in one does not stop others.

    Workspaces that hold nothing but deleted entries or records of work are included.
    """
    return sum(
        await process_each(
            map(knowledge.in_workspace, await knowledge.jobs.workspaces_with_work()), work, at_once=at_once
        )
    )


log = get_logger(__name__)


async def index(knowledge: Knowledge) -> int:
    """Index the documents that wait for it; return their number."""

    async def run(one: Knowledge) -> int:
        return (await one.kb.documents.indexing.run()).indexed

    return await for_each_workspace(knowledge, run)


async def sync(knowledge: Knowledge) -> int:
    """Fetch all repositories; return the number of new or changed documents. A failure of one does not stop others."""
    return await for_each_workspace(knowledge, _sync_workspace)


async def _sync_workspace(knowledge: Knowledge) -> int:
    documents, changed = knowledge.kb.documents, 0
    for source in await documents.syncing.store.of(None):
        try:
            kb, scope_id = documents.access.base_and_scope(source.partition)
            scope = await documents.access.scope(LOCAL, kb, scope_id, permission=Permission.WRITE)
            changed += (await documents.syncing.sync_one(source, scope)).added
        except HardwonError as error:
            log.warning("source_not_synced", source_id=str(source.source_id), reason=str(error))
    if changed:
        await documents.indexing.run()
    return changed


async def sweep_cases(knowledge: Knowledge) -> int:
    """Delete the documents that are left of closed cases; return their number."""

    async def sweep(one: Knowledge) -> int:
        documents = one.kb.documents
        return await documents.syncing.forget_closed() + await documents.upkeep.sweep_cases()

    return await for_each_workspace(knowledge, sweep)


async def reconcile(knowledge: Knowledge) -> int:
    """Reconcile the index with Postgres; delete expired cached answers, and embeddings without a text.

    Returns the number of differences repaired. A change of model that died after its switch is finished first: its
    documents would be taken for those of the other model. Answers are deleted even if the index is down.
    """
    await for_each_workspace(knowledge, lambda one: one.kb.documents.upkeep.purge_answers())
    await knowledge.store_upkeep.finish()

    async def repair(one: Knowledge) -> int:
        upkeep = one.kb.documents.upkeep
        report = await upkeep.reconcile()
        return report.requeued + report.written + report.removed + await upkeep.purge()

    return await for_each_workspace(knowledge, repair)


SWEEP_AFTER = timedelta(days=1)
"""A project with staged entries older than this has missed its checkpoint: the sweeper makes one."""
SWEEP_CONCURRENCY = 4
"""Workspaces swept at a time, ours: 6,000 checkpoints of one entry each took 11 minutes in sequence on two busy cores
with an embedder that takes no time, and an endpoint takes half a second for each."""
TAKEOVER_AFTER = timedelta(hours=1)
"""A run without a heartbeat for this long has died, and is repeated by another process."""
MAX_TRIES = 5
"""Tries per slot, the first included; the delays between them double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: its name, description, schedule (cron fields, UTC), the length of a slot, and its work on all workspaces.

    A failed job is retried after `retry_after`. The work returns the number of items it processed; `item_names` names
    them, in the singular and the plural.
    """

    name: str
    description: str
    cron: dict[str, str]
    slot: timedelta
    retry_after: timedelta
    work: Callable[[Knowledge], Awaitable[int]]
    item_names: tuple[str, str]


@runtime_checkable
class RemoteJobs(Protocol):
    """Knowledge behind HTTP: the server runs the job."""

    async def run_job(self, name: str, *, once_per_slot: bool) -> int | None:
        """Run a job."""


async def _sweep(knowledge: Knowledge) -> int:
    async def sweep(one: Knowledge) -> int:
        return sum(report.embedded for report in await one.checkpoints.sweep(staged_for=SWEEP_AFTER))

    return await for_each_workspace(knowledge, sweep, at_once=SWEEP_CONCURRENCY)


async def _prune(knowledge: Knowledge) -> int:
    async def prune(one: Knowledge) -> int:
        report = await one.pruning.prune()
        return report.entries + report.never_resolved

    try:
        pruned = await for_each_workspace(knowledge, prune)
    except Conflict:  # as with a clock that seems wrong: keys must not expire by it
        await knowledge.jobs.vacuum()
        raise
    except HardwonError:  # a failure in one workspace must not stop the prune of the whole store
        await _prune_keys(knowledge)
        await knowledge.jobs.vacuum()
        raise
    await _prune_keys(knowledge)
    if pruned:
        await knowledge.jobs.vacuum()
    return pruned


async def _prune_keys(knowledge: Knowledge) -> None:
    await knowledge.keys.prune(add_years(knowledge.stores.clock.now(), -knowledge.settings.retention_years))


async def _measure_recall(knowledge: Knowledge) -> int:
    async def measure(one: Knowledge) -> int:
        report = await one.upkeep.measure_recall()
        if not report.sound:
            log.warning("index_recall_low", workspace=one.workspace, recall=report.least, advice=list(report.advice))
        return sum(sample.searches for sample in report.samples)

    return await for_each_workspace(knowledge, measure)


async def _perform_deeds(knowledge: Knowledge) -> int:
    async def perform(one: Knowledge) -> int:
        return await one.deeds.perform_due()

    due = await knowledge.jobs.workspaces_with_deeds(knowledge.stores.clock.now())
    return sum(await process_each(map(knowledge.in_workspace, due), perform, at_once=1))


async def _verify_seals(knowledge: Knowledge) -> int:
    return await knowledge.integrity.check_store()


async def _back_up(knowledge: Knowledge) -> int:
    if knowledge.settings.backup_dir is None:
        return 0
    await back_up(knowledge, knowledge.settings, knowledge.settings.backup_dir, keep=knowledge.settings.backup_keep)
    return 1


async def project_map(knowledge: Knowledge) -> int:
    """Make the maps of workspaces whose patterns changed; return the number of patterns placed."""
    return await for_each_workspace(knowledge, lambda one: one.maps.project())


_MINUTE = timedelta(minutes=1)
_ENTRIES = ("entry", "entries")
_DOCUMENTS = ("document", "documents")
JOBS = {
    "sweep": Job(
        name="sweep",
        description="checkpoints projects with entries staged for a day; restores what an index lost",
        cron={"minute": "15"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=_sweep,
        item_names=_ENTRIES,
    ),
    "prune": Job(
        name="prune",
        description="deletes expired entries, keys and records",
        cron={"hour": "3"},
        slot=timedelta(days=1),
        retry_after=20 * _MINUTE,
        work=_prune,
        item_names=_ENTRIES,
    ),
    "deeds": Job(
        name="deeds",
        description="does what people decided, once it can no longer be undone",
        cron={"minute": "*"},
        slot=_MINUTE,
        retry_after=_MINUTE / 30,
        work=_perform_deeds,
        item_names=("deed", "deeds"),
    ),
    "webhook": Job(
        name="webhook",
        description="tells HARDWON_WEBHOOK_URL what waits for a person, sinks or is dead",
        cron={"minute": "*"},
        slot=_MINUTE,
        retry_after=_MINUTE / 30,
        work=tell_webhook,
        item_names=("message", "messages"),
    ),
    "recall": Job(
        name="recall",
        description="compares what searches find with what an exact one finds",
        cron={"hour": "4", "minute": "30"},
        slot=timedelta(days=1),
        retry_after=20 * _MINUTE,
        work=_measure_recall,
        item_names=("search", "searches"),
    ),
    "seals": Job(
        name="seals",
        description="checks that no entry was changed, removed or put back by other means than hardwon's",
        cron={"hour": "5"},
        slot=timedelta(days=1),
        retry_after=20 * _MINUTE,
        work=_verify_seals,
        item_names=_ENTRIES,
    ),
    "backup": Job(
        name="backup",
        description="makes a backup in HARDWON_BACKUP_DIR and tries it",
        cron={"hour": "2"},
        slot=timedelta(days=1),
        retry_after=20 * _MINUTE,
        work=_back_up,
        item_names=("backup", "backups"),
    ),
    "project_map": Job(
        name="project_map",
        description="makes the maps of workspaces whose patterns changed; also after each checkpoint",
        cron={"minute": "5-59/10"},
        slot=10 * _MINUTE,
        retry_after=_MINUTE / 3,
        work=project_map,
        item_names=("pattern", "patterns"),
    ),
    "index": Job(
        name="index",
        description="indexes the documents that wait for it",
        cron={"minute": "*/10"},
        slot=10 * _MINUTE,
        retry_after=_MINUTE / 3,
        work=index,
        item_names=_DOCUMENTS,
    ),
    "sync": Job(
        name="sync",
        description="fetches the repositories of knowledge bases",
        cron={"minute": "40"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=sync,
        item_names=_DOCUMENTS,
    ),
    "reconcile": Job(
        name="reconcile",
        description="reconciles the index of documents with Postgres",
        cron={"minute": "50"},
        slot=timedelta(hours=1),
        retry_after=2 * _MINUTE,
        work=reconcile,
        item_names=("difference", "differences"),
    ),
    "sweep_cases": Job(
        name="sweep_cases",
        description="deletes the documents of closed cases",
        cron={"hour": "*/6", "minute": "5"},
        slot=timedelta(hours=6),
        retry_after=20 * _MINUTE,
        work=sweep_cases,
        item_names=_DOCUMENTS,
    ),
}
"""The sweeper runs hourly, the prune daily; both restore what the index lost.

Documents are indexed when they are added; the index job takes those that were left or postponed. Repositories are
fetched and the index is reconciled hourly, closed cases are deleted every six hours. Each job also runs once when the
scheduler starts, for a machine that was off at the time.

The last try of a sweep is half an hour after its first, that of a prune five hours: within their slots.
"""


def retry_delays(job: Job) -> list[timedelta]:
    """Return the delay before each retry of a slot; all retries are over before the next slot begins."""
    return [job.retry_after * 2**attempt for attempt in range(MAX_TRIES - 1)]


def slot_of(job: Job, now: datetime) -> datetime:
    """Return the beginning of the slot that contains `now`, in UTC."""
    begin = datetime(2000, 1, 1, tzinfo=UTC)
    return begin + (now - begin) // job.slot * job.slot


async def run_job(knowledge: Knowledge | RemoteJobs, name: str, *, once_per_slot: bool) -> int | None:
    """Run a job now; return the number of items processed, None if its slot is done, running, or not yet due again.

    With `once_per_slot` there is one run per slot over all processes, repeated if it fails. Raises InvalidInput for an
    unknown name, and what the work raises, after recording it.
    """
    job = JOBS.get(name)
    if job is None:
        raise InvalidInput("job", f"must be one of {', '.join(JOBS)}, not {name!r}")
    if isinstance(knowledge, RemoteJobs):
        return await knowledge.run_job(name, once_per_slot=once_per_slot)
    knowledge.principal.require("run_job")
    now = knowledge.stores.clock.now()
    slot = slot_of(job, now)
    if not once_per_slot:  # a run out of turn takes no other's slot
        slot = now if now != slot else now + timedelta(microseconds=1)
    tried = await knowledge.jobs.begin(
        name, slot, takeover_after=TAKEOVER_AFTER, retry_after=job.retry_after, tries=MAX_TRIES
    )
    if tried is None:
        return None if once_per_slot else await job.work(knowledge)
    done: int | None = None
    error: str | None = CANCELLED
    try:
        async with _send_heartbeats(knowledge.jobs, name, slot, tried):
            done = await job.work(knowledge)
        error = None
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        raise
    finally:
        await knowledge.jobs.finish(name, slot, tried, error, done)
    log.info("job_finished", job=name, slot=slot.isoformat(), dealt_with=done)
    return done


@asynccontextmanager
async def _send_heartbeats(jobs: JobStore, name: str, slot: datetime, tried: int) -> AsyncIterator[None]:
    """Send heartbeats while a job runs: a prune may take longer than the time until a takeover."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(TAKEOVER_AFTER.total_seconds() / 4)
            with suppress(HardwonError):  # the next heartbeat may get through
                await jobs.heartbeat(name, slot, tried)

    heartbeat = asyncio.create_task(beat())
    try:
        yield
    finally:
        heartbeat.cancel()
        await asyncio.gather(heartbeat, return_exceptions=True)
