"""An empty store on Postgres for the contracts of the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.ports import Stores
from tests.conftest import SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.sharing import emptied_database, empty_engine, shared_engine
from tests.support.stores import Store

__all__ = ["emptied_database", "empty_engine", "shared_engine"]  # fixtures


@pytest_asyncio.fixture(loop_scope="session")
async def store(
    empty_engine: AsyncEngine, home: Path, embedder: HashingEmbedder, clock: SetClock
) -> AsyncIterator[Store]:
    """An empty store."""
    index = QdrantEdgeIndex(home)
    yield Store(engine=empty_engine, index=index, embedder=embedder, clock=clock)
    await index.aclose()


@pytest.fixture
def stores(store: Store) -> Stores:
    """The ports of one workspace of an empty store."""
    return store.of("default")
