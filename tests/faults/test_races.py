"""Races, durability and the soak, in the short form."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from knowledge.adapters.postgres.engine import database
from knowledge.adapters.postgres.memory import entry_writes
from knowledge.adapters.postgres.memory.entries import PostgresEntries
from knowledge.adapters.postgres.memory.entry_writes import forget_project
from knowledge.models import CaptureOutcome, EntryId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from tests.acceptance.memory.test_the_loop import fail
from tests.faults.durability import on_disk, survive
from tests.faults.ground import Ground
from tests.faults.herd import Herd
from tests.faults.races import races
from tests.faults.regrouping import Regrouping
from tests.faults.soak import CHANCES, Soak
from tests.support.entries import failure, stored
from tests.support.faults import Trips, wired


@pytest.mark.long
async def test_g13_prune_checkpoints_and_deletions_at_once_lose_and_bring_back_nothing(alone: Ground) -> None:
    """G13."""
    async with races(alone, seed=13) as running:
        for _ in range(6):
            truth = await running.round()
            assert truth.sound, truth


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2])
async def test_what_is_captured_while_its_project_is_deleted_is_kept(
    knowledge: Knowledge, settings: KnowledgeSettings, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D19: a batch found the project's row there, and its entries found it gone: an error of Postgres, nothing kept."""
    gone = await knowledge.capture.capture(failure(project_id="going", failure_description="It went"))
    await knowledge.capture.delete(gone)
    address = settings.database_url
    assert address is not None
    dsn = address.get_secret_value()
    deletions: list[threading.Thread] = []

    async def forget() -> None:
        async with database.transaction(engine := database.make_engine(dsn)) as connection:
            await forget_project(connection, "default", "going")
        await engine.dispose()

    def delete_meanwhile() -> None:
        if not deletions:
            deletions.append(threading.Thread(target=lambda: asyncio.run(forget())))
            deletions[0].start()
            deletions[0].join(1)  # it waits for a capture that holds the project

    def before_insert(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO knowledge_staging" in statement:
            delete_meanwhile()

    async def fetch_after_deletion(*arguments: Any) -> list[Any]:
        delete_meanwhile()
        return await database.fetch(*arguments)

    engine = database.make_engine(dsn)
    sa.event.listen(engine.sync_engine, "before_cursor_execute", before_insert)
    monkeypatch.setattr(entry_writes, "fetch", fetch_after_deletion)  # one entry goes past SQLAlchemy
    told = [stored(failure(project_id="going", failure_description=f"case {n} broke")) for n in range(number)]
    answers = await PostgresEntries(engine, "default").add(told)
    await engine.dispose()
    deletions[0].join()
    assert {answer.outcome for answer in answers} == {CaptureOutcome.ACCEPTED}
    assert [(await knowledge.capture.get(entry.entry_id)).project_id for entry in told] == ["going"] * number


@pytest.mark.long
@pytest.mark.parametrize("place", ["entries.delete:after:1", "index.delete:before:1", "index.delete:after:1"])
async def test_g13_an_entry_that_joins_while_another_is_deleted_keeps_its_point(
    knowledge: Knowledge, place: str
) -> None:
    """G13."""
    first = await learned(knowledge, "R1")
    joining: list[asyncio.Task[EntryId]] = []

    async def join() -> None:
        joining.append(asyncio.create_task(learned(knowledge, "R2")))
        await asyncio.sleep(0.2)

    await wired(knowledge, Trips({place: join})).capture.delete(first)
    second = await joining[0]
    report = await knowledge.upkeep.verify()
    assert (report.points, report.sound) == (1, True), report
    (found,) = await knowledge.queries.query_for_failure("Cart total raises TypeError", min_relevance=0)
    assert found.entry_ids == (second,)


async def learned(knowledge: Knowledge, run: str) -> EntryId:
    """Embed the same lesson once more."""
    entry_id = await fail(knowledge, run_id=run, task_id="T1")
    await knowledge.checkpoints.process_all()
    return entry_id


@pytest.mark.long
@pytest.mark.timeout(180)
def test_g1_an_acknowledged_capture_survives_the_death_of_its_client_and_of_postgres(herd: Herd) -> None:
    """G1."""
    with on_disk(herd) as (ground, server):
        found = survive(ground, server, random.Random(1), instants=12)
    assert found.lost == 0, found
    assert (found.clients, found.servers) == (8, 4)
    assert found.acknowledged >= 12


@pytest.mark.harness
@pytest.mark.long
async def test_g23_a_soak_of_random_operations_leaves_what_the_model_says(alone: Ground) -> None:
    """G23."""
    soak = Soak(random.Random(24), ground=alone)
    await soak.walk(250)
    assert min(soak.did[name] for name in CHANCES if CHANCES[name] >= 1) > 0


@pytest.mark.harness
@pytest.mark.long
async def test_g23_joins_and_splits_among_all_else_leave_what_the_entries_say(alone: Ground) -> None:
    """G23."""
    walk = Regrouping(random.Random(23), ground=alone)
    await walk.walk(150)
    assert min(walk.did[name] for name in ("join", "split", "together", "outcome")) > 0
