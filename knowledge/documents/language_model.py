"""A model that answers in a conversation, and may ask for tools: what answering needs of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from knowledge.errors import ChatRejected

Role = Literal["system", "user", "assistant", "tool"]
JsonSchema = Mapping[str, Any]


class ToolsRefused(ChatRejected):
    """The model or its endpoint takes no tools; without them it may answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool a model asks for. `arguments` is what it wrote: JSON, if it did well."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation with a model; `call_id` of a tool's answer says which call it answers."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as a model is told of it: OpenAI's function schema."""

    name: str
    description: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a model is to answer. A temperature of None is not sent: some models take none.

    `form`: the JSON schema of the answer. An endpoint that cannot be asked for it is asked for JSON, or for nothing.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    form: JsonSchema | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model said: a text, or the tools it asks for. `tokens`: what the call cost, 0 where nobody tells."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: int = 0


class LanguageModel(Protocol):
    """A model in a role, such as `main` or `synthesis`. Retries and limits are the adapter's."""

    @property
    def model(self) -> str:
        """The model's name, as the endpoint knows it."""
        ...

    async def say(self, messages: Sequence[Message], asking: Asking) -> Said:
        """Return what the model says next.

        Raises ChatUnavailable (worth a retry), QuestionRejected (of this very question), ToolsRefused or ChatRejected.
        """
        ...

    async def aclose(self) -> None:
        """Free the connections."""
        ...


def without_thinking(text: str) -> str:
    """Return what a model says without what it thought aloud before."""
    return text.rpartition("</think>")[2]
