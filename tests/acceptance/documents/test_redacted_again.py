"""A secret that was stored before there was a rule for it leaves both stores, wherever the process is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import Conflict
from hardwon.models.documents import NewDocument
from hardwon.models.maintenance import RedactionReport
from knowledge import EntryType, NewEntry
from knowledge.adapters.postgres.admin.stored_texts import PostgresStoredTexts
from knowledge.adapters.postgres.document_tables import answer_feedback, qa_events
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.models import AppliesWhen
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.acceptance.doors.test_secrets import HIDDEN, OTHER, TOKEN, stored
from tests.conftest import Opens
from tests.support.clients import http_of
from tests.support.documents import writable
from tests.support.embedders import HashingEmbedder

WRITING = ("rewrite", "rewrite_records", "replace", "upsert", "delete", "mark_embedded", "activate", "purge_vectors")
"""The calls after which a process is killed: whatever changes a store."""


def failure(text: str, **told: Any) -> NewEntry:
    given: dict[str, Any] = {
        "project_id": "web-shop",
        "agent_type": "backend",
        "solution_steps": f"renew {TOKEN}",
        "success_verified": True,
    }
    return NewEntry(entry_type=EntryType.FAILURE_SOLUTION, failure_description=text, **given | told)


async def store_secrets(opens: Opens) -> None:
    """Store secrets of entries in every status, of documents and records, as before there were rules for them."""
    async with opens(embedder=HashingEmbedder(dims=256), redaction=False) as knowledge:
        for number in range(6):
            await knowledge.capture.capture(failure(f"push {number} with {TOKEN} fails", task_id=f"T-{number}"))
        same = {"task_id": "twins", "solution_steps": "renew it"}
        for token in (TOKEN, OTHER):  # one entry, once the tokens are gone
            await knowledge.capture.capture(failure(f"pull with {token} fails", **same))
        await knowledge.capture.capture(failure("the build fails", solution_steps="restart it"))
        await knowledge.checkpoints.process_all()
        conditions = AppliesWhen(technology="git", error=f"bad {TOKEN}")
        await knowledge.capture.capture(failure(f"staged {TOKEN}", applies_when=conditions))
        await knowledge.capture.capture(failure(f"open {TOKEN}", solution_steps=None, success_verified=False))
        scope = await writable(knowledge)
        for name in ("guide", "other"):
            text = f"# Pushing {name}\n\nPush to the mirror with {TOKEN}.\n\n## Renewing\n\nRenew it in March.\n"
            await knowledge.documents.library.add(NewDocument(uri=f"{name}.md", content=text.encode()), scope)
        await knowledge.documents.library.add(NewDocument(uri="clean.md", content=b"# Clean\n\nNothing.\n"), scope)
        await knowledge.documents.indexing.run()
        async with knowledge.engine.begin() as connection:
            told = {"question": f"why is {TOKEN} refused", "steps": [{"text": TOKEN}]}
            new = {"workspace": knowledge.workspace, "id": sa.func.gen_random_uuid()}
            await connection.execute(sa.insert(qa_events).values(**new, name="asked", payload=told))
            new = {"workspace": knowledge.workspace, "answer_id": sa.func.gen_random_uuid(), "given_at": sa.func.now()}
            await connection.execute(sa.insert(answer_feedback).values(**new, up=False, comment=f"{TOKEN}!"))


async def check_clean(knowledge: Knowledge, home: Path, hashes: set[str]) -> None:
    """Check that no store has a secret or what it could be guessed from, and that both agree."""
    kept = await stored(knowledge)
    assert TOKEN not in kept
    assert OTHER not in kept
    assert HIDDEN in kept
    assert not [each for each in hashes if each in kept]
    assert await asyncio.to_thread(files_with_token, home) == []
    report = await knowledge.upkeep.verify()
    assert report.sound
    assert report.wrong == {}
    assert report.points
    assert report.passages


def files_with_token(home: Path) -> list[Path]:
    """Return the files of the index with a secret in them."""
    return [path for path in home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


async def patterns_of(knowledge: Knowledge) -> set[tuple[Any, Any]]:
    """Return the entries that are embedded, each with its pattern; the twin that is merged apart."""
    async with knowledge.engine.connect() as connection:
        query = sa.text(
            "SELECT id, pattern_id FROM knowledge_staging"
            " WHERE status = 'embedded' AND task_id IS DISTINCT FROM 'twins'"
        )
        return {(entry, pattern) for entry, pattern in await connection.execute(query)}


async def hashes_of(knowledge: Knowledge) -> set[str]:
    """Return the hashes of texts with a secret: of entries, and the keys of patterns founded with them."""
    async with knowledge.engine.connect() as connection:
        query = sa.text(
            "SELECT content_hash FROM knowledge_staging WHERE knowledge_staging::text LIKE '%ghp!_%' ESCAPE '!'"
            " UNION SELECT match_key FROM patterns WHERE founding_entry_id IN"
            " (SELECT id FROM knowledge_staging WHERE knowledge_staging::text LIKE '%ghp!_%' ESCAPE '!')"
        )
        return set((await connection.execute(query)).scalars())


@pytest.mark.long
async def test_what_was_stored_before_there_was_a_rule_leaves_both_stores(opens: Opens, home: Path) -> None:
    await store_secrets(opens)
    async with opens(embedder=HashingEmbedder(dims=256)) as knowledge:
        before = await stored(knowledge)
        hashes = await hashes_of(knowledge)
        patterns = await patterns_of(knowledge)
        tried = await knowledge.redaction.redact_again(dry_run=True)
        assert (tried.entries, tried.documents, tried.records) == (10, 2, 2)
        assert await stored(knowledge) == before
        steps: list[int] = []
        report = await knowledge.redaction.redact_again(progress=lambda done, _: steps.append(done))
        assert (report.entries, report.merged, report.documents, report.records) == (9, 1, 2, 2)
        assert report.embedded == 10
        assert report.kinds == tried.kinds
        assert report.kinds["github-token"] > 10
        assert steps
        await check_clean(knowledge, home, hashes)
        found = await knowledge.queries.query_for_failure(f"push 3 with {TOKEN} fails")
        assert HIDDEN in str(found)
        assert await patterns_of(knowledge) >= patterns, "entries stay in their patterns"
        kept = await stored(knowledge)
        assert "bad " not in kept.replace(HIDDEN, ""), "an expression with a secret in it matches something else"
        again = await knowledge.redaction.redact_again()
        assert again == RedactionReport()
        repeated = await knowledge.capture.capture_all(
            [
                failure(f"push 3 with {TOKEN} fails", task_id="T-3"),
                failure("the build fails", solution_steps="restart it"),
            ]
        )
        assert {answer.outcome for answer in repeated} == {"duplicate"}


@pytest.mark.long  # a process that was killed keeps its leases for a minute
async def test_killed_at_any_point_and_run_again_it_ends_the_same(
    opens: Opens, settings: KnowledgeSettings, home: Path
) -> None:
    await store_secrets(opens)
    async with opens(embedder=HashingEmbedder(dims=256)) as knowledge:
        hashes = await hashes_of(knowledge)
    random, killed = Random(46), 0
    for step in [1, 1, 2, random.randint(2, 5), random.randint(3, 8)]:
        killed += await asyncio.to_thread(run_and_kill, settings, step) == -signal.SIGKILL
    assert killed >= 3
    async with opens(embedder=HashingEmbedder(dims=256)) as knowledge:
        await knowledge.redaction.redact_again()
        await check_clean(knowledge, home, hashes)
        async with knowledge.engine.connect() as connection:
            query = sa.text("SELECT status, count(*) FROM knowledge_staging GROUP BY 1")
            assert {tuple(row) for row in await connection.execute(query)} == {("embedded", 9), ("open", 1)}
        assert await knowledge.redaction.redact_again() == RedactionReport()


@pytest.mark.long
async def test_a_mutant_that_leaves_entries_embedded_does_not_pass(
    opens: Opens, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_secrets(opens)

    async def leave_embedded(_: Any, connection: Any, redacted: Any, status: str) -> None:
        values = {**redacted.texts, "content_hash": redacted.content_hash}
        entries = knowledge_staging
        mine = entries.c.id == redacted.before.entry_id
        await connection.execute(sa.update(entries).where(mine).values(**values))

    monkeypatch.setattr(PostgresStoredTexts, "_update", leave_embedded)
    async with opens(embedder=HashingEmbedder(dims=256)) as knowledge:
        await knowledge.redaction.redact_again()
        with pytest.raises(AssertionError):
            await check_clean(knowledge, home, set())


async def test_with_redaction_off_it_is_refused(opens: Opens) -> None:
    async with opens(embedder=HashingEmbedder(dims=256), redaction=False) as knowledge:
        with pytest.raises(Conflict, match=r"^HARDWON_REDACTION is off"):
            await knowledge.redaction.redact_again()


@pytest.mark.long
async def test_over_http_the_report_is_the_same(opens: Opens) -> None:
    await store_secrets(opens)
    async with opens(embedder=HashingEmbedder(dims=256)) as knowledge, http_of(knowledge) as http:
        answered = await http.post("/v1/redactions", params={"dry_run": "true"})
        assert answered.status_code == 200, answered.text
        assert answered.json()["entries"] == 10
        assert answered.json()["kinds"].keys() == {"github-token"}
    assert hasattr(KnowledgeClient, "in_workspace")


def run_and_kill(settings: KnowledgeSettings, step: int) -> int:
    """Redact again in another process that is killed after its `step`-th write; return how it ended."""
    assert settings.database_url is not None
    given = [str(settings.home), settings.database_url.get_secret_value(), str(step)]
    child = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.documents.test_redacted_again", *given],
        check=False,
        capture_output=True,
        timeout=120,
    )
    assert child.returncode in {0, -signal.SIGKILL}, child.stderr.decode()[-2000:]
    return child.returncode


class Dying:
    """Stands for a store; the process is killed after one of its writes."""

    left = 0

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return the store's own, a write with what kills the process after it."""
        found = getattr(self._inner, name)
        return self._killing(found) if name in WRITING else found

    @staticmethod
    def _killing(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(*given: Any, **named: Any) -> Any:
            answer = await call(*given, **named)
            Dying.left -= 1
            if Dying.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return run


async def _redact_and_die(home: str, dsn: str, step: str) -> None:
    settings = KnowledgeSettings(home=Path(home), database_url=SecretStr(dsn), holdout=0)
    Dying.left = int(step)
    async with open_knowledge(settings, embedder=HashingEmbedder(dims=256)) as knowledge:
        service = knowledge.redaction
        stores = replace(
            knowledge.stores, index=Dying(knowledge.stores.index), patterns=Dying(knowledge.stores.patterns)
        )
        indexing = service.documents.indexing  # type: ignore[attr-defined]
        documents = replace(
            service.documents,  # type: ignore[type-var]
            store=Dying(service.documents.store),  # type: ignore[attr-defined]
            indexing=replace(indexing, store=Dying(indexing.store), index=Dying(indexing.index)),
        )
        await replace(
            service,
            stores=stores,
            texts=Dying(service.texts),
            checkpoints=replace(service.checkpoints, stores=stores),
            documents=documents,
        ).redact_again()


if __name__ == "__main__":
    asyncio.run(_redact_and_die(*sys.argv[1:]))
