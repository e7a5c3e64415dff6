"""Workspaces stay apart behind a pooler that gives each transaction whichever connection is free (T7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import HardwonError
from knowledge.adapters.postgres.engine.connection import Sharing
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from tests.isolation.crowd import Crowd
from tests.isolation.mutants import Mutant, mutated
from tests.support.embedders import HashingEmbedder
from tests.support.poolers.pgbouncer import PROGRAM, keeps_prepared_statements, pgbouncer
from tests.support.poolers.stand_in import PoolerStandIn
from tests.support.postgres import over_tcp

pytestmark = pytest.mark.long

needs_pgbouncer = pytest.mark.skipif(PROGRAM is None, reason="needs PgBouncer (Debian: apt-get install pgbouncer)")
Pooler = Callable[[str], AbstractContextManager[int]]


@contextmanager
def later_pgbouncer(dsn: str) -> Iterator[int]:
    with PoolerStandIn(dsn, size=1) as pooler:
        yield pooler.port


POOLERS = [
    pytest.param(pgbouncer, id="PgBouncer", marks=needs_pgbouncer),
    pytest.param(later_pgbouncer, id="a pooler that keeps prepared statements"),
]


def sharing_of(engine: AsyncEngine) -> Sharing:
    return cast(Sharing, cast(Any, engine.dialect.dbapi).connector.sharing)


@asynccontextmanager
async def crowd(address: str, home: Path) -> AsyncIterator[tuple[Crowd, Sharing]]:
    settings = KnowledgeSettings(
        home=home, database_url=SecretStr(address), redaction=False, holdout=0, query_deadline_ms=60_000
    )
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        yield Crowd(knowledge), sharing_of(knowledge.engine)


async def left_behind(address: str) -> tuple[bool, str]:
    """Return if the role, and what of a workspace, stays on the connection that others get."""
    other = await asyncpg.connect(address, statement_cache_size=0)
    try:
        async with other.transaction():
            row = await other.fetchrow(
                "SELECT current_user <> session_user, coalesce(current_setting('hardwon.workspace', true), '')"
            )
            assert row is not None
            return row[0], row[1]
    finally:
        await other.close()


async def serve_forty(pooler: Pooler, dsn: str, home: Path, operations: int) -> None:
    with pooler(dsn) as port:
        address = over_tcp(dsn, port)
        async with crowd(address, home) as (callers, sharing):
            keeps = pooler is later_pgbouncer or keeps_prepared_statements()
            assert sharing is (Sharing.POOLED_PREPARED if keeps else Sharing.POOLED)
            await callers.work(operations, callers=40)
            assert sum(callers.done.values()) == operations
        assert await left_behind(address) == (False, "")


@pytest.mark.parametrize("pooler", POOLERS)
async def test_t7_forty_callers_of_two_workspaces_share_one_connection(
    pooler: Pooler, database_url: str, home: Path
) -> None:
    """21 of 40 captures failed with errors of row-level security, and reads were empty."""
    await serve_forty(pooler, database_url, home, 200)


@pytest.mark.harness
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pooler", POOLERS)
async def test_t7_two_thousand_operations_over_one_connection_have_no_error_and_no_empty_read(
    pooler: Pooler, database_url: str, home: Path
) -> None:
    await serve_forty(pooler, database_url, home, 2_000)


@pytest.mark.parametrize("pooler", POOLERS)
async def test_t7_a_store_that_takes_a_pooled_connection_for_its_own_is_caught(
    pooler: Pooler, database_url: str, home: Path
) -> None:
    with mutated(Mutant.SESSION), pooler(database_url) as port, pytest.raises((HardwonError, ExceptionGroup)):
        async with crowd(over_tcp(database_url, port), home) as (callers, _):
            await callers.work(100, callers=10)


@pytest.mark.parametrize("pooler", POOLERS)
async def test_t7_a_workspace_that_is_set_for_the_session_is_caught(
    pooler: Pooler, database_url: str, home: Path
) -> None:
    with mutated(Mutant.LEFT_BEHIND), pooler(database_url) as port:
        address = over_tcp(database_url, port)
        async with crowd(address, home) as (callers, _):
            await callers.work(10, callers=2)
            await callers.end_in_a_workspace()
            # another client of the pooler, as psql would be, in the workspace of whoever was before it
            assert await left_behind(address) != (False, "")
