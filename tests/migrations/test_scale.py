"""A store of 30,000 entries: nothing reads a table for a page. `make scale` measures a million."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import sqlalchemy as sa

from benchmarks.filling import SMALL_TENANT, fill
from benchmarks.materials import InstantEmbedder, MovedClock, throwaway
from benchmarks.operations import Operations, Reading, read_rows, statements
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.wiring.open import Knowledge
from tests.support.stores import counted, of_counters

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
ENTRIES = 30_000
PAGE = 10_000
"""Rows of a table that an operation may read: a checkpoint of 200 entries reads 6,000 of a table, others far less."""
WHOLE = {"job sweep"}
"""Compares the ids of a whole workspace, page by page."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled() -> AsyncIterator[Knowledge]:
    """A store as it is after years, with statistics, and pruned once: the first prune looks for what was before it."""
    async with throwaway(InstantEmbedder(), clock=MovedClock()) as knowledge:
        await fill(knowledge, ENTRIES)
        await knowledge.pruning.prune()
        yield knowledge


async def read_all(knowledge: Knowledge, *names: str) -> dict[str, Reading]:
    operations = Operations(knowledge).table()
    return {name: await read_rows(knowledge, operations[name]) for name in names or operations}


def beyond_a_page(readings: dict[str, Reading]) -> dict[str, tuple[int, str]]:
    return {name: each.most for name, each in readings.items() if each.most[0] > PAGE and name not in WHOLE}


@pytest.mark.timeout(300)
async def test_no_operation_reads_a_table_for_a_page(filled: Knowledge) -> None:
    readings = await read_all(filled)
    assert beyond_a_page(readings) == {}
    assert len(readings) > 30
    assert sum(readings["capture"].by_index.values()) > 0, "the counters of Postgres count"


async def test_each_page_of_ids_is_looked_up_once(filled: Knowledge) -> None:
    """Each page of 1,024 ids joined all vectors: 12,812,736 rows for 200,000 points."""
    swept = await read_rows(filled, Operations(filled).table()["job sweep"])
    assert swept.whole.get("vectors", 0) == 0
    assert swept.most[0] < 5 * ENTRIES


@pytest.mark.parametrize(
    ("index", "operation"),
    [
        ("ix_knowledge_staging_trust", "query for a task"),
        ("ix_contexts_created", "contexts, two pages"),
        ("ix_patterns_problem", "patterns by problem, two pages"),
        ("ix_knowledge_staging_expiry", "stats"),
    ],
)
async def test_without_an_index_the_reading_is_noticed(filled: Knowledge, index: str, operation: str) -> None:
    """The test bites."""
    async with autocommit(filled.engine) as connection:
        definition = await connection.scalar(sa.select(sa.func.pg_get_indexdef(sa.func.to_regclass(index))))
        await connection.execute(sa.text(f"DROP INDEX {index}"))
    try:
        assert operation in beyond_a_page(await read_all(filled, "capture", operation))
    finally:
        async with autocommit(filled.engine) as connection:
            await connection.execute(sa.text(str(definition)))


async def test_stats_count_no_entries(filled: Knowledge) -> None:
    with statements(filled.engine) as sent:
        stats = await filled.stats()
    assert sum(stats.entries.values()) > ENTRIES / 2
    for statement, _ in sent:
        told = " ".join(statement.split())
        assert "count(*) AS number FROM knowledge_staging" not in told
        assert "count(*) AS count_1 FROM knowledge_staging" not in told
    reading = await read_rows(filled, filled.stats)
    assert reading.whole.get("knowledge_staging", 0) + reading.by_index.get("knowledge_staging", 0) <= 200, reading


async def test_what_was_copied_is_counted_and_sound(filled: Knowledge) -> None:
    assert await of_counters(filled.engine) == await counted(filled.engine)
    report = await filled.in_workspace(SMALL_TENANT).upkeep.verify()
    assert report.wrong == {}  # copies have the profiles of other texts
    assert report.points > ENTRIES / 20
