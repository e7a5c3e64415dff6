"""A conversation with an endpoint that speaks OpenAI's protocol, and with one that knows less of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable, QuestionRejected
from knowledge.adapters.llm.conversation import OpenAIConversation
from knowledge.adapters.llm.endpoint import RetryPolicy
from knowledge.documents.answering.prompts import ANSWER_SCHEMA
from knowledge.documents.llm import ChatOptions, Message, Tool, ToolsRefused
from tests.support.answering import call
from tests.support.cases import case_by_case
from tests.support.openai_server import Misdeed, OpenAIServer, Status

QUICK = RetryPolicy(attempts=2, timeout_seconds=2, first_delay_seconds=0.01, patience_seconds=5)
TALK = [Message(role="system", content="be brief"), Message(role="user", content="hello")]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
async def model(server: OpenAIServer) -> OpenAIConversation:
    return OpenAIConversation(
        "synthesis", "small", base_url=server.base_url, api_key=SecretStr(server.key), retry=QUICK
    )


async def test_a0_13_x_29_it_is_asked_in_its_own_role_with_limits_and_a_form(
    server: OpenAIServer, model: OpenAIConversation
) -> None:
    server.says = lambda _, text: f"you said {text}"
    said = await model.say(TALK, ChatOptions(max_tokens=1500, temperature=0.0, form=ANSWER_SCHEMA))
    assert said.text == "you said hello"
    [asked] = server.chats
    assert (asked["model"], asked["max_tokens"], asked["temperature"]) == ("small", 1500, 0.0)
    assert asked["response_format"]["json_schema"]["strict"] is True
    await model.aclose()


async def test_x_12_a_temperature_is_sent_only_where_there_is_one(
    server: OpenAIServer, model: OpenAIConversation
) -> None:
    await model.say(TALK, ChatOptions())
    assert {"temperature", "max_tokens", "response_format", "tools"}.isdisjoint(server.chats[0])


@case_by_case
async def test_x_12_x_29_what_an_endpoint_does_not_know_is_left_out_from_then_on(
    server: OpenAIServer, model: OpenAIConversation, message: str, param: str, gone: str
) -> None:
    server.misbehave(Status(400, message, param=param))
    asking = ChatOptions(max_tokens=1500, temperature=0.0)
    await model.say(TALK, asking)
    await model.say(TALK, asking)
    assert all(gone not in asked for asked in server.chats)
    if gone == "max_tokens":
        assert server.chats[-1]["max_completion_tokens"] == 1500


async def test_f6_an_endpoint_without_forms_is_asked_for_json_then_for_nothing(
    server: OpenAIServer, model: OpenAIConversation
) -> None:
    server.misbehave(Status(400, "response_format json_schema is not supported", param="response_format"))
    await model.say(TALK, ChatOptions(form=ANSWER_SCHEMA))
    assert server.chats[-1]["response_format"] == {"type": "json_object"}
    server.knows_json = False
    await model.say(TALK, ChatOptions(form=ANSWER_SCHEMA))
    assert "response_format" not in server.chats[-1]


async def test_a4_04_tools_are_offered_asked_for_and_answered(server: OpenAIServer, model: OpenAIConversation) -> None:
    asked_for = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}

    def converses(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["messages"][-1]["role"] == "tool":
            return {"content": "done"}
        return {"content": None, "tool_calls": [asked_for]}

    server.converses = converses
    asking = ChatOptions(tools=(Tool(name="look", description="looks", parameters={"type": "object"}),))
    said = await model.say(TALK, asking)
    assert said.calls == (call("look", "c1", n=1),)
    after = [
        *TALK,
        Message(role="assistant", calls=said.calls),
        Message(role="tool", content="found", call_id="c1"),
    ]
    assert (await model.say(after, asking)).text == "done"
    sent = server.chats[-1]
    assert sent["messages"][2]["tool_calls"][0]["id"] == sent["messages"][3]["tool_call_id"] == "c1"
    assert sent["tool_choice"] == "auto"


async def test_a4_17_an_endpoint_that_takes_no_tools_is_told_apart(
    server: OpenAIServer, model: OpenAIConversation
) -> None:
    server.misbehave(Status(400, "this model does not support tools"))
    with pytest.raises(ToolsRefused):
        await model.say(TALK, ChatOptions(tools=(Tool(name="look", description="", parameters={}),)))


async def test_a2_13_what_fails_says_whether_another_try_may_do(
    server: OpenAIServer, model: OpenAIConversation
) -> None:
    server.always = Misdeed.RESET
    with pytest.raises(ChatUnavailable):
        await model.say(TALK, ChatOptions())
    server.always = Status(401)
    with pytest.raises(ChatRejected, match="HARDWON_SYNTHESIS_API_KEY"):
        await model.say(TALK, ChatOptions())
    server.always = Status(400, "model is unloaded")
    with pytest.raises(ChatRejected, match=r"any question.*model is unloaded") as caught:
        await model.say(TALK, ChatOptions())
    assert not isinstance(caught.value, QuestionRejected)
    server.always = None
    server.misbehave(Status(400, "flagged"))
    with pytest.raises(QuestionRejected):
        await model.say(TALK, ChatOptions())


async def test_a0_73_what_is_sent_goes_out_redacted(server: OpenAIServer, model: OpenAIConversation) -> None:
    secret = "ghp_" + "a1B2" * 9
    server.converses = lambda _: {"content": "ok"}
    await model.say([Message(role="user", content=f"my token is {secret}")], ChatOptions())
    assert secret not in str(server.chats[-1])
