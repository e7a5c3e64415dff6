"""A store for the contracts of the ports: the same tests on Postgres and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from knowledge.ports import Stores
from tests.conftest import TEMPLATE, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import create_database
from tests.support.stores import Store, store_in_memory, store_on_postgres


@pytest.fixture(scope="session")
def contract_database(postgres_dsn: str) -> str:
    """The address of one database for all contracts: emptying it costs a tenth of making another."""
    return asyncio.run(create_database(postgres_dsn, template=TEMPLATE))


@pytest.fixture(params=["memory", "postgres"])
def database_of_store(request: pytest.FixtureRequest) -> str | None:
    """The address of the database that the store is in; None for the store in memory, which starts no server."""
    if request.param == "memory":
        return None
    dsn: str = request.getfixturevalue("contract_database")
    return dsn


@pytest.fixture
async def store(database_of_store: str | None, embedder: HashingEmbedder, clock: SetClock) -> AsyncIterator[Store]:
    """An empty store."""
    if database_of_store is None:
        yield store_in_memory(embedder, clock)
        return
    async with store_on_postgres(database_of_store, embedder, clock) as on_postgres:
        yield on_postgres


@pytest.fixture
def stores(store: Store) -> Stores:
    """The ports of one workspace of an empty store."""
    return store.of("default")
