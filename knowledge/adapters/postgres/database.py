"""The database: an engine on a server's address, its transactions, and its errors in our words."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

import asyncpg
import sqlalchemy as sa
from sqlalchemy.engine import AdaptedConnection, ExceptionContext
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from knowledge.adapters.postgres.connecting import (
    CONNECT_SECONDS,
    REFUSED,
    TURN_SECONDS,
    connect,
    first_line,
    for_driver,
    trusted,
)
from knowledge.errors import InvalidInput, StorageBusy, StorageRejected, StorageUnavailable


def make_engine(dsn: str, *, connections: int = 20, revive: Callable[[], None] | None = None) -> AsyncEngine:
    """Return an engine on a Postgres address; nothing is connected yet. Its errors repeat no stored text.

    Where nobody listens, `revive` is called, in a thread, and the connection tried again.
    """
    address, authorities = for_driver(dsn), trusted(dsn)
    engine = create_async_engine(
        sa.make_url(dsn).set(drivername="postgresql+asyncpg"),
        async_creator=lambda: connect(address, authorities, revive),
        hide_parameters=True,
        isolation_level="READ COMMITTED",  # what our statements count on, whatever is usual on this server
        pool_size=connections,
        max_overflow=0,  # one above the size would be closed after each use, and opening one costs a dozen captures
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=False,
        pool_recycle=1800,
        pool_use_lifo=True,  # the one used last knows its workspace and its statements: each costs a round trip
        poolclass=_Pool,
    )
    sa.event.listen(engine.sync_engine, "checkin", lambda driver, record: _note_answer(engine, driver, record))
    sa.event.listen(engine.sync_engine, "handle_error", _forget_texts)
    sa.event.listen(engine.sync_engine, "handle_error", _leave_copies)
    sa.event.listen(engine.sync_engine, "engine_connect", _hold)
    return engine


class _Pool(sa.AsyncAdaptedQueuePool):
    """A pool that knows when Postgres was last seen to answer (`time.monotonic`)."""

    answered_at = -math.inf

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.turns = asyncio.Semaphore(max(1, self.size() // 2))
        self.turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.held_long = asyncio.Semaphore(max(1, self.size() // 4))
        self.engines_of: WeakValueDictionary[str, AsyncEngine] = WeakValueDictionary()


def _pool(engine: AsyncEngine) -> _Pool:
    pool = engine.sync_engine.pool
    if not isinstance(pool, _Pool):
        raise TypeError(f"{type(pool).__name__} is no pool of make_engine")
    return pool


def _note_answer(engine: AsyncEngine, driver: object, record: ConnectionPoolEntry) -> None:
    """Note that a connection was given back whole, and so that Postgres answers."""
    pool = engine.sync_engine.pool
    if driver is not None and isinstance(pool, _Pool):
        record.info[_USED_AT] = pool.answered_at = time.monotonic()


def _busy(engine: AsyncEngine, error: BaseException) -> StorageBusy | None:
    """Return an error as StorageBusy: nobody had a connection for us in time, while Postgres answered others of us."""
    pool = engine.sync_engine.pool
    if not isinstance(error, (TimeoutError, PoolTimeout)) or not isinstance(pool, _Pool):
        return None
    if time.monotonic() - pool.answered_at >= CONNECT_SECONDS:
        return None
    return StorageBusy(f"{_TOO_MUCH} ({type(error).__name__}): come again", retry_after_seconds=_RETRY_AFTER_SECONDS)


_OF_A_WORKSPACE = 2
"""Transactions that wait for each other, of one workspace: one works, one is at hand when it is done."""


@asynccontextmanager
async def in_line(engine: AsyncEngine, workspace: str) -> AsyncIterator[None]:
    """Run a block whose transaction waits for others of its workspace: in line, without a connection.

    A connection each would leave none to those who wait for nobody: captures and queries. Raises StorageBusy after
    `TURN_SECONDS`.
    """
    pool = _pool(engine)
    of_workspace = pool.turns_of.setdefault(workspace, asyncio.Semaphore(_OF_A_WORKSPACE))
    async with AsyncExitStack() as turns:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turns.enter_async_context(of_workspace)
                await turns.enter_async_context(pool.turns)
        except TimeoutError as error:
            raise StorageBusy(
                f"others have been at work on the patterns of {workspace} for {TURN_SECONDS:.0f} s: come again",
                retry_after_seconds=_RETRY_AFTER_SECONDS,
            ) from error
        yield


_REPEATS = re.compile(r"\nDETAIL:.*|(?<=invalid input for query argument).*", re.DOTALL)
"""What the driver's messages repeat of a row: the DETAIL of a constraint, and an argument that does not fit."""


def _forget_texts(context: ExceptionContext) -> None:
    """Drop stored text from an error, its causes included: whoever logs it would log that, too."""
    error: BaseException | None = context.sqlalchemy_exception or context.original_exception
    while error is not None:
        error.args = tuple(_REPEATS.sub("", part) if isinstance(part, str) else part for part in error.args)
        if isinstance(error, asyncpg.PostgresError):
            error.detail = None
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__


def _leave_copies(context: ExceptionContext) -> None:
    """Connect anew where a server took no change: after a failover another one may answer at the same address."""
    cause: BaseException | None = context.original_exception
    while cause is not None and not isinstance(cause, asyncpg.ReadOnlySQLTransactionError):
        cause = cause.__cause__
    if cause is not None:
        context.is_disconnect = True


_BUSY = (TimeoutError, PoolTimeout, asyncpg.TooManyConnectionsError)
"""Nobody refuses; there are too many of us: a turn at the event loop, or a connection, did not come in time."""
_RETRY_AFTER_SECONDS = 1.0
_TOO_MUCH = "there is more to do than Postgres has connections for"
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
_OF_DRIVER = (
    DBAPIError,
    PoolTimeout,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_NO_TEXT = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError, UnicodeEncodeError)
_FULL = "there is no space left for Postgres ({said}): make room on its disk, and it goes on"
_NO_CHANGES = (
    "Postgres takes no changes ({said}): HARDWON_DATABASE_URL leads to a copy that only answers, or the server was made"
    " read-only, as some are while their disk is full"
)
_TOLD: Mapping[tuple[type[Exception], ...], str] = {
    (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError): REFUSED,
    (asyncpg.ReadOnlySQLTransactionError,): _NO_CHANGES,
    (asyncpg.DeadlockDetectedError, asyncpg.SerializationError): (
        "Postgres broke off two operations that waited for each other; do it again"
    ),
    (asyncpg.LockNotAvailableError,): (
        "another program holds a lock in Postgres that this has to wait for, and has not let go of it for"
        f" {TURN_SECONDS:.0f} s: end its transaction (pg_stat_activity shows it), and do it again"
    ),
    (asyncpg.QueryCanceledError,): (
        "Postgres broke off what it was asked ({said}): where that is for a statement_timeout that its user or database"
        " was given, take it away (ALTER ROLE ... SET statement_timeout = 0); else do it again"
    ),
    (asyncpg.DiskFullError,): _FULL,
    (asyncpg.UndefinedTableError,): (
        "the database lacks tables of hardwon ({said}): was it made anew under a running process? Stop all that use it,"
        " then any command makes them again"
    ),
    (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError): (
        "a pooler between hardwon and Postgres gives its connections to others between two statements ({said}): each"
        " client needs a session of its own (PgBouncer: pool_mode = session)"
    ),
    (asyncpg.ProtocolViolationError,): REFUSED,
    (
        asyncpg.PostgresIOError,
        asyncpg.UndefinedFileError,
    ): "Postgres cannot read or write its files ({said}): look at its disk, and at its log",
}
"""What Postgres says that is nobody's defect, in our words; `said` is its own first line."""

_NO_MORE = (os.strerror(errno.EDQUOT), os.strerror(errno.EFBIG))
"""How Postgres ends a message where a quota, or a limit on files, is reached: with the code of an internal error."""


def translate(error: BaseException) -> StorageUnavailable | InvalidInput | None:
    """Return our error for a driver's that says Postgres is gone, full or closed to us, or that a text is none.

    None for any other.
    """
    cut = False
    cause: BaseException | None = error
    while cause is not None:
        # of what is only looked for or noted down, and was not looked at before
        if isinstance(cause, _NO_TEXT) or "surrogate" in (getattr(cause, "detail", None) or ""):
            return InvalidInput("text", "holds a NUL character or half of a pair of surrogates, which is no text")
        if ours := _unavailable(cause):
            return ours
        cut = cut or (isinstance(cause, DBAPIError) and cause.connection_invalidated)
        cause = cause.__cause__ or getattr(cause, "orig", None)
    return StorageUnavailable("Postgres closed the connection; the same call may work now") if cut else None


def _unavailable(cause: BaseException) -> StorageUnavailable | None:
    for kinds, told in _TOLD.items():
        if isinstance(cause, kinds):
            return StorageUnavailable(told.format(said=first_line(cause)))
    if isinstance(cause, asyncpg.InternalServerError) and first_line(cause).endswith(_NO_MORE):
        return StorageUnavailable(_FULL.format(said=first_line(cause)))
    if isinstance(cause, _BUSY + _GONE):
        return _silent(cause)
    return None


def _silent(cause: BaseException) -> StorageUnavailable:
    if isinstance(cause, _BUSY):
        return StorageUnavailable(
            f"Postgres does not answer in time, or {_TOO_MUCH} ({type(cause).__name__}): come again; where it never"
            " answers, look at its log, and at HARDWON_DATABASE_URL",
            retry_after_seconds=_RETRY_AFTER_SECONDS,
        )
    return StorageUnavailable(
        f"Postgres does not answer ({type(cause).__name__}: {first_line(cause)});"
        " is it running, and is HARDWON_DATABASE_URL right?"
    )


APPLICATION_ROLE = "hardwon_app"
"""The role that statements of a workspace run as: it owns no table, so the policies of the tables hold it."""

_WORKSPACE = "hardwon_workspace"
_USED_AT = "hardwon_used_at"
_TRUSTED_SECONDS = 10.0
"""How long a connection is taken for alive since its last use: servers and networks close those that nobody uses."""
_TAKE = """
    SELECT set_config('role', coalesce(CASE WHEN $1 <> '' THEN (
        SELECT rolname FROM pg_catalog.pg_roles
        WHERE rolname = 'hardwon_app' AND has_table_privilege(oid, 'knowledge_staging', 'INSERT')
            AND pg_has_role(session_user, oid,
                CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)
    ) END, 'none'), false), set_config('hardwon.workspace', $1, false)
"""
"""Names a workspace and takes the role, where it can be taken; the empty name gives both back."""


def within(engine: AsyncEngine, workspace: str) -> AsyncEngine:
    """Return the engine, on the same connections, with all its statements held to a workspace (row_security.py).

    The same one as long as anybody has it: the services of a workspace ask for 36, and a server keeps those of 1,000
    workspaces. With one each, looking for garbage among them stopped it for 0.2 s (measured).
    """
    engines = _pool(engine).engines_of
    held = engines.get(workspace)
    if held is None:
        held = engines[workspace] = engine.execution_options(**{_WORKSPACE: workspace})
    return held


def _hold(connection: sa.Connection) -> None:
    """Hold a connection to its engine's workspace, or to none: a round trip where it was another's, else nothing.

    The same round trip tells whether one that nobody used for a while is still there; if not, another is taken.
    Called for every connection that is taken from the pool, where it stays as it is. The driver's own call, so that no
    transaction that is rolled back takes it along. A pooler between us and Postgres has to give each a session.
    """
    workspace = connection.get_execution_options().get(_WORKSPACE, "")
    trusted = time.monotonic() - connection.info.get(_USED_AT, math.inf) < _TRUSTED_SECONDS
    if trusted and connection.info.get(_WORKSPACE, "") == workspace:
        connection.info[_WORKSPACE] = workspace  # used before, should it be dead the next time
        return
    try:
        while not _taken(connection, workspace):  # dead since its last use: the next one, in the end a new one
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
"""What the driver raises on a connection that was cut while nobody used it."""


def _taken(connection: sa.Connection, workspace: str) -> bool:
    """Have a connection work in a workspace; return False where it turns out to be dead."""
    fresh = _WORKSPACE not in connection.info
    connection.info[_WORKSPACE] = None  # unknown, should this be cancelled
    adapted = cast(AdaptedConnection, connection.connection.dbapi_connection)
    try:
        adapted.run_async(lambda driver: driver.fetch(_TAKE, workspace, timeout=CONNECT_SECONDS))
    except TimeoutError:  # an OSError as well; but whoever says nothing here would not on the next connection
        raise
    except _DEAD:
        if fresh:  # it was made just now: nothing says that another one is better
            raise
        return False
    connection.info[_WORKSPACE] = workspace
    return True


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run a block in one transaction, committed at its end; a Postgres that is gone raises StorageUnavailable."""
    with _translated(engine):
        async with engine.begin() as connection:
            yield connection


@contextmanager
def _translated(engine: AsyncEngine) -> Iterator[None]:
    """Raise our errors for the driver's."""
    try:
        yield
    except _OF_DRIVER as error:
        if ours := _busy(engine, error) or translate(error):
            raise ours from error
        raise


@asynccontextmanager
async def storing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run a block in one transaction, as above; what a constraint forbids raises StorageRejected, naming it."""
    try:
        async with transaction(engine) as connection:
            yield connection
    except IntegrityError as error:
        raise StorageRejected(
            f"Postgres refuses to store this ({_constraint(error)}), and will refuse it again: nothing was changed;"
            " remove the constraint or trigger if it is none of hardwon's, else report this as a defect"
        ) from error


def _constraint(error: IntegrityError) -> str:
    """Return what was violated, by the names of the schema and the code of the error, without any stored text."""
    cause: BaseException | None = error.orig
    while cause is not None and not isinstance(cause, asyncpg.PostgresError):
        cause = cause.__cause__
    if cause is None:
        return type(error).__name__
    named = " of ".join(filter(None, (cause.constraint_name, cause.table_name)))
    return f"{named}, error {cause.sqlstate}" if named else f"error {cause.sqlstate}"


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run statements that each stand alone, without a transaction's extra round trips."""
    with _translated(engine):
        async with engine.connect() as plain:
            yield await plain.execution_options(isolation_level="AUTOCOMMIT")


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Run statements that all see the store as it is now, and change nothing."""
    with _translated(engine):
        async with engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            async with connection.begin():
                yield connection


async def check_writable(engine: AsyncEngine) -> None:
    """Raise StorageUnavailable where Postgres does not answer, or answers but takes no changes."""
    async with reading(engine) as connection:
        if await connection.scalar(sa.text("SELECT current_setting('transaction_read_only')::boolean")):
            raise StorageUnavailable(_NO_CHANGES.format(said="transaction_read_only is on"))


@asynccontextmanager
async def few_at_once(engine: AsyncEngine) -> AsyncIterator[None]:
    """Run a block that keeps a connection for minutes, of many such: only a few do, others wait without one."""
    async with _pool(engine).held_long:
        yield


@asynccontextmanager
async def held_by_session(engine: AsyncEngine, lock: sa.ColumnElement[int]) -> AsyncIterator[bool]:
    """Say whether an advisory lock was free, and hold it until the block ends, or the process dies.

    By the session, for it may last hours: a transaction that long would keep Postgres from tidying up.
    """
    async with reading(engine) as connection:
        if not await connection.scalar(sa.select(sa.func.pg_try_advisory_lock(lock))):
            yield False
            return
        try:
            yield True
        finally:
            try:
                await connection.execute(sa.select(sa.func.pg_advisory_unlock(lock)))
            except BaseException:
                await connection.invalidate()  # the lock goes with it
                raise
