"""The database: an engine for a server's address, its transactions, and the translation of its errors."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeAlias, cast
from weakref import WeakValueDictionary

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg as AsyncpgDialect
from sqlalchemy.engine import AdaptedConnection, ExceptionContext
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from hardwon.errors import InvalidInput, StorageBusy, StorageRejected, StorageUnavailable
from knowledge.adapters.postgres.engine.address import read_address
from knowledge.adapters.postgres.engine.connection import (
    CONNECT_SECONDS,
    LOCK_SECONDS,
    LOST_STATEMENTS,
    REFUSED,
    ServerConnector,
    first_line,
)
from knowledge.adapters.postgres.engine.pooler import DriverModule, PooledConnection


def make_engine(dsn: str, *, connections: int = 20, revive: Callable[[], None] | None = None) -> AsyncEngine:
    """Return an engine for a Postgres address; nothing is connected yet. Its errors repeat no stored text.

    If the connection is refused, `revive` is called, in a thread, and the connection is retried. Raises InvalidSetting
    for an address that is invalid.
    """
    address = read_address(dsn)
    # the connector opens connections; SQLAlchemy reads no address of several hosts
    url = sa.make_url("postgresql://" if address.has_several_hosts else dsn.strip())
    engine = create_async_engine(
        url.set(drivername="postgresql+asyncpg"),
        module=DriverModule(ServerConnector(address, revive)),
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # our statements rely on it, whatever the server's default
        pool_size=connections,
        max_overflow=0,  # one above the size would be closed after each use, and opening one costs a dozen captures
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=False,
        pool_recycle=1800,
        pool_use_lifo=True,  # the last used one has its workspace and statements set up: each costs a round trip
        poolclass=_Pool,
    )
    sa.event.listen(engine.sync_engine, "checkin", lambda driver, record: _record_answer(engine, driver, record))
    sa.event.listen(engine.sync_engine, "handle_error", _redact_error)
    sa.event.listen(engine.sync_engine, "handle_error", _disconnect_read_only)
    sa.event.listen(engine.sync_engine, "handle_error", _disconnect_shared)
    sa.event.listen(engine.sync_engine, "engine_connect", _on_checkout)
    return engine


class _Pool(sa.AsyncAdaptedQueuePool):
    """A pool that records when Postgres last answered, and last cut a connection of it (`time.monotonic`)."""

    answered_at = -math.inf
    cut_at = -math.inf

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.queue_slots = asyncio.Semaphore(max(1, self.size() // 2))
        self.queue_slots_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.long_connections = asyncio.Semaphore(max(1, self.size() // 4))
        self.engines_of: WeakValueDictionary[str, AsyncEngine] = WeakValueDictionary()
        self.data: dict[str, Any] = {}

    def recreate(self) -> _Pool:
        """Return a pool in place of this one, which is disposed of; what was kept with the engine stays."""
        pool = super().recreate()
        assert isinstance(pool, _Pool)  # noqa: S101 - it is of the same class
        pool.data = self.data
        return pool


def _pool(engine: AsyncEngine) -> _Pool:
    pool = engine.sync_engine.pool
    if not isinstance(pool, _Pool):
        raise TypeError(f"{type(pool).__name__} is not a pool of make_engine")
    return pool


def engine_data(engine: AsyncEngine) -> dict[str, Any]:
    """Return what others keep with an engine, its workspaces' engines included."""
    return _pool(engine).data


def _record_answer(engine: AsyncEngine, driver: object, record: ConnectionPoolEntry) -> None:
    """Record the time at which a connection was returned intact, and so that Postgres answers."""
    pool = engine.sync_engine.pool
    if driver is not None and isinstance(pool, _Pool):
        record.info[_USED_AT] = pool.answered_at = time.monotonic()


def _as_busy(engine: AsyncEngine, error: BaseException) -> StorageBusy | None:
    """Return StorageBusy if the pool was exhausted while Postgres answered other calls, else None."""
    pool = engine.sync_engine.pool
    if not isinstance(error, (TimeoutError, PoolTimeout)) or not isinstance(pool, _Pool):
        return None
    if time.monotonic() - pool.answered_at >= CONNECT_SECONDS:
        return None
    return StorageBusy(f"{_OVERLOADED} ({type(error).__name__}): come again", retry_after_seconds=_RETRY_AFTER_SECONDS)


_MAX_WAITING = 2
"""Transactions of one workspace that may wait for a lock: one works, one is ready when it is done."""


@asynccontextmanager
async def queue_for_workspace(engine: AsyncEngine, workspace: str) -> AsyncIterator[None]:
    """Run a block whose transaction waits for others of its workspace: queue without holding a connection.

    A waiting connection each would leave none for calls that need no lock: captures and queries. Raises StorageBusy
    after `LOCK_SECONDS`.
    """
    pool = _pool(engine)
    of_workspace = pool.queue_slots_of.setdefault(workspace, asyncio.Semaphore(_MAX_WAITING))
    async with AsyncExitStack() as turns:
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await turns.enter_async_context(of_workspace)
                await turns.enter_async_context(pool.queue_slots)
        except TimeoutError as error:
            raise StorageBusy(
                f"others have been at work on the patterns of {workspace} for {LOCK_SECONDS:.0f} s: come again",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            ) from error
        yield


_REPEATS = re.compile(r"\nDETAIL:.*|(?<=invalid input for query argument).*", re.DOTALL)
"""Parts of the driver's messages that repeat a row: the DETAIL of a constraint, and an argument that does not fit."""


def _redact_error(context: ExceptionContext) -> None:
    _redact(context.sqlalchemy_exception or context.original_exception)


def _redact(error: BaseException | None) -> None:
    """Remove stored text from an error and its causes: a log of the error would contain it."""
    while error is not None:
        error.args = tuple(_REPEATS.sub("", part) if isinstance(part, str) else part for part in error.args)
        if isinstance(error, asyncpg.PostgresError):
            error.detail = None
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__


def _disconnect_read_only(context: ExceptionContext) -> None:
    """Reconnect if a server is read-only: after a failover another server may answer at the same address."""
    if _is_caused_by(context.original_exception, asyncpg.ReadOnlySQLTransactionError):
        context.is_disconnect = True


def _disconnect_shared(context: ExceptionContext) -> None:
    """Reconnect if statements get lost: a pooler came in between, and gives our sessions to others."""
    if _is_caused_by(context.original_exception, LOST_STATEMENTS):
        context.is_disconnect = True


def _is_caused_by(error: BaseException, kinds: type[Exception] | tuple[type[Exception], ...]) -> bool:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kinds):
        cause = cause.__cause__ or getattr(cause, "orig", None)
    return cause is not None


_BUSY = (TimeoutError, PoolTimeout, asyncpg.TooManyConnectionsError)
"""Overload, not refusal: the event loop or a connection was not free in time."""
_RETRY_AFTER_SECONDS = 1.0
_OVERLOADED = "there is more to do than Postgres has connections for"
_GONE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_DRIVER_ERRORS = (
    DBAPIError,
    PoolTimeout,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_INVALID_TEXT = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError, UnicodeEncodeError)
_FULL = "there is no space left for Postgres ({said}): make room on its disk, and it goes on"
_READ_ONLY = (
    "Postgres takes no changes ({said}): HARDWON_DATABASE_URL leads to a copy that only answers, or the server was made"
    " read-only, as some are while their disk is full"
)
_MESSAGES: Mapping[tuple[type[Exception], ...], str] = {
    (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError): REFUSED,
    (asyncpg.ReadOnlySQLTransactionError,): _READ_ONLY,
    (asyncpg.DeadlockDetectedError, asyncpg.SerializationError): (
        "Postgres broke off two operations that waited for each other; do it again"
    ),
    (asyncpg.LockNotAvailableError,): (
        "another program holds a lock in Postgres that this has to wait for, and has not let go of it for"
        f" {LOCK_SECONDS:.0f} s: end its transaction (pg_stat_activity shows it), and do it again"
    ),
    (asyncpg.QueryCanceledError,): (
        "Postgres broke off a statement ({said}): if that is for a statement_timeout that its user or database"
        " was given, take it away (ALTER ROLE ... SET statement_timeout = 0); else do it again"
    ),
    (asyncpg.DiskFullError,): _FULL,
    (asyncpg.UndefinedTableError,): (
        "the database lacks tables of hardwon ({said}): was it recreated under a running process? Stop all processes"
        " that use it, then any command creates them again"
    ),
    LOST_STATEMENTS: (
        "a pooler has come between hardwon and Postgres ({said}): do it again, hardwon finds out how it works"
    ),
    (asyncpg.ProtocolViolationError,): REFUSED,
    (
        asyncpg.PostgresIOError,
        asyncpg.UndefinedFileError,
    ): "Postgres cannot read or write its files ({said}): look at its disk, and at its log",
}
"""Messages for errors of Postgres that are not defects; `said` is its own first line."""
_FULL_ENDINGS = (os.strerror(errno.EDQUOT), os.strerror(errno.EFBIG))
"""Ends of Postgres' message if a quota or a file limit is reached: it has the code of an internal error."""


def translate(error: BaseException) -> StorageUnavailable | InvalidInput | None:
    """Return our error for a driver's error that Postgres is gone, full or closed to us, or that a text is invalid.

    None for any other error.
    """
    cut = False
    cause: BaseException | None = error
    while cause is not None:
        # from queries and records whose texts are not validated before
        if isinstance(cause, _INVALID_TEXT) or "surrogate" in (getattr(cause, "detail", None) or ""):
            return InvalidInput("text", "holds a NUL character or half of a pair of surrogates, which is no text")
        if ours := _unavailable(cause):
            return ours
        cut = cut or (isinstance(cause, DBAPIError) and cause.connection_invalidated)
        cause = cause.__cause__ or getattr(cause, "orig", None)
    return StorageUnavailable("Postgres closed the connection; the same call may work now") if cut else None


def _unavailable(cause: BaseException) -> StorageUnavailable | None:
    for kinds, message in _MESSAGES.items():
        if isinstance(cause, kinds):
            return StorageUnavailable(message.format(said=first_line(cause)))
    if isinstance(cause, asyncpg.InternalServerError) and first_line(cause).endswith(_FULL_ENDINGS):
        return StorageUnavailable(_FULL.format(said=first_line(cause)))
    if isinstance(cause, _BUSY + _GONE):
        return _no_answer(cause)
    return None


def _no_answer(cause: BaseException) -> StorageUnavailable:
    if isinstance(cause, _BUSY):
        return StorageUnavailable(
            f"Postgres does not answer in time, or {_OVERLOADED} ({type(cause).__name__}): come again; where it never"
            " answers, look at its log, and at HARDWON_DATABASE_URL",
            retry_after_seconds=_RETRY_AFTER_SECONDS,
        )
    return StorageUnavailable(
        f"Postgres does not answer ({type(cause).__name__}: {first_line(cause)});"
        " is it running, and is HARDWON_DATABASE_URL right?"
    )


APPLICATION_ROLE = "hardwon_app"
"""The role that statements of a workspace run as: it owns no table, so the policies of the tables apply to it."""
_WORKSPACE = "hardwon_workspace"
_USED_AT = "hardwon_used_at"
_ALIVE_SECONDS = 10.0
"""Time since its last use for which a connection counts as alive: servers and networks close idle ones."""
_ENTER_WORKSPACE = """
    SELECT pg_backend_pid(), set_config('role', coalesce(CASE WHEN $1 <> '' THEN (
        SELECT rolname FROM pg_catalog.pg_roles
        WHERE rolname = 'hardwon_app' AND has_table_privilege(oid, 'knowledge_staging', 'INSERT')
            AND pg_has_role(session_user, oid,
                CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
    ) END, 'none'), false), set_config('hardwon.workspace', $1, false)
"""
"""Sets the workspace of a session and takes the role, if possible; the empty name resets both."""


def engine_of_workspace(engine: AsyncEngine, workspace: str) -> AsyncEngine:
    """Return an engine on the same connections that restricts all statements to a workspace (row_security.py).

    Returns the same one while it is referenced: the services of a workspace request 36, and a server has up to 1,000
    workspaces. With one each, garbage collection stopped the server for 0.2 s (measured).
    """
    engines = _pool(engine).engines_of
    restricted = engines.get(workspace)
    if restricted is None:
        restricted = engines[workspace] = engine.execution_options(**{_WORKSPACE: workspace})
    return restricted


def _on_checkout(connection: sa.Connection) -> None:
    """Set a connection's workspace to its engine's, or to none: one round trip if it was another's, else nothing.

    The same round trip detects a dead connection that was idle for a while; it is replaced. Called for every connection
    checked out of the pool. Uses the driver's own call, so that a rollback does not undo it. Through a pooler each
    transaction sets it (pooler.py), without a round trip of its own.
    """
    workspace = connection.get_execution_options().get(_WORKSPACE, "")
    used_at = connection.info.get(_USED_AT, math.inf)
    pool = connection.engine.pool
    is_cut = isinstance(pool, _Pool) and used_at <= pool.cut_at  # like another one: Postgres may have been restarted
    is_alive = not is_cut and time.monotonic() - used_at < _ALIVE_SECONDS
    if is_alive and connection.info.get(_WORKSPACE, "") == workspace:
        connection.info[_WORKSPACE] = workspace  # marks it as used, should it be dead the next time
        return
    try:
        # dead since its last use: try the next one, in the end a new one
        while not _enter_workspace(connection, workspace):
            connection.invalidate()
    except BaseException:
        connection.invalidate()
        connection.close()
        raise


_DEAD = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""Errors of the driver on a connection that was cut while idle."""


def _enter_workspace(connection: sa.Connection, workspace: str) -> bool:
    """Set the workspace of a connection; return False if the connection is dead."""
    fresh = _WORKSPACE not in connection.info
    connection.info[_WORKSPACE] = None  # unknown, should this be cancelled
    adapted = cast(AdaptedConnection, connection.connection.dbapi_connection)
    try:
        if isinstance(adapted, PooledConnection):
            adapted.driver.workspace = workspace
            if time.monotonic() - connection.info.get(_USED_AT, time.monotonic()) >= _ALIVE_SECONDS:
                adapted.run_async(lambda driver: driver.execute("SELECT 1", timeout=CONNECT_SECONDS))
        else:
            ((pid, *_),) = adapted.run_async(
                lambda driver: driver.fetch(_ENTER_WORKSPACE, workspace, timeout=CONNECT_SECONDS)
            )
            if pid != adapted.driver_connection.get_server_pid():
                raise asyncpg.InvalidSQLStatementNameError("another session answers on this connection")
    except TimeoutError:  # an OSError too; a server that hangs here would hang on the next connection as well
        raise
    except _DEAD:
        if fresh:  # it was just opened: another one would not be better
            raise
        return False
    connection.info[_WORKSPACE] = workspace
    return True


class Held(dict[str, Any]):
    """Things that a transaction holds until its end, by workspace; after its commit each is released."""

    release: Callable[[str, Any], None] | None = None


_HELD = "hardwon_held"


def after_commit(connection: AsyncConnection) -> Held:
    """Return what the running transaction of `transaction` holds."""
    held: Held = connection.info[_HELD]
    return held


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run a block in one transaction, committed at its end; raises StorageUnavailable if Postgres is gone."""
    held = Held()
    with _translate_errors(engine):
        async with engine.begin() as connection:
            connection.info[_HELD] = held
            yield connection
    if held.release is not None:
        for workspace, each in held.items():
            held.release(workspace, each)


@contextmanager
def _translate_errors(engine: AsyncEngine) -> Iterator[None]:
    """Raise our errors in place of the driver's."""
    try:
        yield
    except _DRIVER_ERRORS as error:
        module: object = engine.dialect.dbapi
        if isinstance(module, DriverModule) and _is_caused_by(error, LOST_STATEMENTS):
            module.connector.forget()
        if ours := _as_busy(engine, error) or translate(error):
            raise ours from error
        raise


@asynccontextmanager
async def store_transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run a block in one transaction; raises StorageRejected, naming the constraint, if one is violated."""
    try:
        async with transaction(engine) as connection:
            yield connection
    except IntegrityError as error:
        raise StorageRejected(
            f"Postgres refuses to store this ({_constraint(error)}), and will refuse it again: nothing was changed;"
            " remove the constraint or trigger if it is not hardwon's, else report this as a defect"
        ) from error


def _constraint(error: IntegrityError) -> str:
    """Return the violated constraint by its names in the schema and the error code, without any stored text."""
    cause: BaseException | None = error.orig
    while cause is not None and not isinstance(cause, asyncpg.PostgresError):
        cause = cause.__cause__
    if cause is None:
        return type(error).__name__
    name = " of ".join(filter(None, (cause.constraint_name, cause.table_name)))
    return f"{name}, error {cause.sqlstate}" if name else f"error {cause.sqlstate}"


@asynccontextmanager
async def autocommit(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run statements that each commit by themselves, without a transaction's extra round trips."""
    with _translate_errors(engine):
        async with engine.connect() as plain:
            yield await plain.execution_options(isolation_level="AUTOCOMMIT")


_Params: TypeAlias = Mapping[str, Any] | None
_DIALECT = AsyncpgDialect()  # type: ignore[no-untyped-call]


class CompiledQuery:
    """A statement compiled once, for `fetch`: its text for the driver, and the names of its parameters in order."""

    def __init__(self, query: sa.SelectBase | sa.UpdateBase) -> None:
        compiled = query.compile(dialect=_DIALECT)
        self.text = str(compiled)
        self._names: Sequence[str] = compiled.positiontup or ()
        self._constants = {name: bind.value for name, bind in compiled.binds.items()}

    def arguments(self, params: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in the driver's order."""
        return [params[name] if name in params else self._constants[name] for name in self._names]


_REFUSED_ROWS = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)
"""Errors for a row, after which a connection is as good as before."""


async def fetch(engine: AsyncEngine, query: CompiledQuery, params: Mapping[str, Any]) -> list[Any]:
    """Return the rows of a statement that commits by itself, as the driver has them; JSON is text, both ways.

    For captures and questions: SQLAlchemy takes three times as long for a statement as the driver. Raises the driver's
    errors for a row that Postgres refuses.
    """
    with _translate_errors(engine):
        async with engine.connect() as connection:
            try:
                driver = cast(Any, (await connection.get_raw_connection()).driver_connection)
                rows: list[Any] = await driver.fetch(query.text, *query.arguments(params))
            except _REFUSED_ROWS as error:
                _redact(error)
                raise
            except BaseException as error:
                _redact(error)
                if isinstance(error, _DEAD):
                    _pool(engine).cut_at = time.monotonic()
                await connection.invalidate()
                raise
            return rows


class Store:
    """A store, with its statements that each commit by themselves."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def _all(self, query: sa.Executable, params: _Params = None) -> Sequence[Any]:
        """Return the rows of a query."""
        async with autocommit(self._engine) as connection:
            return (await connection.execute(query, params)).all()

    async def _fetch(self, query: CompiledQuery, params: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a query as the driver has them, JSON as text."""
        return await fetch(self._engine, query, params)

    async def _one(self, query: sa.Executable, params: _Params = None) -> Any:
        """Return the only row of a query."""
        (row,) = await self._all(query, params)
        return row

    async def _first(self, query: sa.Executable, params: _Params = None) -> sa.Row[Any] | None:
        """Return the first row of a query, None if there is none."""
        return next(iter(await self._all(query, params)), None)

    async def _scalars(self, query: sa.Executable, params: _Params = None) -> list[Any]:
        """Return the first column of a query."""
        return [row[0] for row in await self._all(query, params)]

    async def _scalar(self, query: sa.Executable, params: _Params = None) -> Any:
        """Return the first value of a query, None if there is none."""
        row = await self._first(query, params)
        return None if row is None else row[0]

    async def _write(self, statement: sa.Executable, params: _Params = None) -> int:
        """Return the number of rows that a statement changed."""
        async with autocommit(self._engine) as connection:
            return (await connection.execute(statement, params)).rowcount


class WorkspaceStore(Store):
    """A store of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        super().__init__(engine_of_workspace(engine, workspace))
        self._store = engine
        """Of all workspaces, for statements that the role of one may not run."""
        self._workspace = workspace


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run read-only statements that all see the store as it is now."""
    with _translate_errors(engine):
        async with engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                yield connection


async def check_writable(engine: AsyncEngine) -> None:
    """Raise StorageUnavailable if Postgres does not answer, or is read-only."""
    async with autocommit(engine) as connection:
        if await connection.scalar(sa.text("SELECT current_setting('transaction_read_only')::boolean")):
            raise StorageUnavailable(_READ_ONLY.format(said="transaction_read_only is on"))


@asynccontextmanager
async def limit_long_connections(engine: AsyncEngine) -> AsyncIterator[None]:
    """Limit the number of blocks that keep a connection for minutes; others wait without one."""
    async with _pool(engine).long_connections:
        yield


_IDENTITY = sa.text("""
    SELECT (SELECT system_identifier FROM pg_control_system()) || '-' || oid
    FROM pg_database WHERE datname = current_database()
""")
"""A standby shares its primary's; a restored dump has another one; a copy of a server's files has the same."""


async def identity(engine: AsyncEngine) -> str:
    """Return the identifier of a database: that of its server's files, and its OID."""
    async with autocommit(engine) as connection:
        return str(await connection.scalar(_IDENTITY))
