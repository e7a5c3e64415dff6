"""The chat adapter against a real HTTP server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import traceback
import zlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable, InvalidSetting, QuestionRejected
from knowledge.adapters.llm.chat import CONCURRENCY, OpenAIChat
from knowledge.adapters.llm.endpoint import RetryPolicy
from tests.support.openai_server import Misdeed, OpenAIServer, Reply, Status

MODEL = "some-model"
SECRET = "sk-very-secret"
QUICK = RetryPolicy(attempts=4, timeout_seconds=0.4, first_delay_seconds=0.01, longest_delay_seconds=0.05)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(key=SECRET) as running:
        yield running


def opened(server: OpenAIServer, **options: Any) -> AbstractAsyncContextManager[OpenAIChat]:
    chosen: dict[str, Any] = {"retry": QUICK, "api_key": SecretStr(SECRET), "base_url": server.base_url} | options
    return aclosing(OpenAIChat(MODEL, **chosen))


async def test_a_text_is_answered_under_its_instructions(server: OpenAIServer) -> None:
    server.says = lambda instructions, text: f"{text} under {instructions}"
    async with opened(server) as chat:
        assert await chat.answer("rules", "a text") == "a text under rules"
        assert chat.model == MODEL
    assert server.chats[0]["model"] == MODEL
    assert [message["role"] for message in server.chats[0]["messages"]] == ["system", "user"]
    assert "response_format" not in server.chats[0]


async def test_json_is_asked_for_where_the_endpoint_knows_it(server: OpenAIServer) -> None:
    async with opened(server) as chat:
        await chat.answer("rules", "{}", as_json=True)
    assert server.chats[0]["response_format"] == {"type": "json_object"}


async def test_an_endpoint_that_cannot_be_asked_for_json_is_asked_without_from_then_on(server: OpenAIServer) -> None:
    server.knows_json = False
    async with opened(server) as chat:
        assert await chat.answer("rules", "{}", as_json=True) == "{}"
        assert server.calls == 2
        assert await chat.answer("rules", "{}", as_json=True) == "{}"
    assert server.calls == 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (Misdeed.HANG, "HARDWON_CHAT_BASE_URL"),
        (Misdeed.NOT_JSON, "Please log in.*HARDWON_CHAT_BASE_URL"),
        (Status(429, headers={"Retry-After": "0.01"}), "takes no more for now"),
        (lambda reply: reply | {"choices": []}, "see its log"),
        (lambda reply: reply | {"choices": None}, "see its log"),
        (lambda reply: reply | {"choices": [{"index": 0}]}, "see its log"),
        (lambda reply: reply | {"choices": [{"index": 0, "message": {"content": 7}}]}, "see its log"),
        (lambda reply: [reply], "HARDWON_CHAT_BASE_URL"),
    ],
)
async def test_what_passes_is_tried_again_and_then_told(server: OpenAIServer, fault: Any, advice: str) -> None:
    async with opened(server) as chat:
        server.misbehave(fault)
        assert await chat.answer("rules", "a text") == "a text"
        assert server.calls == 2
        server.always = fault
        with pytest.raises(ChatUnavailable, match=rf"chat endpoint .*{advice}"):
            await chat.answer("rules", "a text")
        assert server.calls == (6 if isinstance(fault, Status) else 8)  # a harmless question tells whose fault it is


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status(401, f"Incorrect API key provided: {SECRET}"), "refuses the key.*HARDWON_CHAT_API_KEY"),
        (Status(429, "You exceeded your quota", code="insufficient_quota"), "quota.*HARDWON_CHAT_API_KEY"),
        (Status(404, "no such model", code="model_not_found"), "does not offer some-model.*HARDWON_CHAT_MODEL"),
    ],
)
async def test_what_will_not_pass_is_told_at_once_and_never_with_the_key(
    server: OpenAIServer, status: Status, said: str
) -> None:
    server.always = status
    async with opened(server) as chat:
        with pytest.raises(ChatRejected, match=said) as told:
            await chat.answer("rules", "a text")
    assert not isinstance(told.value, QuestionRejected)
    assert SECRET not in "".join(traceback.format_exception(told.value))
    assert server.calls == 1


def _choice(**changes: Any) -> Any:
    def change(reply: Reply) -> object:
        return reply | {"choices": [reply["choices"][0] | changes]}

    return change


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Status(400, "This model's maximum context length is 10 tokens"), "maximum context length"),
        (Status(413, "too large"), "too large"),
        (_choice(finish_reason="length"), "breaks off"),
        (_choice(finish_reason="content_filter"), "declines"),
        (_choice(message={"role": "assistant", "content": None, "refusal": "No."}), "declines"),
        (_choice(message={"role": "assistant", "content": " "}), "with nothing"),
        (_choice(message={"role": "assistant", "content": None}), "with nothing"),
    ],
)
async def test_a_question_without_a_whole_answer_is_refused_alone(server: OpenAIServer, fault: Any, said: str) -> None:
    server.misbehave(fault)
    async with opened(server) as chat:
        with pytest.raises(QuestionRejected, match=said):
            await chat.answer("rules", "a text")
        assert server.calls == 1
        assert await chat.answer("rules", "a text") == "a text"


async def test_a_few_questions_are_asked_at_a_time(server: OpenAIServer) -> None:
    server.seconds_per_call = 0.3  # long enough for all of them to have begun, on a busy machine too
    async with opened(server, retry=RetryPolicy()) as chat:
        await asyncio.gather(*(chat.answer("rules", str(number)) for number in range(10)))
    assert server.most_running == CONCURRENCY == 4


async def test_a_closed_model_says_so(server: OpenAIServer) -> None:
    async with opened(server) as chat:
        pass
    await chat.aclose()
    with pytest.raises(ChatUnavailable, match="was closed"):
        await chat.answer("rules", "a text")


def test_openai_without_a_key_names_the_setting() -> None:
    with pytest.raises(InvalidSetting, match="HARDWON_CHAT_API_KEY"):
        OpenAIChat(MODEL)


async def test_texts_of_any_kind_arrive_as_they_are(server: OpenAIServer) -> None:
    text = json.dumps({"a": "日本 \u2028 \0 \"quoted\" 'it'"}, ensure_ascii=False)
    async with opened(server) as chat:
        assert await chat.answer("rules", text) == text


@pytest.mark.long
@pytest.mark.parametrize("status", ["200 OK", "500 Internal Server Error"])
async def test_an_answer_without_end_is_read_so_far_and_no_further_however_small_it_comes(status: str) -> None:
    """G18. It is packed: a few kilobytes on their way are megabytes here, and all of it was kept until time was up."""

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        packing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            while not writer.is_closing():
                writer.write(packing.compress(bytes(2**20)))
                await writer.drain()
                await asyncio.sleep(0)

    once = RetryPolicy(attempts=1, timeout_seconds=20)
    async with await asyncio.start_server(endless, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with aclosing(OpenAIChat("some-model", base_url=url, retry=once)) as chat:
            with pytest.raises(ChatUnavailable, match=r"answers with more than 16 MiB \(1 try\)"):
                await chat.answer("rules", "a text")
