"""Upgrades: a store of the release before, and a release that goes on while the next one migrates (G20)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.models import EntryId
from knowledge.wiring.open import Knowledge
from knowledge.wiring.stores import migration_scripts
from tests.conftest import Opens
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure
from tests.support.next_revision import add_next_revision

STORE = Path(__file__).with_name("store_of_7e69ee7.sql")
"""The rows of a store that commit 7e69ee7 made: five embedded entries, an open one, an outcome, a document."""
PATTERNS = [
    ("86f41581-1c3f-57ac-8256-f6f827e009b5", 2, 3, 2, 0.86),
    ("cef6ba14-29a2-5327-835b-d6b26d450194", 2, 2, 2, 0.0),
    ("85e87667-b322-576d-bb9b-0cb6a59ec24f", 1, 1, 1, 0.71),
]
"""The answers of that commit: pattern, successes, attempts, projects, relevance."""
PASSAGE = (
    "681e1d97-2ef1-5a67-b7b7-88e03e1ebc48",
    "# Timeouts\nThe cart service waits 30 seconds for Postgres.",
    0.09,
)


@pytest.mark.long
async def test_g20_a_store_of_the_release_before_opens_without_a_migration_and_answers_the_same(
    database_url: str, opens: Opens
) -> None:
    rows = await asyncpg.connect(database_url)
    await rows.execute(STORE.read_text(encoding="utf-8"))
    await rows.close()
    engine = make_engine(database_url)
    assert await migrate(engine, migration_scripts()) is False
    await engine.dispose()
    embedder = HashingEmbedder(dims=32)
    async with opens(embedder=embedder) as knowledge:
        rebuilt = await knowledge.store_upkeep.rebuild()
        assert (rebuilt.points, rebuilt.passages, rebuilt.embedded) == (3, 1, 0)
        failures = await knowledge.queries.query_for_failure("Cart total is wrong", min_relevance=0)
        gates = await knowledge.queries.query_for_gate("design_review", "Rename a table", min_relevance=0)
        assert [
            (str(p.pattern_id), p.success_count, p.attempt_count, p.project_count, round(p.relevance, 2))
            for p in (*failures, *gates)
        ] == PATTERNS
        found = await knowledge.kb.search("How long does the cart service wait for Postgres?")
        assert [(str(p.passage_id), p.text, round(p.relevance, 2)) for p in found.passages] == [PASSAGE]
        report = await knowledge.upkeep.verify()
        assert report.seals is not None
        # its rows are later than the test's clock, and some of before there were trials
        assert (report.wrong, report.seals.altered, report.seals.rows_missing) == ({}, (), 0)
        await work(knowledge, 1)


async def work(knowledge: Knowledge, number: int) -> EntryId:
    """Capture, embed, query, delete and prune; return the entry that is left."""
    gone = await knowledge.capture.capture(failure(failure_description=f"case {number} broke", run_id=f"gone {number}"))
    left = await knowledge.capture.capture(failure(failure_description="every case broke", run_id=f"left {number}"))
    await knowledge.checkpoints.process_all()
    await knowledge.capture.delete(gone)
    await knowledge.pruning.prune()
    assert await knowledge.queries.query_for_failure("every case broke", min_relevance=0)
    return left


@pytest.mark.long
async def test_g20_a_release_goes_on_while_the_next_one_migrates(
    database_url: str, knowledge: Knowledge, tmp_path: Path
) -> None:
    """G20: 0 errors on either side; this release knows nothing of the columns that are added under its statements."""
    left: list[EntryId] = []
    busy, migrated = asyncio.Event(), asyncio.Event()

    async def go_on() -> None:
        after = 0
        while after < 3:
            left.append(await work(knowledge, len(left)))
            busy.set()
            after += migrated.is_set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(go_on())
        await busy.wait()
        scripts = add_next_revision(tmp_path)
        engine = make_engine(database_url)
        assert await migrate(engine, scripts)
        await engine.dispose()
        migrated.set()
    assert {str((await knowledge.capture.get(entry_id)).status) for entry_id in left} == {"embedded"}
    assert (await knowledge.upkeep.verify()).sound
    (pattern,) = await knowledge.queries.query_for_failure("every case broke", min_relevance=0)
    assert pattern.success_count == len(left)
