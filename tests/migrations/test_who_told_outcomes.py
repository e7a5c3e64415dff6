"""Outcomes that are there are of no key, and so are those that the release before tells later (revision 0016)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.migrating import migrate
from tests.support.revisions import database_of

OUTCOME = (
    "INSERT INTO outcomes (id, workspace, context_id, pattern_id, project_id, task_id, run_id, worked, recorded_at)"
    " VALUES (gen_random_uuid(), 'default', $1, $2, 'p', $3, '', true, now())"
)


@pytest.fixture
async def before(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of revision 0015."""
    async with database_of(postgres_dsn, "0015") as dsn:
        yield dsn


async def test_outcomes_of_before_are_of_no_key(before: str) -> None:
    old = await asyncpg.connect(before)
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
    await old.execute(OUTCOME, context_id, pattern_id, "T-1")
    engine = make_engine(before)
    assert await migrate(engine)
    await engine.dispose()
    await old.execute(OUTCOME, context_id, pattern_id, "T-2")  # that process goes on
    told = await old.fetch("SELECT recorded_by, low_trust FROM outcomes")
    assert [tuple(row) for row in told] == [(None, False), (None, False)]
    await old.close()
