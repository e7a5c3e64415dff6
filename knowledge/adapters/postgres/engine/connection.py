"""Connections to a Postgres server: timeouts, keepalive, and finding out if a pooler shares them with others."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import asyncpg

from hardwon.client.http_environment import enable_keepalive
from hardwon.errors import StorageUnavailable
from hardwon.event_log import get_logger
from knowledge.adapters.postgres.engine.address import Address
from knowledge.adapters.postgres.engine.pooler import Connector, PooledDriver, is_pooled_driver

log = get_logger(__name__)

CONNECT_SECONDS = 10
LOCK_SECONDS = 90.0
"""Timeout for a turn or a lock: longer than the time after which Postgres ends a hung transaction of ours."""

REFUSED = "Postgres refuses the connection: {said}; check HARDWON_DATABASE_URL"

_STARTUP = {"application_name": "hardwon", "timezone": "UTC"}
_SESSION_SETTINGS = """
    SELECT pg_backend_pid(), set_config('lock_timeout', $1, false),
        set_config('default_transaction_isolation', 'read committed', false)
"""
"""Settings of a whole session: an autocommitted statement has the isolation that is default on its server."""

_PROBE = """
    SELECT pg_backend_pid() AS pid, current_setting('server_encoding') AS encoding,
        EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE name = $1) AS has_name
"""
_PROBE_SECONDS = 3.0
"""Timeout of a second connection that is opened to compare: a pooler may have no second one to give."""
_NOT_AT_STARTUP = "unsupported startup parameter"
"""Beginning of PgBouncer's message for a setting that it does not let through."""
_ENCODINGS = frozenset({"UTF8", "UTF-8"})
_CLOSE_SECONDS = 1.0
"""Timeout for closing a connection, ours: it takes a millisecond, and a pool closes them one after the other."""
_STATEMENT_POOLING = (
    "the pooler of HARDWON_DATABASE_URL gives its connections to others within a transaction ({said}): set its"
    " pool_mode to transaction, or to session"
)
LOST_STATEMENTS = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
"""Errors of a connection that was taken for one of our own, and that a pooler gives to others."""


class Sharing(StrEnum):
    """The degree to which others use the connections to Postgres that an address leads to."""

    UNKNOWN = "unknown"
    DIRECT = "direct"
    """A connection is a session of Postgres; it is ours alone."""
    POOLED = "pooled"
    """A pooler may give each transaction another session, and keeps no prepared statements."""
    POOLED_PREPARED = "pooled, with prepared statements"
    """A pooler may give each transaction another session, and prepares our statements there."""


class _Keepalive(asyncpg.Connection):
    """A connection with TCP keepalive: without it, a call to a dead peer would wait forever."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *arguments: Any) -> None:
        super().__init__(protocol, transport, *arguments)
        enable_keepalive(transport.get_extra_info("socket"))

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the driver has it
        """Close the connection; cut it if Postgres does not answer in time, lest a stopping process wait forever."""
        with suppress(TimeoutError):
            await super().close(timeout=timeout or _CLOSE_SECONDS)


class _Pooled(PooledDriver, _Keepalive):
    """A connection through a pooler, with TCP keepalive."""


class ServerConnector(Connector):
    """Opens connections to an address, and knows from the first one how they are shared."""

    def __init__(self, address: Address, revive: Callable[[], None] | None) -> None:
        self._address = address
        self._revive = revive
        self._startup: Mapping[str, str] = address.startup
        self.sharing = Sharing.UNKNOWN if revive is None else Sharing.DIRECT

    def forget(self) -> None:
        """Find out anew with the next connection how they are shared: a pooler may have come in between."""
        if self._revive is None:
            self.sharing = Sharing.UNKNOWN

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Connect; if the connection is refused, `revive` is called, in a thread, and it is retried.

        Raises StorageUnavailable for a parameter of the address that Postgres does not know, for a database that is not
        encoded in UTF-8, and for a pooler that keeps no transaction together; otherwise errors of the driver.
        """
        try:
            return await self._open()
        except (FileNotFoundError, ConnectionRefusedError):
            if self._revive is None:
                raise
            await asyncio.to_thread(self._revive)
            return await self._open()

    async def _open(self) -> asyncpg.Connection[asyncpg.Record]:
        match self.sharing:
            case Sharing.UNKNOWN:
                return await self._find_out()
            case Sharing.DIRECT:
                direct = await self._open_session()
                return direct or await self._find_out()
            case Sharing.POOLED | Sharing.POOLED_PREPARED:
                return await self._dial(_Pooled)

    async def _find_out(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection, and record how such connections are shared.

        A pooler answers a new client itself, with a process id of its own making. Where the id is that of Postgres, a
        second connection must be another process, and the first one still the same.
        """
        first = await self._dial(_Pooled)
        try:
            pid, renames = await _probe(first)
            if pid == first.get_server_pid() and (second := await self._open_alone(first, pid)):
                self.sharing = Sharing.DIRECT
                await first.close()
                return second
        except BaseException:
            first.terminate()
            raise
        self.sharing = Sharing.POOLED_PREPARED if renames else Sharing.POOLED
        log.info("pooler_found", keeps_prepared_statements=renames)
        if not renames:
            return first
        await first.close()
        return await self._dial(_Pooled)

    async def _open_alone(
        self, first: asyncpg.Connection[asyncpg.Record], pid: int
    ) -> asyncpg.Connection[asyncpg.Record] | None:
        """Return another connection if it is a session of its own, and if the first one is still its session."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                other = await self._open_session()
        except (TimeoutError, asyncpg.TooManyConnectionsError):  # there is no second one to compare with
            await first.close()
            return await self._open_session()
        if other is None:
            return None
        try:
            if other.get_server_pid() != pid and (await _probe(first))[0] == pid:
                return other
        except BaseException:
            other.terminate()
            raise
        other.terminate()
        return None

    async def _open_session(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """Return a connection of our own with its settings, None if others share it."""
        connection = await self._dial(_Keepalive)
        try:
            pid = await connection.fetchval(
                _SESSION_SETTINGS,
                f"{LOCK_SECONDS * 1000:.0f}ms",
                timeout=self._address.connect_seconds or CONNECT_SECONDS,
            )
        except LOST_STATEMENTS:
            pid = None
        except BaseException:
            connection.terminate()
            raise
        if pid == connection.get_server_pid():
            return connection
        connection.terminate()
        self.forget()
        return None

    async def _dial(self, kind: type[_Keepalive]) -> asyncpg.Connection[asyncpg.Record]:
        keeps = kind is _Keepalive or self.sharing is Sharing.POOLED_PREPARED
        try:
            connection = await asyncpg.connect(
                self._address.dsn,
                ssl=self._address.tls,
                timeout=self._address.connect_seconds or CONNECT_SECONDS,
                server_settings={**self._startup, **_STARTUP},
                connection_class=kind,
                statement_cache_size=100 if keeps else 0,
            )
        except asyncpg.UndefinedObjectError as error:  # a parameter of the address that Postgres does not know
            raise StorageUnavailable(REFUSED.format(said=first_line(error))) from error
        except asyncpg.ProtocolViolationError as error:
            if _NOT_AT_STARTUP not in str(error) or not self._startup:
                raise
            self._startup = {}  # set for each transaction instead
            return await self._dial(kind)
        if is_pooled_driver(connection):
            connection.keeps_statements = keeps
            connection.settings = {"lock_timeout": f"{LOCK_SECONDS * 1000:.0f}ms", **self._address.settings}
        encoding = getattr(connection.get_settings(), "server_encoding", "UTF8")
        _check_encoding(connection, encoding)
        return connection


async def _probe(connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, bool]:
    """Return the process id of the session behind a connection, and whether statements get other names there."""
    name = f"hardwon_{secrets.token_hex(8)}"
    try:
        await connection.execute("BEGIN")
    except asyncpg.PostgresError as error:
        if "statement pooling" not in str(error):
            raise
        raise StorageUnavailable(_STATEMENT_POOLING.format(said=first_line(error))) from error
    row = await (await connection.prepare(_PROBE, name=name)).fetchrow(name)
    assert row is not None  # noqa: S101 - a SELECT without FROM has a row
    # gone before others get this session; the name is ours, of hexadecimal digits
    await connection.execute(f'DEALLOCATE "{name}"; ROLLBACK' if row["has_name"] else "ROLLBACK")
    _check_encoding(connection, row["encoding"])
    return row["pid"], not row["has_name"]


def _check_encoding(connection: asyncpg.Connection[asyncpg.Record], encoding: str) -> None:
    if encoding not in _ENCODINGS:
        connection.terminate()
        raise StorageUnavailable(
            f"the database of HARDWON_DATABASE_URL is encoded in {encoding}, which cannot hold every text: make one"
            " with ENCODING 'UTF8' TEMPLATE template0"
        )


def first_line(cause: BaseException) -> str:
    """Return an error message of the driver without its hints."""
    return str(cause).partition("\n")[0]
