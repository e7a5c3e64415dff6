"""Indexing beside what goes wrong with one document, and beside what else goes on with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, cast

import httpx
import pytest
import sqlalchemy as sa

from hardwon.errors import EmbedderRejected, EmbedderUnavailable, HardwonError, LocalOnly, TextRejected
from hardwon.models.documents import DocumentId, DocumentStatus, NewDocument
from knowledge.adapters.postgres.document_tables import kb_documents
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.documents.ingestion import queue as module
from knowledge.documents.ingestion.queue import BATCH_BYTES, MAX_ATTEMPTS, MAX_CONCURRENT_DOCUMENTS
from knowledge.documents.models import PassagePoint
from knowledge.documents.ports import ConvertedDocument, IndexedGeneration, IndexingStore, PassageIndex
from knowledge.models import Embeddings, EmbeddingSpace
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.routes.kb import stop_indexing
from tests.acceptance.documents.test_document_archive import points_of
from tests.conftest import Opens
from tests.support.documents import GUIDE, add, find, put, readable, shown_points
from tests.support.embedders import HashingEmbedder
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

TULIPS = b"# Tulips\n\nTulips are planted in autumn.\n"
OVER = timedelta(seconds=-1)
"""A lease that has run out, as that of a process that ended has after a while."""


class Around:
    """A part, something of which is done otherwise."""

    def __init__(self, part: Any, **otherwise: Callable[..., Awaitable[Any]]) -> None:
        self.part, self.otherwise = part, otherwise

    def __getattr__(self, name: str) -> Any:
        return self.otherwise.get(name) or getattr(self.part, name)


class Breaks:
    """A part that meets an error nobody thought of in one document."""

    async def summarise(self, title: str, text: str) -> str | None:
        """Break at the guide."""
        if "pool_size" in text:
            raise ZeroDivisionError(text)
        return None


@pytest.mark.long
async def test_a_document_that_ends_its_process_each_time_is_given_up(knowledge: Knowledge) -> None:
    indexing = knowledge.documents.indexing
    await put(knowledge, "guide.md", GUIDE)
    for _ in range(MAX_ATTEMPTS):
        assert await indexing.store.claim(limit=1, lease=OVER)
    assert await indexing.store.claim(limit=1, lease=OVER) == []
    (document,) = await knowledge.documents.library.list_documents(await readable(knowledge))
    assert document.status is DocumentStatus.FAILED
    assert document.error == "the process that indexed it ended or hung each of 5 times"
    assert await knowledge.kb.retry("global", None) == 1
    assert (await indexing.run()).indexed == 1


async def test_a_document_of_headings_alone_takes_no_more_room_than_a_long_one(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """15 MB of `# a` are 3,750,000 passages, each of which took some 6 kB of memory while it was indexed."""
    monkeypatch.setattr(module, "MAX_PASSAGES", 20)
    document = await add(knowledge, "many.md", b"# a\n" * 30)
    assert document.status is DocumentStatus.INDEXED
    assert document.notes == ("Only the first 20 passages are searched.",)
    assert len((await find(knowledge, "a", k=200)).passages) == 20
    document = await add(knowledge, "many.md", b"# a\n" * 20)
    assert document.notes == ()


class Reads:
    """A converter that reads the beginning of a file."""

    async def convert(self, uri: str, content: bytes) -> ConvertedDocument:
        return ConvertedDocument(
            text="# a\n" * 30, markdown=True, notes=("Only the first 3000 of 3001 pages are read.", f"Not {uri}.")
        )


async def test_what_is_noted_as_a_file_is_read_stays_a_note_of_it_however_often_it_is_indexed(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the rest of a long PDF is missing was told until it was indexed, and never after."""
    monkeypatch.setattr(module, "MAX_PASSAGES", 20)
    library = replace(knowledge.documents.library, converter=Reads())
    reading = replace(knowledge, documents=replace(knowledge.documents, library=library))
    document = await add(reading, "long.pdf", b"%PDF-1.4")
    read = ("Only the first 3000 of 3001 pages are read.", "Not long.pdf.")
    assert document.notes == (*read, "Only the first 20 passages are searched.")
    async with transaction(knowledge.engine) as connection:
        await connection.execute(sa.text("UPDATE kb_versions SET space = 'another'"))
    assert (await knowledge.documents.upkeep.reconcile()).requeued == 1
    monkeypatch.setattr(module, "MAX_PASSAGES", 40)
    assert (await knowledge.documents.indexing.run()).indexed == 1
    (document,) = await knowledge.documents.library.list_documents(await readable(knowledge))
    assert document.notes == read


async def test_a_document_is_not_given_up_while_it_is_held(knowledge: Knowledge) -> None:
    store = knowledge.documents.indexing.store
    await put(knowledge, "guide.md", GUIDE)
    for _ in range(MAX_ATTEMPTS - 1):
        await store.claim(limit=1, lease=OVER)
    (last,) = await store.claim(limit=1, lease=timedelta(minutes=1))
    assert await store.claim(limit=1, lease=OVER) == []
    assert await store.extend([last], timedelta(minutes=1))


async def an_hour_later(knowledge: Knowledge) -> None:
    """Have what was put off be due."""
    async with transaction(knowledge.engine) as connection:
        due = {"not_before": sa.func.now() - timedelta(hours=1)}
        await connection.execute(sa.update(kb_documents).where(kb_documents.c.not_before.is_not(None)).values(due))


@pytest.mark.long
async def test_an_outage_of_any_length_fails_no_document(opens: Opens) -> None:
    """G5."""
    embedder = HashingEmbedder(dims=256)
    async with opens(embedder=embedder) as knowledge:
        indexing = knowledge.documents.indexing
        await put(knowledge, "guide.md", GUIDE)
        embedder.unavailable = "the endpoint is away"
        for _ in range(2 * MAX_ATTEMPTS):
            assert (await indexing.run()).postponed == 1
            assert await indexing.store.claim(limit=1, lease=OVER) == [], "not at once"
            await an_hour_later(knowledge)
        assert await indexing.store.claim(limit=1, lease=OVER), "by a process that is killed"
        (document,) = await knowledge.documents.library.list_documents(await readable(knowledge))
        assert (document.status, document.error) == (DocumentStatus.PENDING, "the endpoint is away")
        embedder.unavailable = None
        assert (await indexing.run()).indexed == 1


class Refuses(HashingEmbedder):
    """An endpoint that refuses whatever the text while it is told why."""

    why: HardwonError | None = None

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        if self.why:
            raise self.why
        return await super().embed(texts, kind)


@pytest.mark.parametrize("why", [EmbedderRejected("the key is refused"), LocalOnly("default", "embedding")])
async def test_a_refusal_of_whatever_text_fails_no_document_and_ends_the_run(opens: Opens, why: HardwonError) -> None:
    """All that waited was noted as failed, one by one and for good, and no job came to it when the key was mended."""
    embedder = Refuses(dims=256)
    async with opens(embedder=embedder) as knowledge:
        for number in range(2 * MAX_CONCURRENT_DOCUMENTS):
            await put(knowledge, f"{number}.md", b"# Note %d\n" % number)
        embedder.why = why
        report = await knowledge.documents.indexing.run()
        assert (report.indexed, report.failed) == (0, 0)
        assert 1 <= report.postponed <= MAX_CONCURRENT_DOCUMENTS
        assert report.reason == str(why)
        documents = await knowledge.documents.library.list_documents(await readable(knowledge))
        assert {document.status for document in documents} == {DocumentStatus.PENDING}
        assert str(why) in {document.error for document in documents}
        embedder.why = None
        await an_hour_later(knowledge)
        assert (await knowledge.documents.indexing.run()).indexed == 2 * MAX_CONCURRENT_DOCUMENTS


class Chokes(HashingEmbedder):
    """An embedder that does not answer to one text."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        if any("Tulips" in text for text in texts):
            raise EmbedderUnavailable("no answer")
        return await super().embed(texts, kind)


async def test_a_document_that_is_put_off_each_time_stops_no_other(opens: Opens) -> None:
    async with opens(embedder=Chokes(dims=256)) as knowledge:
        await put(knowledge, "tulips.md", TULIPS)
        await knowledge.documents.indexing.run()
        for number in range(2 * MAX_CONCURRENT_DOCUMENTS):
            await put(knowledge, f"{number}.md", b"# Note %d\n" % number)
        await an_hour_later(knowledge)
        report = await knowledge.documents.indexing.run()
        assert (report.indexed, report.postponed) == (2 * MAX_CONCURRENT_DOCUMENTS, 1)


async def test_an_error_nobody_thought_of_is_noted_and_stops_no_other(knowledge: Knowledge) -> None:
    await put(knowledge, "guide.md", GUIDE)
    await put(knowledge, "tulips.md", TULIPS)
    report = await replace(knowledge.documents.indexing, summariser=Breaks()).run()
    assert (report.indexed, report.failed) == (1, 1)
    guide, _ = await knowledge.documents.library.list_documents(await readable(knowledge))
    assert guide.error == "ZeroDivisionError during indexing: a defect of hardwon"
    assert [passage.uri for passage in (await find(knowledge, "when are tulips planted?")).passages] == ["tulips.md"]


@pytest.mark.long
@pytest.mark.parametrize(("of", "read"), [("index", "scan"), ("store", "index_membership")])
@pytest.mark.parametrize("beside", ["before", "after"])
async def test_a_document_shown_while_the_index_is_compared_keeps_its_points(
    knowledge: Knowledge, of: str, read: str, beside: str
) -> None:
    """Whenever that is: before or after anything that is read of either."""
    await add(knowledge, "guide.md", GUIDE)
    await put(knowledge, "tulips.md", TULIPS)
    indexing, upkeep = knowledge.documents.indexing, knowledge.documents.upkeep
    shown: list[set[DocumentId]] = []

    async def activate(*told: Any) -> set[DocumentId]:
        async def show() -> None:
            if not shown:
                shown.append(await indexing.store.activate(*told))

        async def look(*asked: Any, **named: Any) -> Any:
            if beside == "before":
                await show()
            found = await getattr(part, read)(*asked, **named)
            await show()
            return found

        part = getattr(indexing, of)
        doing = replace(indexing, **{of: cast(Any, Around(part, **{read: look}))})
        await replace(upkeep, indexing=doing).reconcile()
        return shown[0]

    store = cast(IndexingStore, Around(indexing.store, activate=activate))
    assert (await replace(indexing, store=store).run()).indexed == 1
    assert [len(each) for each in shown] == [1]
    assert await points_of(knowledge)


@pytest.mark.long
@pytest.mark.parametrize("ends", ["deleted", "replaced"])
@pytest.mark.parametrize("before", ["write", "upsert", "activate"])
async def test_a_document_that_goes_while_it_is_indexed_leaves_no_points(
    knowledge: Knowledge, before: str, ends: str
) -> None:
    """T25: whatever was left of it was removed before they came."""
    document = await put(knowledge, "tulips.md", TULIPS)
    indexing = knowledge.documents.indexing
    part = indexing.index if before == "upsert" else indexing.store
    gone: list[int] = []

    async def meanwhile(*told: Any) -> Any:
        if not gone:
            if ends == "deleted":
                gone.append(await knowledge.kb.delete("global", None, [document.document_id]))
            else:
                gone.append((await put(knowledge, "tulips.md", GUIDE)).version)
            await indexing.remove_stale()
        return await getattr(part, before)(*told)

    around = cast(Any, Around(part, **{before: meanwhile}))
    await replace(indexing, **{"index" if before == "upsert" else "store": around}).run()
    assert gone
    assert len(await points_of(knowledge)) == (0 if ends == "deleted" else 3)


@pytest.mark.long
async def test_a_document_indexed_while_the_index_is_rebuilt_is_in_it(knowledge: Knowledge) -> None:
    """Its points were there before the collection was dropped, and it was shown after all others were put back."""
    await add(knowledge, "guide.md", GUIDE)
    await put(knowledge, "tulips.md", TULIPS)
    indexing = knowledge.documents.indexing

    async def upsert(space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        await indexing.index.upsert(space, points)
        await knowledge.store_upkeep.rebuild()

    index = cast(PassageIndex, Around(indexing.index, upsert=upsert))
    assert (await replace(indexing, index=index).run()).indexed == 1
    assert len(await points_of(knowledge)) > 1


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_document_sent_as_indexing_ends_is_indexed_at_once(knowledge: Knowledge) -> None:
    """Behind the last look for one that waits: no job is there to come to it for ten minutes."""
    indexing = knowledge.documents.indexing
    path = "/api/kb/global/-/documents"
    sent: list[httpx.Response] = []

    async def stale(limit: int) -> Any:
        if not sent:
            sent.append(await client.post(path, params={"uri": "tulips.md"}, content=TULIPS))
        return await indexing.store.stale(limit)

    store = cast(IndexingStore, Around(indexing.store, stale=stale))
    documents = replace(knowledge.documents, indexing=replace(indexing, store=store))
    app = make_app(replace(knowledge, documents=documents))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        await client.post(path, params={"uri": "guide.md"}, content=GUIDE)
        async with asyncio.timeout(30):
            await asyncio.gather(*app.state.indexing.values())
    assert [response.status_code for response in sent] == [200]
    listed = await knowledge.documents.library.list_documents(await readable(knowledge))
    assert [document.status for document in listed] == [DocumentStatus.INDEXED] * 2


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_server_that_stops_lets_go_of_the_document_it_is_at(knowledge: Knowledge) -> None:
    """G16: whoever comes next waits for no lease, and that it was begun does not count."""
    indexing, begun = knowledge.documents.indexing, asyncio.Event()

    class Slow:
        async def summarise(self, title: str, text: str) -> str | None:
            begun.set()
            await asyncio.Event().wait()
            return None

    documents = replace(knowledge.documents, indexing=replace(indexing, summariser=Slow()))
    app = make_app(replace(knowledge, documents=documents))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        for _ in range(MAX_ATTEMPTS):
            await client.post("/api/kb/global/-/documents", params={"uri": "guide.md"}, content=GUIDE)
            async with asyncio.timeout(30):
                await begun.wait()
            begun.clear()
            await stop_indexing(app)
            assert not await indexing.store.has_leases()
    assert (await indexing.run()).indexed == 1


class Quotes(HashingEmbedder):
    """Refuses the text of a document, and says which, as an endpoint may."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        """Refuse the guide."""
        if told := [text for text in texts if "pool_size" in text]:
            raise TextRejected(f"The endpoint refuses this text: flagged for {told[0]!r}.")
        return await super().embed(texts, kind)


async def test_t10_what_an_endpoint_says_of_a_document_is_told_to_its_readers_and_to_no_log(
    opens: Opens, caplog: pytest.LogCaptureFixture
) -> None:
    async with opens(embedder=Quotes(dims=256)) as knowledge:
        await put(knowledge, "guide.md", b"Where the pool is full, raise pool_size to 40.\n")
        report = await knowledge.documents.indexing.run()
        (document,) = await knowledge.documents.library.list_documents(await readable(knowledge))
    assert report.failed == 1
    assert document.error is not None
    assert "raise pool_size to 40" in document.error
    assert "document_not_indexed" in caplog.text
    assert "pool_size" not in caplog.text


class Unhurried(HashingEmbedder):
    """Takes long enough for a lease to be extended meanwhile."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        await asyncio.sleep(0.05)
        return await super().embed(texts, kind)


async def test_a_run_that_is_cancelled_as_it_lets_go_of_a_lease_begins_no_other_document(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver may take a while to leave a statement: a run that is told to end then went on to the last document."""
    monkeypatch.setattr(module, "BATCH_DOCUMENTS", 1)
    async with opens(embedder=Unhurried(dims=256)) as knowledge:
        for number in range(12):
            await put(knowledge, f"{number}.md", TULIPS + b"%d\n" % number)
        indexing = knowledge.documents.indexing
        leaving = asyncio.Event()

        async def claim(*, limit: int, lease: timedelta, only: object) -> Sequence[Any]:
            return await indexing.store.claim(limit=limit, lease=timedelta(minutes=1))

        async def extend(*_: Any) -> bool:
            try:
                await asyncio.Event().wait()
            finally:
                leaving.set()
                await asyncio.sleep(0.2)
            return True

        store = cast(IndexingStore, Around(indexing.store, claim=claim, extend=extend))
        running = asyncio.create_task(replace(indexing, store=store, lease=timedelta(milliseconds=30)).run())
        await leaving.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        documents = await knowledge.documents.library.list_documents(await readable(knowledge))
        assert sum(document.status is DocumentStatus.PENDING for document in documents) >= 12 - MAX_CONCURRENT_DOCUMENTS


BIG = "\n\n".join(f"The tulip number {at} of the long bed is watered by hand." for at in range(400)).encode()


async def test_partitions_take_turns_and_huge_documents_leave_room_for_others(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever added a thousand documents, or three huge ones, held up everybody else."""
    monkeypatch.setattr("knowledge.adapters.postgres.documents.indexing._IS_HUGE", kb_documents.c.uri.like("big%"))
    store = knowledge.documents.indexing.store

    async def taken() -> list[str]:
        return [job.uri for job in await store.claim(limit=1, lease=timedelta(minutes=1))]

    for number in range(3):
        await knowledge.kb.add("user", "ann", NewDocument(uri=f"big{number}.md", content=BIG))
    for number in range(2):
        await knowledge.kb.add("user", "ann", NewDocument(uri=f"long{number}.md", content=BIG))
    assert await taken() == ["big0.md"]
    for number in range(2):
        await knowledge.kb.add("user", "bob", NewDocument(uri=f"small{number}.md", content=TULIPS))
    assert await taken() == ["small0.md"]
    assert await taken() == ["big1.md"]
    assert await taken() == ["small1.md"]
    assert [await taken() for _ in range(3)] == [["long0.md"], ["long1.md"], []]  # and not the third of those


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_small_document_of_another_base_is_ready_before_a_big_one(opens: Opens) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    class Waits(HashingEmbedder):
        async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
            if any("long bed" in text for text in texts):
                began.set()
                await goes_on.wait()
            return await super().embed(texts, kind)

    async with opens(embedder=Waits()) as opened:
        await opened.kb.add("user", "ann", NewDocument(uri="big.md", content=BIG))
        everything = asyncio.create_task(opened.kb.index())
        await began.wait()
        small = await opened.kb.add("team", "keepers", NewDocument(uri="small.md", content=TULIPS))
        report = await asyncio.wait_for(opened.kb.index(documents=[small.document.document_id]), 30)
        assert not everything.done()
        (keepers,) = await opened.kb.list_documents("team", "keepers")
        (ann,) = await opened.kb.list_documents("user", "ann")
        assert (keepers.status, ann.status) == (DocumentStatus.INDEXED, DocumentStatus.PENDING)
        goes_on.set()
        assert (
            report.indexed + (await everything).indexed == 2
        )  # another worker of that run may have taken the small one


async def put_notes(knowledge: Knowledge, count: int = 6) -> list[DocumentId]:
    """Add small documents, which are indexed together."""
    added = [await put(knowledge, f"note{at}.md", b"# Note %d\n\nOf bed %d.\n" % (at, at)) for at in range(count)]
    return [document.document_id for document in added]


async def states(knowledge: Knowledge) -> dict[str, DocumentStatus]:
    listed = await knowledge.documents.library.list_documents(await readable(knowledge))
    return {document.uri: document.status for document in listed}


async def test_small_documents_are_embedded_and_shown_together(opens: Opens) -> None:
    """Alone each cost some fifty round trips to Postgres, and a call of the model."""
    embedder = HashingEmbedder(dims=256)
    async with opens(embedder=embedder) as knowledge:
        await put_notes(knowledge, 20)
        activated: list[int] = []

        async def activate(indexed: Sequence[IndexedGeneration], space: EmbeddingSpace) -> set[DocumentId]:
            activated.append(len(indexed))
            return await knowledge.documents.indexing.store.activate(indexed, space)

        store = cast(IndexingStore, Around(knowledge.documents.indexing.store, activate=activate))
        report = await replace(knowledge.documents.indexing, store=store).run()
        assert (report.indexed, embedder.calls, activated) == (20, 1, [20])
        assert (await find(knowledge, "of bed 17")).passages[0].uri == "note17.md"
        assert (await knowledge.documents.quotes.counts(await readable(knowledge)))[0] == 20


async def test_of_documents_indexed_together_the_one_that_is_refused_or_breaks_fails_alone(opens: Opens) -> None:
    async with opens(embedder=HashingEmbedder(dims=256, refuses="forbidden")) as knowledge:
        await put_notes(knowledge, 3)
        await put(knowledge, "guide.md", GUIDE)
        await put(knowledge, "refused.md", b"# All of it is forbidden\n")
        await put_notes(knowledge)
        report = await replace(knowledge.documents.indexing, summariser=Breaks()).run()
        assert (report.indexed, report.failed, report.postponed) == (6, 2, 0)
        failed = {uri for uri, state in (await states(knowledge)).items() if state is DocumentStatus.FAILED}
        assert failed == {"guide.md", "refused.md"}


async def test_an_outage_postpones_one_of_the_documents_indexed_together_and_gives_the_others_back(
    opens: Opens,
) -> None:
    embedder = HashingEmbedder(dims=256)
    async with opens(embedder=embedder) as knowledge:
        await put_notes(knowledge)
        embedder.unavailable = "the endpoint is away"
        assert (await knowledge.documents.indexing.run()).postponed == 1
        assert not await knowledge.documents.indexing.store.has_leases()
        embedder.unavailable = None
        assert (await knowledge.documents.indexing.run()).indexed == 5, "no attempt was counted, and none waits"


async def test_documents_whose_process_ended_are_claimed_one_by_one(knowledge: Knowledge) -> None:
    """One of them may be what ended it: the others are not given up with it."""
    store = knowledge.documents.indexing.store
    await put_notes(knowledge)
    assert len(await store.claim(limit=64, lease=OVER)) == 6
    for _ in range(MAX_ATTEMPTS - 1):
        (first,) = await store.claim(limit=64, lease=OVER)
        assert first.uri == "note0.md"
    report = await knowledge.documents.indexing.run()
    assert report.indexed == 5
    assert (await states(knowledge))["note0.md"] is DocumentStatus.FAILED


async def test_documents_claimed_together_are_of_one_base_and_small_together(knowledge: Knowledge) -> None:
    store = knowledge.documents.indexing.store
    for number in range(2):
        await knowledge.kb.add("user", "ann", NewDocument(uri=f"{number}.md", content=TULIPS))
        await knowledge.kb.add("user", "bob", NewDocument(uri=f"{number}.md", content=TULIPS))
    await knowledge.kb.add("user", "ann", NewDocument(uri="2.md", content=TULIPS * (BATCH_BYTES // len(TULIPS) + 1)))
    claimed = [await store.claim(limit=64, lease=timedelta(minutes=1)) for _ in range(4)]
    assert [[(job.partition[5:8], job.uri) for job in jobs] for jobs in claimed] == [
        [("ann", "0.md"), ("ann", "1.md")],
        [("bob", "0.md"), ("bob", "1.md")],
        [("ann", "2.md")],
        [],
    ]


@pytest.mark.parametrize("ends", ["deleted", "replaced"])
@pytest.mark.parametrize("before", ["write", "upsert", "activate"])
async def test_one_that_goes_leaves_those_indexed_with_it_whole(knowledge: Knowledge, before: str, ends: str) -> None:
    ids = await put_notes(knowledge)
    indexing = knowledge.documents.indexing
    part = indexing.index if before == "upsert" else indexing.store
    gone: list[int] = []

    async def meanwhile(*told: Any) -> Any:
        if not gone and ends == "deleted":
            gone.append(await knowledge.kb.delete("global", None, [ids[2]]))
        elif not gone:
            gone.append((await put(knowledge, "note2.md", TULIPS)).version)
        return await getattr(part, before)(*told)

    around = cast(Any, Around(part, **{before: meanwhile}))
    report = await replace(indexing, **{"index" if before == "upsert" else "store": around}).run()
    assert report.indexed == (5 if ends == "deleted" else 6)
    assert set((await states(knowledge)).values()) == {DocumentStatus.INDEXED}
    assert len(await points_of(knowledge)) == await shown_points(knowledge)
    passages = (await find(knowledge, "when are tulips planted?")).passages
    assert any("Tulips" in passage.text for passage in passages) is (ends == "replaced")
