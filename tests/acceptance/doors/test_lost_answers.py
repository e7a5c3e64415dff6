"""What was done, and its owner died before it said so: the client asks the next owner, and is told what is so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from hardwon.errors import NotFound, OwnerUnavailable
from hardwon.models.documents import NewSource
from hardwon.owner.environment import OwnerSettings
from hardwon.owner.launch import OwnerLink
from hardwon.owner.requests import OwnerTransport
from knowledge.documents.journal import NewEscalation
from knowledge.models import EntryId, EntryStatus
from knowledge.wiring.open import Knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app
from tests.acceptance.memory.test_consolidating import pattern_of, told
from tests.acceptance.memory.test_review import AGENT, POISON
from tests.conftest import Opens
from tests.support.entries import failure

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
Call = Callable[[KnowledgeClient], Awaitable[Any]]


class Owners(OwnerLink):
    """An owner that does what it is asked and is killed before it answers, and the one that comes after it."""

    def __init__(self, home: Path) -> None:
        super().__init__(OwnerSettings(home=home, environment={}, version="1"))
        self.killed, self.next = str(home / "killed.sock"), str(home / "next.sock")
        self.socket = self.killed

    async def find(self, left: str | None = None) -> None:
        """Go to the next owner."""
        assert left == self.killed
        self.socket = self.next


class Lost:
    """Calls of a client, each of which is done by an owner that never answers."""

    def __init__(self, knowledge: Knowledge, home: Path) -> None:
        self._app = httpx.ASGITransport(app=make_app(knowledge), raise_app_exceptions=False)
        self._home = home
        self.said = b""
        """What the first owner says before it is killed."""

    async def __call__(self, call: Call) -> Any:
        """Return what the call comes to."""
        owners = Owners(self._home)
        async with (
            await asyncio.start_unix_server(self._dying, owners.killed),
            await asyncio.start_unix_server(self._answering, owners.next),
            KnowledgeClient("http://hardwon", transport=OwnerTransport(owners)) as client,
        ):
            answer = await call(client)
        assert owners.socket == owners.next, "the first answer was lost"
        return answer

    async def _dying(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._done(reader)
        writer.write(self.said)
        await writer.drain()
        writer.close()

    async def _answering(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = await self._done(reader)
        body = await answer.aread()
        content_type = answer.headers.get("content-type", "text/plain")
        head = f"HTTP/1.1 {answer.status_code} Answer\r\ncontent-type: {content_type}\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async def _done(self, reader: asyncio.StreamReader) -> httpx.Response:
        head = await reader.readuntil(b"\r\n\r\n")
        asked, *lines = head.decode().split("\r\n")
        length = _LENGTH.search(head)
        headers = dict(line.split(": ", 1) for line in lines if line)
        method, path, _ = asked.split(" ")
        body = await reader.readexactly(int(length[1])) if length else b""
        return await self._app.handle_async_request(
            httpx.Request(method, f"http://hardwon{path}", headers=headers, content=body)
        )


@pytest.fixture
def lost(knowledge: Knowledge, home: Path) -> Lost:
    return Lost(knowledge, home)


async def test_a_review_is_what_it_was_the_first_time(knowledge: Knowledge, lost: Lost) -> None:
    approved, rejected = [
        await knowledge.for_principal(AGENT).capture.capture(
            failure(failure_description=f"{what} fails", solution_steps=POISON)
        )
        for what in ("the cart", "the login")
    ]
    assert (await lost(lambda client: client.reviews.approve(approved))).status is EntryStatus.STAGED
    await lost(lambda client: client.reviews.reject(rejected))
    with pytest.raises(NotFound):
        await knowledge.capture.get(rejected)


@pytest.mark.long
async def test_patterns_are_joined_and_split_once(knowledge: Knowledge, lost: Lost) -> None:
    one, other = [await told(knowledge, f"{what} fails", project=what) for what in ("the cart", "the login")]
    await knowledge.checkpoints.process_all()
    keep, gone = await pattern_of(knowledge, one), await pattern_of(knowledge, other)
    assert (await lost(lambda client: client.grouping.join(keep, gone))).success_count == 2
    split = await lost(lambda client: client.grouping.split([other]))
    assert await pattern_of(knowledge, other) == split.pattern_id != keep == await pattern_of(knowledge, one)


@pytest.mark.long
async def test_a_key_that_was_made_and_never_told_is_said_to_be_there_and_rotated_to_one_that_is_told(
    knowledge: Knowledge, lost: Lost
) -> None:
    """The key itself is gone with its answer; a second one, made in silence, would leave the first to open for good."""
    with pytest.raises(OwnerUnavailable, match="never used"):
        await lost(lambda client: client.keys.create(["capture"], workspace="default"))
    (made,) = await knowledge.keys.list()
    with pytest.raises(NotFound, match="was already rotated"):
        await lost(lambda client: client.keys.rotate(made.key_id))
    old, new = sorted(await knowledge.keys.list(), key=lambda key: key.replaced_by is None)
    assert old.replaced_by == new.key_id
    told = await knowledge.keys.rotate(new.key_id)
    assert (told.key.scopes, told.key.workspace) == (made.scopes, made.workspace)


async def test_an_escalation_stays_closed_though_the_answer_was_cut_in_its_middle(
    knowledge: Knowledge, lost: Lost
) -> None:
    journal, now = knowledge.answering.journal, knowledge.answering.clock.now()
    new = NewEscalation(question="how is it done?", transcript=(), passage_ids=(), suggested_fix="write it down")
    escalation = await journal.escalate(new, now)
    lost.said = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{"
    await lost(lambda client: client.journal.close(escalation.escalation_id))
    assert await journal.escalations(now) == []


async def test_a_source_and_a_project_are_gone_and_an_entry_too(opens: Opens, home: Path) -> None:
    async with opens(fetch="https://example.org") as knowledge:
        lost = Lost(knowledge, home)
        source = await knowledge.kb.add_source("global", None, NewSource(url="https://example.org/a.git"))
        assert await lost(lambda client: client.kb.forget_source("global", None, source.source_id)) == 0
        assert await knowledge.kb.sources("global", None) == []
        entry_id = await knowledge.capture.capture(failure())
        await lost(lambda client: client.capture.delete(entry_id))
        assert await lost(lambda client: client.capture.delete_project("web-shop")) == 0
        assert (await knowledge.stats()).entries == {}


async def test_what_no_owner_was_asked_for_is_not_said_to_be_done(knowledge: Knowledge, home: Path) -> None:
    """The owner had left before: that its socket is gone does not mean that it deleted anything."""
    owners = Owners(home)
    answering = Lost(knowledge, home)._answering
    async with (
        await asyncio.start_unix_server(answering, owners.next),
        KnowledgeClient("http://hardwon", transport=OwnerTransport(owners)) as client,
    ):
        with pytest.raises(NotFound, match="there is no entry"):
            await client.capture.delete(EntryId(uuid4()))
