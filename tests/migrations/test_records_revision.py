"""Revision 0027: what a store learned before there were records becomes records, and people see the same counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from alembic import command
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.engine.database import make_engine, transaction
from knowledge.adapters.postgres.engine.migrate import alembic_config, migrate
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import arm_key
from knowledge.models import Context, ContextId, PatternId, Task
from knowledge.wiring.open import Knowledge
from knowledge.wiring.stores import migration_scripts
from tests.conftest import Opens, SetClock
from tests.migrations.test_schema import catalog, database
from tests.support.entries import approval, capture, failure, learn, pattern, rejection
from tests.support.next_revision import BEFORE_COUNTERS
from tests.support.stores import numbered

CART = failure(task_id="T-1", run_id="2", solution_steps="Run `hardwon fix --cart`")
TOLD = [
    CART,
    replace(CART, task_id="T-2", failure_description="TypeError in the cart total when a price is missing"),
    failure(
        failure_description="The disk of the build server is full", solution_steps="Prune the images", task_id="T-3"
    ),
    rejection(task_id="T-4"),
    approval(task_id="T-5"),
]
BACK = """
    DROP TABLE entry_profiles;
    DROP TABLE records;
    ALTER TABLE contexts DROP COLUMN reason, DROP COLUMN situation_key, DROP COLUMN point_id, DROP COLUMN choice;
    ALTER TABLE workspaces DROP COLUMN hint_weights;
    UPDATE alembic_version SET version_num = '0026'
"""
"""The opposite of the revision, which the product does not have."""


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The database of the test's services."""
    engine = make_engine(database_url)
    yield engine
    await engine.dispose()


async def go_back(engine: AsyncEngine) -> None:
    async with transaction(engine) as connection:
        for statement in (*BEFORE_COUNTERS, *BACK.split(";")):
            await connection.execute(sa.text(statement))


async def records(engine: AsyncEngine) -> dict[UUID, dict[str, Any]]:
    async with transaction(engine) as connection:
        return {row["id"]: dict(row) for row in (await connection.execute(sa.text("SELECT * FROM records"))).mappings()}


async def hand_out(knowledge: Knowledge, number: int, shown: list[PatternId]) -> ContextId:
    """Record a context as they were before: without a reason and a choice."""
    context = Context(
        context_id=ContextId(numbered(number)),
        text="[...]",
        patterns=tuple(pattern(pattern_id=each) for each in shown),
    )
    task = Task(description="Fix", project_id="web-shop", task_id=f"T-{number}")
    await knowledge.contexts.record(context, task, "backend")
    return context.context_id


async def test_a_store_of_before_is_one_of_revision_0026(engine: AsyncEngine, postgres_dsn: str) -> None:
    """What goes back in these tests is what that revision made."""

    def upgrade(connection: sa.Connection) -> None:
        config = alembic_config(migration_scripts())
        config.attributes["connection"] = connection
        command.upgrade(config, "0026")

    await go_back(engine)
    async with database(postgres_dsn) as before:
        async with transaction(before) as connection:
            await connection.run_sync(upgrade)
        lines = [[line for line in await catalog(each) if " granted" not in line] for each in (engine, before)]
    assert lines[0] == lines[1]


@pytest.mark.long
async def test_what_was_learned_before_becomes_records_and_counts_stay(
    opens: Opens, engine: AsyncEngine, clock: SetClock, home: Path
) -> None:
    async with opens() as knowledge:
        learned = await learn(knowledge, *TOLD)
        staged, *_ = await capture(knowledge, failure(failure_description="It waits for a checkpoint", task_id="T-9"))
        patterns = await knowledge.lists.patterns()
        shown = [each.pattern_id for each in patterns]
        clock.move(timedelta(hours=1))
        one, other = await hand_out(knowledge, 11, shown), await hand_out(knowledge, 12, shown)
        await knowledge.outcomes.record_outcome(one, shown[0], worked=True)
        await knowledge.outcomes.record_outcome(one, shown[1], worked=False)
        await knowledge.outcomes.record_outcome(other, shown[1], worked=False)
        before = await knowledge.lists.patterns()
        native = await records(engine)
    assert len(native) == len(TOLD) + 3

    await go_back(engine)
    (home / "seal-head").unlink()
    assert await migrate(engine, migration_scripts())
    migrated = await records(engine)
    assert migrated.keys() == native.keys(), "one of each embedded entry and of each outcome"
    assert staged not in migrated
    computed = {"arm_key", "situation_key", "point_id", "task_key", "error_key", "seal"}
    for record_id, row in migrated.items():
        expected = native[record_id]
        assert row["arm_key"] is None
        assert {name: row[name] for name in row.keys() - computed} == {
            name: expected[name] for name in expected.keys() - computed
        }
        assert row["point_id"] is not None
        if row["entry_id"] is not None:
            assert row["point_id"] == expected["point_id"]

    async with opens() as knowledge:
        assert await knowledge.lists.patterns() == before, "what people see stays"
        await knowledge.checkpoints.process_all()
        named = await records(engine)
        assert named.keys() == {*migrated, staged}
        for entry_id, told in zip(learned, TOLD, strict=True):
            arm = arm_key(embedding_text.resolution(told), embedding_text.situation(told))
            assert named[entry_id]["arm_key"] == native[entry_id]["arm_key"] == arm
        assert all(row["arm_key"] for row in named.values())
        arms = {each.pattern_id: named[each.entry_ids[0]]["arm_key"] for each in before}
        told_of = await outcomes(engine)
        assert len(told_of) == 3
        for outcome_id, pattern_id in told_of.items():
            assert named[outcome_id]["arm_key"] == arms[PatternId(pattern_id)]
        points = [row["point_id"] for row in named.values()]
        assert len(await knowledge.stores.records.near(points)) == len(named)
        found = await knowledge.queries.query_for_failure("The disk of the build server is full")
        assert found[0].solution == "Prune the images"


async def outcomes(engine: AsyncEngine) -> dict[UUID, UUID]:
    async with transaction(engine) as connection:
        rows = await connection.execute(sa.text("SELECT id, pattern_id FROM outcomes"))
        return {row.id: row.pattern_id for row in rows}
