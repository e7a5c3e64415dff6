"""No optional parameter is known to every endpoint: what is refused, in any form, is left out from then on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import EmbedderRejected, QuestionRejected
from knowledge.adapters.embedding.openai import OpenAIEmbedder
from knowledge.adapters.llm.chat import OpenAIChat
from knowledge.adapters.llm.conversation import OpenAIConversation
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.documents.answering.prompts import ANSWER_SCHEMA
from knowledge.documents.llm import ChatOptions, Message, Tool, ToolsRefused
from tests.support.endpoints.quirks import BAD, answers, forms_of_refusal, refusing
from tests.support.openai_server import OpenAIServer, Reply, Status

QUICK = RetryPolicy(attempts=3, timeout_seconds=0.5, first_delay_seconds=0.001, longest_delay_seconds=0.002)
TALK = [Message(role="system", content="be brief"), Message(role="user", content="hello")]
TOOLS = (Tool(name="look", description="looks", parameters={"type": "object"}),)
ALL = ChatOptions(max_tokens=100, temperature=0.0, form=ANSWER_SCHEMA)
FORMS = list(forms_of_refusal("any"))


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


def options(server: OpenAIServer) -> dict[str, Any]:
    return {"base_url": server.base_url, "api_key": SecretStr(server.key), "retry": QUICK}


def opened(server: OpenAIServer) -> OpenAIConversation:
    return OpenAIConversation("main", "small", **options(server))


@pytest.mark.parametrize("dims", [None, 64])
@pytest.mark.parametrize("values", [["base64"], ["base64", "float"]], ids=str)
@pytest.mark.parametrize("form", FORMS)
async def test_base64_is_asked_for_until_it_is_refused(
    server: OpenAIServer, form: str, values: list[str], dims: int | None
) -> None:
    server.quirk = refusing("encoding_format", forms_of_refusal("encoding_format")[form], values=values)(server)
    async with aclosing(OpenAIEmbedder("some-model", dimensions=dims, **options(server))) as embedder:
        assert (await embedder.embed(["first", "second"], "document")).vectors.shape == (2, 64)
        calls = server.calls
        await embedder.embed([f"text {n}" for n in range(9)], "document")
        assert server.calls == calls + 1


@pytest.mark.parametrize("form", FORMS)
async def test_dimensions_are_left_out_where_they_are_refused_and_are_those_anyway(
    server: OpenAIServer, form: str
) -> None:
    server.quirk = refusing("dimensions", forms_of_refusal("dimensions")[form])(server)
    async with aclosing(OpenAIEmbedder("some-model", dimensions=64, **options(server))) as embedder:
        await embedder.embed(["first", "second"], "document")
        calls = server.calls
        await embedder.embed(["third"], "document")
        assert server.calls == calls + 1
    async with aclosing(OpenAIEmbedder("some-model", dimensions=16, **options(server))) as embedder:
        with pytest.raises(EmbedderRejected, match=r"takes no `dimensions`.*HARDWON_EMBEDDING_DIMS to 64"):
            await embedder.embed(["first", "second"], "document")


@pytest.mark.parametrize(
    ("parameter", "values", "left"),
    [
        ("max_tokens", None, {"max_completion_tokens": 100}),
        ("temperature", None, {"max_tokens": 100}),
        ("response_format", ["json_schema"], {"response_format": {"type": "json_object"}}),
        ("response_format", None, {"temperature": 0.0}),
    ],
)
@pytest.mark.parametrize("form", FORMS)
async def test_a_question_is_asked_without_the_parameter_that_is_refused(
    server: OpenAIServer, form: str, parameter: str, values: list[str] | None, left: Reply
) -> None:
    server.quirk = refusing(parameter, forms_of_refusal(parameter)[form], values=values)(server)
    async with aclosing(opened(server)) as model:
        assert (await model.say(TALK, ALL)).text == "hello"
        calls = server.calls
        assert (await model.say(TALK, ALL)).text == "hello"
        assert server.calls == calls + 1
    assert server.chats[-1].items() >= left.items()


@pytest.mark.parametrize("form", FORMS)
async def test_distillation_asks_without_json_where_it_is_refused(server: OpenAIServer, form: str) -> None:
    server.quirk = refusing("response_format", forms_of_refusal("response_format")[form])(server)
    async with aclosing(OpenAIChat("small", **options(server))) as chat:
        assert await chat.answer("rules", "{}", as_json=True) == "{}"
        calls = server.calls
        assert await chat.answer("rules", "{}", as_json=True) == "{}"
        assert server.calls == calls + 1


@pytest.mark.parametrize("form", FORMS)
async def test_a_tool_choice_that_is_refused_becomes_auto_then_nothing(server: OpenAIServer, form: str) -> None:
    asking = ChatOptions(tools=TOOLS, tool_choice="required")
    for values, sent in ((["required"], "auto"), (None, None)):
        server.quirk = refusing("tool_choice", forms_of_refusal("tool_choice")[form], values=values)(server)
        async with aclosing(opened(server)) as model:
            await model.say(TALK, asking)
        assert server.chats[-1].get("tool_choice") == sent
        assert "tools" in server.chats[-1]


@pytest.mark.parametrize("form", FORMS)
async def test_tools_that_are_refused_are_told_apart(server: OpenAIServer, form: str) -> None:
    server.quirk = refusing("tools", forms_of_refusal("tools")[form])(server)
    async with aclosing(opened(server)) as model:
        with pytest.raises(ToolsRefused, match="takes no tools"):
            await model.say(TALK, ChatOptions(tools=TOOLS))
        assert (await model.say(TALK, ChatOptions())).text == "hello"


async def test_a_question_that_names_a_parameter_loses_none_for_the_others(server: OpenAIServer) -> None:
    server.quirk = answers(Status(400, f"flagged: {BAD}, why is the temperature high?"))(server)
    async with aclosing(opened(server)) as model:
        with pytest.raises(QuestionRejected):
            await model.say([*TALK, Message(role="user", content=BAD)], ALL)
        await model.say(TALK, ALL)
    assert server.chats[-1]["temperature"] == 0.0
