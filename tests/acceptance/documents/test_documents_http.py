"""Documents over HTTP, through the client, and by command: the same names, the same answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from hardwon.errors import AccessDenied, Conflict, InvalidInput, NoAccess
from hardwon.models.documents import DocumentStatus, NewDocument
from knowledge.wiring.open import Knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app
from orchestrator.http.middleware.authentication import AuthConfig
from tests.support.documents import GUIDE, readable


@pytest.fixture
async def client(knowledge: Knowledge) -> AsyncIterator[KnowledgeClient]:
    transport = httpx.ASGITransport(app=make_app(knowledge))
    async with KnowledgeClient("http://test", transport=transport) as opened:
        yield opened


@pytest.mark.long
async def test_a_document_is_added_listed_searched_and_deleted_over_http(client: KnowledgeClient) -> None:
    """F7, A2-21, A4-27."""
    new = NewDocument(uri="a/timeouts.md", content=GUIDE, category="ops", tags=("x", "y"), link="https://wiki/1")
    added = await client.kb.add("global", None, new)
    assert added.changed
    await client.kb.index()
    listed = await client.kb.list_documents("global", None)
    assert [(each.uri, each.status, each.tags) for each in listed] == [
        ("a/timeouts.md", DocumentStatus.INDEXED, ("x", "y"))
    ]
    found = await client.kb.search("Where do I see ERR-4521?", kb="global", k=1)
    assert found.passages[0].link == "https://wiki/1"
    assert "ERR-4521" in found.passages[0].text
    anywhere = await client.kb.search("ERR-4521")
    assert anywhere.passages
    assert await client.kb.delete("global", None, [listed[0].document_id]) == 1
    assert (await client.kb.search("ERR-4521", kb="global")).empty_scope


@pytest.mark.long
async def test_what_goes_wrong_over_http_is_the_error_it_was(client: KnowledgeClient, knowledge: Knowledge) -> None:
    """F7, A0-24."""
    with pytest.raises(InvalidInput, match="no wiki knowledge base"):
        await client.kb.search("x", kb="wiki")
    with pytest.raises(InvalidInput, match="uri"):
        await client.kb.add("global", None, NewDocument(uri="../x.md", content=b"x"))
    await client.kb.add("case", "7", NewDocument(uri="x.md", content=b"x"))
    assert await client.kb.close_case("7") == 1
    with pytest.raises(Conflict, match="closed"):
        await client.kb.add("case", "7", NewDocument(uri="x.md", content=b"x"))
    made = await knowledge.keys.create(["documents"], workspace="default", name="ann")
    auth = AuthConfig(
        authenticator=knowledge.authenticator, operator_key=None, host="127.0.0.1", requests_per_second=100
    )
    transport = httpx.ASGITransport(app=make_app(knowledge, auth=auth))
    async with KnowledgeClient("http://127.0.0.1", made.secret, transport=transport) as anns:
        for refused in (
            anns.kb.search("x", kb="case", scope_id="8"),
            anns.kb.add("global", None, NewDocument(uri="x.md", content=b"x")),
            anns.kb.delete_user("bob"),
            anns.kb.grant("case", "8", "ann"),
            anns.kb.calibrate(),
        ):
            with pytest.raises((NoAccess, AccessDenied)):
                await refused
        assert await anns.kb.delete_user("ann") == 0


async def test_members_of_a_team_are_kept_over_http(client: KnowledgeClient) -> None:
    """A0-34."""
    await client.kb.grant("team", "platform", "ann")
    await client.kb.grant("team", "platform", "bob")
    assert await client.kb.grantees("team", "platform") == ["ann", "bob"]
    assert await client.kb.revoke("team", "platform", "bob")
    assert not await client.kb.revoke("team", "platform", "bob")
    assert await client.kb.grantees("team", "platform") == ["ann"]


@pytest.mark.long
async def test_the_scale_is_measured_on_what_is_indexed(client: KnowledgeClient, knowledge: Knowledge) -> None:
    """X-08: without questions. No answer is given any more that was found on the scale before."""
    with pytest.raises(Conflict, match="too few"):
        await client.kb.calibrate()
    for n in range(40):
        words = [f"w{n}x{m}" for m in range(30)]
        text = f"{' '.join(words[:10])}. {' '.join(words[10:20])}. {' '.join(words[20:])}."
        await client.kb.add("global", None, NewDocument(uri=f"{n}.txt", content=text.encode()))
    await client.kb.index()
    versions = await knowledge.documents.quotes.versions(await readable(knowledge))
    found = await client.kb.calibrate()
    assert await knowledge.documents.quotes.versions(await readable(knowledge)) != versions
    assert found.passages == 40
    assert abs(found.low) < 0.15
    assert 0.4 < found.high < 0.8
