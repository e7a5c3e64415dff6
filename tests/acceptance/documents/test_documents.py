"""Documents from the file to the passage, on the real stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Literal

import pytest
import sqlalchemy as sa

from hardwon.errors import InvalidInput, NoAccess, NotFound
from hardwon.models.documents import Document, DocumentStatus, NewDocument
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.access import Permission, Principal
from knowledge.documents.ingestion import queue
from knowledge.documents.ingestion.queue import MAX_CONCURRENT_DOCUMENTS
from knowledge.documents.models import PassageHit, PassagePoint, Query
from knowledge.models import Embeddings
from knowledge.wiring.open import Knowledge
from orchestrator.cli.reports.answer_report import LocalAnswers
from tests.conftest import Opens
from tests.support.documents import ADMIN, GUIDE, add, find, put, readable, shown_points, writable
from tests.support.embedders import HashingEmbedder
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

ANN = Principal(name="ann")
SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.long
async def test_a_markdown_file_is_indexed_and_found_by_its_words(knowledge: Knowledge) -> None:
    """A0-70, A0-10, A2-27."""
    document = await add(knowledge, "guides/timeouts.md", GUIDE)
    assert document.status is DocumentStatus.INDEXED
    scope = await knowledge.documents.access.scope(ANN, "global")
    found = await knowledge.documents.search.search(Query(question="Where do I see ERR-4521?", k=2), scope)
    best = found.passages[0]
    assert best.section == "Database timeouts > Diagnosis"
    assert best.title == "Database Timeout Runbook"
    assert (best.category, best.tags) == ("runbooks", ("database", "timeout"))
    assert GUIDE.decode().splitlines()[(best.line_start or 0) - 1].startswith("## Diagnosis")
    assert GUIDE.decode()[best.char_start : best.char_end] == best.text
    assert await knowledge.documents.quotes.visible([best], scope) == {best.passage_id: best.text}


@pytest.mark.parametrize("kb", ["user", "case", "team"])
async def test_what_was_added_to_another_scope_is_not_found(knowledge: Knowledge, kb: str) -> None:
    """A0-34, A0-40, A2-28, T26."""
    await add(knowledge, "timeouts.md", GUIDE, kb, "one")
    for principal, base, scope_id in (
        (Principal(name="two"), "user", "two"),
        (ADMIN, kb, "two"),
        (ADMIN, "global", None),
    ):
        scope = await knowledge.documents.access.scope(principal, base, scope_id)
        found = await knowledge.documents.search.search(Query(question="ERR-4521"), scope)
        assert found.passages == ()
        assert found.empty_scope


async def test_each_base_has_its_partition_and_its_readers(knowledge: Knowledge) -> None:
    """A0-30, A0-34."""
    access = knowledge.documents.access
    named = {kb: (await access.scope(ADMIN, kb, "7" if kb != "global" else None)).partitions[0] for kb in access.bases}
    assert named == {"case": "case_7", "user": "user_7_kb", "team": "team_7_kb", "global": "global_kb"}
    for kb, scope_id in (("case", "7"), ("user", "bob"), ("team", "7")):
        with pytest.raises(PermissionError, match=f"No access to {kb} {scope_id}"):
            await access.scope(ANN, kb, scope_id)
    assert (await access.scope(ANN, "user", "ann")).partitions == ("user_ann_kb",)
    with pytest.raises(NoAccess):
        await access.scope(ANN, "global", permission=Permission.WRITE)
    with pytest.raises(InvalidInput, match="needs the id"):
        await access.scope(ADMIN, "case")
    for odd in ("../x", "a b", "", "a/b", "x" * 200, "-"):
        with pytest.raises(InvalidInput):
            await access.scope(ADMIN, "case", odd)


async def test_a_newer_version_replaces_the_one_before_under_the_same_id(knowledge: Knowledge) -> None:
    """A0-75, A4-27."""
    first = await add(knowledge, "timeouts.md", GUIDE)
    before = await knowledge.documents.quotes.versions(await readable(knowledge))
    changed = await put(knowledge, "timeouts.md", GUIDE.replace(b"ERR-4521", b"ERR-9000"))
    assert changed.document_id == first.document_id
    assert changed.waiting
    assert "ERR-4521" in (await find(knowledge, "ERR-4521 in the log")).passages[0].text, (
        "the old one is shown meanwhile"
    )
    assert (await knowledge.documents.indexing.run()).indexed == 1
    found = await find(knowledge, "ERR-4521 ERR-9000 log of the pool", k=20)
    assert any("ERR-9000" in passage.text for passage in found.passages)
    assert not any("ERR-4521" in passage.text for passage in found.passages)
    assert {passage.version for passage in found.passages} == {2}
    after = await knowledge.documents.quotes.versions(await readable(knowledge))
    assert after[0].version > before[0].version


async def test_what_did_not_change_is_not_read_or_embedded_again(opens: Opens, embedder: HashingEmbedder) -> None:
    """A4-23: the gates of content, text and embedding."""
    async with opens(embedder=embedder) as knowledge:
        await add(knowledge, "timeouts.md", GUIDE)
        embedded = embedder.texts
        added = await knowledge.documents.library.add(
            NewDocument(uri="timeouts.md", content=GUIDE), await writable(knowledge)
        )
        assert not added.changed
        assert (await knowledge.documents.indexing.run()).indexed == 0
        await put(knowledge, "timeouts.md", GUIDE + b"\nOne more sentence at the end of the last section.\n")
        await knowledge.documents.indexing.run()
        assert embedder.texts == embedded + 1, "only the section that changed"
        await add(knowledge, "timeouts.md", GUIDE, "user", "ann")
        assert embedder.texts == embedded + 1, "the same text in another base costs nothing"


async def test_a_deleted_document_is_hidden_at_once_and_leaves_nothing(knowledge: Knowledge) -> None:
    """A0-75, A0-33."""
    document = await add(knowledge, "timeouts.md", GUIDE)
    best = (await find(knowledge, "ERR-4521")).passages[0]
    scope = await writable(knowledge)
    assert await knowledge.documents.library.delete(scope, [document.document_id]) == 1
    found = await find(knowledge, "ERR-4521")
    assert found.passages == ()
    assert found.empty_scope
    assert await knowledge.documents.quotes.visible([best], scope) == {}
    with pytest.raises(NotFound):
        await knowledge.documents.library.documents.get("global_kb", document.document_id)
    await knowledge.documents.indexing.run()
    room = await knowledge.documents.indexing.active_space()
    assert await knowledge.passages.count(room.space, knowledge.workspace) == 0
    assert (await knowledge.documents.quotes.statistics(scope, [])).documents == 0
    again = await add(knowledge, "timeouts.md", GUIDE)
    assert again.document_id != document.document_id


async def test_a_case_that_is_kept_for_a_while_is_swept_when_that_is_over(opens: Opens) -> None:
    """A0-33, A0-74, X-22."""
    async with opens(case_retention_days=1) as knowledge:
        await add(knowledge, "a.md", GUIDE, "case", "42")
        assert await knowledge.kb.close_case("42") == 0
        assert (await find(knowledge, "ERR-4521", "case", "42")).passages
        assert await knowledge.documents.upkeep.sweep_cases() == 0
        await add(knowledge, "b.md", GUIDE, "case", "43")
        points = await shown_points(knowledge)
        await knowledge.documents.library.documents.close("case_43", keep_for=timedelta(microseconds=1))
        assert await knowledge.documents.upkeep.sweep_cases() == 1
        assert (await find(knowledge, "ERR-4521", "case", "43")).passages == ()
        assert (await find(knowledge, "ERR-4521", "case", "42")).passages
        room = await knowledge.documents.indexing.active_space()
        assert await knowledge.passages.count(room.space, knowledge.workspace) == points // 2


async def test_the_base_of_a_user_goes_with_the_user(knowledge: Knowledge) -> None:
    """A0-75, A0-33."""
    await add(knowledge, "a.md", GUIDE, "user", "ann")
    with pytest.raises(NoAccess):
        await knowledge.documents.for_principal(Principal(name="bob")).delete_user("ann")
    assert await knowledge.documents.for_principal(ANN).delete_user("ann") == 1
    assert (await find(knowledge, "ERR-4521", "user", "ann")).empty_scope


async def test_a_file_that_cannot_be_read_says_why_and_the_version_before_stays(knowledge: Knowledge) -> None:
    """A4-27."""
    await add(knowledge, "notes.txt", b"The pool has 40 connections.\n")
    failed = await put(knowledge, "notes.txt", b"\x00\x01\x02" * 100)
    assert failed.status is DocumentStatus.FAILED
    assert failed.error == "not a text file, and not a supported format"
    assert "40" in (await find(knowledge, "connections of the pool")).passages[0].text
    mended = await add(knowledge, "notes.txt", b"The pool has 41 connections.\n")
    assert mended.status is DocumentStatus.INDEXED
    assert mended.error is None


async def test_no_secret_of_a_document_is_stored_and_lines_stay_where_they_were(knowledge: Knowledge) -> None:
    """A0-73."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----"
    text = f"first\naws_access_key_id = {SECRET}\n{key}\nmail bob.miller@contoso-mail.com\nThe line after the key.\n"
    document = await add(knowledge, "notes.txt", text.encode(), "user", "ann")
    whole = await knowledge.documents.quotes.whole(await readable(knowledge, "user", "ann"), [document.document_id])
    assert SECRET not in whole[0].text
    assert "MIIEvQ" not in whole[0].text
    assert "bob.miller" not in whole[0].text
    assert whole[0].text.split("\n")[7] == text.split("\n")[7] == "The line after the key."


async def test_a_filter_that_leaves_nothing_is_dropped_and_the_trace_says_so(knowledge: Knowledge) -> None:
    """A0-80."""
    log = "\n".join(f"2025-10-19T14:{m:02}:00Z {'ERROR pool gone' if m == 30 else 'INFO fine'}" for m in range(60))
    await add(knowledge, "server.log", log.encode(), "case", "1")
    await add(knowledge, "other.txt", b"Nothing about any pool here, and no ERROR either.", "case", "1")
    kept = await find(knowledge, "CRITICAL or ERROR entries about the pool", "case", "1")
    assert {passage.name for passage in kept.passages} == {"server.log"}
    assert kept.trace[0].startswith("filter kept")
    dropped = await find(knowledge, "pool entries with severity FATAL", "case", "1")
    assert dropped.passages
    assert dropped.trace[0].startswith("filter dropped")
    named = await find(knowledge, "what does other.txt say of the pool?", "case", "1")
    assert {passage.name for passage in named.passages} == {"other.txt"}
    timed = await find(knowledge, "pool since 2030-01-01T00:00:00Z", "case", "1")
    assert timed.trace[0].startswith("filter dropped")


async def test_three_times_as_many_are_looked_at_and_ranked_by_sense_and_words(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A0-80: k x 3 candidates, 0.7 of relevance and 0.3 of words, the best k; the call is as it was before."""
    for number in range(9):
        words = " ".join(["pool", "exhausted", "tonight", "again"][: number % 4 + 1])
        await put(knowledge, f"{number}.md", f"# Note\n\nThe {words} {number}.\n".encode())
    await knowledge.documents.indexing.run()
    asked: list[int] = []
    search = knowledge.passages.search

    async def counting(*told: Any, limit: int, **more: Any) -> list[PassageHit]:
        asked.append(limit)
        return await search(*told, limit=limit, **more)

    monkeypatch.setattr(knowledge.passages, "search", counting)
    found = (await find(knowledge, "the pool is exhausted again", k=2)).passages
    assert (asked, len(found)) == ([6], 2)
    most = max(each.lexical or 0.0 for each in found)
    for each in found:
        assert each.score == pytest.approx(0.7 * each.relevance + 0.3 * (each.lexical or 0.0) / most)


async def test_pieces_that_touch_come_as_one_passage_with_the_text_of_the_document(knowledge: Knowledge) -> None:
    """A0-72, A0-11."""
    sentences = [f"Sentence number {n} tells that the pool of the database is exhausted again. " for n in range(200)]
    text = "".join(sentences)
    await add(knowledge, "long.txt", text.encode())
    found = await find(knowledge, "is the pool of the database exhausted?", k=3)
    for passage in found.passages:
        assert text[passage.char_start : passage.char_end] == passage.text
    spans = sorted((passage.char_start or 0, passage.char_end or 0) for passage in found.passages)
    assert all(one[1] < other[0] for one, other in pairwise(spans)), "nothing is shown twice"
    assert await knowledge.documents.quotes.visible(found.passages, await readable(knowledge)) == {
        passage.passage_id: passage.text for passage in found.passages
    }


@pytest.mark.long
async def test_the_index_is_written_again_from_postgres_without_embedding(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """X-07, F5."""
    async with opens(embedder=embedder) as knowledge:
        await add(knowledge, "timeouts.md", GUIDE)
        before = await find(knowledge, "ERR-4521")
        embedded = embedder.texts
        room = await knowledge.documents.indexing.active_space()
        await knowledge.passages.drop(room.space)
        put_right = await knowledge.documents.upkeep.reconcile()
        assert put_right.written == await shown_points(knowledge)
        assert embedder.texts == embedded
        after = await find(knowledge, "ERR-4521")
        assert [(p.passage_id, p.lexical) for p in before.passages] == [
            (p.passage_id, p.lexical) for p in after.passages
        ]
        assert (await knowledge.documents.upkeep.reconcile()).written == 0


async def point_of(knowledge: Knowledge, document: Document) -> PassagePoint:
    """Return the one point of a document as it is now."""
    room = await knowledge.documents.indexing.active_space()
    every = await knowledge.documents.indexing.store.points(room.space, after=None, limit=1000)
    (point,) = (point for point, _ in every if point.document_id == document.document_id)
    return point


@pytest.mark.own_stores
@pytest.mark.long
async def test_an_index_that_was_put_back_from_a_copy_is_written_again(opens: Opens) -> None:
    """G15: it holds as many points as there should be, those of versions before."""
    async with opens(embedder=LocalEmbedder()) as knowledge:
        answers, asked = LocalAnswers(knowledge), "When are tulips planted?"
        for number in range(300):  # more than are read at once
            await put(knowledge, f"{number}.md", b"# Note\n\nThe door is green.\n")
        copied = await point_of(knowledge, await add(knowledge, "tulips.md", b"# Tulips\n\nTulips are red.\n"))
        document = await add(knowledge, "tulips.md", b"# Tulips\n\nTulips are planted in autumn.\n")
        lost = await point_of(knowledge, document)
        room = await knowledge.documents.indexing.active_space()
        await knowledge.passages.delete(room.space, [lost.passage_id])
        await knowledge.passages.upsert(room.space, [copied])
        assert (await answers.ask_base("global", None, asked))["sources"] == []
        put_right = await knowledge.documents.upkeep.reconcile()
        assert (put_right.written, put_right.removed) == (1, 1)
        told = await answers.ask_base("global", None, asked)
        assert "planted in autumn" in told["answer"], "what was answered without it is not answered again"
        put_right = await knowledge.documents.upkeep.reconcile()
        assert (put_right.written, put_right.removed) == (0, 0)


class Meeting(HashingEmbedder):
    """An embedder whose calls wait for each other until so many are under way, where that is asked for."""

    at_once = most_at_once = 0
    expected = 1

    def expect(self, calls: int) -> None:
        """Have calls wait from now on until so many are under way."""
        self.expected, self.met = calls, asyncio.Event()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.expected > 1:
                if self.at_once == self.expected:
                    self.met.set()
                async with asyncio.timeout(30):
                    await self.met.wait()
            return await super().embed(texts, kind)
        finally:
            self.at_once -= 1


async def test_some_documents_are_embedded_while_others_are_written(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A0-70."""
    monkeypatch.setattr(queue, "BATCH_DOCUMENTS", 1)
    embedder = Meeting(dims=256, refuses="forbidden")
    async with opens(embedder=embedder) as knowledge:
        for number in range(12):
            text = "forbidden" if number == 5 else f"Tulip {number} is planted in autumn."
            await put(knowledge, f"{number}.txt", text.encode())
        assert (await knowledge.documents.indexing.run(most=1)).indexed == 1
        assert embedder.most_at_once == 1
        embedder.expect(MAX_CONCURRENT_DOCUMENTS)
        report = await knowledge.documents.indexing.run()
        assert (report.indexed, report.failed, report.postponed) == (10, 1, 0)
        assert embedder.most_at_once == MAX_CONCURRENT_DOCUMENTS
        assert (await knowledge.documents.quotes.counts(await readable(knowledge)))[0] == 11
        await put(knowledge, "late.txt", b"A late one.")
        embedder.unavailable = "It does not answer."
        assert (await knowledge.documents.indexing.run()).postponed == 1


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_document_whose_embeddings_another_version_kept_elsewhere_is_indexed_again(
    knowledge: Knowledge,
) -> None:
    document = await add(knowledge, "timeouts.md", GUIDE)
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.text("UPDATE kb_vectors SET workspace = ''"))
    assert (await knowledge.documents.upkeep.reconcile()).requeued == 1
    assert (await knowledge.documents.indexing.run()).indexed == 1
    assert (await find(knowledge, "how large is the pool?")).passages[0].document_id == document.document_id
    assert (await knowledge.documents.upkeep.reconcile()).requeued == 0
