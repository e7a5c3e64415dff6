"""Opening the stores: what is cancelled on the way leaves nothing behind, and what is opened says nothing."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from hardwon.errors import StorageUnavailable, StoreIncompatible, Unavailable
from hardwon.owner.record import read_owner
from knowledge.adapters.postgres.engine import connection, migrate
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import SystemClock, open_knowledge
from tests.conftest import Opens
from tests.support.documents import add, find
from tests.support.embedders import HashingEmbedder
from tests.support.entries import capture, failure
from tests.support.processes import until


def serving(home: Path) -> list[str]:
    """Return the processes that work in a data directory of Postgres."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(home):
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


async def open_and_wait(home: Path, opened: asyncio.Event) -> None:
    async with open_knowledge(KnowledgeSettings(home=home), embedder=HashingEmbedder(dims=64)):
        opened.set()
        await asyncio.Event().wait()


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
async def test_opening_that_is_cancelled_at_any_moment_leaves_no_server_running(home: Path) -> None:
    """The thread that starts Postgres goes on when whoever waits for it is cancelled."""
    opened = asyncio.Event()
    # the first makes the data directory, which takes longest; once cancelled and twice take turns at the moments
    after, step = 0.0, 0.25
    for times in itertools.cycle([1, 2]):
        if opened.is_set():
            break
        opening = asyncio.create_task(open_and_wait(home, opened))
        began = time.monotonic()
        await asyncio.wait({opening}, timeout=after)
        for _ in range(times):
            opening.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert time.monotonic() - began < 30
        until(lambda: not serving(home), seconds=10)  # the process goes after its pid file, a moment later
        assert not (home / "postgres/data/postmaster.pid").exists()
        assert read_owner(home) is None
        after += step
        step = 0.1


@pytest.mark.long
async def test_what_the_index_holds_is_open_before_the_first_question(opens: Opens) -> None:
    """G11: a context waited for it, and beyond its deadline, as nothing else goes on meanwhile."""
    async with opens() as knowledge:
        await capture(knowledge, failure())
        await knowledge.checkpoints.process_all()
        await add(knowledge, "notes.md", b"# Notes\n\nThe cart is restarted by hand.")
    async with opens() as knowledge:
        for folder in ("index", "documents"):
            (knowledge.settings.home / folder).rename(knowledge.settings.home / f"{folder} elsewhere")
        assert len(await knowledge.queries.query_for_failure("TypeError in the cart total", min_relevance=0)) == 1
        assert (await find(knowledge, "How is the cart restarted?")).passages


@pytest.mark.long
async def test_an_index_that_cannot_be_opened_keeps_nobody_from_opening_the_rest(
    opens: Opens, settings: KnowledgeSettings
) -> None:
    async with opens() as knowledge:
        await capture(knowledge, failure())
        await knowledge.checkpoints.process_all()
    for file in (settings.home / "index").glob("hardwon_*/edge_config.json"):
        file.write_text("{", encoding="utf-8")
    async with opens() as knowledge:
        await capture(knowledge, failure(task_id="T2"))
        with pytest.raises(StoreIncompatible, match="cannot be opened"):
            await knowledge.queries.query_for_failure("TypeError in the cart total")


async def test_a_postgres_that_takes_connections_and_is_silent_is_told_of_before_it_is_given_up(
    settings: KnowledgeSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten seconds without a word, and then not one on the address."""
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.4)
    monkeypatch.setattr(migrate, "_WARN_AFTER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://someone@127.0.0.1:{silent.getsockname()[1]}/x"
        told = settings.model_copy(update={"database_url": SecretStr(address)})
        with pytest.raises(
            StorageUnavailable, match="where it never answers, look at its log, and at HARDWON_DATABASE"
        ):
            async with open_knowledge(told, embedder=HashingEmbedder(dims=64)):
                pass
    assert "postgres_awaited" in caplog.text


async def test_g12_a_machine_that_does_not_know_the_time_yet_opens_nothing(
    settings: KnowledgeSettings, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it embedded would expire as soon as its clock is set."""
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime(1970, 1, 1, tzinfo=UTC))
    with pytest.raises(Unavailable, match="says 1970-01-01"):
        async with open_knowledge(settings, embedder=embedder):
            pass
    monkeypatch.undo()
    async with open_knowledge(settings, embedder=embedder):
        pass
