"""Conversations with tools and schemas over HTTP: OpenAI, or any endpoint with its chat completions protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from pydantic import SecretStr

from hardwon.errors import ChatRejected, ChatUnavailable
from knowledge.adapters.llm.chat import CONCURRENCY, FORMAT_WORDS, MAX_RESPONSE_BYTES
from knowledge.adapters.llm.chat_replies import Choice, read_text
from knowledge.adapters.llm.completions import PATH, Completions, ToolParametersRefused
from knowledge.adapters.llm.endpoint import Endpoint, RetryPolicy
from knowledge.adapters.llm.failures import EndpointKind
from knowledge.adapters.llm.parameters import Parameters
from knowledge.adapters.llm.replies import tokens_used
from knowledge.documents.llm import ChatOptions, ChatReply, LanguageModel, Message, ToolCall, ToolsRefused
from knowledge.text.redaction import redact

_LENGTH, _TEMPERATURE, _FORMAT = "max_tokens", "temperature", "response_format"
_TOOLS, _CHOICE, _AUTO = "tools", "tool_choice", "tool_choice auto"
_PARAMETERS = Parameters(
    {
        _LENGTH: (_LENGTH, "max_completion_tokens", None),
        _TEMPERATURE: (_TEMPERATURE, None),
        _FORMAT: ("json_schema", "json_object", None),
        _CHOICE: (_CHOICE, _AUTO, None),
        _TOOLS: (_TOOLS, None),
    },
    also_called={_FORMAT: FORMAT_WORDS, _TOOLS: ("tool", "function", "functions", "function calling")},
)


def endpoint_kind(role: str) -> EndpointKind:
    """Return the description of an endpoint of a role: its settings begin with HARDWON_ and the role."""
    variable = f"HARDWON_{role.upper()}"
    return EndpointKind(
        name=role,
        closed=f"The {role} model",
        answers="an answer",
        variable=variable,
        settings=f"{variable}_MODEL or {variable}_BASE_URL",
        path=PATH,
        max_bytes=MAX_RESPONSE_BYTES,
        unavailable=ChatUnavailable,
        rejected=ChatRejected,
    )


class OpenAIConversation(LanguageModel):
    """Asks a chat endpoint for the next message. A 429 or a Retry-After delays every caller.

    A parameter that an endpoint rejects (a schema, JSON, a temperature, a name of the token limit, a tool choice) is
    left out from then on; rejected tools raise ToolsRefused. With `redaction` everything sent is redacted.
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
        kind = endpoint_kind(role)
        endpoint = Endpoint(
            kind,
            model,
            api_key=api_key,
            base_url=base_url,
            concurrency=concurrency,
            retry=retry or RetryPolicy(),
        )
        self._model = model
        self._redaction = redaction
        self._completions = Completions(endpoint, model, _PARAMETERS, settings=kind.settings)

    @property
    def model(self) -> str:
        return self._model

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        used = [
            name
            for name, value in (
                (_LENGTH, asking.max_tokens),
                (_TEMPERATURE, asking.temperature),
                (_FORMAT, asking.form),
                (_TOOLS, asking.tools or None),
                (_CHOICE, asking.tools or None),
            )
            if value is not None
        ]
        name = self._completions.endpoint.name
        try:
            completion = await self._completions.ask(
                [self._to_request(message) for message in messages], used, partial(_fields, asking)
            )
        except ToolParametersRefused as refusal:
            raise ToolsRefused(f"{name} takes no tools: {refusal}.") from None
        return replace(_to_said(completion.choice, name), tokens=tokens_used(completion.usage))

    async def aclose(self) -> None:
        await self._completions.endpoint.aclose()

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


def _to_said(choice: Choice, endpoint: str) -> ChatReply:
    message = choice.message
    if message.tool_calls:
        calls = [
            ToolCall(
                call_id=call.id or f"call_{uuid4().hex[:12]}",
                name=call.function.name,
                arguments=call.function.arguments,
            )
            for call in message.tool_calls
        ]
        return ChatReply(text=message.content or "", calls=tuple(calls))
    return ChatReply(text=read_text(choice, endpoint))


def _fields(asking: ChatOptions, parameters: Parameters) -> dict[str, Any]:
    """Return the fields of a request, each in the form that the endpoint takes."""
    fields: dict[str, Any] = {}
    if asking.max_tokens is not None and (name := parameters.form(_LENGTH)):
        fields[name] = asking.max_tokens
    if asking.temperature is not None and parameters.form(_TEMPERATURE):
        fields[_TEMPERATURE] = asking.temperature
    if asking.form is not None and (form := parameters.form(_FORMAT)):
        schema = {"name": "answer", "schema": dict(asking.form), "strict": True}
        fields[_FORMAT] = {"type": form, **({"json_schema": schema} if form == "json_schema" else {})}
    if asking.tools and parameters.form(_TOOLS):
        fields[_TOOLS] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
            }
            for tool in asking.tools
        ]
        if choice := parameters.form(_CHOICE):
            fields[_CHOICE] = "auto" if choice == _AUTO else asking.tool_choice
    return fields
