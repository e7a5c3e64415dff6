"""Replies are read generously and checked strictly, and what an endpoint says is told in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from hardwon.errors import ChatUnavailable, EmbedderUnavailable, QuestionRejected
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.chat import OpenAIChat
from knowledge.adapters.llm.conversation import OpenAIConversation
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.adapters.llm.failures import read_error
from knowledge.adapters.llm.replies import read_reply
from knowledge.documents.llm import ChatOptions, ChatReply, Message, Tool
from tests.support.endpoints.quirks import BAD, FAILING, REFUSING
from tests.support.openai_server import OpenAIServer, Reply, encoded

QUICK = RetryPolicy(attempts=2, timeout_seconds=0.5, first_delay_seconds=0.001, longest_delay_seconds=0.002)
TALK = [Message(role="system", content="be brief"), Message(role="user", content="hello")]
ONES = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def options(server: OpenAIServer) -> dict[str, Any]:
    return {"base_url": server.base_url, "api_key": SecretStr(server.key), "retry": QUICK}


def reply(*rows: Reply, **more: object) -> bytes:
    return json.dumps({"data": rows, **more}).encode()


@pytest.mark.parametrize(
    "indexes",
    [(0, 1, 2), (None, None, None), (0, 0, 0), (None, 1, 2), (0, 1, 0), (0, 0, 1)],
    ids=str,
)
def test_the_order_tells_where_the_index_does_not(indexes: tuple[int | None, ...]) -> None:
    rows = [
        {"embedding": one} | ({} if index is None else {"index": index})
        for index, one in zip(indexes, ONES, strict=True)
    ]
    answer = read_reply(reply(*rows), 3)
    np.testing.assert_allclose([answer.rows[at] for at in range(3)], ONES, atol=1e-6)
    assert not answer.unusable


@pytest.mark.parametrize(
    "rows",
    [
        [{"index": 0}, {"index": 2}, {"index": 2}],
        [{"index": 1}, {"index": 2}, {"index": 3}],
        [{"index": 2}, {"index": 2}, {"index": 0}],
        [{"index": "0"}, {"index": 1}, {"index": 2}],
        [{"index": 0}, {"index": 1}],
        [{}, {}],
        [{}, {}, {}, {}],
    ],
    ids=str,
)
def test_vectors_that_may_be_of_other_texts_are_not_taken(rows: list[Reply]) -> None:
    with pytest.raises(ValueError, match=r"index|vectors for"):
        read_reply(reply(*({"embedding": [1.0, 2.0]} | row for row in rows)), 3)


def test_a_row_that_is_missing_for_certain_costs_no_other() -> None:
    answer = read_reply(reply({"index": 0, "embedding": ONES[0]}, {"index": 2, "embedding": encoded(ONES[2])}), 3)
    assert (sorted(answer.rows), dict(answer.unusable)) == ([0, 2], {1: "gives no vector for it"})


@pytest.mark.parametrize(
    "more", [{}, {"usage": None}, {"usage": {"total_tokens": "7"}}, {"model": None}, {"object": 1}]
)
def test_a_vector_may_be_nested_or_of_whole_numbers(more: Reply) -> None:
    answer = read_reply(reply({"index": 0, "embedding": [[1, 0]]}, **more), 1)
    np.testing.assert_array_equal(answer.rows[0], [1, 0])


def converse(server: OpenAIServer, message: Reply) -> None:
    server.converses = lambda _: message


def called(**function: object) -> Reply:
    return {"content": None, "tool_calls": [{"type": "function", "function": {"name": "look", **function}}]}


async def say(server: OpenAIServer) -> ChatReply:
    tools = (Tool(name="look", description="looks", parameters={"type": "object"}),)
    async with aclosing(OpenAIConversation("main", "small", **options(server))) as model:
        return await model.say(TALK, ChatOptions(tools=tools))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [({"arguments": {"n": 1}}, {"n": 1}), ({"arguments": None}, {}), ({}, {}), ({"arguments": '{"n": 1}'}, {"n": 1})],
    ids=str,
)
async def test_tool_calls_may_lack_an_id_and_have_arguments_of_any_form(
    server: OpenAIServer, function: Reply, arguments: Reply
) -> None:
    converse(server, called(**function))
    (call,) = (await say(server)).calls
    assert (call.name, json.loads(call.arguments)) == ("look", arguments)
    assert call.call_id
    converse(server, {"content": None, "function_call": {"name": "look", **function}})
    assert (await say(server)).calls[0].name == "look"


@pytest.mark.parametrize(
    "content",
    [
        "an answer",
        [{"type": "text", "text": "an answer"}],
        [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "an "}, {"text": "answer"}],
        ["an ", "answer"],
    ],
    ids=str,
)
async def test_content_may_be_parts_and_have_more_beside_it(server: OpenAIServer, content: object) -> None:
    more: Reply = {"reasoning_content": "hm", "reasoning": "hm", "annotations": [], "audio": None, "tool_calls": []}
    converse(server, {"content": content, **more})
    assert (await say(server)).text == "an answer"
    async with aclosing(OpenAIChat("small", **options(server))) as chat:
        assert await chat.answer("rules", "a text") == "an answer"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "m", "code": 7}}', "m"),
        (b'{"error": "m"}', "m"),
        (b'{"errors": ["m", "n"]}', "m; n"),
        (b'{"message": "m"}', "m"),
        (b'{"detail": "m"}', "m"),
        (b'{"detail": [{"loc": ["body", "x"], "msg": "m"}]}', "x: m"),
        (b'{"error": {"message": "m", "metadata": {"raw": "n"}}}', "m; n"),
        (b'[{"error": {"message": "m", "status": "INVALID"}}]', "m"),
        (b'{"error": {"type": "t"}}', '{"type": "t"}'),
        (b'{"object": "error", "message": "m", "code": 40001}', "m"),
        (b'"m"', "m"),
        (b"m", "m"),
        (b"<html><head><title>m</title></head><body>n</body></html>", "a web page: m"),
        (b"<html><style>x{}</style><body><p>m</p></body></html>", "a web page: m"),
        (b"", ""),
    ],
)
def test_an_error_is_read_in_any_of_its_forms(body: bytes, words: str) -> None:
    assert read_error(body).words == words


@pytest.mark.parametrize(
    ("quirk", "says"),
    [
        ("200 with an error", r"answers 503 \(no provider\).*see its log"),
        ("200 with no data", "answers with no vector at all.*see its log"),
        ("NaN for all", "gives a vector with numbers that are not finite.*see its log"),
        ("a page", "a web page: Please log in.*HARDWON_EMBEDDING_BASE_URL is its address"),
        ("503", r"answers 503 \(loading model\).*see its log"),
    ],
)
async def test_the_address_is_doubted_only_where_nothing_speaks_the_protocol(
    server: OpenAIServer, quirk: str, says: str
) -> None:
    server.quirk = FAILING[quirk](server)
    async with aclosing(OpenAIEmbedder("some-model", dimensions=64, **options(server))) as embedder:
        with pytest.raises(EmbedderUnavailable, match=says):
            await embedder.embed(["a text"], "document")


@pytest.mark.parametrize(
    "quirk", ["500 for ever", "200 with an error", "200 with a page", "reset", "403 of a firewall"]
)
async def test_a_question_that_the_endpoint_fails_at_is_refused_alone(server: OpenAIServer, quirk: str) -> None:
    make, words = REFUSING[quirk]
    server.quirk = make(server)
    async with aclosing(OpenAIChat("small", **options(server))) as chat:
        with pytest.raises(QuestionRejected, match=f"(?:{words}).*for this question, and answers others"):
            await chat.answer("rules", f"{BAD} of a text")
        assert await chat.answer("rules", "a text") == "a text"
        server.quirk = FAILING["503"](server)
        with pytest.raises(ChatUnavailable, match="loading model"):
            await chat.answer("rules", "another text")
