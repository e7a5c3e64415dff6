"""Workspaces stay apart behind a pooler that gives each transaction whichever connection is free (T7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr

from knowledge.adapters.postgres.engine.connection import ServerConnector, Sharing
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from tests.isolation.crowd import Crowd
from tests.support.embedders import HashingEmbedder
from tests.support.poolers.pgbouncer import PROGRAM, pgbouncer
from tests.support.poolers.stand_in import PoolerStandIn
from tests.support.postgres import over_tcp

pytestmark = pytest.mark.long

needs_pgbouncer = pytest.mark.skipif(PROGRAM is None, reason="needs PgBouncer (Debian: apt-get install pgbouncer)")


@contextmanager
def later_pgbouncer(dsn: str) -> Iterator[int]:
    with PoolerStandIn(dsn, size=1) as pooler:
        yield pooler.port


POOLERS = [
    pytest.param(pgbouncer, Sharing.POOLED, id="PgBouncer", marks=needs_pgbouncer),
    pytest.param(later_pgbouncer, Sharing.POOLED_PREPARED, id="one that keeps prepared statements"),
]


@asynccontextmanager
async def crowd(address: str, home: Path) -> AsyncIterator[tuple[Crowd, Sharing]]:
    settings = KnowledgeSettings(
        home=home, database_url=SecretStr(address), redaction=False, holdout=0, query_deadline_ms=60_000
    )
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        yield Crowd(knowledge), knowledge.engine.dialect.dbapi.connector.sharing


@pytest.mark.parametrize(("pooler", "sharing"), POOLERS)
async def test_t7_forty_callers_of_two_workspaces_share_one_connection(
    pooler: type[AbstractContextManager[int]], sharing: Sharing, database_url: str, home: Path
) -> None:
    with pooler(database_url) as port:
        address = over_tcp(database_url, port)
        async with crowd(address, home) as (callers, found):
            assert found is sharing
            await callers.work(2_000, callers=40)
            assert sum(callers.done.values()) == 2_000
            print(dict(callers.done))
        other = await asyncpg.connect(address, statement_cache_size=0)
        left = await other.fetchrow("SELECT current_user, session_user, current_setting('hardwon.workspace', true)")
        assert left[0] == left[1]
        assert not left[2], "nothing of a workspace stays on the connection that others get"
        await other.close()
