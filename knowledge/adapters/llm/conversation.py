"""Conversations with tools and schemas over HTTP: OpenAI, or any endpoint with its chat completions protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable, QuestionRejected
from knowledge.adapters.llm.chat import CONCURRENCY, MAX_RESPONSE_BYTES
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.replies import EndpointKind, RefusedError, tokens_used
from knowledge.documents.llm import ChatOptions, ChatReply, LanguageModel, Message, ToolCall, ToolsRefused
from knowledge.text.redaction import redact

if TYPE_CHECKING:
    import openai

_LENGTHS = ("max_tokens", "max_completion_tokens")
_FORMS = ("json_schema", "json_object", None)


class _Function(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str
    arguments: str = ""


class _Call(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str
    function: _Function


class _Message(BaseModel):
    model_config = ConfigDict(strict=True)
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(strict=True)
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None


def endpoint_kind(role: str) -> EndpointKind:
    """Return the description of an endpoint of a role: its settings begin with HARDWON_ and the role."""
    variable = f"HARDWON_{role.upper()}"
    return EndpointKind(
        name=role,
        closed=f"The {role} model",
        answers="an answer",
        variable=variable,
        settings=f"{variable}_MODEL or {variable}_BASE_URL",
        parameters=frozenset({"model"}),
        max_bytes=MAX_RESPONSE_BYTES,
        unavailable=ChatUnavailable,
        rejected=ChatRejected,
    )


class OpenAIConversation(LanguageModel):
    """Asks a chat endpoint for the next message. A 429 or a Retry-After delays every caller.

    A parameter that an endpoint rejects (a schema, JSON, a temperature, a name of the token limit) is left out from
    then on; rejected tools raise ToolsRefused. With `redaction` everything sent is redacted.
    """

    def __init__(
        self,
        role: str,
        model: str,
        *,
        api_key: SecretStr | None = None,
        base_url: str | None = None,
        redaction: bool = True,
        concurrency: int = CONCURRENCY,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            endpoint_kind(role),
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._model = model
        self._redaction = redaction
        self._length = 0
        self._form = 0
        self._takes_temperature = True

    @property
    def model(self) -> str:
        return self._model

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        while True:
            tried = (self._length, self._form, self._takes_temperature)
            try:
                reply = await self._ask(messages, asking)
            except RefusedError as refusal:
                if tried != (self._length, self._form, self._takes_temperature):
                    continue  # another call has adapted meanwhile
                self._adapt(refusal, asking)
                continue
            return replace(self._to_said(reply.choices[0]), tokens=tokens_used(reply.usage))

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def _adapt(self, refusal: RefusedError, asking: ChatOptions) -> None:
        """Leave out from now on the parameter that the endpoint rejects. Raises if it refuses the question itself."""
        blamed = f"{refusal.param} {refusal.reason}"
        if asking.form is not None and ("response_format" in blamed or "json_schema" in blamed):
            if _FORMS[self._form] is not None:
                self._form += 1
                return
        elif asking.max_tokens is not None and _LENGTHS[0] in blamed and self._length == 0:
            self._length = 1
            return
        elif asking.temperature is not None and "temperature" in blamed and self._takes_temperature:
            self._takes_temperature = False
            return
        elif asking.tools and "tool" in blamed:
            raise ToolsRefused(f"{self._endpoint.name} takes no tools: {refusal.reason}.") from None
        raise QuestionRejected(f"{self._endpoint.name} refuses this question: {refusal.reason}.") from None

    def _to_said(self, choice: _Choice) -> ChatReply:
        message = choice.message
        if message.tool_calls:
            calls = [
                ToolCall(call_id=c.id, name=c.function.name, arguments=c.function.arguments) for c in message.tool_calls
            ]
            return ChatReply(text=message.content or "", calls=tuple(calls))
        if message.refusal or choice.finish_reason == "content_filter":
            raise QuestionRejected(f"{self._endpoint.name} declines to answer this.")
        if choice.finish_reason == "length":
            raise QuestionRejected(f"{self._endpoint.name} breaks off its answer to this: it was too long.")
        if not (message.content or "").strip():
            raise QuestionRejected(f"{self._endpoint.name} answers this with nothing.")
        return ChatReply(text=message.content or "")

    async def _ask(self, messages: Sequence[Message], asking: ChatOptions) -> _Reply:
        parameters = self._parameters(messages, asking)

        async def send(client: openai.AsyncOpenAI, seconds: float) -> bytes:
            response = await client.chat.completions.with_raw_response.create(
                model=self._model, timeout=seconds, **parameters
            )
            content: bytes = response.content
            return content

        return await self._endpoint.ask(send, _Reply.model_validate_json)

    def _parameters(self, messages: Sequence[Message], asking: ChatOptions) -> dict[str, Any]:
        parameters: dict[str, Any] = {"messages": [self._to_request(message) for message in messages]}
        if asking.max_tokens is not None:
            parameters[_LENGTHS[self._length]] = asking.max_tokens
        if asking.temperature is not None and self._takes_temperature:
            parameters["temperature"] = asking.temperature
        if asking.form is not None and _FORMS[self._form] == "json_schema":
            schema = {"name": "answer", "schema": dict(asking.form), "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif asking.form is not None and _FORMS[self._form] == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        if asking.tools:
            parameters["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.parameters),
                    },
                }
                for tool in asking.tools
            ]
            parameters["tool_choice"] = asking.tool_choice
        return parameters

    def _to_request(self, message: Message) -> dict[str, Any]:
        content = redact(message.content).text if self._redaction and message.role != "system" else message.content
        fields: dict[str, Any] = {"role": message.role, "content": content}
        if message.calls:
            fields["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.calls
            ]
        if message.call_id is not None:
            fields["tool_call_id"] = message.call_id
        return fields
