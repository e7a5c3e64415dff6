"""Documents get the hashes of their texts, and of those that the release before writes later (revision 0014)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.migrating import migrate
from tests.support.revisions import database_of

DOCUMENT = (
    "INSERT INTO kb_documents (id, workspace, partition, uri, name, content_hash, status, latest)"
    " VALUES ($1, 'default', 'global_kb', 'a.md', 'a.md', '', 'pending', 1)"
)
VERSION = (
    "INSERT INTO kb_versions (document_id, generation, title, document_type, text, text_hash, lines)"
    " VALUES ($1, $2, 'a', 'text', 'a', $3, 1)"
)
"""As the version before wrote it, which knows of no hashes beside these."""


@pytest.fixture
async def before(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of revision 0013."""
    async with database_of(postgres_dsn, "0013") as dsn:
        yield dsn


async def test_the_hashes_of_texts_that_are_there_and_that_come_are_kept_when_the_texts_go(before: str) -> None:
    old = await asyncpg.connect(before)
    document_id = uuid4()
    await old.execute("INSERT INTO kb_partitions (workspace, partition) VALUES ('default', 'global_kb')")
    await old.execute(DOCUMENT, document_id)
    for generation in (1, 2):
        await old.execute(VERSION, document_id, generation, f"hash {generation}")
    engine = make_engine(before)
    assert await migrate(engine)
    await engine.dispose()
    await old.execute(VERSION, document_id, 3, "hash 3")  # that process goes on
    await old.execute("DELETE FROM kb_versions WHERE generation < 3")
    kept = "SELECT text_hashes FROM kb_documents WHERE id = $1"
    wanted = {"1": "hash 1", "2": "hash 2", "3": "hash 3"}
    assert json.loads(await old.fetchval(kept, document_id)) == wanted
    await old.execute(VERSION, document_id, 1002, "hash 1002")
    del wanted["2"]
    assert json.loads(await old.fetchval(kept, document_id)) == wanted | {"1002": "hash 1002"}
    await old.close()
