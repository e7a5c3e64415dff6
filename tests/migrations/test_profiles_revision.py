"""Revision 0028: a store without profiles of its texts ranks to the last bit as one with them, and gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.models.patterns import Pattern
from knowledge.adapters.postgres.engine.database import make_engine, transaction
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.models import Task
from knowledge.wiring.open import Knowledge
from knowledge.wiring.stores import migration_scripts
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import Opens
from tests.support.entries import approval, failure, learn, rejection
from tests.support.next_revision import BEFORE_COUNTERS

CART = failure(task_id="T-1", run_id="2", solution_steps="Run `hardwon fix --cart`")
TOLD = [
    CART,
    replace(CART, task_id="T-2", failure_description="TypeError in the cart total when a price is dying of get_user2"),
    replace(
        CART, task_id="T-3", task_description="Fix the total", failure_description="URLs of the cart: \u4e2d\u6587"
    ),
    replace(CART, task_id="T-4", failure_description="the cart " * 300 + "E   KeyError: 'total'"),
    *(replace(CART, task_id=f"T-1{at}", failure_description=f"The disk {at} of the build is full") for at in range(20)),
    rejection(task_id="T-5"),
    approval(task_id="T-6"),
]
WITHOUT_KEYS = "ALTER TABLE records DROP COLUMN task_key, DROP COLUMN error_key"
BACK = (
    *BEFORE_COUNTERS,
    WITHOUT_KEYS,
    "DROP TABLE entry_profiles",
    "UPDATE alembic_version SET version_num = '0027'",
)
QUESTIONS = ("the total of the cart is wrong", "Fix the total", "a disk is full", "dying users, get_user2", "URL")


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The database of the test's services."""
    engine = make_engine(database_url)
    yield engine
    await engine.dispose()


async def run(engine: AsyncEngine, *statements: str) -> None:
    async with transaction(engine) as connection:
        for statement in statements:
            await connection.execute(sa.text(statement))


async def count_profiles(engine: AsyncEngine) -> int:
    async with transaction(engine) as connection:
        return await connection.scalar(sa.text("SELECT count(*) FROM entry_profiles WHERE rules > 0")) or 0


async def answers(knowledge: Knowledge) -> list[list[Pattern]]:
    return [await knowledge.queries.query_for_task(each, min_relevance=0, max_results=10) for each in QUESTIONS]


@pytest.mark.long
async def test_a_store_of_before_ranks_to_the_last_bit_alike_and_gets_its_profiles_when_pruned(
    opens: Opens, engine: AsyncEngine, home: Path
) -> None:
    async with opens() as knowledge:
        learned = await learn(knowledge, *TOLD)
        expected = await answers(knowledge)
        assert all(expected)
    assert await count_profiles(engine) == len(learned)

    await run(engine, *BACK)
    (home / "seal-head").unlink()
    assert await migrate(engine, migration_scripts())
    async with opens() as knowledge:
        assert await answers(knowledge) == expected
        assert await count_profiles(engine) == 0
        await knowledge.pruning.prune()
        assert await count_profiles(engine) == len(learned)
        assert await answers(knowledge) == expected


@pytest.mark.long
async def test_profiles_of_other_rules_are_not_used_and_are_replaced_when_pruned(
    opens: Opens, engine: AsyncEngine
) -> None:
    async with opens() as knowledge:
        learned = await learn(knowledge, *TOLD)
        expected = await answers(knowledge)
        await run(engine, "UPDATE entry_profiles SET rules = 0, arm_key = '', situation = '', resolution = ''")
        assert await answers(knowledge) == expected
        await knowledge.pruning.prune()
        assert await count_profiles(engine) == len(learned)
        assert await answers(knowledge) == expected


@pytest.mark.long
async def test_reasons_of_before_get_their_final_names(opens: Opens, engine: AsyncEngine) -> None:
    """Revision 0029."""
    async with opens() as knowledge:
        await learn(knowledge, CART)
        for number in range(4):
            task = Task(description=f"Fix the total {number}", project_id="shop", task_id=f"T-{number}")
            await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    before = "UPDATE contexts SET reason = (ARRAY['shown', 'unsure', 'alone', 'held_out'])[right(task_id, 1)::int + 1]"
    await run(engine, *BEFORE_COUNTERS, before, WITHOUT_KEYS, "UPDATE alembic_version SET version_num = '0028'")
    assert await migrate(engine, migration_scripts())
    async with transaction(engine) as connection:
        found = (await connection.execute(sa.text("SELECT reason FROM contexts ORDER BY task_id"))).scalars().all()
    assert found == ["spoke", "not_sure", "agent_knows", "held_out"]
