"""Port of a chat model that may call tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hardwon.errors import ChatRejected
from knowledge.access.quota import charge_quota, estimate_tokens
from knowledge.ports import Stores

Role = Literal["system", "user", "assistant", "tool"]
JsonSchema = Mapping[str, Any]


class ToolsRefused(ChatRejected):
    """The model or its endpoint does not support tools; it may answer without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of a model. `arguments` is what it wrote, usually JSON."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation with a model; `call_id` of a tool result names the call."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Description of a tool for a model: OpenAI's function schema."""

    name: str
    description: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of a chat request. A temperature of None is not sent: some models do not accept one.

    `form`: the JSON schema of the answer. If an endpoint does not support it, plain JSON mode or no mode is requested.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    form: JsonSchema | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """Reply of a model: a text, or tool calls. `tokens`: usage of the call, 0 if unknown."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: int = 0


class LanguageModel(Protocol):
    """A model in a role, such as `main` or `synthesis`. Retries and limits are the adapter's."""

    @property
    def model(self) -> str:
        """The model's name, as the endpoint knows it."""

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        """Return the next reply of the model.

        Raises ChatUnavailable (worth a retry), QuestionRejected (this question only), ToolsRefused or ChatRejected.
        """

    async def aclose(self) -> None:
        """Free the connections."""


def without_thinking(text: str) -> str:
    """Return the reply of a model without its thinking."""
    return text.rpartition("</think>")[2]


@dataclass(frozen=True, slots=True)
class SpendingModel(LanguageModel):
    """A model that answers within the budget of a workspace."""

    stores: Stores
    language_model: LanguageModel

    @property
    def model(self) -> str:
        """Return the model's name."""
        return self.language_model.model

    async def say(self, messages: Sequence[Message], asking: ChatOptions) -> ChatReply:
        """Return the next reply of the model. Raises BudgetSpent, or what the model raises."""
        prompt_tokens = estimate_tokens(message.content for message in messages)
        async with charge_quota(self.stores, prompt_tokens) as bill:
            reply = await self.language_model.say(messages, asking)
            bill.tokens = reply.tokens or prompt_tokens + estimate_tokens(
                (reply.text, *(call.arguments for call in reply.calls))
            )
            return reply

    async def aclose(self) -> None:
        """Close the model."""
        await self.language_model.aclose()
