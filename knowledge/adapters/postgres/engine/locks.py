"""Locks that last longer than a transaction: of a session, or leases where a pooler gives no session."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import HardwonError, StorageBusy, StorageUnavailable
from hardwon.event_log import get_logger
from knowledge.adapters.postgres.engine.database import autocommit, engine_of_workspace, transaction
from knowledge.adapters.postgres.engine.pooler import is_pooled_driver

log = get_logger(__name__)


async def is_pooled(connection: AsyncConnection) -> bool:
    """Return whether a pooler may give each transaction of a connection another session of Postgres."""
    return is_pooled_driver((await connection.get_raw_connection()).driver_connection)


_JOB_RUN = sa.table("job_run", *(sa.column(name) for name in ("job", "slot", "started_at", "attempts")))
"""Columns of the table of job runs, which is above this package."""
_LEASE_SECONDS = 60.0
"""Time after which the lease of a process that died is free, ours."""
_RENEW_SECONDS = 15.0
_NAME = sa.literal("lock/", sa.Text).concat(sa.cast(sa.bindparam("lock", type_=sa.BigInteger), sa.Text))
_SLOT: sa.ColumnElement[Any] = sa.literal_column("'epoch'::timestamptz")
_IS_FRESH = _JOB_RUN.c.started_at > sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, _LEASE_SECONDS)
_IS_LEASE = sa.and_(_JOB_RUN.c.job == _NAME, _JOB_RUN.c.slot == _SLOT)
_IS_OURS = sa.and_(_IS_LEASE, _JOB_RUN.c.attempts == sa.bindparam("token", type_=sa.Integer))
_TAKE_LEASE = (
    insert(_JOB_RUN)
    .values(job=_NAME, slot=_SLOT, attempts=sa.bindparam("token", type_=sa.Integer))
    .on_conflict_do_update(
        index_elements=[_JOB_RUN.c.job, _JOB_RUN.c.slot],
        set_={"started_at": sa.func.now(), "attempts": sa.bindparam("token", type_=sa.Integer)},
        where=~_IS_FRESH,
    )
    .returning(_JOB_RUN.c.attempts)
)


@asynccontextmanager
async def session_lock(engine: AsyncEngine, lock: sa.ColumnElement[int]) -> AsyncIterator[bool]:
    """Yield whether an advisory lock was free, and hold it until the block ends or the process dies.

    A session lock, because it may last hours: a transaction that long would keep Postgres from vacuuming. A pooler
    gives no session, so there it is a lease, a row of `job_run` that is renewed; each kind respects the other. The
    lease of a process that died is free after `_LEASE_SECONDS`.
    """
    store = engine_of_workspace(engine, "")
    async with autocommit(store) as connection:
        key: int = (await connection.execute(sa.select(lock))).scalar_one()
        if not await is_pooled(connection):
            async with _lock_session(connection, key) as locked:
                yield locked
            return
    async with _lease(store, key) as locked:
        yield locked


@asynccontextmanager
async def _lock_session(connection: AsyncConnection, key: int) -> AsyncIterator[bool]:
    if not await connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
        yield False
        return
    try:
        leased = sa.select(sa.exists().where(_IS_LEASE, _IS_FRESH))
        yield not await connection.scalar(leased, {"lock": key})
    finally:
        try:
            await connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
        except BaseException:
            await connection.invalidate()  # the lock goes with it
            raise


@asynccontextmanager
async def _lease(store: AsyncEngine, key: int) -> AsyncIterator[bool]:
    ours = {"lock": key, "token": secrets.randbelow(1 << 31)}
    async with transaction(store) as connection:
        is_free = await connection.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(key)))  # no session holds it
        taken = is_free and (await connection.execute(_TAKE_LEASE, ours)).first() is not None
    if not taken:
        yield False
        return
    renewing = asyncio.create_task(_renew(store, ours))
    try:
        yield True
    finally:
        renewing.cancel()
        async with autocommit(store) as connection:
            await connection.execute(sa.delete(_JOB_RUN).where(_IS_OURS), ours)


async def _renew(store: AsyncEngine, ours: Mapping[str, int]) -> None:
    """Renew a lease until cancelled; while Postgres is away it is tried again."""
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        try:
            async with autocommit(store) as connection:
                await connection.execute(sa.update(_JOB_RUN).where(_IS_OURS).values(started_at=sa.func.now()), ours)
        except HardwonError as error:
            log.warning("lease_not_renewed", reason=str(error))


_SECOND_SECONDS = 10.0
_ONLY_ONE = (
    f"the pooler of HARDWON_DATABASE_URL had no second connection to Postgres free for {_SECOND_SECONDS:.0f} s, and"
    " this needs two: raise its default_pool_size to 2 or more, or set HARDWON_DATABASE_URL to Postgres itself for this"
)


async def check_second_connection(engine: AsyncEngine) -> None:
    """Raise StorageUnavailable if a pooler has no second connection while a transaction holds the first one."""
    async with transaction(engine) as first:
        await first.execute(sa.text("SELECT 1"))
        if not await is_pooled(first):
            return
        try:
            async with asyncio.timeout(_SECOND_SECONDS), autocommit(engine) as second:
                await second.execute(sa.text("SELECT 1"))
        except (TimeoutError, StorageBusy) as error:
            raise StorageUnavailable(_ONLY_ONE) from error
