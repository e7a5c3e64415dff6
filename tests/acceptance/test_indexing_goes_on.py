"""Indexing beside what goes wrong with one document, and beside what else goes on with all of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from knowledge.documents.indexing import TRIES
from knowledge.documents.models import DocumentStatus
from knowledge.wiring import Knowledge
from tests.support.documents import GUIDE, find, put, readable

TULIPS = b"# Tulips\n\nTulips are planted in autumn.\n"
OVER = timedelta(seconds=-1)
"""A lease that has run out, as that of a process that ended has after a while."""


class Breaks:
    """A part that meets an error nobody thought of in one document."""

    async def summarise(self, title: str, text: str) -> str | None:
        """Break at the guide."""
        if "pool_size" in text:
            raise ZeroDivisionError(text)
        return None


async def test_a_document_that_ends_its_process_each_time_is_given_up(knowledge: Knowledge) -> None:
    indexing = knowledge.documents.indexing
    await put(knowledge, "guide.md", GUIDE)
    for _ in range(TRIES):
        assert await indexing.store.claim(limit=1, lease=OVER)
    assert await indexing.store.claim(limit=1, lease=OVER) == []
    (document,) = await knowledge.documents.library.listed(await readable(knowledge))
    assert document.status is DocumentStatus.FAILED
    assert document.error == "the process that indexed it ended, or hung, each of 5 times"
    assert await knowledge.kb.retry("global", None) == 1
    assert (await indexing.run()).indexed == 1


async def test_a_document_is_not_given_up_while_it_is_held(knowledge: Knowledge) -> None:
    store = knowledge.documents.indexing.store
    await put(knowledge, "guide.md", GUIDE)
    for _ in range(TRIES - 1):
        await store.claim(limit=1, lease=OVER)
    (last,) = await store.claim(limit=1, lease=timedelta(minutes=1))
    assert await store.claim(limit=1, lease=OVER) == []
    assert await store.extend(last, timedelta(minutes=1))


async def test_an_error_nobody_thought_of_is_noted_and_stops_no_other(knowledge: Knowledge) -> None:
    await put(knowledge, "guide.md", GUIDE)
    await put(knowledge, "tulips.md", TULIPS)
    report = await replace(knowledge.documents.indexing, summariser=Breaks()).run()
    assert (report.indexed, report.failed) == (1, 1)
    guide, _ = await knowledge.documents.library.listed(await readable(knowledge))
    assert guide.error == "ZeroDivisionError while it was indexed: a defect of hardwon's"
    assert [passage.uri for passage in (await find(knowledge, "when are tulips planted?")).passages] == ["tulips.md"]
