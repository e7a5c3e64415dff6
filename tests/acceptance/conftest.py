"""What many tests of the doors begin with: clients of the test's stores, and commands on them or beside a server."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from knowledge.wiring.open import Knowledge
from tests.conftest import TEMPLATE
from tests.support.clients import http_of
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database
from tests.support.processes import Commands, embedding_by


@pytest.fixture
async def http(knowledge: Knowledge) -> AsyncIterator[httpx.AsyncClient]:
    async with http_of(knowledge) as client:
        yield client


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    """An embedding endpoint that all tests of a module share."""
    with OpenAIServer(dims=64) as server:
        yield server


@pytest.fixture
def commands(database_url: str, endpoint: OpenAIServer, home: Path) -> Commands:
    """Commands on stores that nobody else has open: each of them is the owner while it runs."""
    return Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})


@pytest.fixture(scope="module")
def of_module(postgres_dsn: str, endpoint: OpenAIServer) -> Iterator[Commands]:
    """Commands on stores that all tests of a module share."""
    url = asyncio.run(create_database(postgres_dsn, template=TEMPLATE))
    with tempfile.TemporaryDirectory(prefix="hardwon-home-") as home:
        yield Commands(Path(home), embedding_by(endpoint) | {"HARDWON_DATABASE_URL": url})
    asyncio.run(drop_database(url))


@pytest.fixture(scope="module")
def beside(of_module: Commands) -> Iterator[Commands]:
    """Commands beside a running server, which each of them is a client of."""
    with of_module.serving():
        yield of_module
