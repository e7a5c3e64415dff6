"""Behind a pooler in transaction mode, nothing of a session is relied on; what cannot work there is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import StorageUnavailable
from knowledge.adapters.postgres.admin.archive import PostgresArchive
from knowledge.adapters.postgres.admin.runs import PostgresJobs
from knowledge.adapters.postgres.engine import locks
from knowledge.adapters.postgres.engine.connection import Sharing
from knowledge.adapters.postgres.engine.database import autocommit, engine_of_workspace, make_engine, transaction
from knowledge.adapters.postgres.engine.locks import check_second_connection, session_lock
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.wiring.stores import migration_scripts
from tests.support.poolers.pgbouncer import PROGRAM, pgbouncer
from tests.support.poolers.stand_in import PoolerStandIn
from tests.support.postgres import create_database, drop_database, over_tcp

needs_pgbouncer = pytest.mark.skipif(PROGRAM is None, reason="needs PgBouncer (Debian: apt-get install pgbouncer)")
WHO = sa.text("SELECT current_user, current_setting('hardwon.workspace', true), current_setting('lock_timeout')")
LOCK = sa.literal(4711)


@contextmanager
def behind(dsn: str, *, more: str = "", size: int = 1, keeps: bool = True) -> Iterator[AsyncEngine]:
    with PoolerStandIn(dsn, size=size, keeps=keeps) as pooler:
        yield make_engine(over_tcp(dsn, pooler.port) + more)


async def insert_together(engine: AsyncEngine, *numbers: int) -> None:
    async with transaction(engine) as connection:
        for number in numbers:
            await connection.execute(sa.text(f"INSERT INTO told VALUES ({number})"))


def sharing_of(engine: AsyncEngine) -> Sharing:
    return cast(Sharing, cast(Any, engine.dialect.dbapi).connector.sharing)


@pytest.mark.parametrize("keeps", [True, False])
async def test_workspace_role_and_settings_hold_for_each_statement_and_for_each_transaction(
    database_url: str, *, keeps: bool
) -> None:
    with behind(database_url, keeps=keeps) as engine:
        for opened in (autocommit, transaction):
            for workspace, role in (("it's \\ours", "hardwon_app"), ("", "hardwon"), ("theirs", "hardwon_app")):
                async with opened(engine_of_workspace(engine, workspace)) as connection:
                    for _ in range(2):
                        assert tuple((await connection.execute(WHO)).one()) == (role, workspace, "90s")
        assert sharing_of(engine) is (Sharing.POOLED_PREPARED if keeps else Sharing.POOLED)
        await engine.dispose()


async def test_statements_of_their_own_commit_by_themselves_and_roll_back_by_themselves(database_url: str) -> None:
    with behind(database_url) as engine:
        async with autocommit(engine) as connection:
            await connection.execute(sa.text("CREATE TABLE told (number int CHECK (number > 0))"))
            await connection.execute(sa.text("INSERT INTO told VALUES (1)"))
            with pytest.raises(DBAPIError, match="check constraint"):
                await connection.execute(sa.text("INSERT INTO told VALUES (-1)"))
            many = [{"number": 2}, {"number": 3}]
            await connection.execute(sa.text("INSERT INTO told VALUES (CAST(:number AS int))"), many)
            assert (await connection.execute(sa.text("SELECT number FROM told"))).scalars().all() == [1, 2, 3]
        with pytest.raises(DBAPIError, match="check constraint"):
            await insert_together(engine, 4, -4)
        async with autocommit(engine) as connection:
            assert await connection.scalar(sa.text("SELECT count(*) FROM told")) == 3
        await PostgresJobs(engine).vacuum()
        await engine.dispose()


@pytest.mark.long
async def test_a_statement_that_is_cancelled_leaves_nothing_to_others(database_url: str) -> None:
    with behind(database_url) as engine:
        for opened in (autocommit, transaction):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3), opened(engine_of_workspace(engine, "ours")) as connection:
                    await connection.execute(sa.text("SELECT pg_sleep(30)"))
            async with asyncio.timeout(10), opened(engine) as connection:
                assert (await connection.execute(WHO)).one()[:2] == ("hardwon", "")
        await engine.dispose()


@pytest.mark.parametrize(
    ("server", "sharing"),
    [({"forwards_key": True}, Sharing.POOLED_PREPARED), ({"forwards_key": True, "keeps": False}, Sharing.POOLED)],
)
async def test_a_pooler_is_noticed_that_answers_with_the_process_id_of_postgres(
    database_url: str, server: dict[str, bool], sharing: Sharing
) -> None:
    with PoolerStandIn(database_url, **server) as pooler:
        engine = make_engine(over_tcp(database_url, pooler.port))
        async with autocommit(engine) as connection:
            await connection.execute(WHO)
        assert sharing_of(engine) is sharing
        await engine.dispose()


async def test_a_server_without_a_pooler_is_noticed(database_url: str) -> None:
    engine = make_engine(database_url)
    async with autocommit(engine) as connection:
        await connection.execute(WHO)
    assert sharing_of(engine) is Sharing.DIRECT
    await engine.dispose()


@pytest.mark.parametrize("keeps", [True, False])
async def test_settings_that_a_pooler_does_not_let_through_are_set_for_each_transaction(
    database_url: str, *, keeps: bool
) -> None:
    more = "?options=-csearch_path%3Dpublic%20--work-mem%3D7MB&statement_timeout=70000&sslmode=disable"
    shown = "SELECT current_setting('search_path'), current_setting('work_mem'), current_setting('statement_timeout')"
    with behind(database_url, more=more, keeps=keeps) as engine:
        async with autocommit(engine) as connection:
            assert tuple((await connection.execute(sa.text(shown))).one()) == ("public", "7MB", "70s")
        await engine.dispose()


async def test_the_schema_is_migrated_over_one_connection_by_whoever_comes_first(postgres_dsn: str) -> None:
    dsn = await create_database(postgres_dsn)
    with behind(dsn, keeps=False) as engine:
        assert sum(await asyncio.gather(*(migrate(engine, migration_scripts()) for _ in range(4)))) == 1
        async with PostgresArchive(engine).snapshot() as snapshot:
            assert await snapshot.total() == 0
        await engine.dispose()
    await drop_database(dsn)


async def test_a_long_lock_is_a_lease_behind_a_pooler_and_holds_for_those_without_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_RENEW_SECONDS", 0.05)
    direct = make_engine(database_url)
    with behind(database_url) as pooled:
        for holder, other in ((pooled, direct), (pooled, pooled), (direct, pooled), (direct, direct)):
            async with session_lock(engine_of_workspace(holder, "ours"), LOCK) as locked:
                assert locked
                await asyncio.sleep(0.2)
                async with session_lock(other, LOCK) as second:
                    assert not second
            async with session_lock(other, LOCK) as free:
                assert free
        await pooled.dispose()
    await direct.dispose()


async def test_the_lease_of_a_process_that_died_is_free_after_a_while(database_url: str) -> None:
    with behind(database_url) as engine:
        async with transaction(engine) as connection:
            dead = "INSERT INTO job_run (job, slot, started_at, attempts) VALUES ('lock/4711', 'epoch', now() - {}, 7)"
            await connection.execute(sa.text(dead.format("interval '30 s'")))
        async with session_lock(engine, LOCK) as locked:
            assert not locked
        async with transaction(engine) as connection:
            await connection.execute(sa.text("UPDATE job_run SET started_at = now() - interval '61 s'"))
        async with session_lock(engine, LOCK) as locked:
            assert locked
        await engine.dispose()


async def test_what_needs_two_connections_is_refused_where_a_pooler_has_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_SECOND_SECONDS", 1.0)
    with behind(database_url, size=2) as engine:
        await check_second_connection(engine)
        await engine.dispose()
    with behind(database_url, size=1) as engine:
        with pytest.raises(StorageUnavailable, match="needs two: raise its default_pool_size to 2"):
            await check_second_connection(engine)
        async with autocommit(engine) as connection:
            assert (await connection.execute(WHO)).one()[0] == "hardwon"
        await engine.dispose()


@needs_pgbouncer
async def test_pooling_by_statement_is_refused_at_the_start(database_url: str) -> None:
    with pgbouncer(database_url, mode="statement") as port:
        engine = make_engine(over_tcp(database_url, port))
        with pytest.raises(StorageUnavailable, match="set its pool_mode to transaction, or to session"):
            async with autocommit(engine):
                pass
        await engine.dispose()


@needs_pgbouncer
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_what_is_prepared_at_pgbouncer_is_lost_by_nobody(database_url: str, mode: str) -> None:
    with pgbouncer(database_url, mode=mode, size=2) as port:
        engines = [make_engine(over_tcp(database_url, port)) for _ in range(2)]
        for _ in range(3):
            for engine in engines:
                async with autocommit(engine_of_workspace(engine, "ours")) as connection:
                    assert (await connection.execute(WHO)).one()[:2] == ("hardwon_app", "ours")
        for engine in engines:
            await engine.dispose()
        plain = await asyncpg.connect(over_tcp(database_url, port), statement_cache_size=0)
        assert await plain.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'hardwon%'") == 0
        await plain.close()
