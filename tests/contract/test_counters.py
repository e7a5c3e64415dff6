"""The counters of stats: what triggers keep is what counting gives, whatever happens in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import HardwonError
from knowledge.adapters.postgres.engine.database import autocommit, transaction
from knowledge.adapters.postgres.memory.counts import fold_counters
from knowledge.adapters.postgres.memory_tables import counters, knowledge_staging, patterns, points
from knowledge.models import EntryId, PatternId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.conftest import TEMPLATE, Opens, SetClock
from tests.support.archives import as_stream
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure, learn
from tests.support.faults import Trips, wired
from tests.support.postgres import create_database, drop_database
from tests.support.stores import counted, of_counters

WORDS = ("cart", "price", "total", "order", "stock", "invoice", "user", "session", "cache", "queue", "worker", "lock")
PLACES = ("patterns.mark_embedded:before", "patterns.mark_embedded:after", "index.upsert:after", "entries.claim:after")


class Killed(BaseException):
    """The process ends here."""


class Mix:
    """Random operations in two workspaces."""

    def __init__(self, knowledge: Knowledge, clock: SetClock, seed: int) -> None:
        self._workspaces = (knowledge, knowledge.in_workspace("other"))
        self._clock = clock
        self._random = random.Random(seed)
        self._numbers = count()

    async def step(self) -> None:
        """Do one of them."""
        knowledge = self._random.choice(self._workspaces)
        steps: tuple[Callable[[Knowledge], Awaitable[object]], ...] = (
            self._capture,
            self._capture,
            self._checkpoint,
            self._kill,
            self._delete,
            self._delete_pattern,
            self._delete_project,
            self._prune,
            self._join,
            self._rebuild,
        )
        with suppress(HardwonError):
            await self._random.choice(steps)(knowledge)

    async def _capture(self, knowledge: Knowledge) -> None:
        chosen = self._random
        for _ in range(chosen.randrange(1, 6)):
            number = next(self._numbers)
            told = failure(
                failure_description=f"{' '.join(chosen.sample(WORDS, 5))} broke in case {chosen.randrange(60)}",
                solution_steps=None if chosen.random() < 0.2 else f"mend case {chosen.randrange(60)}",
                project_id=f"project-{chosen.randrange(4)}",
                task_id=f"T-{number}",
            )
            if told.solution_steps is None:
                told = replace(told, success_verified=False, verified_by=None)
            await knowledge.capture.capture(told)

    async def _checkpoint(self, knowledge: Knowledge) -> None:
        await knowledge.checkpoints.process_all()

    async def _kill(self, knowledge: Knowledge) -> None:
        """Capture, and end the checkpoint of it at some place."""
        await self._capture(knowledge)

        async def die() -> None:
            raise Killed

        dying = wired(knowledge, Trips({f"{self._random.choice(PLACES)}:1": die}), lease=timedelta(seconds=0.3))
        with suppress(Killed, BaseExceptionGroup):
            await dying.checkpoints.process_all()

    async def _delete(self, knowledge: Knowledge) -> None:
        ids = await self._ids(knowledge, knowledge_staging)
        if ids:
            await knowledge.capture.delete(EntryId(self._random.choice(ids)))

    async def _delete_pattern(self, knowledge: Knowledge) -> None:
        ids = await self._ids(knowledge, patterns)
        if ids:
            await knowledge.capture.delete_pattern(PatternId(self._random.choice(ids)))

    async def _delete_project(self, knowledge: Knowledge) -> None:
        if self._random.random() < 0.3:
            await knowledge.capture.delete_project(f"project-{self._random.randrange(4)}")

    async def _prune(self, knowledge: Knowledge) -> None:
        self._clock.move(timedelta(days=self._random.choice([1, 100, 200])))
        await knowledge.pruning.prune()

    async def _join(self, knowledge: Knowledge) -> None:
        ids = await self._ids(knowledge, patterns)
        if len(ids) > 1:
            one, other = self._random.sample(ids, 2)
            await knowledge.grouping.join(PatternId(one), PatternId(other))

    async def _rebuild(self, knowledge: Knowledge) -> None:
        if self._random.random() < 0.3:
            await knowledge.store_upkeep.rebuild()

    @staticmethod
    async def _ids(knowledge: Knowledge, table: sa.Table) -> list[EntryId]:
        async with autocommit(knowledge.engine) as connection:
            found = sa.select(table.c.id).where(table.c.workspace == knowledge.workspace).order_by(table.c.id)
            return list((await connection.execute(found)).scalars())


@pytest.fixture
async def second(postgres_dsn: str, tmp_path: Path, clock: SetClock) -> AsyncIterator[Knowledge]:
    """Another store, empty."""
    dsn = await create_database(postgres_dsn, template=TEMPLATE)
    settings = KnowledgeSettings(home=tmp_path / "second", database_url=SecretStr(dsn))
    async with open_knowledge(settings, clock=clock, embedder=HashingEmbedder(dims=256)) as knowledge:
        yield knowledge
    await drop_database(dsn)


async def rows(engine: AsyncEngine) -> int:
    async with autocommit(engine) as connection:
        return await connection.scalar(sa.select(sa.func.count()).select_from(counters)) or 0


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(2))
async def test_counters_are_the_counts_after_any_mix_of_operations_and_kills(
    knowledge: Knowledge, second: Knowledge, clock: SetClock, seed: int
) -> None:
    mix = Mix(knowledge, clock, seed)
    for number in range(60):
        await mix.step()
        if number % 10 == 0:
            assert await of_counters(knowledge.engine) == await counted(knowledge.engine), number
    await learn(knowledge, *(failure(task_id=f"last-{at}", failure_description=f"case {at} of it") for at in range(9)))
    expected = await counted(knowledge.engine)
    assert await of_counters(knowledge.engine) == expected
    assert len(expected) > 6, expected

    archive = b"".join([piece async for piece in knowledge.archives.export_archive()])
    await second.archives.import_archive(as_stream(archive))
    assert await of_counters(second.engine) == await counted(second.engine)
    assert (await second.stats()).entries == (await knowledge.stats()).entries


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant",
    [
        "ALTER TABLE points DISABLE TRIGGER delete_vectors_first",
        "ALTER TABLE knowledge_staging DISABLE TRIGGER count_knowledge_staging_update",
        "ALTER TABLE patterns DISABLE TRIGGER count_patterns_delete",
    ],
)
async def test_without_a_trigger_the_comparison_fails(knowledge: Knowledge, mutant: str) -> None:
    """The test bites."""
    async with autocommit(knowledge.engine) as connection:
        await connection.execute(sa.text(mutant))
    await learn(knowledge, failure(task_id="T-1"), failure(task_id="T-2", failure_description="The disk is full"))
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.delete(points))
        await connection.execute(sa.update(knowledge_staging).values(status="open", embedded_at=None, expires_at=None))
        await connection.execute(sa.update(knowledge_staging).values(pattern_id=None))
        await connection.execute(sa.delete(patterns))
    assert await of_counters(knowledge.engine) != await counted(knowledge.engine)


@pytest.mark.long
async def test_vectors_that_go_with_their_points_are_counted(knowledge: Knowledge) -> None:
    """By the foreign key they would go after the point, which has the workspace."""
    await learn(knowledge, failure(), failure(task_id="T-2", failure_description="The disk is full"))
    assert (await knowledge.stats()).vector_bytes > 0
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.delete(points))
    assert (await knowledge.stats()).vector_bytes == 0
    assert await of_counters(knowledge.engine) == await counted(knowledge.engine)


@pytest.mark.long
async def test_a_pattern_that_a_checkpoint_is_founding_is_not_counted(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    await knowledge.capture.capture(failure(task_id="T-2", failure_description="The disk is full"))
    found: list[int] = []

    async def look() -> None:
        found.append((await knowledge.stats()).patterns)

    await wired(knowledge, Trips({"patterns.mark_embedded:before:1": look})).checkpoints.process_all()
    assert [*found, (await knowledge.stats()).patterns] == [1, 2]


@pytest.mark.long
async def test_what_is_rolled_back_is_not_counted(knowledge: Knowledge) -> None:
    await learn(knowledge, failure())
    before = await of_counters(knowledge.engine)
    async with knowledge.engine.connect() as connection:
        await connection.execute(sa.delete(points))
        await connection.rollback()
    assert await of_counters(knowledge.engine) == before == await counted(knowledge.engine)


@pytest.mark.long
async def test_rows_are_folded_by_checkpoints_and_by_many_at_once_without_loss(
    knowledge: Knowledge, opens: Opens
) -> None:
    """A capture adds a row, so that captures never wait for one another."""

    async def capture(writer: int) -> None:
        for number in range(20):
            told = failure(task_id=f"T-{writer}-{number}", failure_description=f"Disk {number} of {writer} is full")
            await knowledge.capture.capture(told)

    async def fold() -> None:
        for _ in range(20):
            async with autocommit(knowledge.engine) as connection:
                await fold_counters(connection, knowledge.workspace)

    await asyncio.gather(*map(capture, range(4)), *(fold() for _ in range(4)))
    assert (await knowledge.stats()).entries == {"staged": 80}
    await capture(9)
    before = await rows(knowledge.engine)
    assert before >= 20
    await knowledge.checkpoints.process_all()
    assert await rows(knowledge.engine) < 12
    assert (await knowledge.stats()).entries == {"embedded": 100}
    assert await of_counters(knowledge.engine) == await counted(knowledge.engine)
