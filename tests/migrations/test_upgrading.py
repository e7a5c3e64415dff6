"""The policy of docs/upgrading.md: a store of each revision since the baseline opens, and answers as it did then."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import StoreIncompatible
from knowledge.adapters.postgres.engine.database import make_engine, transaction
from knowledge.adapters.postgres.engine.migrate import alembic_config, head_revision, migrate
from knowledge.memory.maintenance import archive_format
from knowledge.wiring.stores import migration_scripts
from tests.conftest import Opens
from tests.faults.test_upgrade import PASSAGE, PATTERNS, STORE, work
from tests.migrations.test_schema import catalog
from tests.support.cases import over
from tests.support.embedders import HashingEmbedder

POLICY = (Path(__file__).resolve().parents[2] / "docs" / "upgrading.md").read_text(encoding="utf-8")
SCRIPTS = ScriptDirectory.from_config(alembic_config(migration_scripts()))
REVISIONS = sorted(script.revision for script in SCRIPTS.walk_revisions())
BASELINE, *LATER = REVISIONS
REASONS_NOW = "0029"
"""The revision that gave the reasons of contexts their names of today."""
ROWS_OF_THEN = """
    INSERT INTO knowledge_staging (id, workspace, project_id, entry_type, agent_type, failure_description,
        solution_steps, success_verified, verified_by, task_id, run_id, content_hash, "timestamp", status, attempts,
        point_ids, low_trust)
    SELECT gen_random_uuid(), workspace, project_id, entry_type, agent_type, 'The mail queue is full after a restart',
        'Drain it before the restart', true, 'pytest', 'T-40', '1', repeat('0', 64), "timestamp", 'staged', 0, '{}',
        low_trust
    FROM knowledge_staging WHERE status = 'embedded' AND entry_type = 'failure_solution' LIMIT 1
"""
"""An entry that was staged when the store was last open."""


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """The database of the test, without a schema."""
    engine = make_engine(database_url)
    async with transaction(engine) as connection:
        await connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        await connection.execute(sa.text("CREATE SCHEMA public"))
    yield engine
    await engine.dispose()


async def upgrade(engine: AsyncEngine, revision: str) -> None:
    """Migrate to a revision, by the scripts that made it then."""

    def run(connection: sa.Connection) -> None:
        config = alembic_config(migration_scripts())
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    async with transaction(engine) as connection:
        await connection.run_sync(run)


async def make_store(engine: AsyncEngine, revision: str) -> None:
    """Make the store of a revision: the rows of the baseline, migrated, and rows that were written at the revision."""
    await upgrade(engine, BASELINE)
    async with transaction(engine) as connection:
        for statement in re.split(r";\n(?=INSERT)", STORE.read_text(encoding="utf-8").strip().removesuffix(";")):
            await connection.exec_driver_sql(statement)
    await upgrade(engine, revision)
    async with transaction(engine) as connection:
        await connection.execute(sa.text(ROWS_OF_THEN))
        if BASELINE < revision < REASONS_NOW:
            await connection.execute(sa.text("UPDATE contexts SET reason = 'shown'"))


@pytest.mark.long
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_store_of_each_revision_opens_answers_as_then_and_goes_on(
    engine: AsyncEngine, opens: Opens, revision: str
) -> None:
    await make_store(engine, revision)
    async with opens(embedder=HashingEmbedder(dims=32)) as knowledge:
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
        assert (await knowledge.checkpoints.process_all()).embedded == 1, "what was staged then"
        (best, *_) = await knowledge.queries.query_for_failure("The mail queue is full", min_relevance=0)
        assert best.solution == "Drain it before the restart"
        assert {str(each.reason) for each in await knowledge.contexts.list()} <= {"spoke", "None"}
        assert (await knowledge.upkeep.verify()).sound
        await work(knowledge, 1)


@pytest.mark.long
async def test_the_steps_of_the_revisions_lead_to_the_schema_of_one_migration(engine: AsyncEngine) -> None:
    for revision in REVISIONS:
        await upgrade(engine, revision)
    await migrate(engine, migration_scripts())
    stepped = await catalog(engine)
    async with transaction(engine) as connection:
        await connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        await connection.execute(sa.text("CREATE SCHEMA public"))
    await migrate(engine, migration_scripts())
    assert await catalog(engine) == stepped


async def test_a_store_from_before_the_baseline_names_the_commit_that_opens_it(engine: AsyncEngine) -> None:
    await upgrade(engine, BASELINE)
    async with transaction(engine) as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '0025'"))
    (commit,) = re.findall(r"commit `([0-9a-f]{7})`", POLICY)
    with pytest.raises(StoreIncompatible, match=f"too old for this hardwon: open it once with commit {commit}"):
        await migrate(engine, migration_scripts())


def test_the_policy_names_the_first_revision_that_opens_and_the_format_of_archives() -> None:
    assert re.findall(r"revision (\d{4})", POLICY) == [BASELINE]
    assert re.findall(r"format version (\d+)", POLICY) == [str(archive_format.VERSION)]
    assert head_revision(migration_scripts()) == REVISIONS[-1]


@over("revision", LATER)
def test_a_revision_after_the_baseline_takes_nothing_away(revision: str) -> None:
    """The version before goes on with the new schema: nothing that it reads or writes may go or be renamed."""
    script = Path(SCRIPTS.get_revision(revision).path)
    texts = [path.read_text(encoding="utf-8") for path in (script, script.with_suffix(".sql")) if path.exists()]
    gone = re.compile(r"\bDROP\s+(TABLE|COLUMN|FUNCTION)\b|\bRENAME\b|\bALTER\s+COLUMN\s+\w+\s+(SET\s+NOT|TYPE)\b")
    assert [found[0] for text in texts for found in gone.finditer(text)] == []
