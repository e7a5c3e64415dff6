"""One throwaway Postgres a session, a migrated database a test, a data directory of its own, a clock that is set."""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import logging
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
import structlog
from pydantic import SecretStr

from hardwon.owner import launch
from hardwon.owner.environment import OwnerSettings
from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.memory.checkpoint.service import CHECKPOINT_BATCH
from knowledge.ports import Clock, Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import services
from knowledge.wiring.open import Knowledge, open_knowledge
from knowledge.wiring.stores import migration_scripts
from tests.support.certificates import trust_nobody
from tests.support.embedders import HashingEmbedder
from tests.support.folders import end_owner, keep_in_memory
from tests.support.models import keep_model
from tests.support.postgres import create_database, drop_database, throwaway_postgres
from tests.support.statements import keep_statements

TEMPLATE = "hardwon_template"

keep_in_memory()
keep_model()
keep_statements()
trust_nobody()


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks of our own."""
    config.addinivalue_line(
        "markers", "long: takes a second or more alone on a core: `make test` leaves it out, `make long` does not"
    )
    config.addinivalue_line(
        "markers", "harness: and the short form of a harness: `make harness` and `make check` run it"
    )
    config.addinivalue_line("markers", "own_stores: has stores of its own where the others of its module share theirs")


def pytest_collection_finish() -> None:
    """Make the routes of the API once, and leave what was imported out of every later search for garbage: it stays."""
    if "orchestrator.http.app" in sys.modules:
        importlib.import_module("tests.support.routes").keep_routes()
    _leave_out_of_searches()


_RUN = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Leave out, too, what tests leave behind: after a thousand a search took as long as a context may wait."""
    if next(_RUN) % 25 == 0:
        _leave_out_of_searches()


def _leave_out_of_searches() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _owners_at_once() -> None:
    """Fork the owners that tests start themselves from an interpreter that has all loaded, as commands do."""

    def start(settings: OwnerSettings) -> Any:
        return importlib.import_module("tests.support.processes").STARTER.start_owner(settings)

    vars(launch)["_start"] = start


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own settings and keys out of the tests, and withhold no hint by chance."""
    for name in [name for name in os.environ if name.startswith(("HARDWON_", "OPENAI_"))]:
        if not name.startswith("HARDWON_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HARDWON_HOLDOUT", "0")


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """Undo what an entry point that ran in this process set up for its logs."""
    yield
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(handler)
            root.setLevel(logging.WARNING)


class SetClock(Clock):
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 1, 15, 12, tzinfo=UTC)) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def move(self, by: timedelta) -> None:
        self.time += by


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The address of a throwaway server with a migrated template database."""

    async def make_template(dsn: str) -> None:
        template = await create_database(dsn, name=TEMPLATE)
        engine = make_engine(template)
        await migrate(engine, migration_scripts())
        await engine.dispose()

    with throwaway_postgres() as server:
        asyncio.run(make_template(server.dsn))
        yield server.dsn


@pytest.fixture
async def database_url(postgres_dsn: str) -> AsyncIterator[str]:
    """The address of a migrated database of this test's own."""
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    yield dsn
    await drop_database(dsn)


@pytest.fixture
def home() -> Iterator[Path]:
    """A data directory of this test's own; tmp_path is closed to Postgres where root runs the tests."""
    with tempfile.TemporaryDirectory(prefix="hardwon-home-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        has_postgres = (Path(folder) / "postgres").exists()
        end_owner(Path(folder), signal.SIGTERM if has_postgres else signal.SIGKILL)


@pytest.fixture
def settings(database_url: str, home: Path) -> KnowledgeSettings:
    """Settings for the test's database and an embedded index in its data directory."""
    return KnowledgeSettings(home=home, database_url=SecretStr(database_url), holdout=0)


@pytest.fixture
def clock() -> SetClock:
    """A clock that stands at noon of 15 January 2026."""
    return SetClock()


@pytest.fixture
def embedder() -> HashingEmbedder:
    """An instant embedder: texts that share words lie near each other."""
    return HashingEmbedder(dims=256)


class Opens(Protocol):
    """Opens the stores of the test again, as another process would, with another embedder, batch or setting."""

    def __call__(
        self, *, workspace: str = ..., embedder: Embedder | None = ..., checkpoint_batch: int = ..., **changed: object
    ) -> AbstractAsyncContextManager[Knowledge]: ...


@pytest.fixture
def opens(settings: KnowledgeSettings, clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Open the test's own stores; each opening has an embedder of its own unless one is given."""

    def open_again(
        *,
        workspace: str = "default",
        embedder: Embedder | None = None,
        checkpoint_batch: int = CHECKPOINT_BATCH,
        **changed: object,
    ) -> AbstractAsyncContextManager[Knowledge]:
        monkeypatch.setattr(services, "CHECKPOINT_BATCH", checkpoint_batch)
        return open_knowledge(
            settings.model_copy(update=changed),
            workspace=workspace,
            clock=clock,
            embedder=embedder or HashingEmbedder(dims=256),
        )

    return open_again


@pytest.fixture
async def knowledge(opens: Opens, embedder: HashingEmbedder) -> AsyncIterator[Knowledge]:
    """The services on real Postgres and the real in-process engine, with an instant embedder."""
    async with opens(embedder=embedder) as opened:
        yield opened
