"""Moments of logs that have no end, which nothing could be read beside, are none any more (revision 0015)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.migrating import migrate
from tests.migrations.test_shared_embeddings import DOCUMENT, VERSION
from tests.support.revisions import database_of

LINE = "INSERT INTO kb_lines VALUES ($1, 1, $2, CAST($3::text AS timestamptz), NULL, '', '')"
PASSAGE = (
    "INSERT INTO kb_chunks (id, document_id, generation, ordinal, kind, text, text_hash, char_start, char_end,"
    " line_start, line_end, ts, until, terms) VALUES (gen_random_uuid(), $1, 1, $2, 'chunk', 'a', '', 0, 1, 1, 1,"
    " CAST($3::text AS timestamptz), CAST($4::text AS timestamptz), '{}')"
)
DAY = "2025-10-19 14:00:00+00"


@pytest.fixture
async def before(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of revision 0014."""
    async with database_of(postgres_dsn, "0014") as dsn:
        yield dsn


async def test_moments_without_an_end_are_none_and_others_stay(before: str) -> None:
    old = await asyncpg.connect(before)
    document_id = uuid4()
    await old.execute("SET TIME ZONE 'UTC'")
    await old.execute("INSERT INTO kb_partitions (workspace, partition) VALUES ('ours', 'global_kb')")
    await old.execute(DOCUMENT, document_id, "ours")
    await old.execute(VERSION, document_id)
    for place, when in enumerate(("-infinity", DAY, "infinity", None)):
        await old.execute(LINE, document_id, place, when)
    for place, ends in enumerate((("-infinity", DAY), (DAY, "infinity"), (DAY, DAY), (None, None))):
        await old.execute(PASSAGE, document_id, place, *ends)
    engine = make_engine(before)
    assert await migrate(engine)
    await engine.dispose()
    lines = await old.fetch("SELECT ts::text FROM kb_lines ORDER BY line")
    assert [row[0] for row in lines] == [None, DAY, None, None]
    passages = await old.fetch("SELECT ts::text, until::text FROM kb_chunks ORDER BY ordinal")
    assert [tuple(row) for row in passages] == [(None, DAY), (DAY, None), (DAY, DAY), (None, None)]
    await old.close()
