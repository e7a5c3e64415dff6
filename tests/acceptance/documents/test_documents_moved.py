"""Documents where a store is compared and changes its model, beside the jobs, and beside questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal
from uuid import uuid4

import pytest

from hardwon.models.documents import NewDocument, PassageId
from knowledge.models import Embeddings
from knowledge.text.bm25 import document_vector
from knowledge.wiring.open import Knowledge
from tests.acceptance.memory.test_changing_model import another, forget_old
from tests.conftest import Opens
from tests.support.documents import GUIDE, add, find, writable
from tests.support.embedders import HashingEmbedder
from tests.support.entries import failure, learn
from tests.support.faults import Trips, wired


@pytest.mark.long
async def test_g22_the_hourly_comparison_leaves_alone_what_a_change_of_model_is_filling(knowledge: Knowledge) -> None:
    """G22: a change takes hours, and the job that comes meanwhile took the new collection for one of no use."""
    await learn(knowledge, failure())
    await add(knowledge, "guide.md", GUIDE)
    found: list[int] = []

    async def compare() -> None:
        await knowledge.documents.upkeep.reconcile()

    async def ask() -> None:
        found.append(len((await find(knowledge, "ERR-4521")).passages))

    trips = Trips({"upkeep.switch:before:1": compare, "upkeep.switch:after:1": ask})
    assert (await wired(knowledge, trips).store_upkeep.reembed(another(), force=True)).switched
    assert found == [3]


@pytest.mark.long
async def test_g22_a_question_that_began_before_its_index_was_dropped_is_asked_again(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G22: to whoever asked, nothing was down."""
    async with opens(embedder=embedder) as knowledge:
        await add(knowledge, "guide.md", GUIDE)
        real = embedder.embed

        async def forget_meanwhile(texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
            embedded = await real(texts, kind)
            if kind == "query":
                await forget_old(knowledge, another())
            return embedded

        embedder.embed = forget_meanwhile  # type: ignore[method-assign]
        assert (await find(knowledge, "ERR-4521")).passages


@pytest.mark.long
async def test_g14_verify_looks_at_documents_too_and_a_second_repair_writes_nothing(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G14: whoever puts an old copy of the index back asks verify whether it fits, and means all of it."""
    async with opens(embedder=embedder) as knowledge:
        await learn(knowledge, failure())
        await add(knowledge, "guide.md", GUIDE)
        await add(knowledge, "other.md", GUIDE.replace(b"ERR-4521", b"ERR-9999"))
        room = await knowledge.documents.indexing.active_space()
        index = knowledge.documents.indexing.index
        points = await knowledge.documents.indexing.store.points(room.space, after=None, limit=100)
        stranger = replace(points[0][0], passage_id=PassageId(uuid4()), lexical=document_vector({1: 1}, 10.0))
        await index.delete(room.space, [points[0][0].passage_id, points[1][0].passage_id])
        await index.upsert(room.space, [stranger])

        found = await knowledge.upkeep.verify()
        assert (found.passages, found.passages_missing, found.passages_orphan) == (len(points), 2, 1)
        assert found.wrong == {"passages missing": 2, "passages orphan": 1}
        assert not found.sound
        texts = embedder.texts
        repaired = await knowledge.upkeep.verify(repair=True)
        assert (repaired.repaired, repaired.sound, embedder.texts) == (3, True, texts)
        again = await knowledge.upkeep.verify(repair=True)
        assert (again.sound, again.repaired, again.wrong) == (True, 0, {})
        assert await index.scan(room.space, knowledge.workspace, after=None, limit=100) == [
            point.passage_id for point, _ in points
        ]


@pytest.mark.long
async def test_g15_documents_that_a_killed_rebuild_left_out_come_back_with_the_next_that_are_added(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """G15: where no server runs, no job does, and questions were answered by what was left."""

    def die(_done: int, _total: int | None) -> None:
        raise ZeroDivisionError

    async with opens(embedder=embedder) as knowledge:
        await learn(knowledge, failure())
        await add(knowledge, "guide.md", GUIDE)
        with pytest.raises(ZeroDivisionError):
            await knowledge.store_upkeep.rebuild(progress=die)
        assert (await knowledge.upkeep.verify()).wrong == {"passages missing": 3}
        new = NewDocument(uri="tulips.md", content=b"# Tulips\n\nTulips are planted in autumn.\n")
        await knowledge.kb.add("global", None, new)
        await knowledge.kb.index()
        assert (await knowledge.upkeep.verify()).wrong == {}
        assert {passage.uri for passage in (await find(knowledge, "ERR-4521")).passages} >= {"guide.md"}


@pytest.mark.long
async def test_what_is_deleted_goes_from_the_index_without_waiting_for_what_is_to_be_indexed(
    opens: Opens, embedder: HashingEmbedder
) -> None:
    """One that was deleted beside a large sync was waited for until all of that was indexed."""
    async with opens(embedder=embedder) as knowledge:
        await learn(knowledge, failure())
        gone = await add(knowledge, "gone.md", GUIDE)
        await knowledge.kb.add("global", None, NewDocument(uri="waits.md", content=b"# Tulips\n\nIn autumn.\n"))
        assert await knowledge.kb.delete("global", None, [gone.document_id]) == 1
        texts = embedder.texts
        await knowledge.kb.remove_stale()
        room = await knowledge.documents.indexing.active_space()
        assert await knowledge.passages.count(room.space, knowledge.workspace) == 0
        assert [each.status for each in await knowledge.kb.list_documents("global", None)] == ["pending"]
        assert embedder.texts == texts


@pytest.mark.long
async def test_verify_beside_documents_that_come_and_go_reports_no_fault(knowledge: Knowledge) -> None:
    """G14: what waits to be removed from the index is known, and no fault."""
    await learn(knowledge, failure())
    gone = await add(knowledge, "gone.md", GUIDE)
    await knowledge.documents.library.delete(await writable(knowledge), [gone.document_id])
    assert (await knowledge.upkeep.verify()).wrong == {}, "hidden, and not removed yet"
    done = False

    async def come_and_go() -> None:
        nonlocal done
        for number in range(12):
            document = await add(knowledge, f"{number % 3}.md", GUIDE.replace(b"4521", str(number).encode()))
            if number % 2:
                await knowledge.documents.library.delete(await writable(knowledge), [document.document_id])
                await knowledge.documents.indexing.run()
        done = True

    working = asyncio.create_task(come_and_go())
    looks = 0
    while not done:
        assert (await knowledge.upkeep.verify()).wrong == {}
        looks += 1
    await working
    assert looks > 3
