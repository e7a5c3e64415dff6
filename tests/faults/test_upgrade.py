"""An upgrade while the release before works on: its schema, its rows, its index, its statements (G20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from knowledge.adapters.qdrant_edge import QdrantEdgeIndex
from knowledge.adapters.qdrant_server import connect
from knowledge.models import EntryId, NewEntry
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import Knowledge, open_knowledge
from tests.faults.old_release import OldRelease
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.qdrant_over_edge import QdrantProcess
from tests.support.revisions import database_of

OLD = "0001"
LOG = (
    "\n".join(f"INFO part {number} of the catalogue was read" for number in range(20)) + "\nERROR the price is missing"
)


def shared_case(number: int, *, run_id: str) -> NewEntry:
    """Return a failure that both versions tell of; of the long error of one, the new one embeds the gist."""
    case = number % 4
    error = LOG if case == 0 else None
    return failure(failure_description=f"shared case {case} broke", error_message=error, run_id=run_id)


class Now:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture
async def old_database(postgres_dsn: str) -> AsyncIterator[str]:
    """A database with the schema that the release before made."""
    async with database_of(postgres_dsn, OLD) as dsn:
        yield dsn


@dataclass
class OldWriter:
    """An old process that goes on: captures, checkpoints and deletions, until it is stopped."""

    old: OldRelease
    rounds: int = 0
    number: int = 0
    alive: list[EntryId] = field(default_factory=list)
    _stopped: bool = False

    async def once(self) -> None:
        for _ in range(3):
            told = failure(failure_description=f"old case {self.number} broke", run_id=f"old {self.number}")
            shared = shared_case(self.number, run_id=f"old {self.number}")
            own = await self.old.capture(told)
            self.alive.append(await self.old.capture(shared))
            self.number += 1
            if self.number % 3 == 0:
                while await self.old.checkpoint():
                    pass
                await self.old.delete(own)  # in words of its own: its pattern goes, and the point
            else:
                self.alive.append(own)
        while await self.old.checkpoint():
            pass
        self.rounds += 1

    async def until_stopped(self) -> None:
        while not self._stopped:
            await self.once()
            await asyncio.sleep(0.05)

    async def reaches(self, rounds: int, going_on: asyncio.Task[None]) -> None:
        """Wait until it did so much; raise what it raised."""
        while self.rounds < rounds:
            await asyncio.wait({going_on}, timeout=0.01)
            if going_on.done():
                going_on.result()

    def stop(self) -> None:
        self._stopped = True


@asynccontextmanager
async def old_writer(dsn: str, index: Any) -> AsyncIterator[OldWriter]:
    connection = await asyncpg.connect(dsn)
    try:
        old = OldRelease(connection, index, HashingEmbedder(dims=64), Now())
        await old.bind()
        yield OldWriter(old)
    finally:
        await connection.close()
        await index.aclose()


async def work(knowledge: Knowledge, rounds: int) -> list[EntryId]:
    """Do what a process of this version does; return the entries it left."""
    left = []
    for number in range(rounds):
        told = failure(failure_description=f"new case {number} broke", run_id=f"new {number}")
        shared = shared_case(number, run_id=f"new {number}")
        gone = await knowledge.capture.capture(told)
        left.append(await knowledge.capture.capture(shared))
        await knowledge.checkpoints.process_all()
        await knowledge.capture.delete(gone)
        await knowledge.pruning.prune()
        found = await knowledge.queries.query_for_failure("shared case broke", min_relevance=0, max_results=20)
        assert found, "a query answers at every moment"
    return left


async def all_is_there(knowledge: Knowledge, alive: list[EntryId]) -> None:
    await knowledge.checkpoints.process_all()
    statuses = {str((await knowledge.capture.get(entry_id)).status) for entry_id in alive}
    assert statuses == {"embedded"}
    report = await knowledge.upkeep.verify()
    assert report.sound, report
    for number in range(4):
        asked = shared_case(number, run_id="asked")
        told, error = str(asked.failure_description), asked.error_message
        found = await knowledge.queries.query_for_failure(told, error, min_relevance=0, max_results=20)
        assert found[0].problem.partition("\n")[0] == told


async def documents(knowledge: Knowledge) -> int:
    """Return how many texts were counted, once each checkpoint has counted its own and what others left."""
    await knowledge.capture.capture(failure(failure_description="the last case broke"))
    await knowledge.checkpoints.process_all()
    return (await knowledge.stores.spaces.statistics([])).documents - 1


@pytest.mark.long
async def test_g20_an_old_writer_goes_on_while_a_new_version_migrates_and_works(
    old_database: str, home: Path, tmp_path: Path
) -> None:
    """G20: 0 errors on either side, and afterwards the index is what Postgres says."""
    with QdrantProcess(tmp_path / "qdrant") as qdrant:
        settings = KnowledgeSettings(home=home, database_url=SecretStr(old_database), qdrant_url=qdrant.url)
        async with old_writer(old_database, connect(qdrant.url)) as writer:
            await writer.once()
            going_on = asyncio.create_task(writer.until_stopped())
            await writer.reaches(2, going_on)
            async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
                migrated_at = writer.rounds
                left = await work(knowledge, 6)
                await writer.reaches(migrated_at + 2, going_on)
                writer.stop()
                await going_on
                await all_is_there(knowledge, writer.alive + left)
                # of the four shared texts, both may count one that they write at the same moment, or neither; one that
                # was deleted may be gone before it is counted
                told, deleted = writer.number + 4 + 6, writer.number // 3 + 6
                counted = await documents(knowledge)
                assert told - deleted - 4 <= counted <= told + 4, "the words of each text, once"


async def test_g20_a_data_directory_of_the_release_before_is_opened_as_it_is(old_database: str, home: Path) -> None:
    """G20: rows and an index directory of that time."""
    async with old_writer(old_database, QdrantEdgeIndex(home / "index")) as writer:
        for _ in range(3):
            await writer.once()
    settings = KnowledgeSettings(home=home, database_url=SecretStr(old_database))
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as knowledge:
        assert (await knowledge.upkeep.verify()).sound
        left = await work(knowledge, 3)
        await all_is_there(knowledge, writer.alive + left)
