"""Stores that the tests of a process share: each test has a workspace of its own, and none opens them anew.

A module says so with `pytestmark = OF_ONE_LOOP`, for stores belong to the loop they were opened in, and by importing
these fixtures; fixtures of its own that use them need that loop, too. `opens` opens the test's workspace with settings,
an embedder or a clock of its own on the same stores. Stores of its own has a test that asks for what they are made of
(`database_url`, `home`, `settings`), or that is marked `own_stores` as it looks beyond its workspace.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import pytest_asyncio
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.embedding.switch import EmbedderSwitch
from knowledge.adapters.postgres.engine.database import make_engine, transaction
from knowledge.adapters.postgres.memory_tables import counters, metadata
from knowledge.memory.checkpoint.service import CHECKPOINT_BATCH
from knowledge.ports import Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import services
from knowledge.wiring.answering import make_models
from knowledge.wiring.open import Knowledge, open_knowledge
from knowledge.wiring.services import make_knowledge, make_stores
from tests.conftest import TEMPLATE, Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.postgres import create_database, drop_database

OF_ONE_LOOP = pytest.mark.asyncio(loop_scope="session")
_THEIR_PARTS = frozenset({"database_url", "home", "settings"})
_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(postgres_dsn: str) -> AsyncIterator[Knowledge]:
    """The services on real Postgres and the real in-process engine, with an instant embedder, opened once a process."""
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    with tempfile.TemporaryDirectory(prefix="hardwon-home-", ignore_cleanup_errors=True) as home:
        settings = KnowledgeSettings(home=Path(home), database_url=SecretStr(dsn), query_deadline_ms=30_000, holdout=0)
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
def own(request: pytest.FixtureRequest) -> bool:
    """Return whether the test has stores of its own."""
    return request.node.get_closest_marker("own_stores") is not None or bool(_THEIR_PARTS & set(request.fixturenames))


@pytest.fixture
def opens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, *, own: bool) -> Opens:
    """Open a workspace of this test's own on the shared stores, or its own stores; again, it is the same workspace."""
    if own:
        return cast(Opens, request.getfixturevalue("opens"))  # the one that this one replaces
    shared, clock = request.getfixturevalue("shared"), request.getfixturevalue("clock")
    mine = f"test-{next(_NUMBERS)}"

    @asynccontextmanager
    async def open_again(
        *,
        workspace: str = "default",
        embedder: Embedder | None = None,
        checkpoint_batch: int = CHECKPOINT_BATCH,
        **changed: object,
    ) -> AsyncIterator[Knowledge]:
        monkeypatch.setattr(services, "CHECKPOINT_BATCH", checkpoint_batch)
        settings = shared.settings.model_copy(update=changed)
        models = make_models(settings)
        try:
            yield make_knowledge(
                settings,
                shared.engine,
                make_stores(
                    settings,
                    shared.engine,
                    mine if workspace == "default" else f"{mine}-{workspace}",
                    index=shared.stores.index,
                    embedder=EmbedderSwitch(embedder or HashingEmbedder(dims=256)),
                    clock=clock,
                ),
                shared.authenticator,
                passages=shared.passages,
                converter=shared.converter,
                models=models,
            )
        finally:
            await models.aclose()

    return open_again


@pytest_asyncio.fixture(loop_scope="session")
async def knowledge(opens: Opens, embedder: HashingEmbedder, *, own: bool) -> AsyncIterator[Knowledge]:
    """The services of a workspace of this test's own, or on stores of its own."""
    async with opens(embedder=embedder) as opened:
        measured = await opened.stores.spaces.bound()
        yield opened
        assert own or await opened.stores.spaces.bound() == measured, (
            "it learned as much as measures the space anew: own_stores"
        )


@pytest.fixture(scope="session")
def emptied_database(postgres_dsn: str) -> str:
    """The address of one database for tests that empty it first: that costs a tenth of making another."""
    return asyncio.run(create_database(postgres_dsn, template=TEMPLATE))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_engine(emptied_database: str) -> AsyncIterator[AsyncEngine]:
    """The connections of a process: another engine costs 17 ms of CPU, and compiles each statement anew."""
    engine = make_engine(emptied_database)
    yield engine
    await engine.dispose()


@pytest_asyncio.fixture(loop_scope="session")
async def empty_engine(shared_engine: AsyncEngine) -> AsyncEngine:
    """The engine of a migrated database without rows."""
    async with transaction(shared_engine) as connection:
        for table in reversed(metadata.sorted_tables):
            await connection.execute(sa.delete(table))
        await connection.execute(sa.delete(counters))  # the deletions were counted
    return shared_engine
