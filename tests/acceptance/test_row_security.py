"""Postgres itself keeps workspaces apart: a statement that forgets its condition finds nothing (T7, T8, D44)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import make_engine, reading, transaction, within
from knowledge.adapters.postgres.entries import PostgresEntries
from knowledge.adapters.postgres.migrating import migrate
from knowledge.adapters.postgres.row_security import GRANTS, OWNED, THROUGH, ensure_role, row_security
from knowledge.adapters.postgres.tables import knowledge_staging, metadata
from knowledge.errors import NotFound
from knowledge.models import EntryId, RowSecurity
from knowledge.wiring import Knowledge
from tests.support.entries import failure, stored
from tests.support.postgres import create_database, drop_database

OF_THE_STORE = {"job_run", "embedding_spaces", "api_keys"}
"""The role may not even see keys and job runs."""
OF_DOCUMENTS = {
    *(name for name in metadata.tables if name.startswith("kb_")),
    *("answer_cache", "answer_feedback", "escalations", "qa_events"),
}
"""Not under it yet (docs/adr/0013): the role may not see them either, and each statement asks for its workspace."""


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
    async with reading(engine) as connection:
        return await connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0


async def execute(engine: AsyncEngine, statement: sa.TextClause) -> None:
    async with transaction(engine) as connection:
        await connection.execute(statement)


async def two_workspaces(engine: AsyncEngine) -> None:
    for workspace, number in (("ours", 3), ("theirs", 5)):
        entries = PostgresEntries(engine, workspace)
        await entries.add([stored(failure(run_id=f"{workspace} {i}")) for i in range(number)])


async def test_every_table_is_closed_and_forced(engine: AsyncEngine) -> None:
    assert {*OWNED, *THROUGH} | OF_THE_STORE | OF_DOCUMENTS == set(metadata.tables)
    carrying = {name for name, table in metadata.tables.items() if "workspace" in table.c}
    assert carrying - OF_THE_STORE - OF_DOCUMENTS == set(OWNED)
    assert set(GRANTS) >= {*OWNED, *THROUGH}
    forced = "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity"
    async with reading(engine) as connection:
        assert set((await connection.execute(sa.text(forced))).scalars()) == {*OWNED, *THROUGH}


async def test_t7_a_statement_without_its_condition_sees_one_workspace_alone(engine: AsyncEngine) -> None:
    """D44."""
    assert await row_security(engine) is RowSecurity.BY_ROLE
    await two_workspaces(engine)
    assert await seen(within(engine, "ours")) == 3
    assert await seen(within(engine, "theirs")) == 5
    assert await seen(within(engine, "nobody's")) == 0
    assert await seen(engine) == 8  # whoever names none: jobs, exports, the release before


async def test_t7_the_role_that_names_no_workspace_sees_nothing(engine: AsyncEngine) -> None:
    await two_workspaces(engine)
    async with transaction(engine) as connection:
        await connection.execute(sa.text("SET LOCAL ROLE hardwon_app"))
        assert await connection.scalar(sa.select(sa.func.count()).select_from(knowledge_staging)) == 0


async def test_t7_a_connection_goes_from_one_workspace_to_another_and_keeps_nothing(database_url: str) -> None:
    engine = make_engine(database_url, pool_size=1)
    await two_workspaces(engine)
    for _ in range(3):
        assert [await seen(within(engine, name)) for name in ("ours", "theirs", "nobody's")] == [3, 5, 0]
        with pytest.raises(DBAPIError, match="division"):
            await execute(within(engine, "theirs"), sa.text("SELECT 1 / 0"))
        assert await seen(within(engine, "ours")) == 3
        assert await seen(engine) == 8
    await engine.dispose()


async def test_t8_nothing_is_written_into_another_workspace(engine: AsyncEngine) -> None:
    await two_workspaces(engine)
    into = sa.text("INSERT INTO projects (workspace, project_id) VALUES ('theirs', 'planted')")
    away = sa.text("UPDATE knowledge_staging SET workspace = 'theirs'")
    for statement in (into, away):
        with pytest.raises(DBAPIError, match="row-level security"):
            await execute(within(engine, "ours"), statement)
    for change in ("UPDATE knowledge_staging SET verified_by = 'me'", "DELETE FROM knowledge_staging"):
        async with transaction(within(engine, "nobody's")) as connection:
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
            await execute(within(engine, "ours"), sa.text(statement))


async def test_a_user_who_may_not_make_roles_is_held_by_the_workspace_it_names(postgres_dsn: str) -> None:
    """The role is there on this server, but not this user's to take: as on a managed one without CREATEROLE."""
    async with as_user(postgres_dsn) as engine:
        await migrate(engine)
        assert not await ensure_role(engine)
        assert await row_security(engine) is RowSecurity.BY_NAME
        await two_workspaces(engine)
        assert [await seen(within(engine, name)) for name in ("ours", "theirs")] == [3, 5]
        assert await seen(engine) == 8


async def test_a_role_that_is_granted_later_is_taken_from_the_next_start_on(postgres_dsn: str) -> None:
    async with as_user(postgres_dsn) as engine:
        await migrate(engine)
        assert await row_security(engine) is RowSecurity.BY_NAME
        administrator = await asyncpg.connect(postgres_dsn)
        await administrator.execute(f"GRANT hardwon_app TO {engine.url.username}")
        await administrator.close()
        await migrate(engine)
        assert await row_security(engine) is RowSecurity.BY_ROLE
        await two_workspaces(engine)
        async with transaction(within(engine, "ours")) as connection:
            assert await connection.scalar(sa.text("SELECT current_user")) == "hardwon_app"
            assert await connection.scalar(sa.text("SELECT count(*) FROM knowledge_staging")) == 3


async def test_dead_connections_in_the_pool_are_replaced_when_they_are_held_to_another_workspace(
    postgres_dsn: str, database_url: str
) -> None:
    engine = make_engine(database_url, pool_size=4)
    await two_workspaces(engine)
    await asyncio.gather(*(seen(within(engine, "ours")) for _ in range(4)))
    other = await asyncpg.connect(postgres_dsn)
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    await other.execute(ours.replace("$1", f"'{engine.url.database}'"))
    await other.close()
    assert [await seen(within(engine, "theirs")) for _ in range(6)] == [5] * 6
    await engine.dispose()


async def test_what_goes_with_an_entry_goes_as_the_role_too(knowledge: Knowledge) -> None:
    """Cascades and triggers run as the tables' owner, whatever role asked: nothing is left of a project."""
    await knowledge.capture.capture_all([failure(run_id=str(i)) for i in range(3)])
    await knowledge.checkpoints.process_checkpoint("web-shop", "manual")
    assert await knowledge.capture.delete_project("web-shop") == 3
    left = {table: await seen(knowledge.engine, table) for table in ("knowledge_staging", "vectors")}
    assert left == dict.fromkeys(left, 0)
