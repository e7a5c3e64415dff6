"""Long documents are summarised where a chat model is set; a summary leads to its document and is never quoted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from hardwon.errors import ChatUnavailable
from hardwon.models.documents import PassageKind
from knowledge.documents.ingestion.service import MAX_CONCURRENT, MapReduceSummaries, pieces
from knowledge.ports import ChatModel
from knowledge.wiring.open import Knowledge
from tests.support.documents import find, put, readable
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

LONG = "".join(f"Paragraph {n} is about gardens, paths and walls of the estate.\n\n" for n in range(1200))


class Counting(ChatModel):
    """A model that tells of tulips, and counts who asks it at the same time."""

    def __init__(self, *, away: bool = False) -> None:
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.away = away

    @property
    def model(self) -> str:
        return "counting"

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        if self.away:
            raise ChatUnavailable("away")
        self.asked.append(text)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return f"Summary {len(self.asked)} tells of zebratulips."

    async def aclose(self) -> None:
        return


def summarising(knowledge: Knowledge, chat: Counting, *, allowed: bool = True) -> Knowledge:
    async def may() -> bool:
        return allowed

    summaries = MapReduceSummaries(open_chat=lambda: chat, allowed=may)
    indexing = replace(knowledge.documents.indexing, summariser=summaries)
    return replace(knowledge, documents=replace(knowledge.documents, indexing=indexing))


@pytest.mark.long
async def test_a_long_document_is_summarised_in_pieces_and_found_by_its_summary(
    knowledge: Knowledge,
) -> None:
    """A0-71: 4,000-token pieces, 200 overlap, at most five at a time, one summary."""
    *full, last = pieces(LONG)
    assert {len(piece) for piece in full} == {4000 * 4}
    assert len(last) <= 4000 * 4
    assert len(pieces(LONG)) > MAX_CONCURRENT == 5
    assert all(one[-800:] == other[:800] for one, other in pairwise(pieces(LONG)))
    chat = Counting()
    opened = summarising(knowledge, chat)
    await put(opened, "estate.txt", LONG.encode())
    assert (await opened.documents.indexing.run()).indexed == 1
    assert len(chat.asked) == len(pieces(LONG)) + 1
    assert chat.most_at_once == MAX_CONCURRENT
    best = (await find(opened, "where are zebratulips?")).passages[0]
    assert (best.kind, best.name, best.quotable) == (PassageKind.SUMMARY, "estate.txt", False)
    assert await opened.documents.quotes.visible([best], await readable(opened)) == {}


async def test_only_a_document_of_more_than_8000_tokens_is_summarised() -> None:
    """A0-71: four characters are counted as a token."""

    async def allowed() -> bool:
        return True

    summaries = MapReduceSummaries(open_chat=Counting, allowed=allowed)
    assert await summaries.summarise("estate", "x" * 8000 * 4) is None
    assert await summaries.summarise("estate", "x" * (8000 * 4 + 1)) is not None


@pytest.mark.parametrize(
    ("away", "allowed", "text"), [(True, True, LONG), (False, False, LONG), (False, True, "short")]
)
async def test_a_document_is_indexed_without_a_summary_where_none_is_to_be_had(
    knowledge: Knowledge, *, away: bool, allowed: bool, text: str
) -> None:
    """A0-71: the model is away, the workspace is local only, the text is short."""
    chat = Counting(away=away)
    opened = summarising(knowledge, chat, allowed=allowed)
    await put(opened, "estate.txt", text.encode())
    assert (await opened.documents.indexing.run()).indexed == 1
    assert chat.asked == []


async def test_no_piece_is_asked_about_once_one_failed() -> None:
    """Each is paid for; the rest went on, of a model that was closed by then."""

    class Failing(Counting):
        async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
            told = await super().answer(instructions, text, as_json=as_json)
            if len(self.asked) > 1:
                raise ChatUnavailable("away")
            return told

    chat = Failing()

    async def allowed() -> bool:
        return True

    assert await MapReduceSummaries(open_chat=lambda: chat, allowed=allowed).summarise("estate", 5 * LONG) is None
    asked = len(chat.asked)
    await asyncio.sleep(0.05)
    assert len(chat.asked) == asked <= 2 * MAX_CONCURRENT < len(pieces(5 * LONG))
