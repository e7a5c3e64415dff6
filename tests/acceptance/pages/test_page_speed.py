"""Pages over a large store: how much the server computes for each, and how large the answers are."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from benchmarks.filling import fill
from knowledge.adapters.postgres.engine.database import autocommit, transaction
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.http.pages.rendering.environment import ASSETS, read_asset
from tests.support.clients import http_of
from tests.support.embedders import HashingEmbedder

PATTERNS = 10_000
ENTRIES_OF_EACH = 10
MAX_BYTES = 120_000
"""Of a first visit, with everything it loads."""
MAX_SECONDS = 0.15
PATHS = (
    "", "?days=90", "patterns", "patterns?sort=evidence", "patterns?sort=projects", "patterns?sort=problem",
    "patterns?technology=python", "patterns?q=an+import+fails", "waiting", "contexts", "health", "audit", "state",
)  # fmt: skip


@pytest.fixture
async def large(settings: KnowledgeSettings) -> AsyncIterator[Knowledge]:
    """A store of 10,000 patterns with 100,000 entries: those of each pattern but one are copies of its first."""
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=64)) as opened:
        await fill(opened, PATTERNS)
        own = {"id": "gen_random_uuid()", "task_id": "'T-' || n || left(id::text, 8)", "run_id": "n::text"}
        own["idempotency_key"] = "NULL"
        names = [column.name for column in knowledge_staging.c if column.computed is None]
        copied = ", ".join(own.get(name, f'"{name}"') for name in names)
        listed = ", ".join(f'"{name}"' for name in names)
        copy = (
            f"INSERT INTO knowledge_staging ({listed}) SELECT {copied} FROM knowledge_staging, generate_series(2, :n) n"
        )
        async with transaction(opened.engine) as connection:
            await connection.execute(sa.text(copy), {"n": ENTRIES_OF_EACH})
        async with autocommit(opened.engine) as connection:
            await connection.execute(sa.text("VACUUM ANALYZE"))
        yield opened


@pytest.mark.long
@pytest.mark.harness
async def test_each_page_of_a_large_store_is_computed_in_time_and_is_small(large: Knowledge, tmp_path: Path) -> None:
    assets = sum(len(read_asset(name)) for name in ASSETS)
    (pattern,) = await large.lists.patterns(limit=1)
    async with http_of(large) as client:
        for path in (*PATHS, f"patterns/{pattern.pattern_id}", f"entries/{pattern.entry_ids[0]}"):
            answer, seconds = await _get(client, f"/w/{large.workspace}/{path}")
            assert answer.status_code == 200, path
            assert len(answer.content) + assets <= MAX_BYTES, (path, len(answer.content), assets)
            assert seconds <= MAX_SECONDS, (path, seconds)


async def _get(client: httpx.AsyncClient, path: str) -> tuple[httpx.Response, float]:
    """Return an answer, and the CPU time that this process took for it, the least of three."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        answer = await client.get(path)
        spent.append(time.process_time() - began)
    return answer, min(spent)
