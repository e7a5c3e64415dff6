"""The schema: what the migrations make is what is declared, refuses what must never be stored, and is fast to ask.

`alembic check` sees neither the body of a CHECK nor the WHERE of an index, so the catalogs are compared too.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import InvalidInput, StorageUnavailable, StoreIncompatible
from hardwon.models.access import EntryFilter
from knowledge.adapters.postgres.admin.provenance import PostgresProvenance
from knowledge.adapters.postgres.document_tables import metadata
from knowledge.adapters.postgres.engine import migrate as migrating
from knowledge.adapters.postgres.engine.database import APPLICATION_ROLE, engine_of_workspace, make_engine, transaction
from knowledge.adapters.postgres.engine.migrate import alembic_config, head_revision, migrate
from knowledge.adapters.postgres.engine.row_security import ensure_role
from knowledge.adapters.postgres.memory.entries import PostgresEntries
from knowledge.adapters.postgres.memory.patterns import PostgresPatterns
from knowledge.memory.rules.validation import validate
from knowledge.models import CaptureOutcome, EntryType
from knowledge.ports import Selection
from knowledge.wiring.stores import migration_scripts
from tests.conftest import TEMPLATE
from tests.support.cases import case_by_case
from tests.support.entries import NOON, failure, rejection, stored
from tests.support.next_revision import add_next_revision
from tests.support.postgres import create_database, drop_database, dsn_of

CATALOG = sa.text(r"""
    SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    UNION ALL
    SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND conrelid <> 'alembic_version'::regclass
    UNION ALL
    SELECT concat_ws(' ', 'column', table_name, column_name, data_type, udt_name, is_nullable, column_default,
                     identity_generation, generation_expression, character_maximum_length)
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
    UNION ALL
    SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'function ' || regexp_replace(pg_get_functiondef(oid), '\s+', ' ', 'g') FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', 'policy', tablename, policyname, permissive, roles, cmd, qual, with_check) FROM pg_policies
    UNION ALL
    SELECT concat_ws(' ', 'closed', relname, relrowsecurity, relforcerowsecurity, 'granted', relacl) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
    ORDER BY 1
""")


@asynccontextmanager
async def database(server: str, template: str = "template0") -> AsyncIterator[AsyncEngine]:
    """Make a database on a server, and drop it afterwards."""
    dsn = await create_database(server, template=template)
    engine = make_engine(dsn)
    yield engine
    await engine.dispose()
    await drop_database(dsn)


@pytest.fixture
async def empty(postgres_dsn: str) -> AsyncIterator[AsyncEngine]:
    """A database without a schema."""
    async with database(postgres_dsn) as engine:
        yield engine


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """A migrated database."""
    engine = make_engine(database_url)
    yield engine
    await engine.dispose()


async def catalog(engine: AsyncEngine) -> list[str]:
    async with transaction(engine) as connection:
        return list((await connection.execute(CATALOG)).scalars())


# the migrations make what is declared


@pytest.mark.long
async def test_the_migrations_make_exactly_what_is_declared(engine: AsyncEngine, empty: AsyncEngine) -> None:
    async with transaction(empty) as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(sa.text("CREATE TABLE alembic_version (version_num varchar)"))
    await ensure_role(empty)
    declared = await catalog(empty)
    assert await catalog(engine) == declared
    assert any("WHERE ((status)::text = 'staged'::text)" in line for line in declared), "predicates are compared"
    assert any("CHECK" in line and "[^[:space:]]" in line for line in declared), "and the bodies of checks"
    assert any("closed projects t t granted" in line and "hardwon_app=" in line for line in declared), "and grants"


async def test_alembic_finds_nothing_to_add(engine: AsyncEngine) -> None:
    def check(connection: sa.Connection) -> None:
        config = alembic_config(migration_scripts())
        config.attributes["connection"] = connection
        command.check(config)

    async with transaction(engine) as connection:
        await connection.run_sync(check)


def test_the_head_read_off_the_names_is_that_of_alembic() -> None:
    assert ScriptDirectory.from_config(alembic_config(migration_scripts())).get_heads() == [
        head_revision(migration_scripts())
    ]


async def test_every_moment_is_kept_with_its_zone(engine: AsyncEngine) -> None:
    """D47, D7."""
    lines = [line for line in await catalog(engine) if line.startswith("column ")]
    naive = [line for line in lines if " without time zone" in line or " date " in line]
    assert naive == []
    assert sum("timestamp with time zone" in line for line in lines) >= 10


# who migrates

MIGRATES = """
import asyncio, sys
from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.wiring.stores import migration_scripts
async def main():
    engine = make_engine(sys.argv[1])
    print(await migrate(engine, migration_scripts()))
    await engine.dispose()
asyncio.run(main())
"""


@pytest.mark.long
async def test_of_five_processes_on_an_empty_database_one_migrates_and_none_fails(empty: AsyncEngine) -> None:
    """G19."""
    address = empty.url.set(drivername="postgresql").render_as_string(hide_password=False)

    async def start() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MIGRATES, address, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        return process.returncode, out.decode().strip()

    answers = await asyncio.gather(*(start() for _ in range(5)))
    assert sorted(answers) == [(0, "False")] * 4 + [(0, "True")]


@pytest.mark.long
async def test_of_eight_callers_on_an_empty_database_one_migrates(empty: AsyncEngine) -> None:
    """G19."""
    assert sum(await asyncio.gather(*(migrate(empty, migration_scripts()) for _ in range(8)))) == 1
    assert await migrate(empty, migration_scripts()) is False


async def test_a_user_who_may_make_no_tables_is_told_so(empty: AsyncEngine, postgres_dsn: str) -> None:
    """From Postgres 15 on only the owner of a database may; a guest's first start was a trace."""
    role = f"guest_{uuid4().hex}"
    async with transaction(empty) as connection:
        await connection.execute(sa.text(f"CREATE ROLE {role}"))
    url = dsn_of(postgres_dsn, str(empty.url.database))
    guest = make_engine(f"{url}&options=-crole%3D{role}")
    with pytest.raises(StorageUnavailable, match=r"permission denied for schema public.*owner of the database"):
        await migrate(guest, migration_scripts())
    await guest.dispose()
    lost = make_engine(f"{url}&search_path=nowhere")
    with pytest.raises(StorageUnavailable, match=r"no schema has been selected.*owner of the database"):
        await migrate(lost, migration_scripts())
    await lost.dispose()
    async with transaction(empty) as connection:
        await connection.execute(sa.text(f"DROP ROLE {role}"))


@case_by_case
async def test_a_schema_of_another_version_is_refused_and_left_alone(
    engine: AsyncEngine, revision: str, told: str
) -> None:
    """G20."""
    async with transaction(engine) as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    before = await catalog(engine)
    with pytest.raises(StoreIncompatible, match=told):
        await migrate(engine, migration_scripts())
    assert await catalog(engine) == before


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Migrations with one revision that the database lacks."""
    return add_next_revision(tmp_path)


async def test_a_writer_that_holds_what_a_migration_wants_is_let_through_and_not_ended(
    engine: AsyncEngine, scripts: Path
) -> None:
    """G20: each holds a table that the other waits for; Postgres would end one of them after a second."""
    async with transaction(engine) as writer:
        await writer.execute(sa.text("UPDATE knowledge_staging SET attempts = 1"))
        task = asyncio.create_task(migrate(engine, scripts))
        await asyncio.sleep(0.25)
        async with asyncio.timeout(5):
            await writer.execute(sa.text("UPDATE patterns SET success_count = 0"))
    assert await task


@pytest.mark.long
async def test_a_migration_that_never_gets_its_tables_says_so(
    engine: AsyncEngine, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "_PATIENCE_SECONDS", 0.5)
    async with transaction(engine) as other:
        await other.execute(sa.text("LOCK TABLE knowledge_staging, patterns"))
        with pytest.raises(StorageUnavailable, match=r"hold tables that revision \d{4} changes"):
            await migrate(engine, scripts)
    assert await migrate(engine, scripts)


# what must never be stored

ENTRY: dict[str, Any] = {
    "workspace": "default",
    "project_id": "web-shop",
    "entry_type": "failure_solution",
    "agent_type": "backend",
    "failure_description": "It broke",
    "solution_steps": "Mend it",
    "success_verified": True,
    "content_hash": "0" * 64,
    "timestamp": NOON,
    "status": "staged",
}
GATE: dict[str, Any] = {
    "entry_type": "gate_rejection",
    "agent_type": None,
    "failure_description": None,
    "solution_steps": None,
}
REJECTION = GATE | {"gate_type": "review", "human_feedback": "No", "revision_approach": "Yes"}
APPROVAL = GATE | {"entry_type": "gate_approval", "gate_type": "review", "approved_approach": "Yes"}
EMBEDDED: dict[str, Any] = {"status": "embedded", "embedded_at": NOON, "expires_at": NOON + timedelta(days=365)}


@pytest.fixture(scope="module")
def one_database(postgres_dsn: str) -> str:
    """The address of a migrated database in which no test of this module leaves anything."""
    return asyncio.run(create_database(postgres_dsn, template=TEMPLATE))


@pytest.fixture
async def passing(one_database: str) -> AsyncIterator[AsyncConnection]:
    """A transaction that is rolled back at the end."""
    engine = make_engine(one_database)
    async with engine.connect() as connection:
        yield connection
        await connection.rollback()
    await engine.dispose()


async def put(connection: AsyncConnection, *, project: bool = True, pattern: bool = False, **changes: Any) -> None:
    """Insert an entry by plain SQL, with nothing of ours in between."""
    row = {"id": uuid4()} | ENTRY | changes
    columns, names = ", ".join(row), ", ".join(f":{name}" for name in row)
    if project:
        await connection.execute(sa.text("INSERT INTO projects VALUES ('default', 'web-shop') ON CONFLICT DO NOTHING"))
    if pattern:
        await found(connection, changes["pattern_id"])
    await connection.execute(sa.text(f"INSERT INTO knowledge_staging ({columns}) VALUES ({names})"), row)


async def found(connection: AsyncConnection, pattern_id: UUID) -> None:
    values = "VALUES (:id, 'default', 'failure_solution', :key, :id, :at)"
    columns = "(id, workspace, entry_type, match_key, founding_entry_id, founded_at)"
    row = {"id": pattern_id, "key": pattern_id.hex, "at": NOON}
    await connection.execute(sa.text(f"INSERT INTO patterns {columns} {values}"), row)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        REJECTION,
        APPROVAL,
        {"status": "open", "solution_steps": None, "success_verified": False},
        REJECTION | {"status": "open", "revision_approach": None},
        {"status": "abandoned", "solution_steps": None, "success_verified": False},
        {"status": "dead", "dead_reason": "too long"},
        {"lease_token": uuid4(), "lease_until": NOON},
        {"agent_type": "ünïcode", "task_type": None, "technology": None},
    ],
)
async def test_what_is_right_can_be_stored(passing: AsyncConnection, changes: dict[str, Any]) -> None:
    """D12: gate entries need no agent."""
    await put(passing, **changes)


async def test_an_embedded_entry_is_marked_as_the_design_says(passing: AsyncConnection) -> None:
    """D23."""
    await put(passing, pattern=True, pattern_id=uuid4(), **EMBEDDED)
    await put(passing, content_hash="1")
    marks = await passing.execute(sa.text("SELECT status, embedded FROM knowledge_staging"))
    assert {tuple(row) for row in marks} == {("embedded", True), ("staged", False)}


REFUSED: dict[str, list[dict[str, Any]]] = {
    "situation": [  # D12: an agent for failures only; D20: nothing blank, nothing missing
        {"agent_type": None},
        {"failure_description": None},
        {"failure_description": ""},
        {"failure_description": " \n\t"},
        {"agent_type": "  "},
        REJECTION | {"human_feedback": None},
        REJECTION | {"human_feedback": " "},
        REJECTION | {"gate_type": None},
        APPROVAL | {"approved_approach": None},
        APPROVAL | {"approved_approach": "\n"},
        APPROVAL | {"gate_type": ""},
    ],
    "resolution": [  # D20, D21, D22: staged means resolved, and verified
        {"solution_steps": None},
        {"solution_steps": "  "},
        {"success_verified": False},
        REJECTION | {"revision_approach": None},
        REJECTION | {"revision_approach": " "},
        {"status": "dead", "dead_reason": "too long", "solution_steps": None},
    ],
    "entry_type": [{"entry_type": "lesson"}],
    "status": [{"status": "pending"}],
    "dead": [{"status": "dead"}, {"dead_reason": "too long"}],
    "lease": [{"lease_token": uuid4()}, {"lease_until": NOON}],
    "leased": [
        {"status": "open", "lease_token": uuid4(), "lease_until": NOON},
        {"status": "abandoned", "lease_token": uuid4(), "lease_until": NOON},
    ],
    "embedded": [  # D23
        {"status": "embedded"},
        {"embedded_at": NOON, "expires_at": NOON + timedelta(days=365)},
        EMBEDDED,
        EMBEDDED | {"expires_at": None},
        EMBEDDED | {"expires_at": NOON, "pattern_id": UUID(int=5), "pattern": True},
    ],
}


@pytest.mark.parametrize(
    ("check", "changes"), [(check, changes) for check, cases in REFUSED.items() for changes in cases]
)
async def test_the_schema_refuses_what_must_never_be_stored(
    passing: AsyncConnection, check: str, changes: dict[str, Any]
) -> None:
    """D12, D20, D21, D22, D23."""
    with pytest.raises(IntegrityError) as refusal:
        await put(passing, **changes)
    named = re.findall(r'violates check constraint "knowledge_staging_(\w+)_check"', str(refusal.value))
    # an unknown type or status breaks the checks that go by it, too; Postgres names one
    assert named[0] in ({check} if check not in {"entry_type", "status"} else {check, "situation", "resolution"})


async def test_a_project_appears_with_its_first_entry_and_goes_with_all_of_them(engine: AsyncEngine) -> None:
    """D18, D19."""
    with pytest.raises(IntegrityError, match="knowledge_staging_workspace_project_id_fkey"):
        async with transaction(engine) as connection:
            await put(connection, project=False)
    for entries in ([stored(failure(project_id="one"))], [stored(failure(project_id="two")), stored(rejection())]):
        answers = await PostgresEntries(engine, "default").add(entries)
        assert {answer.outcome for answer in answers} == {CaptureOutcome.ACCEPTED}
    async with transaction(engine) as connection:
        await connection.execute(sa.text("DELETE FROM projects WHERE project_id = 'one'"))
        left = await connection.execute(sa.text("SELECT project_id FROM knowledge_staging ORDER BY 1"))
        assert list(left.scalars()) == ["two", "web-shop"]


async def test_a_nul_reaches_postgres_neither_by_us_nor_past_us(passing: AsyncConnection) -> None:
    """D46."""
    with pytest.raises(InvalidInput) as refusal:
        validate(failure(failure_description="It\0broke"))
    assert refusal.value.field == "failure_description"
    with pytest.raises(DBAPIError) as refused:
        await put(passing, failure_description="It\0broke")
    assert isinstance(
        refused.value.orig.__cause__ if refused.value.orig else None, asyncpg.CharacterNotInRepertoireError
    )


CONTRADICTIONS = {
    "UPDATE patterns SET success_count = 2, attempt_count = 1": "patterns_counts_check",
    "UPDATE patterns SET project_count = -1": "patterns_counts_check",
    """INSERT INTO patterns SELECT gen_random_uuid(), workspace, entry_type, match_key, founding_entry_id, 0, 0, 0,
       founded_at FROM patterns""": "patterns_match_key",
    """INSERT INTO checkpoints (id, workspace, checkpoint_type, started_at)
       VALUES (gen_random_uuid(), 'default', 'whenever', now())""": "checkpoints_checkpoint_type_check",
    """INSERT INTO embedding_spaces (fingerprint, space, mean_terms, calibration, active)
       SELECT name, '{}', 1, '{}', true FROM unnest(ARRAY['a', 'b']) AS name""": "embedding_spaces_one_active",
    "INSERT INTO vectors VALUES (gen_random_uuid(), 'a', '')": "vectors_point_id_fkey",
}


@pytest.mark.parametrize(("statement", "constraint"), list(CONTRADICTIONS.items()))
async def test_derived_rows_cannot_contradict_themselves(
    passing: AsyncConnection, statement: str, constraint: str
) -> None:
    await found(passing, uuid4())
    with pytest.raises(IntegrityError, match=constraint):
        await passing.execute(sa.text(statement))


async def test_a_document_keeps_the_hashes_of_its_last_thousand_texts(passing: AsyncConnection) -> None:
    await passing.execute(sa.text("INSERT INTO kb_partitions (workspace, partition) VALUES ('default', 'global_kb')"))
    document_id = uuid4()
    document = (
        "INSERT INTO kb_documents (id, workspace, partition, uri, name, content_hash, status, latest)"
        " VALUES (:id, 'default', 'global_kb', 'a.md', 'a.md', '', 'pending', 1)"
    )
    await passing.execute(sa.text(document), {"id": document_id})
    version = (
        "INSERT INTO kb_versions (document_id, generation, title, document_type, text, text_hash, lines)"
        " VALUES (:id, :generation, 'a', 'text', 'a', :hash, 1)"
    )
    for generation in (1, 2, 1002):
        row = {"id": document_id, "generation": generation, "hash": f"hash {generation}"}
        await passing.execute(sa.text(version), row)
    await passing.execute(sa.text("DELETE FROM kb_versions"))
    hashes = await passing.scalar(sa.text("SELECT text_hashes FROM kb_documents"))
    assert hashes == {"1": "hash 1", "1002": "hash 1002"}


# how the store is asked

MANY = """
    INSERT INTO knowledge_staging (id, workspace, project_id, entry_type, agent_type, failure_description,
        solution_steps, success_verified, task_id, content_hash, timestamp, status, pattern_id, embedded_at, expires_at)
    SELECT gen_random_uuid(), 'default', 'web-shop', 'failure_solution', 'backend', 'It broke', 'Mend it', true,
        n::text, md5(n::text), timestamptz '2025-01-01Z' + n * interval '1 minute',
        CASE WHEN n % 500 = 0 THEN 'staged' ELSE 'embedded' END,
        CASE WHEN n % 500 = 0 THEN NULL ELSE CAST(:pattern AS uuid) END,
        CASE WHEN n % 500 = 0 THEN NULL ELSE timestamptz '2025-06-01Z' + n * interval '1 minute' END,
        CASE WHEN n % 500 = 0 THEN NULL ELSE timestamptz '2026-06-01Z' + n * interval '1 minute' END
    FROM generate_series(1, 100000) AS n
"""
A_HUNDRED_EXPIRED = datetime.fromisoformat("2026-06-01T01:40:00Z")


@pytest.fixture(scope="module")
def big(postgres_dsn: str) -> str:
    """The address of a database with 100,000 entries, 99,800 of them embedded and 200 staged."""

    async def fill() -> str:
        dsn = await create_database(postgres_dsn)
        engine = make_engine(dsn)
        await migrate(engine, migration_scripts())
        async with transaction(engine) as connection:
            pattern_id = uuid4()
            await found(connection, pattern_id)
            await connection.execute(sa.text("INSERT INTO projects VALUES ('default', 'web-shop')"))
            await connection.execute(sa.text(MANY), {"pattern": pattern_id})
        async with engine.connect() as connection:
            plain = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await plain.execute(sa.text("VACUUM ANALYZE knowledge_staging"))
        await engine.dispose()
        return dsn

    return asyncio.run(fill())


@asynccontextmanager
async def watched(dsn: str) -> AsyncIterator[tuple[AsyncEngine, list[tuple[str, Any]]]]:
    """Open a database and note the statements on entries that are sent to it."""
    engine = make_engine(dsn)
    sent: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "knowledge_staging" in statement and not statement.startswith("EXPLAIN"):
            sent.append((statement, parameters))

    sa.event.listen(engine.sync_engine, "before_cursor_execute", note)
    yield engine, sent
    await engine.dispose()


async def plans(engine: AsyncEngine, statement: str, parameters: Sequence[Any]) -> list[str]:
    """Return how Postgres goes about a statement: with these parameters, and prepared for any.

    As it does for the product: under the policies some conditions are looked up in no index, and the owner never sees.
    """
    async with transaction(engine_of_workspace(engine, "default")) as connection:
        assert await connection.scalar(sa.text("SELECT current_user")) == APPLICATION_ROLE
        these = await connection.exec_driver_sql(f"EXPLAIN {statement}", tuple(parameters))
        custom = "\n".join(these.scalars())
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, asyncpg.Connection)
        await driver.execute(f"SET LOCAL plan_cache_mode = force_generic_plan; PREPARE asked AS {statement}")
        unknown = ", ".join(["NULL"] * len(parameters))
        generic = await driver.fetch(f"EXPLAIN EXECUTE asked({unknown})")
        await driver.execute("DEALLOCATE asked")
    return [custom, "\n".join(row[0] for row in generic)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("selection", "index"),
    [
        (Selection(), "ix_knowledge_staging_pending"),
        (Selection(captured_before=NOON), "ix_knowledge_staging_pending"),
        (Selection(project_id="web-shop", only_vouched=True), "ix_knowledge_staging_pending"),
    ],
)
async def test_a_claim_reads_what_is_pending_and_not_what_is_done(big: str, selection: Selection, index: str) -> None:
    """D47: a partial index, not one on a flag; 100,000 entries of which 200 are staged."""
    async with watched(big) as (engine, sent):
        claim = await PostgresEntries(engine, "default").claim(selection, limit=0, lease=timedelta(minutes=1))
        assert claim.entries == ()
        ((statement, parameters),) = sent
        for plan in await plans(engine, statement, parameters):
            assert index in plan
            assert "Seq Scan" not in plan


@pytest.mark.long
async def test_counting_what_is_pending_reads_the_partial_index(big: str) -> None:
    async with watched(big) as (engine, sent):
        assert await PostgresEntries(engine, "default").count_pending(Selection()) == 200
        for plan in await plans(engine, *sent[0]):
            assert "ix_knowledge_staging_pending" in plan
            assert "Seq Scan" not in plan


@pytest.mark.long
async def test_a_prune_reads_what_expired_and_not_what_is_alive(big: str) -> None:
    """D9, D47: 100 expired entries of 99,800."""
    async with watched(big) as (engine, sent):
        patterns = PostgresPatterns(engine, "default")
        assert (await patterns.prunable(A_HUNDRED_EXPIRED, open_before=NOON)).entries == 100
        sent.clear()
        await patterns.prune(A_HUNDRED_EXPIRED, open_before=NOON, limit=0)
        deletes = [(statement, parameters) for statement, parameters in sent if "DELETE FROM knowledge" in statement]
        indexes = ["ix_knowledge_staging_expiry", "ix_knowledge_staging_unresolved"]
        for (statement, parameters), index in zip(deletes, indexes, strict=True):
            custom, _ = await plans(engine, statement, parameters)
            assert index in custom
            assert "Seq Scan on knowledge_staging" not in custom


@pytest.mark.long
async def test_a_batch_that_is_told_again_is_looked_up_by_one_statement_and_takes_its_keys_by_one(big: str) -> None:
    """Each entry was looked up by itself, and took its key by itself: whoever learned a history anew sent thousands."""
    told = [failure(task_id=f"again-{number}", run_id="1") for number in range(50)]
    async with watched(big) as (engine, sent):
        entries = PostgresEntries(engine, "default")
        first = await entries.add([stored(entry) for entry in told])
        sent.clear()
        again = await entries.add([stored(entry) for entry in told])
        assert [answer.entry_id for answer in again] == [answer.entry_id for answer in first]
        assert len(sent) == 2, "one that keeps them out, one that looks them up"
        for plan in await plans(engine, *sent[1]):
            assert "knowledge_staging_event" in plan
            assert "knowledge_staging_idempotency_key" in plan
            assert "Seq Scan on knowledge_staging" not in plan
        sent.clear()
        await entries.add([stored(replace(entry, idempotency_key=f"k{n}")) for n, entry in enumerate(told)])
        assert len(sent) == 4
        for plan in await plans(engine, *sent[2]):
            assert "Seq Scan on knowledge_staging" not in plan
        ids = [answer.entry_id for answer in first if answer.entry_id]
        assert [(await entries.get(each)).idempotency_key for each in ids] == [f"k{number}" for number in range(50)]
        await entries.delete_all(ids)


@pytest.mark.long
@pytest.mark.parametrize("task_id", ["777", None])
async def test_what_is_told_of_a_task_is_looked_up_and_not_searched_for(big: str, task_id: str | None) -> None:
    """Every context of a task asks it, and has 300 ms for all."""
    async with watched(big) as (engine, sent):
        found = await PostgresEntries(engine, "default").entries_of_task(
            "web-shop", task_id, EntryType.FAILURE_SOLUTION
        )
        assert len(found) == (task_id is not None)
        for plan in await plans(engine, *sent[0]):
            assert "knowledge_staging_event" in plan
            assert "Seq Scan" not in plan


@pytest.mark.long
async def test_whom_entries_reached_is_looked_up_and_not_compared_each_with_each(big: str) -> None:
    """T5: 4,000 entries and 4,000 contexts took 20 s."""
    async with watched(big) as (engine, sent):
        provenance = PostgresProvenance(engine, "default")
        assert await provenance.affected_tasks(EntryFilter(project_id="web-shop"), limit=10) == []
        for plan in await plans(engine, *sent[0]):
            assert "hashed SubPlan" in plan
            assert "&&" not in plan
