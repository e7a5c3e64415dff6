"""Chat over HTTP: OpenAI, or any endpoint with its chat completions protocol."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable
from knowledge.adapters.llm.chat_replies import read_text
from knowledge.adapters.llm.completions import PATH, Completions
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.failures import EndpointKind
from knowledge.adapters.llm.parameters import Parameters
from knowledge.ports import ChatModel

CONCURRENCY = 4
"""Concurrent requests."""
MAX_RESPONSE_BYTES = 16 * 2**20
"""Ours: no model writes a hundredth of it."""
FORMAT_WORDS = ("json_schema", "json_object", "json mode", "structured output", "structured outputs", "grammar")
"""Words by which endpoints name a `response_format` that they refuse."""

CHAT = EndpointKind(
    name="chat",
    closed="The chat model",
    answers="an answer",
    variable="HARDWON_CHAT",
    settings="HARDWON_CHAT_MODEL or HARDWON_CHAT_BASE_URL",
    path=PATH,
    max_bytes=MAX_RESPONSE_BYTES,
    unavailable=ChatUnavailable,
    rejected=ChatRejected,
)
_FORMAT = "response_format"
_PARAMETERS = Parameters({_FORMAT: ("json_object", None)}, also_called={_FORMAT: FORMAT_WORDS})


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
        endpoint = Endpoint(
            CHAT,
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._model = model
        self._completions = Completions(endpoint, model, _PARAMETERS, settings=CHAT.settings)

    @property
    def model(self) -> str:
        return self._model

    async def answer(self, instructions: str, text: str, *, as_json: bool = False) -> str:
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": text}]
        completion = await self._completions.ask(
            messages, [_FORMAT] if as_json else [], _fields if as_json else _no_fields
        )
        return read_text(completion.choice, self._completions.endpoint.name)

    async def aclose(self) -> None:
        await self._completions.endpoint.aclose()


def _fields(parameters: Parameters) -> dict[str, Any]:
    form = parameters.form(_FORMAT)
    return {_FORMAT: {"type": form}} if form else {}


def _no_fields(_: Parameters) -> dict[str, Any]:
    return {}
