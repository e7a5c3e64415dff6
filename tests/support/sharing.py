"""Stores that the tests of a module share: each test has a workspace of its own, and none opens them anew.

A module says so with `pytestmark = OF_ONE_LOOP`, for stores belong to the loop they were opened in, and by importing
these fixtures; fixtures of its own that use them need that loop, too. Stores of its own has a test that asks for what
they are made of (`clock`, `opens` and such), or that is marked `own_stores` as it looks beyond its workspace.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.engine.database import make_engine, transaction
from knowledge.adapters.postgres.memory_tables import metadata
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.conftest import TEMPLATE, Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.postgres import create_database, drop_database

OF_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")
_THEIR_PARTS = frozenset({"clock", "database_url", "embedder", "home", "opens", "settings"})
_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(postgres_dsn: str) -> AsyncIterator[Knowledge]:
    """The services on real Postgres and the real in-process engine, with an instant embedder, opened once a module."""
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    with tempfile.TemporaryDirectory(prefix="hardwon-home-", ignore_cleanup_errors=True) as home:
        settings = KnowledgeSettings(home=Path(home), database_url=SecretStr(dsn), query_deadline_ms=30_000)
        async with open_knowledge(settings, clock=SetClock(), embedder=HashingEmbedder(dims=256)) as opened:
            await _learn_first(opened)
            yield opened
    await drop_database(dsn)


async def _learn_first(opened: Knowledge) -> None:
    """Have the space of the store measured by one lesson elsewhere, not by whichever test is the first to learn."""
    first = opened.in_workspace("first")
    await first.capture.capture(failure())
    await first.checkpoints.process_all()


@pytest.fixture
def own(request: pytest.FixtureRequest) -> tuple[Opens, HashingEmbedder] | None:
    """What opens the stores of a test that has its own."""
    if request.node.get_closest_marker("own_stores") is None and not _THEIR_PARTS & set(request.fixturenames):
        return None
    return request.getfixturevalue("opens"), request.getfixturevalue("embedder")


@pytest_asyncio.fixture(loop_scope="module")
async def knowledge(shared: Knowledge, own: tuple[Opens, HashingEmbedder] | None) -> AsyncIterator[Knowledge]:
    """The services of a workspace of this test's own, or on stores of its own."""
    if own is None:
        measured = await shared.stores.spaces.bound()
        yield shared.in_workspace(f"test-{next(_NUMBERS)}")
        assert await shared.stores.spaces.bound() == measured, (
            "it learned as much as measures the space anew: own_stores"
        )
        return
    opens, embedder = own
    async with opens(embedder=embedder) as opened:
        yield opened


@pytest.fixture(scope="session")
def emptied_database(postgres_dsn: str) -> str:
    """The address of one database for tests that empty it first: that costs a tenth of making another."""
    return asyncio.run(create_database(postgres_dsn, template=TEMPLATE))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_engine(emptied_database: str) -> AsyncIterator[AsyncEngine]:
    """The connections of a module: another engine costs 17 ms of CPU, and compiles each statement anew."""
    engine = make_engine(emptied_database)
    yield engine
    await engine.dispose()


@pytest_asyncio.fixture(loop_scope="module")
async def empty_engine(shared_engine: AsyncEngine) -> AsyncEngine:
    """The engine of a migrated database without rows."""
    async with transaction(shared_engine) as connection:
        for table in reversed(metadata.sorted_tables):
            await connection.execute(sa.delete(table))
    return shared_engine
