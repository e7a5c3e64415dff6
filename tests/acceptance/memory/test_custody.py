"""Taking back what was wrong, deleting for good, and a log that tells of tampering (T5, T23, T25)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from hardwon.errors import AccessDenied, InvalidInput, NotFound
from hardwon.models.access import MAX_AFFECTED, EntryFilter
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.adapters.postgres.admin.audit import PostgresAudit
from knowledge.adapters.postgres.engine.database import engine_of_workspace, transaction
from knowledge.adapters.postgres.memory_tables import contexts
from knowledge.models import Context, EntryId, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.acceptance.doors.test_secrets import stored
from tests.conftest import SetClock
from tests.support.cases import case_by_case, over
from tests.support.entries import failure
from tests.support.faults import Trips, wired

AGENT = Principal(trust=Trust.KEY, scopes=frozenset({Scope.CAPTURE}), workspace="default", key_id="agent1")
ADMIN = Principal(trust=Trust.KEY, scopes=frozenset(Scope), workspace="default", key_id="admin1")


async def planted(knowledge: Knowledge, number: int = 100) -> list[EntryId]:
    """Plant entries by an agent's key, embed them, and have them handed out for three tasks."""
    told = [
        failure(failure_description=f"planted case {n} of the cart", solution_steps=f"poison {n}", run_id=str(n))
        for n in range(number)
    ]
    answers = await knowledge.for_principal(AGENT).capture.capture_all(told)
    await knowledge.capture.capture(failure(failure_description="a right case of the login"))
    await knowledge.checkpoints.process_all()
    builder = OrchestratorContextBuilder(knowledge)
    for n in range(3):
        task = Task(description=f"planted case {n} of the cart", project_id="web-shop", task_id=f"T-{n}")
        assert (await builder.build_context_for_task(task, "backend")).patterns
    task = Task(description="a right case of the login", project_id="web-shop", task_id="T-right")
    assert (await builder.build_context_for_task(task, "backend")).patterns
    return [answer.entry_id for answer in answers if answer.entry_id is not None]


async def in_stores(knowledge: Knowledge, ids: list[EntryId]) -> tuple[int, int, int]:
    """Return how many of these entries, of all vectors and of all points both stores hold."""
    count = sa.text(
        "SELECT (SELECT count(*) FROM knowledge_staging WHERE id = ANY(:ids)), (SELECT count(*) FROM vectors)"
    )
    async with knowledge.engine.connect() as connection:
        entries, vectors = (await connection.execute(count, {"ids": ids})).one()
    return entries, vectors, (await knowledge.stats()).points or 0


@pytest.mark.long
async def test_t5_all_tasks_that_were_reached_are_named_however_many(knowledge: Knowledge) -> None:
    await planted(knowledge, 3)
    others = [column for column in contexts.c if column is not contexts.c.id]
    many = sa.func.generate_series(1, MAX_AFFECTED).table_valued("number")
    again = sa.select(sa.func.gen_random_uuid(), *others).select_from(contexts.join(many, sa.true()))
    copied = sa.insert(contexts).from_select(["id", *others], again.where(contexts.c.task_id == "T-0"))
    async with transaction(knowledge.engine) as connection:
        await connection.execute(copied)
    report = await knowledge.revocations.revoke(EntryFilter(key_id="agent1"), dry_run=True)
    assert len({task.context_id for task in report.affected}) == len(report.affected) == MAX_AFFECTED + 3


@pytest.mark.long
async def test_t5_what_a_key_planted_is_gone_within_a_minute_and_the_tasks_it_reached_are_named(
    knowledge: Knowledge,
) -> None:
    ids = await planted(knowledge)
    chosen = EntryFilter(key_id="agent1")
    tried = await knowledge.revocations.revoke(chosen, dry_run=True)
    assert (tried.entries, tried.dry_run, (await in_stores(knowledge, ids))[0]) == (100, True, 100)
    began = time.perf_counter()
    report = await knowledge.revocations.revoke(chosen)
    assert time.perf_counter() - began < 60
    assert (report.entries, report.settled) == (100, True)
    assert {task.task_id for task in report.affected} == {"T-0", "T-1", "T-2"}
    assert report.affected == tried.affected
    assert await in_stores(knowledge, ids) == (0, 1, 1)
    assert await knowledge.queries.query_for_failure("planted case 1 of the cart", min_relevance=0.5) == []
    assert {task.task_id for task in await knowledge.revocations.affected(EntryFilter(entry_id=ids[0]))} == {"T-0"}
    assert (await knowledge.revocations.revoke(chosen)).entries == 0
    elsewhere = await knowledge.keys.create(["capture"], workspace="elsewhere")
    for unknown in ("agent7", elsewhere.key.key_id):
        for asked in (knowledge.revocations.revoke, knowledge.revocations.affected):
            with pytest.raises(NotFound, match=f"there is no key {unknown} for workspace default"):
                await asked(EntryFilter(key_id=unknown))


async def test_t5_t11_a_key_that_leaked_is_taken_back_by_itself_and_its_secret_is_written_nowhere(
    knowledge: Knowledge,
) -> None:
    """Whoever finds a key in a public place has it whole: nothing was taken back by it, and the audit log kept it."""
    made = await knowledge.keys.create([Scope.CAPTURE], workspace="default")
    agent = replace(AGENT, key_id=made.key.key_id)
    await knowledge.for_principal(agent).capture.capture_failure_solution(
        project_id="web-shop", agent_type="coder", failure_description="planted by a key that leaked"
    )
    chosen = EntryFilter(key_id=made.secret)
    assert await knowledge.revocations.affected(chosen) == []
    assert (await knowledge.revocations.revoke(chosen, dry_run=True)).entries == 1
    assert (await knowledge.revocations.revoke(chosen)).entries == 1
    assert made.secret not in await stored(knowledge)


@pytest.mark.long
@pytest.mark.parametrize(("moment", "left"), [("before", 100), ("after", 0)])
async def test_t5_a_revocation_that_was_killed_or_whose_answer_was_lost_names_all_it_had_reached(
    knowledge: Knowledge, moment: str, left: int
) -> None:
    """What a key had planted is gone, and nothing but the note of the first call knows any more who had it."""
    await planted(knowledge)
    chosen = EntryFilter(key_id="agent1")

    async def killed() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await wired(knowledge, Trips({f"entries.delete_all:{moment}:1": killed})).revocations.revoke(chosen)
    for entries in (left, 0):
        report = await knowledge.revocations.revoke(chosen)
        assert (report.entries, {task.task_id for task in report.affected}) == (entries, {"T-0", "T-1", "T-2"})
        assert len({task.context_id for task in report.affected}) == len(report.affected)
    other = await knowledge.keys.create(["capture"], workspace="default")
    assert (await knowledge.revocations.revoke(EntryFilter(key_id=other.key.key_id))).affected == ()


async def test_t5_a_revocation_by_project_and_time_takes_what_meets_both(knowledge: Knowledge, clock: SetClock) -> None:
    began = clock.now()
    for project in ("web-shop", "bank"):
        for day in range(3):
            clock.time = began + timedelta(days=day)
            await knowledge.capture.capture(failure(project_id=project, run_id=str(day)))
    chosen = EntryFilter(project_id="bank", since=began + timedelta(days=1), until=began + timedelta(days=2))
    assert (await knowledge.revocations.revoke(chosen)).entries == 1
    assert sum((await knowledge.stats()).entries.values()) == 5


EAST, WEST = timezone(timedelta(hours=14)), timezone(-timedelta(hours=12))


@over(
    "chosen",
    [
        EntryFilter(),
        EntryFilter(since=datetime(2026, 1, 1)),  # noqa: DTZ001 - without a zone
        EntryFilter(since=datetime.min.replace(tzinfo=EAST)),
        EntryFilter(until=datetime.max.replace(tzinfo=WEST)),
    ],
)
async def test_a_revocation_of_nothing_in_particular_or_at_no_moment_there_is_is_refused(
    knowledge: Knowledge, chosen: EntryFilter
) -> None:
    with pytest.raises(InvalidInput):
        await knowledge.revocations.revoke(chosen)


async def test_t5_counts_follow_a_revocation(knowledge: Knowledge) -> None:
    await knowledge.for_principal(AGENT).capture.capture(failure(run_id="planted", project_id="other"))
    await knowledge.capture.capture(failure(run_id="right"))
    await knowledge.checkpoints.process_all()
    await knowledge.revocations.revoke(EntryFilter(key_id="agent1"))
    (pattern,) = await knowledge.queries.query_for_failure("TypeError in the cart total", min_relevance=0.0)
    assert (pattern.success_count, pattern.project_count) == (1, 1)


QUERY = "TypeError in the cart total"


async def told_of(knowledge: Knowledge) -> tuple[int, int, int]:
    """Return the successes, attempts and projects of the one pattern."""
    (pattern,) = await knowledge.queries.query_for_failure(QUERY, min_relevance=0.0, max_results=1)
    return pattern.success_count, pattern.attempt_count, pattern.project_count


async def handed_out(knowledge: Knowledge, project_id: str) -> Context:
    task = Task(description=failure().failure_description or "", project_id=project_id, task_id="T-2", run_id="1")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert context.patterns
    return context


async def test_t5_what_a_key_told_of_patterns_that_were_handed_out_is_taken_back_too(knowledge: Knowledge) -> None:
    """An echo is deleted for the outcome that it tells, and the failures a key told rank a pattern down."""
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    echo = failure(project_id="second", task_id="T-2", run_id="1", failure_description="again")
    await handed_out(knowledge, "second")
    await knowledge.for_principal(AGENT).capture.capture(echo)
    of_admin = await handed_out(knowledge, "third")
    await knowledge.for_principal(ADMIN).outcomes.record_outcome(
        of_admin.context_id, of_admin.patterns[0].pattern_id, worked=False
    )
    await handed_out(knowledge, "fourth")
    solved = await knowledge.for_principal(ADMIN).events.task_solved(project_id="fourth", task_id="T-2", run_id="1")
    assert solved.outcomes == 1
    assert await told_of(knowledge) == (3, 4, 3)
    tried = await knowledge.revocations.revoke(EntryFilter(key_id="agent1"), dry_run=True)
    assert (tried.entries, tried.outcomes) == (0, 1)
    for outcomes in (1, 0):
        report = await knowledge.revocations.revoke(EntryFilter(key_id="agent1"))
        assert (report.entries, report.outcomes) == (0, outcomes)
    assert await told_of(knowledge) == (2, 3, 2)
    report = await knowledge.revocations.revoke(EntryFilter(key_id="admin1", project_id="third"))
    assert (report.outcomes, await told_of(knowledge)) == (1, (2, 2, 2))
    assert (await knowledge.revocations.revoke(EntryFilter(key_id="admin1"))).outcomes == 1
    assert await told_of(knowledge) == (1, 1, 1)


async def test_t5_a_revocation_of_a_time_takes_the_outcomes_of_that_time(knowledge: Knowledge, clock: SetClock) -> None:
    await knowledge.capture.capture(failure())
    await knowledge.checkpoints.process_all()
    clock.move(timedelta(days=1))
    began = clock.now()
    for project in ("second", "third"):
        context = await handed_out(knowledge, project)
        await knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=True)
        clock.move(timedelta(hours=1))
    chosen = EntryFilter(since=began, until=began + timedelta(hours=1))
    report = await knowledge.revocations.revoke(chosen)
    assert (report.entries, report.outcomes, await told_of(knowledge)) == (0, 1, (2, 2, 2))


async def test_t25_after_a_deletion_a_scan_finds_nothing_of_it_in_either_store(knowledge: Knowledge) -> None:
    await knowledge.capture.capture_all([failure(failure_description=f"case {n}", run_id=str(n)) for n in range(20)])
    await knowledge.checkpoints.process_all()
    began = time.perf_counter()
    await knowledge.capture.delete_project("web-shop")
    assert time.perf_counter() - began < 60
    stores = knowledge.stores
    bound = await stores.spaces.bound()
    assert bound is not None
    assert await stores.index.scan(bound.space, "default", after=None, limit=100) == []
    async with knowledge.engine.connect() as connection:
        for table in ("knowledge_staging", "vectors", "distillations", "projects"):
            assert await connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) == 0, table


async def decided(knowledge: Knowledge) -> None:
    """Decide some things, so that there is a chain."""
    admin = knowledge.for_principal(ADMIN)
    for n in range(6):
        entry_id = await knowledge.capture.capture(failure(run_id=str(n), failure_description=f"case {n}"))
        await admin.capture.delete(entry_id)
    await admin.upkeep.keep_local(on=True)


async def owner(knowledge: Knowledge, *statements: str) -> None:
    """Do what only the owner of the tables can."""
    async with knowledge.engine.begin() as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))


async def test_t23_a_log_nobody_touched_is_whole_and_says_who_did_what(knowledge: Knowledge) -> None:
    await decided(knowledge)
    report = await knowledge.audits.verify()
    assert (report.rows, report.is_intact) == (7, True)
    rows = await knowledge.audits.list(limit=2)
    assert {row.who for row in rows} == {"key admin1"}
    assert [row.what for row in rows] == ["workspace kept local", "entry deleted"]
    assert "case" not in "".join(row.details for row in await knowledge.audits.list()), "bodies never"


@case_by_case
async def test_t23_a_row_that_was_changed_removed_or_moved_is_told(knowledge: Knowledge, tampering: list[str]) -> None:
    await decided(knowledge)
    await owner(knowledge, *tampering)
    assert not (await knowledge.audits.verify()).is_intact


async def test_t23_rows_that_were_cut_off_at_the_end_are_told_by_the_head_that_was_kept(knowledge: Knowledge) -> None:
    await decided(knowledge)
    head = (await knowledge.audits.verify()).head
    assert (await knowledge.audits.verify(head=head)).is_intact
    await knowledge.upkeep.keep_local(on=False)
    assert (await knowledge.audits.verify(head=head)).is_intact, "later rows come after it"
    await owner(knowledge, "DELETE FROM audit_log WHERE number > 5")
    assert (await knowledge.audits.verify()).is_intact
    assert not (await knowledge.audits.verify(head=head)).is_intact


@over("statement", ["UPDATE audit_log SET who = 'me'", "DELETE FROM audit_log", "TRUNCATE audit_log"])
async def test_t23_the_application_can_add_to_the_log_and_no_more(knowledge: Knowledge, statement: str) -> None:
    await decided(knowledge)
    with pytest.raises(DBAPIError, match="permission denied"):
        async with engine_of_workspace(knowledge.engine, "default").begin() as connection:
            await connection.execute(sa.text(statement))


async def test_the_chain_has_no_gaps_whoever_adds_to_it_at_once(knowledge: Knowledge) -> None:
    store = PostgresAudit(knowledge.engine)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await asyncio.gather(
        *(store.append("default", at=now, who="w", what="something", details=str(n)) for n in range(40))
    )
    report = await knowledge.audits.verify()
    assert (report.rows, report.is_intact) == (40, True)


async def test_keys_and_imports_stand_in_the_log_of_the_store(knowledge: Knowledge) -> None:
    made = await knowledge.keys.create(["capture"], workspace="default")
    await knowledge.keys.rotate(made.key.key_id)
    await knowledge.keys.revoke(made.key.key_id)
    rows = await knowledge.audits.list(whole_store=True)
    assert [row.what for row in rows] == ["key revoked", "key rotated", "key made", "key made"]
    assert made.secret not in "".join(row.details for row in rows)


async def test_t7_a_key_of_one_workspace_reads_the_log_of_its_own_and_not_that_of_the_store(
    knowledge: Knowledge,
) -> None:
    """T7. That one names the keys and the workspaces of everybody."""
    await knowledge.keys.create(["capture"], workspace="another")
    theirs = knowledge.for_principal(ADMIN)
    assert await theirs.audits.list() == []
    assert (await theirs.audits.verify()).is_intact
    with pytest.raises(AccessDenied, match="all of them"):
        await theirs.audits.list(whole_store=True)
    with pytest.raises(AccessDenied, match="all of them"):
        await theirs.audits.verify(whole_store=True)
    everywhere = knowledge.for_principal(replace(ADMIN, workspace=None))
    assert [row.what for row in await everywhere.audits.list(whole_store=True)] == ["key made"]
