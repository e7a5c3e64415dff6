"""Embeddings of passages, which workspaces shared, become those of each workspace that has the text (revision 0013)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.migrating import migrate
from tests.support.revisions import database_of

DOCUMENT = (
    "INSERT INTO kb_documents (id, workspace, partition, uri, name, content_hash, status, latest)"
    " VALUES ($1, $2, 'global_kb', 'a.md', 'a.md', '', 'pending', 1)"
)
VERSION = (
    "INSERT INTO kb_versions (document_id, generation, title, document_type, text, text_hash, lines)"
    " VALUES ($1, 1, 'a', 'text', 'a', '', 1)"
)
PASSAGE = (
    "INSERT INTO kb_chunks (id, document_id, generation, ordinal, kind, text, text_hash, char_start, char_end,"
    " line_start, line_end, terms) VALUES ($1, $2, 1, $3, 'chunk', 'a', $4, 0, 1, 1, 1, '{}')"
)
VECTOR = "INSERT INTO kb_vectors (space, text_hash, vector) VALUES ('s', $1, $2) ON CONFLICT DO NOTHING"
"""As the version before wrote it, which knows of no workspace here."""


@pytest.fixture
async def before(postgres_dsn: str) -> AsyncIterator[str]:
    """A database of revision 0012."""
    async with database_of(postgres_dsn, "0012") as dsn:
        yield dsn


async def test_each_workspace_keeps_the_embeddings_of_its_texts_and_nobody_those_of_none(before: str) -> None:
    old = await asyncpg.connect(before)
    for workspace, hashes in (("ours", (b"shared", b"ours")), ("theirs", (b"shared", b"shared", b"theirs"))):
        document_id = uuid4()
        await old.execute("INSERT INTO kb_partitions (workspace, partition) VALUES ($1, 'global_kb')", workspace)
        await old.execute(DOCUMENT, document_id, workspace)
        await old.execute(VERSION, document_id)
        for place, text_hash in enumerate(hashes):
            await old.execute(PASSAGE, uuid4(), document_id, place, text_hash)
            await old.execute(VECTOR, text_hash, text_hash + b"'s")
    await old.execute(VECTOR, b"nobody", b"x")
    engine = make_engine(before)
    assert await migrate(engine)
    await engine.dispose()
    kept = await old.fetch("SELECT workspace, text_hash, vector FROM kb_vectors ORDER BY workspace, text_hash")
    assert [tuple(row) for row in kept] == [
        ("ours", b"ours", b"ours's"),
        ("ours", b"shared", b"shared's"),
        ("theirs", b"shared", b"shared's"),
        ("theirs", b"theirs", b"theirs's"),
    ]
    await old.execute(VECTOR, b"later", b"y")  # that process goes on
    assert await old.fetchval("SELECT vector FROM kb_vectors WHERE space = 's' AND text_hash = $1", b"later") == b"y"
    await old.close()
