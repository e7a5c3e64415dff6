"""Errors of the database: said in our words, or without the words that are stored."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import os
import socket
import ssl
import traceback
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import InvalidSetting, StorageBusy, StorageUnavailable
from knowledge.adapters.postgres.engine import connection as connecting
from knowledge.adapters.postgres.engine import database
from knowledge.adapters.postgres.engine.analyze import Analyze
from knowledge.adapters.postgres.engine.connection import CONNECT_SECONDS
from knowledge.adapters.postgres.engine.database import (
    _Pool,
    autocommit,
    engine_of_workspace,
    make_engine,
    transaction,
    translate,
)
from knowledge.adapters.postgres.memory_tables import points
from tests.support.cases import case_by_case
from tests.support.postgres import over_tcp, socket_of
from tests.support.relay import Relay, Wire

SECRET = "hunter2 was the password"
LOCALHOST = Path(__file__).parents[1] / "support" / "localhost.pem"
"""A certificate of localhost, its own authority, with its key; for a hundred years."""


Opening = Callable[[AsyncEngine], AbstractAsyncContextManager[AsyncConnection]]

TABLE = "create temporary table if not exists told (text text primary key, number int check (number > 0))"


@pytest.fixture
async def engine(postgres_dsn: str) -> AsyncIterator[AsyncEngine]:
    engine = make_engine(postgres_dsn)
    yield engine
    await engine.dispose()


async def fails(engine: AsyncEngine, opening: Opening, statement: str) -> None:
    async with opening(engine) as connection:
        await connection.execute(sa.text(TABLE))
        await connection.execute(sa.text(statement), {"text": SECRET})


@pytest.mark.parametrize("opening", [transaction, autocommit])
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("insert into told values (:text, 1), (:text, 2)", "unique constraint"),
        ("insert into told values (:text, -1)", "check constraint"),
        ("insert into told values ('x', cast(:text as integer) + 1)", "invalid input for query argument"),
        ("select nothing from told where text = :text", "does not exist"),
    ],
)
async def test_no_error_repeats_what_is_stored(
    engine: AsyncEngine, opening: Opening, statement: str, says: str
) -> None:
    """G8: an error that is nobody's fault but ours is raised as it is, and its trace is logged."""
    with pytest.raises(DBAPIError, match=says) as raised:
        await fails(engine, opening, statement)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    assert "hunter2" not in repr(raised.value)


@pytest.mark.parametrize("busy", [TimeoutError(), PoolTimeout(), asyncpg.TooManyConnectionsError("no slots")], ids=repr)
def test_what_is_busy_says_when_to_come_again_and_what_is_down_does_not(busy: Exception) -> None:
    """In a flood a connection does not come in time: whoever asked comes again, since nothing is broken."""
    told = translate(busy)
    assert isinstance(told, StorageUnavailable)
    assert told.retry_after_seconds == 1.0
    down = translate(ConnectionRefusedError())
    assert isinstance(down, StorageUnavailable)
    assert down.retry_after_seconds is None


async def test_g18_a_postgres_that_serves_others_of_us_is_busy_and_one_that_serves_nobody_is_silent(
    postgres_dsn: str,
) -> None:
    """G18: our own load is no outage. The pool gives its two connections to whoever came first."""
    engine = make_engine(postgres_dsn, connections=2)
    pool = cast(_Pool, engine.sync_engine.pool)
    pool._timeout = 0.05
    async with autocommit(engine), autocommit(engine):
        with pytest.raises(StorageUnavailable) as silent:
            async with autocommit(engine):
                pass
    assert not isinstance(silent.value, StorageBusy)
    async with autocommit(engine), autocommit(engine):
        for opened in (autocommit, transaction):
            with pytest.raises(StorageBusy, match="come again") as busy:
                async with opened(engine):
                    pass
            assert busy.value.retry_after_seconds == 1.0
        pool.answered_at -= CONNECT_SECONDS
        with pytest.raises(StorageUnavailable) as silent:
            async with transaction(engine):
                pass
    assert not isinstance(silent.value, StorageBusy)
    async with autocommit(engine) as connection:
        assert await connection.scalar(sa.text("SELECT 1")) == 1
    await engine.dispose()


async def test_a_workspace_never_gets_a_connection_that_postgres_said_it_would_close(database_url: str) -> None:
    """What it says at its end comes before the end, and the driver takes it for work that is under way."""
    with Relay(str(socket_of(database_url))) as wire:
        engine, others = make_engine(over_tcp(database_url, wire.port), connections=2), make_engine(database_url)
        async with autocommit(engine) as connection:
            pid = await connection.scalar(sa.text("SELECT pg_backend_pid()"))
        wire.be(Wire.HALF_OPEN)
        async with autocommit(others) as connection:
            await connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        await asyncio.sleep(0.1)
        wire.be(Wire.SOUND)
        async with autocommit(engine_of_workspace(engine, "default")) as connection:
            assert await connection.scalar(sa.text("SELECT pg_backend_pid()")) != pid
        await engine.dispose()
        await others.dispose()


@pytest.mark.long
async def test_a_lock_that_another_program_holds_is_not_waited_for_for_good(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction forgotten in a terminal kept every caller, and every connection, until the process was ended."""
    monkeypatch.setattr(connecting, "LOCK_SECONDS", 0.3)
    engine, other = make_engine(database_url), make_engine(database_url)
    try:
        async with transaction(other) as forgotten:
            await forgotten.execute(sa.text("LOCK TABLE points IN ACCESS EXCLUSIVE MODE"))
            async with asyncio.timeout(10):
                for opening, held in itertools.product(
                    (autocommit, transaction), (engine, engine_of_workspace(engine, "default"))
                ):
                    with pytest.raises(StorageUnavailable, match="another program holds a lock"):
                        async with opening(held) as connection:
                            await connection.execute(sa.select(points.c.id))
        async with autocommit(engine_of_workspace(engine, "default")) as connection:
            assert (await connection.execute(sa.select(points.c.id))).all() == []
    finally:
        await engine.dispose()
        await other.dispose()


async def test_a_connection_that_was_closed_while_nobody_used_it_is_replaced_without_a_word(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers and networks end what is idle, and upgrades everything: the first call afterwards failed."""
    engine, others = make_engine(postgres_dsn, connections=2), make_engine(postgres_dsn)
    for opened in (autocommit, transaction):
        async with opened(engine) as connection:
            pid = await connection.scalar(sa.text("SELECT pg_backend_pid()"))
        async with autocommit(others) as connection:
            await connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        with monkeypatch.context() as later:
            later.setattr(database, "_ALIVE_SECONDS", 0.0)
            async with opened(engine) as connection:
                assert await connection.scalar(sa.text("SELECT pg_backend_pid()")) != pid
    await engine.dispose()
    await others.dispose()


async def test_once_a_statement_found_its_connection_cut_the_others_of_its_pool_are_looked_at(
    postgres_dsn: str,
) -> None:
    """A Postgres that was started anew cut all of them: each failed in turn, though used a moment ago."""
    engine, others = make_engine(postgres_dsn, connections=3), make_engine(postgres_dsn)
    pid = sa.text("SELECT pg_backend_pid()")
    async with autocommit(engine) as one, autocommit(engine) as two:
        pids = [await each.scalar(pid) for each in (one, two)]
    async with autocommit(others) as connection:
        for each in pids:
            await connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": each})
    with pytest.raises(StorageUnavailable):
        await database.fetch(engine, database.CompiledQuery(sa.select(sa.literal(1))), {})
    async with autocommit(engine) as one, autocommit(engine) as two:
        assert not {await each.scalar(pid) for each in (one, two)} & {*pids}
    await engine.dispose()
    await others.dispose()


@pytest.mark.long
async def test_a_postgres_that_fell_silent_is_not_waited_for_by_who_comes_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections and keeps those that are open: whoever took one of these waited for as long as it lasted."""
    with Relay(str(socket_of(database_url))) as wire:
        engine = make_engine(over_tcp(database_url, wire.port))
        for _ in range(2):
            async with autocommit(engine), autocommit(engine):
                pass
        monkeypatch.setattr(database, "_ALIVE_SECONDS", 0.0)
        monkeypatch.setattr(database, "CONNECT_SECONDS", 0.2)
        monkeypatch.setattr(connecting, "CONNECT_SECONDS", 0.2)  # the second has to connect anew
        wire.be(Wire.HANG)
        for opened in (autocommit, transaction):
            async with asyncio.timeout(10):
                with pytest.raises(StorageUnavailable, match="does not answer in time"):
                    async with opened(engine):
                        pass
        wire.be(Wire.SOUND)
        async with autocommit(engine) as connection:
            assert await connection.scalar(sa.text("SELECT 1")) == 1
        await engine.dispose()


async def test_a_postgres_that_fell_silent_keeps_no_process_from_ending(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each idle connection waited for its good-bye, so that a server that was told to end never did."""
    monkeypatch.setattr(connecting, "_CLOSE_SECONDS", 0.1)
    with Relay(str(socket_of(database_url))) as wire:
        engine = make_engine(over_tcp(database_url, wire.port))
        async with autocommit(engine), autocommit(engine):
            pass
        wire.be(Wire.HANG)
        async with asyncio.timeout(10):
            await engine.dispose()
    assert not caplog.records


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="what tells so soon is Linux")
async def test_a_machine_that_went_without_a_word_is_noticed_within_a_minute(database_url: str) -> None:
    """Nothing tells a driver that it is gone: what had asked it something waited for good, and kept its connection."""
    with Relay(str(socket_of(database_url))) as wire:
        engine = make_engine(over_tcp(database_url, wire.port))
        async with autocommit(engine) as connection:
            driver = cast(Any, await connection.get_raw_connection()).driver_connection
            connected = driver._transport.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle, between, times, unheard = (
                connected.getsockopt(socket.IPPROTO_TCP, option)
                for option in (
                    socket.TCP_KEEPIDLE,
                    socket.TCP_KEEPINTVL,
                    socket.TCP_KEEPCNT,
                    socket.TCP_USER_TIMEOUT,
                )
            )
            assert idle + between * times <= 60
            assert 0 < unheard <= 60_000
        await engine.dispose()


# Addresses and servers as they are


@case_by_case
async def test_an_address_may_say_what_those_of_hosted_servers_say(postgres_dsn: str, scheme: str, more: str) -> None:
    engine = make_engine(postgres_dsn.replace("postgresql", scheme, 1) + f"&{more}")
    async with autocommit(engine) as connection:
        assert await connection.scalar(sa.text("SHOW application_name")) == "hardwon"
    await engine.dispose()


async def test_a_server_asked_to_encrypt_that_cannot_is_not_spoken_to(postgres_dsn: str) -> None:
    with Relay(str(socket_of(postgres_dsn))) as wire:
        engine = make_engine(over_tcp(postgres_dsn, wire.port) + "?sslmode=require")
        with pytest.raises(StorageUnavailable, match=r"SSL.*HARDWON_DATABASE_URL"):
            async with autocommit(engine):
                pass
        await engine.dispose()


@pytest.fixture
def encrypted(postgres_dsn: str) -> Iterator[str]:
    """The address of a Postgres that encrypts, as localhost, by a certificate that no machine trusts unasked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(LOCALHOST)
    with Relay(str(socket_of(postgres_dsn)), tls=context) as wire:
        yield over_tcp(postgres_dsn, wire.port).replace("127.0.0.1", "localhost")


async def encrypts(address: str, asked: str) -> bool:
    engine = make_engine(f"{address}?{asked}")
    try:
        async with autocommit(engine) as connection:
            return bool(await connection.scalar(sa.text("SELECT 1")))
    finally:
        await engine.dispose()


@pytest.mark.parametrize("asked", ["sslmode=verify-full", "sslrootcert=system", "sslmode=require&sslrootcert=system"])
async def test_a_server_is_verified_by_the_authorities_of_this_machine(
    encrypted: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/settings.md has an address, and as hosted servers are asked; SSL_CERT_FILE holds for it, too."""
    with pytest.raises(StorageUnavailable, match=r"CERTIFICATE_VERIFY_FAILED.*HARDWON_DATABASE_URL"):
        await encrypts(encrypted, asked)
    monkeypatch.setenv("SSL_CERT_FILE", str(LOCALHOST))
    assert await encrypts(encrypted, asked)
    with pytest.raises(StorageUnavailable, match="IP address mismatch"):
        await encrypts(encrypted.replace("localhost", "127.0.0.1"), asked)


async def test_authorities_that_an_address_names_go_before_those_of_this_machine(
    encrypted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await encrypts(encrypted, f"sslmode=verify-full&sslrootcert={LOCALHOST}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql/root.crt").write_bytes(LOCALHOST.read_bytes())
    assert await encrypts(encrypted, "sslmode=verify-full")


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey"])
def test_a_file_that_an_address_names_and_that_is_not_there_is_named(postgres_dsn: str, name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"HARDWON_DATABASE_URL: has {name}=/no/where, and there is no such file"):
        make_engine(f"{postgres_dsn}&{name}=/no/where")


async def test_a_server_that_takes_no_changes_is_named_as_that(postgres_dsn: str) -> None:
    """A copy that only answers, or a hosted server whose disk is full: neither is a defect."""
    engine = make_engine(f"{postgres_dsn}&default_transaction_read_only=on")
    with pytest.raises(StorageUnavailable, match="takes no changes"):
        async with transaction(engine) as connection:
            await connection.execute(sa.text("CREATE TABLE not_made (id int)"))
    await engine.dispose()


async def test_after_a_failover_the_same_pool_reaches_the_server_that_takes_changes(database_url: str) -> None:
    """Behind a proxy that cuts nothing, each connection of the pool stayed with the copy until a restart."""
    engine = make_engine(database_url)
    outside = make_engine(database_url)

    async def write() -> None:
        async with transaction(engine) as connection:
            await connection.execute(sa.text("CREATE TABLE IF NOT EXISTS made (id int)"))

    async def administer(statement: str) -> None:
        async with transaction(outside) as connection:
            await connection.execute(sa.text("SET TRANSACTION READ WRITE"))
            await connection.execute(sa.text(statement))

    async with autocommit(outside) as connection:
        name = await connection.scalar(sa.text("SELECT quote_ident(current_database())"))
    await administer(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StorageUnavailable, match="takes no changes"):
        await write()
    await administer(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await write()
    await engine.dispose()
    await outside.dispose()


async def test_a_statement_that_the_server_gives_no_time_is_named_as_that(postgres_dsn: str) -> None:
    """It was told to look whether Postgres runs and whether its address is right, and both were well."""
    engine = make_engine(f"{postgres_dsn}&statement_timeout=200")
    for opened in (autocommit, transaction):
        with pytest.raises(StorageUnavailable, match=r"broke off .*due to statement timeout.*statement_timeout = 0"):
            async with opened(engine) as connection:
                await connection.execute(sa.text("SELECT pg_sleep(5)"))
    await engine.dispose()


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        ("XX000", f"could not extend file: {os.strerror(errno.EDQUOT)}", "no space left for Postgres .*make room"),
        ("XX000", f"could not extend file: {os.strerror(errno.EFBIG)}", "no space left for Postgres .*make room"),
        ("58030", f"could not read blocks: {os.strerror(errno.EIO)}", "cannot read or write its files .*its disk"),
        ("58P01", f"could not open file: {os.strerror(errno.ENOENT)}", "cannot read or write its files .*its disk"),
    ],
)
async def test_g21_a_disk_that_takes_no_more_or_fails_is_named_whatever_its_code(
    engine: AsyncEngine, code: str, said: str, told: str
) -> None:
    """G21: a quota that is reached is an internal error to Postgres, and so it looked like a defect of ours."""
    for opened in (autocommit, transaction):
        with pytest.raises(StorageUnavailable, match=told):
            async with opened(engine) as connection:
                await connection.execute(sa.text(f"DO $$ BEGIN RAISE '{said}' USING ERRCODE = '{code}'; END $$"))
    with pytest.raises(DBAPIError, match="another"):
        async with autocommit(engine) as connection:
            await connection.execute(sa.text("DO $$ BEGIN RAISE 'another' USING ERRCODE = 'XX000'; END $$"))


async def test_statements_stay_prepared_when_postgres_looks_at_its_tables_again(database_url: str) -> None:
    """Each would be sent, parsed and described anew on every connection: 0.1 s of a checkpoint."""
    engine = make_engine(database_url)
    names = sa.text("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%FROM pg_prepared_statements%'")
    try:
        async with autocommit(engine) as connection:
            first = set((await connection.scalars(names)).all())
            await connection.execute(Analyze(points, ["id", "workspace"]))
            assert set((await connection.scalars(names)).all()) == first != set()
    finally:
        await engine.dispose()


async def test_all_that_works_in_a_workspace_shares_an_engine_that_goes_with_the_last_of_it(
    database_url: str,
) -> None:
    """One each, 36 in a workspace, made a server that many workspaces ask stand still when it looked for garbage."""
    engine = make_engine(database_url)
    held = engine_of_workspace(engine, "one")
    assert engine_of_workspace(engine, "one") is held
    assert engine_of_workspace(held, "two") is not held
    async with autocommit(held) as connection:
        assert await connection.scalar(sa.text("SELECT current_setting('hardwon.workspace')")) == "one"
    gone = weakref.ref(held)
    del held, connection
    gc.collect()
    assert gone() is None
    await engine.dispose()


async def made(postgres_dsn: str, name: str, *options: str) -> str:
    """Make a database with options and return its address."""
    admin = await asyncpg.connect(postgres_dsn)
    try:
        await admin.execute(f"CREATE DATABASE {name} {options[0]}")
        for option in options[1:]:
            await admin.execute(f"ALTER DATABASE {name} {option}")
    finally:
        await admin.close()
    return sa.make_url(postgres_dsn).set(database=name).render_as_string(hide_password=False)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_cannot_hold_every_text_is_refused_at_the_start(postgres_dsn: str, encoding: str) -> None:
    """It took some texts, and then called others none, or could not read what it had cut in the middle of a letter."""
    options = f"ENCODING '{encoding}' TEMPLATE template0 LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'"
    engine = make_engine(await made(postgres_dsn, f"in_{encoding.lower()}", options))
    with pytest.raises(StorageUnavailable, match=f"encoded in {encoding}"):
        async with autocommit(engine):
            pass
    await engine.dispose()


async def test_statements_of_their_own_are_isolated_as_we_count_on_whatever_is_usual_there(postgres_dsn: str) -> None:
    """Captures of the same event, and leases, failed of each other where a server has another isolation as its own."""
    address = await made(postgres_dsn, "serial", "", "SET default_transaction_isolation = 'serializable'")
    engine = make_engine(address)
    for opened in (autocommit, transaction):
        async with opened(engine) as connection:
            assert await connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
    await engine.dispose()


@pytest.mark.parametrize(
    "error",
    [asyncpg.DuplicatePreparedStatementError("exists"), asyncpg.InvalidSQLStatementNameError("does not exist")],
    ids=repr,
)
def test_a_pooler_that_comes_in_between_is_named(error: Exception) -> None:
    told = translate(error)
    assert isinstance(told, StorageUnavailable)
    assert "a pooler has come between" in str(told)


async def test_of_several_hosts_the_one_that_answers_is_used(database_url: str) -> None:
    with Relay(str(socket_of(database_url))) as away, Relay(str(socket_of(database_url))) as there:
        away.be(Wire.REFUSE)
        address = over_tcp(database_url, away.port).replace("127.0.0.1:", f"127.0.0.1:{away.port},localhost:", 1)
        address = address.replace(f"localhost:{away.port}", f"127.0.0.1:{there.port}")
        engine = make_engine(f"  {address}?target_session_attrs=read-write\n")
        async with autocommit(engine) as connection:
            assert await connection.scalar(sa.text("SELECT 1")) == 1
        await engine.dispose()
