"""Events and escalations of answers through the client: page by page, as the routes give them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.answers import EscalationId, Event, EventId
from hardwon.paging import PAGE_SIZE
from knowledge.documents.journal import NewEscalation
from knowledge.wiring.open import Knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app


class Counted(httpx.ASGITransport):
    """A transport that counts requests."""

    requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return await super().handle_async_request(request)


@pytest.fixture
def transport(knowledge: Knowledge) -> Counted:
    return Counted(app=make_app(knowledge))


@pytest.fixture
async def remote(transport: Counted, knowledge: Knowledge) -> AsyncIterator[KnowledgeClient]:
    async with KnowledgeClient("http://hardwon", transport=transport, settings=knowledge.settings) as client:
        yield client


@pytest.mark.long
async def test_events_come_page_by_page_and_all_of_them(
    remote: KnowledgeClient, knowledge: Knowledge, transport: Counted
) -> None:
    journal, now = knowledge.answering.journal, knowledge.answering.clock.now()
    for number in range(PAGE_SIZE + 5):
        at = now - timedelta(seconds=number)
        name = "asked" if number % 2 else "answered"
        await journal.record(Event(event_id=EventId(uuid4()), name=name, happened_at=at, session="s", payload={}))
    ours = await journal.events(limit=PAGE_SIZE + 5)
    assert await remote.journal.events(limit=None) == ours
    assert transport.requests == 2
    assert await remote.journal.events() == ours[:100]
    assert await remote.journal.events(limit=3, after=ours[9].event_id) == ours[10:13]
    asked = [each for each in ours if each.name == "asked"]
    assert await remote.journal.events(name="asked", session="s", limit=2) == asked[:2]
    assert await remote.journal.events(session="another") == []
    with pytest.raises(NotFound):
        await remote.journal.events(after=EventId(uuid4()))
    await remote.journal.review(ours[0].event_id)
    assert [each.reviewed for each in await remote.journal.events(limit=2)] == [True, False]


@pytest.mark.parametrize("told", ["", "..", "x/y", "../../v1/prune", 5, None])
async def test_what_is_no_id_is_refused_before_it_is_part_of_an_address(
    remote: KnowledgeClient, transport: Counted, told: Any
) -> None:
    """`revoke("../prune")` was asked of another route than the one that is named."""
    for call in (
        remote.journal.review,
        remote.journal.close,
        lambda answer: remote.journal.feedback(answer, up=True),
        remote.keys.revoke,
        remote.keys.rotate,
    ):
        with pytest.raises(InvalidInput):
            await call(told)
    assert transport.requests == 0


async def test_escalations_come_page_by_page_and_are_closed(remote: KnowledgeClient, knowledge: Knowledge) -> None:
    journal, now = knowledge.answering.journal, knowledge.answering.clock.now()
    for number in range(7):
        question = f"how is number {number} done?"
        new = NewEscalation(question=question, transcript=(), passage_ids=(), suggested_fix="write it down")
        await journal.escalate(new, now)
    ours = await journal.escalations(now)
    assert len(ours) == 7
    assert await remote.journal.escalations() == ours
    assert await remote.journal.escalations(limit=2, after=ours[2].escalation_id) == ours[3:5]
    assert await remote.journal.escalations(overdue=True) == []
    await remote.journal.close(ours[0].escalation_id)
    assert await remote.journal.escalations(limit=None) == ours[1:]
    with pytest.raises(NotFound):
        await remote.journal.close(EscalationId(uuid4()))
