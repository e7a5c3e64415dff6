"""A model that asks for tools, with hard limits: how often, and what happens to what it asks too much."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from knowledge.documents.language_model import ChatOptions, ChatReply, LanguageModel, Message, Tool, ToolCall
from knowledge.errors import InvalidInput, QuestionRejected
from knowledge.logs import get_logger

log = get_logger(__name__)

MAX_ROUNDS = 10
MAX_RESULT_CHARS = 24_000
_NOTE = "You asked this before; the answer is the same: "

Arguments = Mapping[str, Any]
Handler = Callable[[Arguments], Awaitable[str]]


class MalformedCall(QuestionRejected):
    """A model wrote something that is no call: its arguments are no JSON object, or there is no such tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A tool with what does its work. `counts`: a call is one of the limited ones.

    A handler raises ValueError, PermissionError or an InvalidInput for what the model may put right.
    """

    tool: Tool
    handler: Handler
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A call of a tool that is offered. `key`: what the same call again is known by."""

    call: ToolCall
    offered: Offered
    arguments: Arguments
    key: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    """A call that cannot be read, as it may be repeated to the model, and why."""

    call: ToolCall
    why: str


@dataclass(slots=True, kw_only=True)
class Loop:
    """One request's calls. The limit holds over all rounds and over calls side by side.

    `lenient`: a call that cannot be read is told to the model, which may put it right, and ends nothing. `succeeded`,
    `failed`: of the limited calls, and of those that the model was let put right.
    """

    model: LanguageModel
    offered: Sequence[Offered]
    max_calls: int
    max_tokens: int | None = 1_000
    temperature: float | None = 0.0
    max_rounds: int = MAX_ROUNDS
    lenient: bool = False
    calls: int = 0
    called: list[str] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    _answers: dict[tuple[str, str], str] = field(default_factory=dict)

    async def run(self, messages: Sequence[Message], *, first: Literal["auto", "required"] = "auto") -> ChatReply:
        """Return what the model says once it asks for nothing more, or may not.

        `required`: it has to make a limited call before. Raises MalformedCall, ToolsRefused, or what the model raises.
        """
        told = list(messages)
        tools = tuple(each.tool for each in self.offered)
        for number in range(self.max_rounds):
            spent = self.calls >= self.max_calls or number == self.max_rounds - 1
            asking = ChatOptions(
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                tools=tools,
                tool_choice="none" if spent else "auto" if self.calls else first,
            )
            said = await self.model.say(told, asking)
            if not said.calls or spent:
                return replace(said, calls=())
            read = [self._read(call) for call in said.calls]
            told.append(Message(role="assistant", content=said.text, calls=tuple(each.call for each in read)))
            answers = await self._all(read)
            told += [
                Message(role="tool", content=answer, call_id=call.call_id)
                for call, answer in zip(said.calls, answers, strict=True)
            ]
        raise AssertionError("unreachable")

    async def _all(self, calls: Sequence[_Read | _Unread]) -> list[str]:
        """Answer calls side by side; which of them are within the limit is decided before any runs."""
        planned: list[Awaitable[str]] = []
        for each in calls:
            if isinstance(each, _Unread):
                self.failed += 1
                planned.append(_said(_error(each.why)))
            elif each.key in self._answers:
                planned.append(_said(_NOTE + self._answers[each.key]))
            elif each.offered.counts and self.calls >= self.max_calls:
                planned.append(_said(_error(f"the limit of {self.max_calls} calls is reached: answer now")))
            else:
                self.calls += each.offered.counts
                self.called.append(each.offered.tool.name)
                planned.append(self._one(each.offered, each.arguments, each.key))
        answers = await asyncio.gather(*planned, return_exceptions=True)  # none goes on once this is over
        broken = [answer for answer in answers if isinstance(answer, BaseException)]
        self.failed += len(broken)
        if broken:
            raise broken[0]
        return [answer for answer in answers if isinstance(answer, str)]

    def _read(self, call: ToolCall) -> _Read | _Unread:
        """Return what a call asks of which tool, or why that cannot be read. Raises MalformedCall unless `lenient`."""
        offered = self._meant(call.name)
        try:
            arguments = json.loads(call.arguments or "{}")
            told = json.dumps(arguments, sort_keys=True)
        except (ValueError, RecursionError):  # a model that repeats itself nests as deep as it may write
            arguments = None
        if offered is not None and isinstance(arguments, dict):
            return _Read(call=call, offered=offered, arguments=arguments, key=(offered.tool.name, told))
        log.warning("tool_call_not_read", tool=call.name[:100])
        if not self.lenient:
            raise MalformedCall(
                f"The model asked for the tool {call.name[:100]!r} in a form that cannot be read: ask again."
            )
        if offered is None:
            names = ", ".join(each.tool.name for each in self.offered) or "none"
            why = f"there is no tool {call.name[:100]!r}: those that there are: {names}"
        else:
            why = f"the arguments of {offered.tool.name} are no JSON object: ask again with one"
        plain = call.arguments if isinstance(arguments, dict) else "{}"  # some endpoints refuse what they cannot read
        return _Unread(call=replace(call, arguments=plain), why=why)

    def _meant(self, name: str) -> Offered | None:
        """Return the tool of a name, which models write in capitals, too, and behind the name of where it stands.

        A tool's own name may hold dots: the longest end of what was written that is one counts.
        """
        for each in self.offered:
            if each.tool.name == name:
                return each
        named = {each.tool.name.casefold(): each for each in reversed(self.offered)}
        meant = name.strip().casefold()
        while meant not in named and "." in meant:
            meant = meant.partition(".")[2].strip()
        return named.get(meant)

    async def _one(self, offered: Offered, arguments: Arguments, key: tuple[str, str]) -> str:
        name = offered.tool.name
        try:
            answer = await offered.handler(arguments)
        except (ValueError, PermissionError, InvalidInput) as refusal:
            self.failed += offered.counts
            log.info("tool_refused", tool=name, error=type(refusal).__name__)
            if isinstance(refusal, ValueError) and offered.counts:
                self.calls -= 1  # nothing was done: the model may put it right
            return _error(str(refusal))
        log.info("tool_answered", tool=name, characters=len(answer))
        if len(answer) > MAX_RESULT_CHARS:
            self.failed += offered.counts
            return _error(
                f"the result has {len(answer):,} characters, more than the {MAX_RESULT_CHARS:,} that fit: ask for less"
            )
        self.succeeded += offered.counts
        self._answers[key] = answer
        return answer


async def _said(text: str) -> str:
    return text


def _error(message: str) -> str:
    return json.dumps({"status": "error", "error": message})
