"""The strict knowledge base of S1 on the real stores: two outcomes, and sources that are exactly the cited ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from threading import current_thread
from typing import Any, get_args
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
import structlog

from hardwon.errors import IndexUnavailable, InvalidSetting
from hardwon.models.answers import Event, EventId
from hardwon.models.documents import NewDocument
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.documents.access import Permission
from knowledge.documents.answering import strategies
from knowledge.documents.answering.pipeline import Request
from knowledge.documents.answering.strategies import Relevance
from knowledge.documents.models import AnswerStatus, Query
from knowledge.documents.retrieval.keyword_score import KeywordDocument
from knowledge.wiring.answering import keyword_weights
from knowledge.wiring.open import Knowledge
from orchestrator.qa.kb_query import PROFILE, QNA_SYSTEM_PROMPT
from tests.acceptance.documents.test_document_tools import with_model
from tests.conftest import Opens
from tests.support.answering import answered, quotes_line_with, sources_in
from tests.support.cases import over
from tests.support.clients import http_of
from tests.support.documents import ADMIN, add, put, readable
from tests.support.openai_server import Misdeed, OpenAIServer
from tests.support.sharing import OF_ONE_LOOP, opens, own, shared

__all__ = ["opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

SENTENCE = "I don't have information about this in the knowledge base"
GERRIT = b"# Gerrit Service User Creation\n\nAsk the tools team in #gerrit for a service user.\n"
GITHUB = b"# GitHub onboarding\n\nThe github onboarding link is https://intranet.example/github/join?team=1\n"
API = b"# API\n\nThe API speaks HTTP.\n"
API_GUIDE = b"# API Guide\n\nThe rate limit of the API is 50 requests.\n"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(says=quotes_line_with("service user")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def knowledge(opens: Opens, server: OpenAIServer) -> AsyncIterator[Knowledge]:
    async with opens(**with_model(server), chat_timeout_seconds=1) as opened:
        scope = await opened.documents.access.scope(ADMIN, "global", permission=Permission.WRITE)
        for name, content in (("gerrit", GERRIT), ("github", GITHUB), ("api", API), ("guide", API_GUIDE)):
            new = NewDocument(uri=f"{name}.md", content=content, category="onboarding", link=f"https://kb/{name}")
            await opened.documents.library.add(new, scope)
        await opened.documents.indexing.run()
        yield opened


async def ask(knowledge: Knowledge, query: str, **more: Any) -> dict[str, Any]:
    async with http_of(knowledge) as client:
        response = await client.post("/api/kb/query", json={"query": query, **more})
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


@pytest.mark.long
async def test_a1_01_a1_02_a1_18_a1_19_a1_25_an_answer_cites_its_document_with_the_way_to_it(
    knowledge: Knowledge,
) -> None:
    told = await ask(knowledge, "How do I create a service user?")
    assert {"status", "query", "answer", "sources", "total_sources"} <= told.keys()
    assert told["status"] == "success"
    assert told["answer"] == (
        "According to [Gerrit Service User Creation], Ask the tools team in #gerrit for a service user.\n\n"
        "Sources: [Gerrit Service User Creation]"
    )
    [source] = told["sources"]
    assert told["total_sources"] == 1
    assert source["url"] == "https://kb/gerrit"
    assert source["path"] == "gerrit.md"
    assert source["category"] == "onboarding"
    assert source["excerpt"] == "Ask the tools team in #gerrit for a service user."
    assert source["relevance_score"] > 0.1


async def test_a1_16_a1_17_seed_defect_not_found_is_the_sentence_without_sources(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    server.says = lambda *_: answered(missing="how to create a user")
    told = await ask(knowledge, "How do I create a service user?")
    assert (told["status"], told["answer"], told["sources"], told["total_sources"]) == ("success", SENTENCE, [], 0)


@pytest.mark.parametrize("question", ["elephants watercolours?", "How do I create a service user?"])
async def test_a1_17_what_is_not_found_while_documents_wait_is_kept_for_nobody(
    knowledge: Knowledge, server: OpenAIServer, question: str
) -> None:
    """Nothing was above the threshold, or nothing was quoted."""
    server.says = lambda *_: answered(missing="how to create a user")
    await put(knowledge, "elephants.md", b"# Elephants\n\nElephants paint watercolours.\n")
    scope, finder = await readable(knowledge), knowledge.answering.by_keywords
    told = await knowledge.answering.answerer.answer(Request(question=question), scope, PROFILE, finder)
    assert (told.status, told.text) == (AnswerStatus.INDEXING, SENTENCE)


async def test_a1_13_x_15_seed_defect_nothing_above_the_threshold_asks_no_model(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    told = await ask(knowledge, "elephants watercolours?")
    assert (told["answer"], told["sources"]) == (SENTENCE, [])
    assert not server.chats


async def test_a1_13_a1_14_x_16_whole_documents_go_to_the_model_with_titles_and_no_scores(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    await ask(knowledge, "How do I create a service user?")
    system, user = (message["content"] for message in server.chats[0]["messages"])
    assert QNA_SYSTEM_PROMPT in system
    assert any(text == GERRIT.decode().rstrip("\n") for text in sources_in(user))
    assert "Title: Gerrit Service User Creation, Category: onboarding" in user
    assert "score" not in user.lower()


def test_a1_15_the_prompt_forbids_all_that_the_documents_do_not_say() -> None:
    for told in ("ONLY from the documents", "no suggestions", "no general knowledge", "assume nothing", "extrapolate"):
        assert told in QNA_SYSTEM_PROMPT


async def test_a1_22_an_address_comes_exactly_as_it_stands(knowledge: Knowledge, server: OpenAIServer) -> None:
    server.says = quotes_line_with("onboarding link")
    told = await ask(knowledge, "What is the url of the github onboarding link?")
    assert "https://intranet.example/github/join?team=1" in told["answer"]
    wrong = ("The link is https://intranet.example/github/join?team=2", [(2, "The github onboarding link is https://")])
    server.says = lambda *_: answered(wrong)
    assert (await ask(knowledge, "what is the url of the github onboarding link, please"))["answer"] == SENTENCE


async def test_seed_defect_a1_18_a1_34_a_source_is_what_is_cited_not_what_has_a_like_title(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    server.says = quotes_line_with("rate limit")
    told = await ask(knowledge, "What is the rate limit of the API?")
    assert [source["title"] for source in told["sources"]] == ["API Guide"]
    assert (await ask(knowledge, "What is the rate limit of the API?"))["answer"] == told["answer"]
    assert len(server.chats) == 1, "what was asked before is answered without the model"


async def test_a1_32_a_follow_up_is_understood(knowledge: Knowledge, server: OpenAIServer) -> None:
    def says(_: str, text: str) -> str:
        rewriting = text.startswith("Conversation history")
        return "How do I create a service user in Gerrit?" if rewriting else quotes_line_with("service user")(_, text)

    server.says = says
    talk = [{"role": "user", "content": "Tell me of the Gerrit service user"}]
    assert "#gerrit" in (await ask(knowledge, "How do I create it?", conversation=talk))["answer"]


@pytest.mark.long
async def test_a1_03_what_fails_is_a_status_with_a_reason_and_no_trace(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    server.always = Misdeed.RESET
    told = await ask(knowledge, "How do I create a service user?")
    assert (told["status"], told["answer"], told["sources"]) == ("error", "", [])
    assert "endpoint" in told["reason"]
    assert "Traceback" not in str(told)


async def test_a1_12_a1_26_threshold_number_and_weights_are_settings(opens: Opens, server: OpenAIServer) -> None:
    changed: dict[str, Any] = {"kb_max_docs": 1, "kb_min_relevance": 0.2, "kb_weights": {"word_in_content": 0.0}}
    async with opens(**with_model(server), **changed) as opened:
        finder = opened.answering.by_keywords
        assert (finder.max_docs, finder.min_relevance, finder.weights.word_in_content) == (1, 0.2, 0.0)
        with pytest.raises(InvalidSetting, match="HARDWON_KB_WEIGHTS"):
            keyword_weights(opened.settings.model_copy(update={"kb_weights": {"luck": 1.0}}))


@pytest.mark.long
@pytest.mark.own_stores
async def test_a1_30_a1_31_relevance_may_be_of_sense_or_of_both(opens: Opens) -> None:
    """What shares no word with the question is found by sense, and what shares all of them by both alone."""
    async with opens(embedder=LocalEmbedder()) as opened:
        await put(opened, "car.md", b"# Fastest automobile\n\nThe red automobile is the fastest one.\n")
        await put(opened, "x.md", b"# Vehicle\n\nQuickest vehicle: see the menu of the canteen, soup on Mondays.\n")
        await opened.documents.indexing.run()
        scope, found = await readable(opened), {}
        query = Query(question="quickest vehicle", k=5)
        for relevance in get_args(Relevance):
            finder = replace(opened.answering.by_keywords, relevance=relevance)
            passages = (await finder.find(query, scope, PROFILE)).passages
            found[relevance] = {each.uri: each.score for each in passages}
        words, sense, both = found["keyword"], found["embedding"], found["hybrid"]
        assert words == {"x.md": pytest.approx(0.5 + 1.0 + 2 * 0.15)}
        assert 0.1 < sense["car.md"] <= 1
        assert both["car.md"] == pytest.approx(2 * sense["car.md"])
        assert both["x.md"] == pytest.approx(words["x.md"] + 2 * sense.get("x.md", 0.0))


@pytest.mark.long
async def test_a1_12_a1_13_a1_20_the_thirty_best_above_the_threshold_go_on_and_are_logged(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    for number in range(33):
        words = " ".join(["tulip", "bulb", "spade"][: number % 3 + 1])
        await put(knowledge, f"{number}.md", f"# Note\n\nThe {words} of garden {number}.\n".encode())
    await knowledge.documents.indexing.run()
    scope, finder = await readable(knowledge), knowledge.answering.by_keywords
    query = Query(question="spade or bulb or tulip", k=5)
    with structlog.testing.capture_logs() as heard:
        found = (await finder.find(query, scope, PROFILE)).passages
    scored, passed_on = (each for each in heard if each["event"].startswith("documents_"))
    assert [len(each.text.split()) - 6 for each in found] == [3] * 11 + [2] * 11 + [1] * 8
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert (scored["documents"], scored["above"], len(scored["top"])) == (37, 33, 10)
    assert scored["top"] == [f"{each.uri} {each.score:.2f}" for each in found[:10]]
    assert passed_on["documents"] == [each.uri for each in found]
    few = replace(finder, max_docs=2, min_relevance=0.15)
    assert len((await few.find(query, scope, PROFILE)).passages) == 2
    few = replace(finder, max_docs=50, min_relevance=0.15)
    assert len((await few.find(query, scope, PROFILE)).passages) == 22, "0.15 is not above 0.15"


@pytest.mark.long
@pytest.mark.own_stores
async def test_a1_15_a1_18_nothing_of_the_front_matter_is_quoted(opens: Opens) -> None:
    """Without a model: the tags stood before the sentence, as if they were of it."""
    text = b"---\ntitle: Gerrit\ntags: [service, user]\n---\nA service user is made by the tools team.\n"
    async with opens(embedder=LocalEmbedder()) as opened:
        await add(opened, "gerrit.md", text)
        told = await ask(opened, "By which team is a service user made?")
        assert told["answer"] == "According to [Gerrit], A service user is made by the tools team.\n\nSources: [Gerrit]"
        plain = b"---\nA service user is unmade by the platform team.\n---\nSee the wiki for whatever else there is.\n"
        await add(opened, "notes.txt", plain)
        told = await ask(opened, "By which team is a service user unmade?")
        assert "A service user is unmade by the platform team." in told["answer"], "plain text has no front matter"


async def test_a1_35_fewer_documents_where_they_are_long_and_of_a_long_one_its_best_passages(
    knowledge: Knowledge, server: OpenAIServer
) -> None:
    finder = knowledge.answering.by_keywords
    object.__setattr__(finder, "max_tokens", 22)
    await ask(knowledge, "How do I create a service user in the API?")
    assert len(sources_in(server.chats[-1]["messages"][1]["content"])) == 1
    object.__setattr__(finder, "max_tokens", 5)
    told = await ask(knowledge, "How do I create a service user?")
    assert "#gerrit" in told["answer"]


async def an_answer_of(knowledge: Knowledge) -> UUID:
    event = Event(event_id=EventId(uuid4()), name="question_answered", happened_at=datetime.now(UTC), payload={})
    await knowledge.answering.journal.record(event)
    return event.event_id


async def test_a1_33_thumbs_are_kept_for_each_answer(knowledge: Knowledge) -> None:
    told = await ask(knowledge, "How do I create a service user?")
    async with http_of(knowledge) as client:
        body = {"answer_id": told["answer_id"], "up": False, "comment": "outdated"}
        assert (await client.post("/api/feedback", json=body)).status_code == 204
        for stranger in (uuid4(), await an_answer_of(knowledge.in_workspace("other"))):
            refused = await client.post("/api/feedback", json={**body, "answer_id": str(stranger)})
            assert refused.status_code == 404, "whoever may ask could fill the table with made-up ones"
            assert await knowledge.answering.journal.feedback_of(stranger) is None
    assert await knowledge.answering.journal.feedback_of(UUID(told["answer_id"])) == (False, "outdated")


async def test_a1_03_an_index_that_is_down_does_not_matter_to_words(knowledge: Knowledge) -> None:
    class Down:
        async def search(self, *_: object, **__: object) -> object:
            raise IndexUnavailable("down")

    object.__setattr__(knowledge.answering.by_keywords, "searcher", Down())
    assert (await ask(knowledge, "How do I create a service user?"))["status"] == "success"


@over("path, field", [("/api/kb/query", "query"), ("/api/ask", "question")])
async def test_a_question_that_is_none_is_refused_by_the_name_the_caller_used(
    knowledge: Knowledge, path: str, field: str
) -> None:
    async with http_of(knowledge) as client:
        for told in (" ", "x" * 100_000, "a\0b"):
            refused = await client.post(path, json={field: told})
            assert (refused.status_code, refused.json()["field"]) == (422, field)


async def test_documents_are_read_for_their_words_beside_what_else_goes_on(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """14 MB take 1.2 s, in which nobody was answered."""
    read_in = []

    class Noted(KeywordDocument):
        def __init__(self, **told: Any) -> None:
            read_in.append(current_thread())
            super().__init__(**told)

    monkeypatch.setattr(strategies, "KeywordDocument", Noted)
    assert (await ask(knowledge, "How do I get a gerrit service user?"))["sources"]
    assert len(read_in) == 4
    assert current_thread() not in read_in
