"""What runs by the clock: in the scheduler, by cron, and once per slot whatever the number of processes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import asyncpg
import pytest
import sqlalchemy as sa

from hardwon.errors import (
    Conflict,
    EmbedderUnavailable,
    HardwonError,
    IndexUnavailable,
    InvalidInput,
    LocalOnly,
    StorageRejected,
)
from hardwon.models.answers import Event, EventId
from jobs.scheduler import JITTER, reschedule_delayed, run_scheduler
from jobs.table import JOBS, MAX_TRIES, SWEEP_CONCURRENCY, Job, retry_delays, run_job, slot_of
from knowledge.adapters.files.seal_files import KEYS_FILE
from knowledge.adapters.postgres.document_tables import answer_feedback
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.journal import NewEscalation
from knowledge.memory.maintenance.pruning import KnowledgePruningService
from knowledge.models import Embeddings, PruneReport, Task
from knowledge.ports import JobStore
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, SystemClock, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import Opens, SetClock
from tests.support.clients import client_of
from tests.support.embedders import HashingEmbedder
from tests.support.entries import CART, capture, failure
from tests.support.openai_server import OpenAIServer
from tests.support.processes import Commands, embedding_by, until

LONG_AGO = datetime(2020, 1, 15, 12, tzinfo=UTC)


async def fail(knowledge: Knowledge, description: str = "it broke") -> None:
    await knowledge.capture.capture(failure(project_id="p", failure_description=description))


async def runs(url: str) -> list[tuple[str, int, str | None]]:
    """Return what is on record of the jobs of what is learned: name, attempts, error."""
    return sorted(
        await fetch(
            url, "select job, attempts, error from job_run where finished_at is not null and job in ('prune', 'sweep')"
        )
    )


async def fetch(url: str, query: str) -> list[Any]:
    """Return what a database answers, as tuples."""
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


@asynccontextmanager
async def until_done(knowledge: Knowledge, url: str, jobs: int) -> AsyncIterator[None]:
    """Run the scheduler until that many jobs are on record, then do the block beside it."""
    async with run_scheduler(knowledge):
        async with asyncio.timeout(20):
            while len(await runs(url)) < jobs:  # noqa: ASYNC110 - it is told in the database only
                await asyncio.sleep(0.02)
        yield


@pytest.mark.long
async def test_the_scheduler_runs_both_jobs_at_its_start(
    knowledge: Knowledge, clock: SetClock, database_url: str
) -> None:
    """D45: a project that never reaches a checkpoint is swept after a day; and a machine that was off catches up."""
    clock.time = LONG_AGO
    await fail(knowledge, "expired by now")
    await knowledge.checkpoints.process_all()
    clock.time += timedelta(days=400)
    await fail(knowledge, "staged for a day and a minute")
    clock.move(timedelta(days=1, minutes=1))
    await fail(knowledge.in_workspace("another"), "staged just now")

    async with until_done(knowledge, database_url, 2):
        assert await runs(database_url) == [("prune", 1, None), ("sweep", 1, None)]
        assert dict((await knowledge.stats()).entries) == {"embedded": 1}
        assert dict((await knowledge.in_workspace("another").stats()).entries) == {"staged": 1}


async def test_a_slot_is_run_once_whoever_asks(knowledge: Knowledge, clock: SetClock) -> None:
    assert await run_job(knowledge, "prune", once_per_slot=True) == 0
    assert await run_job(knowledge, "prune", once_per_slot=True) is None
    assert await run_job(knowledge, "prune", once_per_slot=False) == 0
    async with client_of(knowledge) as client:
        assert await run_job(client, "prune", once_per_slot=True) is None
        clock.move(timedelta(days=1))
        assert await run_job(client, "prune", once_per_slot=True) == 0
    with pytest.raises(InvalidInput, match="must be one of sweep, prune"):
        await run_job(knowledge, "nonsense", once_per_slot=True)


async def test_a_run_that_gave_no_sign_of_life_for_an_hour_is_taken_over_and_none_before(
    knowledge: Knowledge, database_url: str
) -> None:
    assert await run_job(knowledge, "prune", once_per_slot=True) == 0
    for minutes, done in ((59, None), (61, 0)):
        died = f"update job_run set finished_at = null, started_at = now() - interval '{minutes} minutes'"
        await fetch(database_url, died)
        assert await run_job(knowledge, "prune", once_per_slot=True) == done


@pytest.mark.long
async def test_the_prune_lets_go_of_checkpoints_and_ended_keys_of_long_ago_and_keeps_the_audit_log(
    knowledge: Knowledge, clock: SetClock
) -> None:
    ended = await knowledge.keys.create(["query"], workspace=None)
    clock.move(timedelta(seconds=1))
    live = await knowledge.keys.create(["query"], workspace=None)
    await knowledge.keys.revoke(ended.key.key_id)
    await fail(knowledge)
    await knowledge.checkpoints.process_all()
    for days, keys, checkpoints in ((364, 2, 1), (2, 1, 0)):
        clock.move(timedelta(days=days))
        await run_job(knowledge, "prune", once_per_slot=False)
        assert len(await knowledge.keys.list()) == keys
        assert (await knowledge.stats()).checkpoints == checkpoints
    assert [key.key_id for key in await knowledge.keys.list()] == [live.key.key_id]
    told = [row.what for row in await knowledge.audits.list(whole_store=True)]
    assert told == ["ended keys pruned", "key revoked", "key made", "key made"]


@pytest.mark.long
async def test_the_prune_job_lets_go_of_what_is_left_of_a_workspace_whose_last_project_was_deleted(
    knowledge: Knowledge, clock: SetClock, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """Its point stayed in the index, and what is on record of the work for good: no job came to that workspace."""
    task = Task(description=CART, project_id="web-shop")
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    journal, now = knowledge.in_workspace("asked").answering.journal, clock.now()
    await journal.record(Event(event_id=EventId(uuid4()), name="asked", happened_at=now, payload={}))
    asked = NewEscalation(question="Why?", transcript=(), passage_ids=(), suggested_fix="")
    closed = await knowledge.in_workspace("escalated").answering.journal.escalate(asked, now)
    await knowledge.in_workspace("escalated").answering.journal.close(closed.escalation_id, now)
    async with transaction(knowledge.engine) as connection:
        thanked = {"workspace": "thanked", "answer_id": uuid4(), "up": True, "given_at": now}
        await connection.execute(sa.insert(answer_feedback).values(thanked))
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None

    async def down(*_: object, **__: object) -> None:
        raise IndexUnavailable("it is down")

    with monkeypatch.context() as outage:
        outage.setattr(type(knowledge.stores.index), "delete", down)
        assert await knowledge.capture.delete_project("web-shop") == 1
    assert await knowledge.stores.index.count(bound.space, "default") > 0
    assert await knowledge.workspaces() == [], "nothing that anybody would look for"
    assert await knowledge.jobs.workspaces_with_work() == ["asked", "default", "escalated", "thanked"]
    clock.move(timedelta(days=366))
    await run_job(knowledge, "prune", once_per_slot=False)
    assert await knowledge.stores.index.count(bound.space, "default") == 0
    for table in ("points", "patterns", "contexts", "checkpoints", "qa_events", "escalations", "answer_feedback"):
        assert await fetch(database_url, f"select count(*) from {table}") == [(0,)], table
    assert await knowledge.jobs.workspaces_with_work() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("why", "kept"),
    [(IndexUnavailable("it is down"), 0), (StorageRejected("not this one"), 0), (Conflict("the clock is wrong"), 1)],
)
async def test_a_workspace_that_cannot_be_pruned_keeps_neither_ended_keys_nor_the_room_of_what_went(
    knowledge: Knowledge,
    clock: SetClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    why: HardwonError,
    kept: int,
) -> None:
    ended = await knowledge.keys.create(["query"], workspace=None)
    clock.move(timedelta(seconds=1))
    await knowledge.keys.create(["query"], workspace=None)
    await knowledge.keys.revoke(ended.key.key_id)
    for workspace in ("a", "b"):
        await fail(knowledge.in_workspace(workspace))
        await knowledge.in_workspace(workspace).checkpoints.process_all()
    clock.move(timedelta(days=366))
    prune, tidy, tidied = KnowledgePruningService.prune, type(knowledge.jobs).vacuum, 0

    async def counted(jobs: JobStore) -> None:
        nonlocal tidied
        tidied += 1
        await tidy(jobs)

    async def but_for_one(self: KnowledgePruningService, **told: Any) -> PruneReport:
        if self.stores.workspace == "b":
            raise why
        return await prune(self, **told)

    with monkeypatch.context() as patched:
        patched.setattr(KnowledgePruningService, "prune", but_for_one)
        patched.setattr(type(knowledge.jobs), "vacuum", counted)
        with pytest.raises(type(why)):
            await run_job(knowledge, "prune", once_per_slot=False)
    assert len(await knowledge.keys.list()) == 1 + kept
    assert tidied == 1
    assert await run_job(knowledge, "prune", once_per_slot=False) == 1


@pytest.mark.long
async def test_the_prune_job_gives_back_the_room_of_what_it_deleted(
    knowledge: Knowledge, clock: SetClock, database_url: str
) -> None:
    """An embedded Postgres that is up for seconds at a time never gets to it: 61,000 entries, all gone, took 237 MB."""
    sizes = "select pg_relation_size('knowledge_staging'), pg_relation_size('points'), pg_relation_size('vectors')"
    for number in range(3):
        await fail(knowledge, f"it broke in way {number}")
    await knowledge.checkpoints.process_all()
    assert 0 not in (await fetch(database_url, sizes))[0]
    clock.move(timedelta(days=366))
    assert await run_job(knowledge, "prune", once_per_slot=False) == 3
    assert (await fetch(database_url, sizes))[0] == (0, 0, 0)


@pytest.mark.long
async def test_a_clock_ahead_of_the_one_of_postgres_deletes_nothing(
    settings: KnowledgeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = datetime.now(UTC)
    now = real
    monkeypatch.setattr(SystemClock, "now", lambda _: now)
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        await fail(knowledge)
        await knowledge.checkpoints.process_all()
        now = real + timedelta(days=370)
        with pytest.raises(Conflict, match=r"the clock of this machine says .* and that of Postgres "):
            await knowledge.pruning.prune()
        now = real + timedelta(minutes=50)
        assert (await knowledge.pruning.prune()).entries == 0


async def test_a_clock_that_is_set_back_puts_no_job_off_and_a_machine_that_slept_misses_none() -> None:
    """A machine that began a year ahead ran no job for a year; one that slept at three o'clock never pruned."""

    class Waits:
        """Runs no job to its end."""

        async def run_job(self, name: str, *, once_per_slot: bool) -> int | None:
            return None

    async with run_scheduler(Waits()) as cron:
        planned = {each.id: each.next_run_time for each in cron.get_jobs() if each.id in JOBS}
        assert planned.keys() == JOBS.keys()
        assert {each.misfire_grace_time for each in cron.get_jobs()} == {None}
        reschedule_delayed(cron, datetime.now(UTC))
        assert planned == {each.id: each.next_run_time for each in cron.get_jobs() if each.id in JOBS}
        for name in JOBS:
            cron.get_job(name).modify(next_run_time=planned[name] + timedelta(days=365))
        reschedule_delayed(cron, datetime.now(UTC))
        for name, job in JOBS.items():
            assert cron.get_job(name).next_run_time - datetime.now(UTC) <= job.slot + JITTER


def test_a_slot_begins_at_the_same_moment_everywhere() -> None:
    moment = datetime(2026, 11, 21, 14, 15, 16, tzinfo=UTC)
    assert slot_of(JOBS["sweep"], moment) == datetime(2026, 11, 21, 14, tzinfo=UTC)
    assert slot_of(JOBS["prune"], moment) == datetime(2026, 11, 21, tzinfo=UTC)
    assert slot_of(JOBS["prune"], moment + timedelta(hours=9)) == slot_of(JOBS["prune"], moment)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have jobs that fail tried again after a tenth of a second."""
    for name, job in JOBS.items():
        monkeypatch.setitem(JOBS, name, replace(job, retry_after=timedelta(seconds=0.1)))


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_the_tries_of_a_slot_are_over_before_the_next_one_begins(job: Job) -> None:
    assert sum(retry_delays(job), timedelta()) < job.slot


@pytest.mark.long
async def test_whoever_tried_a_slot_for_the_last_time_is_free_for_the_next(
    knowledge: Knowledge, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited once more after its last try, for 32 minutes, and the sweeper passed over the hour that began then."""
    tried = asyncio.Queue[float]()

    async def in_vain(_: object, job: Job, __: object) -> bool:
        await tried.put(time.monotonic())
        return False

    monkeypatch.setattr("jobs.scheduler._run_logged", in_vain)
    monkeypatch.setattr("jobs.scheduler.JOBS", {"sweep": JOBS["sweep"]})
    async with run_scheduler(knowledge), asyncio.timeout(20):
        last = [await tried.get() for _ in range(MAX_TRIES)][-1]
        while any("run_coroutine_job" in repr(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert time.monotonic() - last < JOBS["sweep"].retry_after.total_seconds() * 2 ** (MAX_TRIES - 2)


@pytest.mark.long
async def test_a_job_that_fails_is_tried_again_within_its_slot_by_one_at_a_time(
    opens: Opens, clock: SetClock, database_url: str, soon: None
) -> None:
    class Recovering(HashingEmbedder):
        """Fails twice, and sees whether another asks it meanwhile."""

        async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
            asked.append(len(texts))
            assert asking.locked() is False
            async with asking:
                await asyncio.sleep(0.05)
                self.unavailable = "closed for now" if len(asked) <= 2 else None
                return await super().embed(texts, kind)

    asked: list[int] = []
    asking = asyncio.Lock()
    async with opens(embedder=Recovering(dims=256)) as knowledge:
        await fail(knowledge)
        clock.move(timedelta(days=2))
        async with AsyncExitStack() as schedulers:
            for _ in range(3):
                await schedulers.enter_async_context(run_scheduler(knowledge))
            async with asyncio.timeout(20):
                while ("sweep", 3, None) not in await runs(database_url):  # noqa: ASYNC110 - told in the database only
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
            assert await runs(database_url) == [("prune", 1, None), ("sweep", 3, None)]
        assert dict((await knowledge.stats()).entries) == {"embedded": 1}


@pytest.mark.long
async def test_a_scheduler_that_waits_to_try_again_stops_at_once(
    opens: Opens, clock: SetClock, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    closed = HashingEmbedder(dims=256)
    closed.unavailable = "the endpoint is closed"
    async with opens(embedder=closed) as knowledge:
        await fail(knowledge)
        clock.move(timedelta(days=2))
        async with until_done(knowledge, database_url, 2):
            failed = ("sweep", 1, "EmbedderUnavailable: the endpoint is closed")
            assert await runs(database_url) == [("prune", 1, None), failed]
            clock_now, began = datetime.now(UTC), time.monotonic()
        assert time.monotonic() - began < 1
        async with asyncio.timeout(1):
            while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - what was cancelled ends in turns of the loop
                await asyncio.sleep(0)
    (told,) = (record for record in caplog.records if record.name == "jobs.scheduler")
    assert (told.levelname, told.exc_info) == ("WARNING", None), "an outage is no defect of ours"
    assert "reason='the endpoint is closed'" in told.getMessage()
    again_at = datetime.fromisoformat(told.getMessage().partition("again_at='")[2].partition("'")[0])
    assert abs(again_at - clock_now - JOBS["sweep"].retry_after) < timedelta(seconds=10)


@pytest.mark.long
async def test_a_running_job_may_finish_when_the_scheduler_stops(
    opens: Opens, clock: SetClock, database_url: str
) -> None:
    class Slow(HashingEmbedder):
        """Takes a second."""

        async def embed(self, *args: object, **named: object) -> object:  # type: ignore[override]
            begun.set()
            await asyncio.sleep(1)
            return await super().embed(*args, **named)  # type: ignore[arg-type]

    begun = asyncio.Event()
    async with opens(embedder=Slow(dims=256)) as knowledge:
        await fail(knowledge)
        clock.move(timedelta(days=2))
        async with run_scheduler(knowledge), asyncio.timeout(20):
            await begun.wait()
        assert dict((await knowledge.stats()).entries) == {"embedded": 1}
        assert ("sweep", 1, None) in await runs(database_url)


async def test_no_job_begins_again_while_others_finish_at_the_end(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further try that was due then went on after the stores were closed."""
    index = replace(JOBS["index"], retry_after=timedelta(seconds=0.1))
    begun: list[str] = []
    both = asyncio.Event()

    async def run(_: object, job: Job, __: object) -> bool:
        begun.append(job.name)
        if {"index", "prune"} <= set(begun):
            both.set()
        if job.name == "prune":
            await asyncio.sleep(0.5)
        return job.name == "prune"

    monkeypatch.setattr("jobs.scheduler._run_logged", run)
    monkeypatch.setattr("jobs.scheduler.JOBS", {"index": index, "prune": JOBS["prune"]})
    async with run_scheduler(knowledge), asyncio.timeout(20):
        await both.wait()
        before = list(begun)
    assert begun == before


@pytest.fixture
async def expired(opens: Opens, clock: SetClock) -> None:
    """A store with one entry that is past its year."""
    clock.time = LONG_AGO
    async with opens() as knowledge:
        await fail(knowledge)
        await knowledge.checkpoints.process_all()


@pytest.mark.long
def test_a_job_says_what_it_dealt_with(database_url: str, home: Path) -> None:
    commands = Commands(home, {"HARDWON_DATABASE_URL": database_url})
    said = [commands.jobs(name).stdout for name in ("index", "reconcile")]
    assert said == ["index: 0 documents\n", "reconcile: 0 differences\n"]


@pytest.mark.long
def test_four_processes_on_one_postgres_run_a_slot_once(expired: None, database_url: str, home: Path) -> None:
    """Each has an index of its own, so that none is a client of another."""
    with OpenAIServer() as endpoint, ExitStack() as running:
        started = []
        for number in range(4):
            (home / str(number)).mkdir()
            shutil.copy(home / KEYS_FILE, home / str(number))  # servers on one Postgres seal by the same keys
            commands = Commands(home / str(number), embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
            started.append(running.enter_context(commands.start_jobs("prune", "--once-per-slot")))
        said = [process.end() for process in started]
    assert [code for code, _, _ in said] == [0] * 4
    done = [out for _, out, _ in said if out == "prune: 1 entry\n"]
    assert len(done) <= 1, "the scheduler of one of their owners may have been first"
    assert {out for _, out, _ in said} - {*done} <= {"prune: already run in this slot, or under way\n"}
    # the one that the scheduler of an owner began is at work still
    deadline = time.monotonic() + 30
    while (ran := [run for run in asyncio.run(runs(database_url)) if run[0] == "prune"]) == []:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert ran == [("prune", 1, None)]


@pytest.fixture
async def forgotten(opens: Opens, clock: SetClock) -> None:
    """A store with one entry that was staged long ago."""
    clock.time = LONG_AGO
    async with opens() as knowledge:
        await fail(knowledge)


@pytest.mark.long
@pytest.mark.parametrize("job", [["sweep"], []])
def test_a_job_under_way_is_finished_on_sigterm(forgotten: None, database_url: str, home: Path, job: list[str]) -> None:
    """G16, by cron and in the scheduler of its own process."""
    with OpenAIServer(dims=64, seconds_per_call=1.5) as slow:
        commands = Commands(home, embedding_by(slow) | {"HARDWON_DATABASE_URL": database_url})
        with commands.start_jobs(*job) as process:
            until(lambda: slow.calls > 1)  # the first asks for the size of the vectors
            code, out, err = process.end(signal.SIGTERM)
        assert code == 0
        assert out in (("sweep: 1 entry\n", "sweep: 0 entries\n") if job else ("",)), "its owner may have been first"
        assert err == ("" if job else "scheduler is running; stop it with Ctrl-C\n")
        until(lambda: asyncio.run(fetch(database_url, "select status from knowledge_staging")) == [("embedded",)])


@pytest.mark.long
async def test_a_few_workspaces_are_swept_at_once_and_an_outage_ends_all_of_them(opens: Opens, clock: SetClock) -> None:
    """One after the other, many took longer than the hour in which the next sweep begins."""

    class Counting(HashingEmbedder):
        """Answers once as many ask as are swept at a time, and knows how many that were at most."""

        async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
            asking.append(None)
            most.append(len(asking))
            try:
                if len(asking) == SWEEP_CONCURRENCY:
                    all_there.set()
                if self.unavailable is None:
                    await asyncio.wait_for(all_there.wait(), 20)
                return await super().embed(texts, kind)
            finally:
                asking.pop()

    asking: list[None] = []
    most: list[int] = []
    all_there = asyncio.Event()
    embedder = Counting(dims=64)
    async with opens(embedder=embedder) as knowledge:
        for number in range(SWEEP_CONCURRENCY + 1):
            await fail(knowledge.in_workspace(f"w{number}"))
        clock.move(timedelta(days=2))
        embedder.unavailable = "the endpoint is closed"
        with pytest.raises(EmbedderUnavailable):
            await run_job(knowledge, "sweep", once_per_slot=False)
        assert len(most) <= SWEEP_CONCURRENCY
        embedder.unavailable = None
        all_there.clear()
        assert await run_job(knowledge, "sweep", once_per_slot=False) == SWEEP_CONCURRENCY + 1
        assert max(most) == SWEEP_CONCURRENCY


@pytest.mark.long
async def test_what_cannot_be_embedded_in_one_workspace_or_project_holds_up_no_other(
    opens: Opens, clock: SetClock
) -> None:
    async with opens(embedder=HashingEmbedder(dims=64)) as knowledge:
        local, other = knowledge.in_workspace("a-local"), knowledge.in_workspace("b")
        await capture(local, failure())
        await local.upkeep.keep_local(on=True)  # and this embedder is none that comes along
        await capture(other, failure(project_id="a-refused"), failure(project_id="c", failure_description="another"))
        async with other.engine.begin() as connection:
            await connection.execute(
                sa.text("""
                    CREATE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                        IF NEW.project_id = 'a-refused' AND NEW.status = 'embedded' THEN
                            RAISE EXCEPTION 'no' USING ERRCODE = '23514';
                        END IF;
                        RETURN NEW; END $$
                """)
            )
            await connection.execute(
                sa.text(
                    "CREATE TRIGGER refuses BEFORE UPDATE ON knowledge_staging FOR EACH ROW EXECUTE FUNCTION refuses()"
                )
            )
        clock.move(timedelta(days=2))
        with pytest.raises(LocalOnly):
            await run_job(knowledge, "sweep", once_per_slot=False)
        assert (await other.stats()).entries == {"embedded": 1, "staged": 1}
        with pytest.raises(StorageRejected):
            await other.checkpoints.sweep(staged_for=timedelta(days=1))
        assert await run_job(knowledge, "prune", once_per_slot=False) == 0
