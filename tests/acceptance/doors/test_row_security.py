"""Postgres itself keeps workspaces apart: a statement that forgets its condition finds nothing (T7, T8, D44)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import NotFound
from hardwon.models.answers import Event, EventId
from hardwon.models.documents import SourceId
from knowledge.adapters.postgres.document_tables import metadata
from knowledge.adapters.postgres.engine.database import autocommit, engine_of_workspace, make_engine, transaction
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.adapters.postgres.engine.row_security import (
    GRANTS,
    NOT_FORCED,
    PARENT_CONDITIONS,
    WORKSPACE_TABLES,
    ensure_role,
    row_security,
)
from knowledge.adapters.postgres.memory.entries import PostgresEntries
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.documents.ingestion.reconcile import ReconcileReport
from knowledge.documents.journal import NewEscalation
from knowledge.documents.ports import Source
from knowledge.models import EntryId, RowSecurity
from knowledge.wiring.open import Knowledge
from knowledge.wiring.stores import migration_scripts
from tests.support.documents import GUIDE, add, find, readable, writable
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure, stored
from tests.support.postgres import create_database, drop_database

OF_THE_STORE = {"job_run", "embedding_spaces", "api_keys", "ended_sessions", "seal_heads"}
"""The role may not even see keys, ended sessions and job runs."""
OF_DOCUMENTS = (
    *sorted(name for name in metadata.tables if name.startswith("kb_")),
    *("answer_cache", "answer_feedback", "escalations", "qa_events"),
)


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = make_engine(database_url)
    yield engine
    await engine.dispose()


@asynccontextmanager
async def as_user(server: str, *, may: str = "") -> AsyncIterator[AsyncEngine]:
    """A database that a login of its own owns, which is no superuser, as managed servers give it."""
    name = f"owner_{uuid4().hex[:8]}"
    dsn = await create_database(server)
    owner = await asyncpg.connect(dsn)
    await owner.execute(f"CREATE ROLE {name} LOGIN {may}")
    await owner.execute(f"GRANT ALL ON SCHEMA public TO {name}")
    engine = make_engine(dsn.replace("//hardwon@", f"//{name}@", 1))
    try:
        yield engine
    finally:
        await engine.dispose()
        await owner.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")
        await owner.close()
        await drop_database(dsn)


async def seen(engine: AsyncEngine, table: str = "knowledge_staging") -> int:
    """Return what a statement sees that forgot to ask for its workspace."""
    async with autocommit(engine) as connection:
        return await connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0


async def execute(engine: AsyncEngine, statement: sa.TextClause) -> None:
    async with transaction(engine) as connection:
        await connection.execute(statement)


async def two_workspaces(engine: AsyncEngine) -> None:
    for workspace, number in (("ours", 3), ("theirs", 5)):
        entries = PostgresEntries(engine, workspace)
        await entries.add([stored(failure(run_id=f"{workspace} {i}")) for i in range(number)])


async def test_every_table_is_closed_and_forced(engine: AsyncEngine) -> None:
    assert {*WORKSPACE_TABLES, *PARENT_CONDITIONS} | OF_THE_STORE == set(metadata.tables)
    carrying = {name for name, table in metadata.tables.items() if "workspace" in table.c}
    assert carrying - OF_THE_STORE == set(WORKSPACE_TABLES)
    assert set(GRANTS) >= {*WORKSPACE_TABLES, *PARENT_CONDITIONS}
    closed = "SELECT relname, relforcerowsecurity FROM pg_class WHERE relrowsecurity"
    async with autocommit(engine) as connection:
        rows = (await connection.execute(sa.text(closed))).all()
    assert {name for name, _ in rows} == {*WORKSPACE_TABLES, *PARENT_CONDITIONS}
    assert {name for name, is_forced in rows if not is_forced} == {NOT_FORCED}


async def test_t7_a_statement_without_its_condition_sees_one_workspace_alone(engine: AsyncEngine) -> None:
    """D44."""
    assert await row_security(engine) is RowSecurity.BY_ROLE
    await two_workspaces(engine)
    assert await seen(engine_of_workspace(engine, "ours")) == 3
    assert await seen(engine_of_workspace(engine, "theirs")) == 5
    assert await seen(engine_of_workspace(engine, "nobody's")) == 0
    assert await seen(engine) == 8  # whoever names none: jobs, exports, the release before


def a_source() -> Source:
    return Source(
        source_id=SourceId(uuid4()),
        partition="global_kb",
        url="https://git.example/docs",
        branch=None,
        subdir="",
        globs=(),
        last_commit=None,
        last_error=None,
        synced_at=None,
    )


async def documents_of(knowledge: Knowledge, workspace: str) -> None:
    """Leave a row in every table of documents."""
    of = knowledge.in_workspace(workspace)
    await add(of, "guide.md", GUIDE)
    await add(of, "app.log", b"2026-01-15T11:00:00Z ERROR the pool is exhausted\n" * 3)
    await of.kb.grant("team", "web", "ann")
    source = a_source()
    await of.documents.syncing.store.add(source)
    await of.documents.quotes.keep_scale((await of.documents.search.active_space()).space, 0.1, 0.9, 3)
    answering, at = of.answering, of.stores.clock.now()
    versions = await of.documents.quotes.versions(await readable(of))
    await answering.cache.put("key", "{}", versions, lifetime=timedelta(hours=1))
    event = Event(event_id=EventId(uuid4()), name="told", happened_at=at, payload={})
    await answering.journal.record(event)
    asked = NewEscalation(question="how?", transcript=[], passage_ids=[], suggested_fix="write it down")
    await answering.journal.escalate(asked, at)
    await answering.journal.feedback(event.event_id, up=True, comment=None, now=at)


@pytest.mark.long
async def test_t7_a_statement_on_documents_without_its_condition_sees_one_workspace_alone(
    knowledge: Knowledge,
) -> None:
    for workspace in ("ours", "theirs"):
        await documents_of(knowledge, workspace)
    for table in OF_DOCUMENTS:
        ours, theirs, all_of_them = [
            await seen(engine, table)
            for engine in (
                *(engine_of_workspace(knowledge.engine, name) for name in ("ours", "theirs")),
                knowledge.engine,
            )
        ]
        assert ours == theirs > 0, table
        assert all_of_them == ours + theirs, table
        assert await seen(engine_of_workspace(knowledge.engine, "nobody's"), table) == 0, table
        async with transaction(knowledge.engine) as connection:
            await connection.execute(sa.text("SET LOCAL ROLE hardwon_app"))
            assert await connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) == 0, table


@pytest.mark.long
async def test_t8_nothing_of_documents_is_written_into_another_workspace(knowledge: Knowledge) -> None:
    for workspace in ("ours", "theirs"):
        await documents_of(knowledge, workspace)
    owned = [name for name in OF_DOCUMENTS if "workspace" in metadata.tables[name].c]
    through = [name for name in OF_DOCUMENTS if name in PARENT_CONDITIONS]
    assert {*owned, *through} == set(OF_DOCUMENTS)
    theirs = "SELECT id FROM kb_documents WHERE workspace = 'theirs' LIMIT 1"
    async with autocommit(knowledge.engine) as connection:
        document_id = await connection.scalar(sa.text(theirs))
    for table in owned:
        with pytest.raises(DBAPIError, match="row-level security"):
            await execute(
                engine_of_workspace(knowledge.engine, "ours"), sa.text(f"UPDATE {table} SET workspace = 'theirs'")
            )
    for table in through:
        moved = sa.text(f"UPDATE {table} SET document_id = :there").bindparams(there=document_id)
        with pytest.raises(DBAPIError, match="row-level security"):
            await execute(engine_of_workspace(knowledge.engine, "ours"), moved)
    for table in OF_DOCUMENTS:
        column = "document_id" if table in through else "workspace"
        async with transaction(engine_of_workspace(knowledge.engine, "nobody's")) as connection:
            same = sa.text(f"UPDATE {table} SET {column} = {column}")
            assert (await connection.execute(same)).rowcount == 0, table
    for table in ("qa_events", "escalations", "answer_feedback"):
        with pytest.raises(DBAPIError, match="permission denied"):
            await execute(engine_of_workspace(knowledge.engine, "ours"), sa.text(f"DELETE FROM {table}"))


@pytest.mark.long
async def test_t8_a_guessed_id_of_a_document_of_another_workspace_opens_nothing(knowledge: Knowledge) -> None:
    theirs = knowledge.in_workspace("theirs")
    document = await add(theirs, "guide.md", GUIDE)
    found = await find(theirs, "database timeouts")
    passage, ours = found.passages[0], await readable(knowledge)
    source = a_source()
    await theirs.documents.syncing.store.add(source)
    scope = await writable(knowledge)
    assert await knowledge.documents.library.delete(scope, [document.document_id]) == 0
    with pytest.raises(NotFound):
        await knowledge.documents.library.documents.get("global_kb", document.document_id)
    with pytest.raises(NotFound):
        await knowledge.documents.syncing.forget(scope, source.source_id)
    await knowledge.documents.syncing.store.record_sync(source.source_id, commit="planted", error=None)
    assert await knowledge.documents.quotes.passages([passage.passage_id], ours) == []
    assert await knowledge.documents.quotes.visible([passage], ours) == {}
    assert await knowledge.documents.quotes.whole(ours, [document.document_id]) == []
    assert (await find(knowledge, "database timeouts")).passages == ()
    assert [each.last_commit for each in await theirs.documents.syncing.store.of(None)] == [None]
    assert (await find(theirs, "database timeouts")).passages == found.passages


@pytest.mark.long
async def test_what_another_workspace_embedded_is_embedded_again(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """That it came at once would tell that the text is there; and a purge here leaves the embeddings of others."""
    for workspace in ("ours", "theirs"):
        before = embedder.texts
        await add(knowledge.in_workspace(workspace), "guide.md", GUIDE)
        assert embedder.texts > before
    old = sa.text("UPDATE kb_vectors SET made_at = now() - interval '2 hours'")
    await execute(knowledge.engine, old)
    ours, kept = (
        knowledge.in_workspace("ours"),
        await seen(engine_of_workspace(knowledge.engine, "theirs"), "kb_vectors"),
    )
    assert await ours.documents.upkeep.purge() == 0
    listed = await ours.documents.library.list_documents(await readable(ours))
    await ours.documents.library.delete(await writable(ours), [each.document_id for each in listed])
    await ours.documents.indexing.run()
    assert await ours.documents.upkeep.purge() == kept
    assert await seen(engine_of_workspace(knowledge.engine, "theirs"), "kb_vectors") == kept
    assert await knowledge.in_workspace("theirs").documents.upkeep.reconcile() == ReconcileReport()


async def test_t7_the_role_that_names_no_workspace_sees_nothing(engine: AsyncEngine) -> None:
    await two_workspaces(engine)
    async with transaction(engine) as connection:
        await connection.execute(sa.text("SET LOCAL ROLE hardwon_app"))
        assert await connection.scalar(sa.select(sa.func.count()).select_from(knowledge_staging)) == 0


async def test_a_session_that_runs_sql_of_somebody_else_can_name_another_workspace(engine: AsyncEngine) -> None:
    """As docs/security.md says: what keeps that out is that no SQL is put together from text."""
    await two_workspaces(engine)
    async with autocommit(engine_of_workspace(engine, "ours")) as connection:
        for injected, rows in (("SELECT set_config('hardwon.workspace', 'theirs', false)", 5), ("RESET ROLE", 8)):
            await connection.execute(sa.text(injected))
            assert await connection.scalar(sa.select(sa.func.count()).select_from(knowledge_staging)) == rows


async def test_t7_a_connection_goes_from_one_workspace_to_another_and_keeps_nothing(database_url: str) -> None:
    engine = make_engine(database_url, connections=2)
    await two_workspaces(engine)
    for _ in range(3):
        assert [await seen(engine_of_workspace(engine, name)) for name in ("ours", "theirs", "nobody's")] == [3, 5, 0]
        with pytest.raises(DBAPIError, match="division"):
            await execute(engine_of_workspace(engine, "theirs"), sa.text("SELECT 1 / 0"))
        assert await seen(engine_of_workspace(engine, "ours")) == 3
        assert await seen(engine) == 8
    await engine.dispose()


async def test_t8_nothing_is_written_into_another_workspace(engine: AsyncEngine) -> None:
    await two_workspaces(engine)
    into = sa.text("INSERT INTO projects (workspace, project_id) VALUES ('theirs', 'planted')")
    away = sa.text("UPDATE knowledge_staging SET workspace = 'theirs'")
    for statement in (into, away):
        with pytest.raises(DBAPIError, match="row-level security"):
            await execute(engine_of_workspace(engine, "ours"), statement)
    for change in ("UPDATE knowledge_staging SET verified_by = 'me'", "DELETE FROM knowledge_staging"):
        async with transaction(engine_of_workspace(engine, "nobody's")) as connection:
            assert (await connection.execute(sa.text(change))).rowcount == 0


async def test_t8_a_guessed_id_of_another_workspace_opens_nothing(knowledge: Knowledge) -> None:
    theirs = knowledge.in_workspace("theirs")
    entry_id = (await theirs.capture.capture_all([failure()]))[0].entry_id
    assert entry_id is not None
    for attempt in (
        knowledge.stores.entries.get(entry_id),
        knowledge.stores.entries.delete(entry_id),
        knowledge.capture.resolve_failure(entry_id, solution_steps="mine now", verified_by="me"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await theirs.stores.entries.get(EntryId(entry_id))).entry_id == entry_id


async def test_t8_the_role_changes_no_table_and_no_rule(engine: AsyncEngine) -> None:
    for statement in (
        "ALTER TABLE knowledge_staging DISABLE ROW LEVEL SECURITY",
        "DROP POLICY of_workspace ON points",
        "TRUNCATE contexts",
        "DELETE FROM embedding_spaces",
        "SELECT count(*) FROM job_run",
        "SELECT secret_hash FROM api_keys",
    ):
        with pytest.raises(DBAPIError, match=r"must be owner|permission denied"):
            await execute(engine_of_workspace(engine, "ours"), sa.text(statement))


@pytest.mark.long
async def test_a_user_who_may_not_make_roles_is_held_by_the_workspace_it_names(postgres_dsn: str) -> None:
    """The role is there on this server, but not this user's to take: as on a managed one without CREATEROLE."""
    async with as_user(postgres_dsn) as engine:
        await migrate(engine, migration_scripts())
        assert not await ensure_role(engine)
        assert await row_security(engine) is RowSecurity.BY_NAME
        await two_workspaces(engine)
        assert [await seen(engine_of_workspace(engine, name)) for name in ("ours", "theirs")] == [3, 5]
        assert await seen(engine) == 8


async def test_a_role_that_is_granted_later_is_taken_from_the_next_start_on(postgres_dsn: str) -> None:
    async with as_user(postgres_dsn) as engine:
        await migrate(engine, migration_scripts())
        assert await row_security(engine) is RowSecurity.BY_NAME
        administrator = await asyncpg.connect(postgres_dsn)
        await administrator.execute(f"GRANT hardwon_app TO {engine.url.username}")
        await administrator.close()
        await migrate(engine, migration_scripts())
        assert await row_security(engine) is RowSecurity.BY_ROLE
        await two_workspaces(engine)
        async with transaction(engine_of_workspace(engine, "ours")) as connection:
            assert await connection.scalar(sa.text("SELECT current_user")) == "hardwon_app"
            assert await connection.scalar(sa.text("SELECT count(*) FROM knowledge_staging")) == 3


async def test_dead_connections_in_the_pool_are_replaced_when_they_are_held_to_another_workspace(
    postgres_dsn: str, database_url: str
) -> None:
    engine = make_engine(database_url, connections=8)
    await two_workspaces(engine)
    await asyncio.gather(*(seen(engine_of_workspace(engine, "ours")) for _ in range(4)))
    other = await asyncpg.connect(postgres_dsn)
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    await other.execute(ours.replace("$1", f"'{engine.url.database}'"))
    await other.close()
    assert [await seen(engine_of_workspace(engine, "theirs")) for _ in range(6)] == [5] * 6
    await engine.dispose()


@pytest.mark.long
async def test_what_goes_with_an_entry_goes_as_the_role_too(knowledge: Knowledge) -> None:
    """Cascades and triggers run as the tables' owner, whatever role asked: nothing is left of a project."""
    await knowledge.capture.capture_all([failure(run_id=str(i)) for i in range(3)])
    await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
    assert await knowledge.capture.delete_project("web-shop") == 3
    left = {table: await seen(knowledge.engine, table) for table in ("knowledge_staging", "vectors")}
    assert left == dict.fromkeys(left, 0)
