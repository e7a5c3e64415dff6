"""Replies of the chat completions protocol, read generously: endpoints leave out and rename much of it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json

from hardwon.errors import QuestionRejected
from knowledge.adapters.llm.failures import UnusableReplyError


def _to_text(content: Any) -> Any:
    """Return the text of a content that is a list of parts; parts that are no text are left out."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))


def _to_arguments(arguments: Any) -> Any:
    """Return arguments as JSON: some endpoints send the object itself, or nothing for a tool without any."""
    if arguments is None:
        return "{}"
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict | list) else arguments


class CalledFunction(BaseModel):
    """The function of a tool call."""

    model_config = ConfigDict(strict=True)
    name: str
    arguments: Annotated[str, BeforeValidator(_to_arguments)] = "{}"


class Call(BaseModel):
    """A tool call; `id` is None if the endpoint gave it none."""

    id: Annotated[str | None, BeforeValidator(lambda each: str(each) if isinstance(each, int) else each)] = None
    function: CalledFunction


class ReplyMessage(BaseModel):
    """The message of a choice."""

    model_config = ConfigDict(strict=True)
    content: Annotated[str | None, BeforeValidator(_to_text)] = None
    refusal: Annotated[str | None, BeforeValidator(_to_text)] = None
    tool_calls: list[Call] | None = None


class Choice(BaseModel):
    """A choice of a reply."""

    message: ReplyMessage
    finish_reason: Any = None

    @model_validator(mode="before")
    @classmethod
    def _message_of_legacy_form(cls, value: Any) -> Any:
        """Read the tool call of the protocol's first form."""
        message = value.get("message") if isinstance(value, dict) else None
        call = message.get("function_call") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(call, dict) or message.get("tool_calls"):
            return value
        return {**value, "message": {**message, "tool_calls": [{"function": call}]}}


class ChatCompletion(BaseModel):
    """A reply: its first choice, and the usage."""

    choice: Choice
    usage: Any = None


def read_completion(content: bytes) -> ChatCompletion:
    """Return a reply. Raises ValueError for what is none."""
    body = from_json(content)
    if not isinstance(body, dict) or "choices" not in body:
        raise ValueError("no reply of the protocol")
    choices = body["choices"]
    if not isinstance(choices, list) or not choices:
        raise UnusableReplyError("answers with no choice at all")
    try:
        return ChatCompletion(choice=Choice.model_validate(choices[0]), usage=body.get("usage"))
    except ValidationError as error:
        where = ".".join(str(each) for each in error.errors(include_input=False, include_url=False)[0]["loc"])
        raise UnusableReplyError(f"answers with a choice whose {where} cannot be read") from None


def read_text(choice: Choice, endpoint: str) -> str:
    """Return the text of an answer. Raises QuestionRejected for one that is declined, cut off or empty."""
    message = choice.message
    if message.refusal or choice.finish_reason == "content_filter":
        raise QuestionRejected(f"{endpoint} declines to answer this.")
    if choice.finish_reason == "length":
        raise QuestionRejected(f"{endpoint} breaks off its answer to this: it was too long.")
    if not (message.content or "").strip():
        raise QuestionRejected(f"{endpoint} answers this with nothing.")
    return message.content or ""
