"""Keys that were rotated, and what they told, are of the first one of them from revision 0020 on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.keys import PostgresKeys
from knowledge.adapters.postgres.migrating import migrate
from tests.support.revisions import database_of

KEY = (
    "INSERT INTO api_keys (id, scopes, secret_hash, pepper, created_at, replaced_by)"
    " VALUES ($1, '{capture}', decode(repeat('00', 32), 'hex'), 'ours', now(), $2)"
)
ENTRY = (
    "INSERT INTO knowledge_staging (id, workspace, project_id, entry_type, agent_type, failure_description,"
    " content_hash, timestamp, status, captured_by, resolved_by, agent_key, low_trust)"
    " VALUES (gen_random_uuid(), 'default', 'p', 'failure_solution', 'backend', 'It broke', $1, now(), 'open',"
    " $2, $3, $4, $5)"
)
OUTCOME = (
    "INSERT INTO outcomes (id, workspace, context_id, pattern_id, project_id, task_id, run_id, worked, recorded_at,"
    " recorded_by, low_trust) VALUES (gen_random_uuid(), 'default', $1, $2, 'p', $3, '', true, now(), $3, $4)"
)


@pytest.fixture
async def before(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of revision 0019."""
    async with database_of(postgres_dsn, "0019") as dsn:
        yield dsn


async def test_what_is_there_follows_the_rotations_that_are_on_record(before: str) -> None:
    old = await asyncpg.connect(before)
    for made in (("k1", "k2"), ("k2", "k3"), ("k3", None), ("other", None)):
        await old.execute(KEY, *made)
    await old.execute("INSERT INTO projects VALUES ('default', 'p')")
    told = {
        "by the first": ("k1", None, "k1", True),
        "by a later one": ("k3", None, "k3", True),
        "of a version before": ("k2", None, None, True),
        "resolved": ("other", "k3", "k3", True),
        "by another": ("other", None, "other", True),
        "by who is trusted": ("k3", None, None, False),
    }
    for name, by in told.items():
        await old.execute(ENTRY, name, *by)
    context_id, pattern_id = uuid4(), uuid4()
    await old.execute(
        "INSERT INTO contexts (id, workspace, pattern_ids, created_at) VALUES ($1, 'default', $2, now())",
        context_id,
        [pattern_id],
    )
    await old.execute(
        "INSERT INTO patterns (id, workspace, entry_type, match_key, founding_entry_id, founded_at)"
        " VALUES ($1, 'default', 'failure_solution', 'a', gen_random_uuid(), now())",
        pattern_id,
    )
    for recorded_by in (("k3", True), ("k2", False)):
        await old.execute(OUTCOME, context_id, pattern_id, *recorded_by)
    engine = make_engine(before)
    assert await migrate(engine)
    keys = await old.fetch("SELECT id, first_key FROM api_keys ORDER BY id")
    assert [tuple(row) for row in keys] == [("k1", None), ("k2", "k1"), ("k3", "k1"), ("other", None)]
    assert await PostgresKeys(engine).chain("k2") == ("k1", "k2", "k3")
    entries = await old.fetch("SELECT content_hash, agent_key FROM knowledge_staging")
    assert dict(map(tuple, entries)) == {
        "by the first": "k1",
        "by a later one": "k1",
        "of a version before": "k1",
        "resolved": "k1",
        "by another": "other",
        "by who is trusted": None,
    }
    outcomes = await old.fetch("SELECT task_id, recorded_by FROM outcomes")
    assert dict(map(tuple, outcomes)) == {"k3": "k1", "k2": "k2"}
    await old.execute(KEY, "k4", None)  # that process goes on
    await engine.dispose()
    await old.close()
