"""Connections through a pooler that may give each transaction another session of Postgres.

Nothing of a session is relied on: workspace, role and settings are set by the statement that begins a transaction, and
a statement that would commit by itself gets a transaction of its own. Statements are prepared only where the pooler
prepares them in each session (PgBouncer from 1.21 on, with max_prepared_statements).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeGuard

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement
from sqlalchemy.dialects.postgresql.asyncpg import (
    AsyncAdapt_asyncpg_connection,
    AsyncAdapt_asyncpg_cursor,
    AsyncAdapt_asyncpg_dbapi,
)
from sqlalchemy.util.concurrency import await_

_BEGIN = "BEGIN ISOLATION LEVEL {isolation} {access}; SELECT {settings}"
_SET = "set_config({name}, {value}, true)"
_TAKE_ROLE = "set_config('role', 'hardwon_app', true)"
_TAKE_ROLE_IF_ALLOWED = """
    set_config('role', coalesce((
        SELECT rolname FROM pg_catalog.pg_roles
        WHERE rolname = 'hardwon_app' AND has_table_privilege(oid, 'knowledge_staging', 'INSERT')
            AND pg_has_role(session_user, oid,
                CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
    ), 'none'), true)
"""
_NO_ROLE = "set_config('role', 'none', true)"
_DESCRIBED = 100
"""Number of queries whose types are remembered for a connection."""
_OUTSIDE = ("VACUUM",)
"""Statements that Postgres does not run in a transaction; they are of no workspace."""


class PooledDriver(asyncpg.Connection):
    """A connection of the driver, on which nothing is done but in a transaction that sets the workspace."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.workspace = ""
        """The empty name is the whole store."""
        self.keeps_statements = False
        self.settings: Mapping[str, str] = {}
        self._described: dict[str, PreparedStatement[Any]] = {}
        self._takes_role: bool | None = None

    async def begin(self, isolation: str = "read_committed", *, readonly: bool = False) -> None:
        """Begin a transaction and set its workspace, role and settings: one round trip, which fails as a whole."""
        local = {"timezone": "UTC", **self.settings, "hardwon.workspace": self.workspace}
        settings = [_SET.format(name=_literal(name), value=_literal(value)) for name, value in local.items()]
        text = _BEGIN.format(
            isolation=isolation.replace("_", " "),
            access="READ ONLY" if readonly else "",
            settings=", ".join([*settings, self._role()]),
        )
        try:
            await self.execute(text)
            if self.workspace and self._takes_role is None:
                self._takes_role = await self.fetchval("SELECT current_user = 'hardwon_app'")
        except Exception:
            self._takes_role = None
            await self.undo()
            raise

    def _role(self) -> str:
        """Return the expression that takes the role, looked up until it could be taken once."""
        if not self.workspace:
            return _NO_ROLE
        return _TAKE_ROLE if self._takes_role else _TAKE_ROLE_IF_ALLOWED

    async def undo(self) -> None:
        """Roll back what is under way, after an error that is about to be raised."""
        with suppress(Exception):
            if self.is_in_transaction():
                await self.execute("ROLLBACK")

    @asynccontextmanager
    async def transact(self) -> AsyncIterator[None]:
        """Run a block in a transaction of its own."""
        await self.begin()
        try:
            yield
        except Exception:
            await self.undo()
            raise
        await self.execute("COMMIT")

    async def fetch(self, query: str, *arguments: Any, **options: Any) -> Any:
        """Return the rows of a query, in a transaction of its own if there is none."""
        if self.is_in_transaction():
            return await self._fetch(query, *arguments, **options)
        async with self.transact():
            return await self._fetch(query, *arguments, **options)

    async def _fetch(self, query: str, *arguments: Any, **options: Any) -> Any:
        if self.keeps_statements:
            return await super().fetch(query, *arguments, **options)
        statement = self._described.get(query)
        if statement is None:
            if len(self._described) >= _DESCRIBED:
                self._described.clear()
            # without a name: the driver has it parsed again in the same round trip that executes it
            statement = self._described[query] = await self.prepare(query, name="")
        return await statement.fetch(*arguments, **options)


def is_pooled_driver(connection: object) -> TypeGuard[PooledDriver]:
    """Return whether a connection of the driver is of this class; asyncpg says yes to `isinstance` for every one."""
    return PooledDriver in type(connection).__mro__


def _literal(text: str) -> str:
    """Return a text as SQL, whatever is in it and whatever `standard_conforming_strings` is."""
    return f"convert_from(decode('{text.encode().hex()}', 'hex'), 'UTF8')"


class _Transaction:
    """A transaction under way, as SQLAlchemy ends it."""

    def __init__(self, driver: PooledDriver) -> None:
        self._driver = driver

    async def commit(self) -> None:
        await self._driver.execute("COMMIT")

    async def rollback(self) -> None:
        await self._driver.execute("ROLLBACK")


class _PooledCursor(AsyncAdapt_asyncpg_cursor):
    """A cursor that gives a statement a transaction of its own where it would commit by itself."""

    _adapt_connection: PooledConnection
    __slots__ = ()

    async def _prepare_and_execute(self, operation: Any, parameters: Any) -> None:
        if operation.startswith(_OUTSIDE):
            await super()._prepare_and_execute(operation, parameters)  # type: ignore[no-untyped-call]
            return
        async with self._adapt_connection.transact():
            await super()._prepare_and_execute(operation, parameters)  # type: ignore[no-untyped-call]

    async def _executemany(self, operation: Any, seq_of_parameters: Any) -> Any:
        async with self._adapt_connection.transact():
            return await super()._executemany(operation, seq_of_parameters)  # type: ignore[no-untyped-call]


class PooledConnection(AsyncAdapt_asyncpg_connection):
    """A connection through a pooler, as SQLAlchemy uses it."""

    _cursor_cls = _PooledCursor
    _connection: PooledDriver  # type: ignore[assignment]
    __slots__ = ()

    @property
    def driver(self) -> PooledDriver:
        """The driver's connection."""
        return self._connection

    async def _start_transaction(self) -> None:
        if self.autocommit:
            return
        try:
            await self._connection.begin(self.isolation_level or "read_committed", readonly=self.readonly)
        except Exception as error:  # noqa: BLE001 - translated as SQLAlchemy does
            self._handle_exception(error)
        self._transaction = _Transaction(self._connection)  # type: ignore[assignment]

    @asynccontextmanager
    async def transact(self) -> AsyncIterator[None]:
        """Run a block in a transaction of its own, if statements commit by themselves."""
        if not self.autocommit:
            yield
            return
        try:
            async with self._connection.transact():
                yield
        except Exception as error:  # noqa: BLE001 - translated as SQLAlchemy does
            self._handle_exception(error)


class Connector(Protocol):
    """Opens connections to an address, and knows how they are shared."""

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Open a connection: a `PooledDriver` if it is shared."""

    def forget(self) -> None:
        """Find out anew how they are shared."""


class DriverModule(AsyncAdapt_asyncpg_dbapi):
    """The driver as SQLAlchemy sees it, with connections of our own through a pooler."""

    def __init__(self, connector: Connector) -> None:
        super().__init__(asyncpg)  # type: ignore[no-untyped-call]
        self.connector = connector

    def connect(self, *_: Any, **__: Any) -> AsyncAdapt_asyncpg_connection:
        """Open a connection by the connector, which knows the address."""
        return await_(self._adapt())

    async def _adapt(self) -> AsyncAdapt_asyncpg_connection:
        opening: Awaitable[Any] = self.connector.connect()
        plain = await AsyncAdapt_asyncpg_connection.create(self, opening)
        driver: Any = plain._connection  # noqa: SLF001 - of a class that this module extends
        if not is_pooled_driver(driver):
            return plain
        if driver.keeps_statements:
            return PooledConnection(self, driver)  # type: ignore[no-untyped-call]
        # without a name: the driver has it parsed again in the same round trip that executes it
        return PooledConnection(self, driver, prepared_statement_name_func=str)  # type: ignore[no-untyped-call]
