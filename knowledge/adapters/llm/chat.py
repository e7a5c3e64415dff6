"""Chat over HTTP: OpenAI, or any endpoint with its chat completions protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable, QuestionRejected
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.replies import EndpointKind, RefusedError
from knowledge.ports import ChatModel

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletionMessageParam

CONCURRENCY = 4
"""Concurrent requests."""
MAX_RESPONSE_BYTES = 16 * 2**20
"""Ours: no model writes a hundredth of it."""

CHAT = EndpointKind(
    name="chat",
    closed="The chat model",
    answers="an answer",
    variable="HARDWON_CHAT",
    settings="HARDWON_CHAT_MODEL or HARDWON_CHAT_BASE_URL",
    parameters=frozenset({"model"}),
    max_bytes=MAX_RESPONSE_BYTES,
    unavailable=ChatUnavailable,
    rejected=ChatRejected,
)
_FORMAT = "response_format"


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True)
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


class OpenAIChat(ChatModel):
    """Sends requests to a chat endpoint, a few concurrently. A 429 or a Retry-After delays every caller.

    A wrong key, a spent quota and an unknown model raise ChatRejected at once; an answer that is declined, cut off or
    empty raises QuestionRejected. An endpoint that rejects JSON mode is called without it from then on.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        concurrency: int = CONCURRENCY,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            CHAT,
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._model = model
        self._supports_json = True

    @property
    def model(self) -> str:
        return self._model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        in_form = as_json and self._supports_json
        try:
            reply = await self._ask(instructions, text, in_form=in_form)
        except RefusedError as refusal:
            if in_form and _FORMAT in f"{refusal.param} {refusal.reason}":
                self._supports_json = False
                return await self.answer(instructions, text)
            raise QuestionRejected(f"{self._endpoint.name} refuses this question: {refusal.reason}.") from None
        choice = reply.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise QuestionRejected(f"{self._endpoint.name} declines to answer this.")
        if choice.finish_reason == "length":
            raise QuestionRejected(f"{self._endpoint.name} breaks off its answer to this: it was too long.")
        if not (choice.message.content or "").strip():
            raise QuestionRejected(f"{self._endpoint.name} answers this with nothing.")
        return choice.message.content or ""

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _ask(self, instructions: str, text: str, *, in_form: bool) -> _Reply:
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": text},
        ]

        async def send(client: openai.AsyncOpenAI, seconds: float) -> bytes:
            import openai  # noqa: PLC0415 - loaded by now

            response = await client.chat.completions.with_raw_response.create(
                model=self._model,
                messages=messages,
                response_format={"type": "json_object"} if in_form else openai.omit,
                timeout=seconds,
            )
            return response.content

        return await self._endpoint.ask(send, _Reply.model_validate_json)
