"""The tool-calling loop of a model, with hard limits on rounds, calls and the size of results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hardwon.errors import InvalidInput, QuestionRejected
from hardwon.event_log import get_logger
from knowledge.documents.llm import ChatOptions, ChatReply, LanguageModel, Message, Tool, ToolCall

log = get_logger(__name__)

MAX_ROUNDS = 10
MAX_RESULT_CHARS = 24_000
_REPEATED_CALL = "You asked this before; the answer is the same: "

Arguments = Mapping[str, Any]
Handler = Callable[[Arguments], Awaitable[str]]


class MalformedCall(QuestionRejected):
    """A model wrote an invalid call: its arguments are not a JSON object, or the tool does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool with its handler. `is_limited`: its calls count towards the limit.

    A handler raises ValueError, PermissionError or InvalidInput for a call that the model may correct.
    """

    tool: Tool
    handler: Handler
    is_limited: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedCall:
    """A call of an offered tool. `key` is the same for a repeated call."""

    call: ToolCall
    offered: OfferedTool
    arguments: Arguments
    key: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _InvalidCall:
    """A call that cannot be parsed, in a form that may be sent back to the model, and the reason."""

    call: ToolCall
    reason: str


@dataclass(slots=True, kw_only=True)
class ToolLoop:
    """The tool calls of one request. The limit holds over all rounds and for concurrent calls.

    `lenient`: an invalid call is reported to the model, which may correct it, instead of ending the loop. `succeeded`,
    `failed`: numbers of limited calls, and of invalid ones.
    """

    model: LanguageModel
    offered: Sequence[OfferedTool]
    max_calls: int
    max_tokens: int | None = 1_000
    temperature: float | None = 0.0
    max_rounds: int = MAX_ROUNDS
    lenient: bool = False
    calls: int = 0
    called_tools: list[str] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    _answers: dict[tuple[str, str], str] = field(default_factory=dict)

    async def run(self, messages: Sequence[Message], *, first: Literal["auto", "required"] = "auto") -> ChatReply:
        """Return the model's response once it calls no more tools, or may not.

        `required`: it has to make a limited call first. Raises MalformedCall, ToolsRefused, or what the model raises.
        """
        history = list(messages)
        tools = tuple(each.tool for each in self.offered)
        for number in range(self.max_rounds):
            spent = self.calls >= self.max_calls or number == self.max_rounds - 1
            asking = ChatOptions(
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                tools=tools,
                tool_choice="none" if spent else "auto" if self.calls else first,
            )
            response = await self.model.say(history, asking)
            if not response.calls or spent:
                return replace(response, calls=())
            calls = [self._parse_call(call) for call in response.calls]
            history.append(Message(role="assistant", content=response.text, calls=tuple(each.call for each in calls)))
            answers = await self._answer_calls(calls)
            history += [
                Message(role="tool", content=answer, call_id=call.call_id)
                for call, answer in zip(response.calls, answers, strict=True)
            ]
        raise AssertionError("unreachable")

    async def _answer_calls(self, calls: Sequence[_ParsedCall | _InvalidCall]) -> list[str]:
        """Answer calls concurrently; those within the limit are chosen before any runs."""
        planned: list[Awaitable[str]] = []
        for each in calls:
            if isinstance(each, _InvalidCall):
                self.failed += 1
                planned.append(_return_text(_error_json(each.reason)))
            elif each.key in self._answers:
                planned.append(_return_text(_REPEATED_CALL + self._answers[each.key]))
            elif each.offered.is_limited and self.calls >= self.max_calls:
                planned.append(_return_text(_error_json(f"the limit of {self.max_calls} calls is reached: answer now")))
            else:
                self.calls += each.offered.is_limited
                self.called_tools.append(each.offered.tool.name)
                planned.append(self._run_call(each.offered, each.arguments, each.key))
        answers = await asyncio.gather(*planned, return_exceptions=True)  # so that none runs on after an error
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        self.failed += len(errors)
        if errors:
            raise errors[0]
        return [answer for answer in answers if isinstance(answer, str)]

    def _parse_call(self, call: ToolCall) -> _ParsedCall | _InvalidCall:
        """Return the parsed call, or an invalid one with the reason. Raises MalformedCall instead unless `lenient`."""
        offered = self._find_tool(call.name)
        try:
            arguments = json.loads(call.arguments or "{}")
            canonical = json.dumps(arguments, sort_keys=True)
        except (ValueError, RecursionError):  # a model that repeats itself may nest very deeply
            arguments = None
        if offered is not None and isinstance(arguments, dict):
            return _ParsedCall(call=call, offered=offered, arguments=arguments, key=(offered.tool.name, canonical))
        log.warning("tool_call_not_read", tool=call.name[:100])
        if not self.lenient:
            raise MalformedCall(f"The model wrote an invalid call of the tool {call.name[:100]!r}: ask again.")
        if offered is None:
            names = ", ".join(each.tool.name for each in self.offered) or "none"
            reason = f"there is no tool {call.name[:100]!r}; the tools are: {names}"
        else:
            reason = f"the arguments of {offered.tool.name} are not a JSON object: call it again with one"
        valid = call.arguments if isinstance(arguments, dict) else "{}"  # some endpoints refuse invalid JSON
        return _InvalidCall(call=replace(call, arguments=valid), reason=reason)

    def _find_tool(self, name: str) -> OfferedTool | None:
        """Return the tool of a name; models also write it in capitals, or after the name of a namespace.

        A tool's name may contain dots: the longest suffix that is a tool's name counts.
        """
        for each in self.offered:
            if each.tool.name == name:
                return each
        by_name = {each.tool.name.casefold(): each for each in reversed(self.offered)}
        suffix = name.strip().casefold()
        while suffix not in by_name and "." in suffix:
            suffix = suffix.partition(".")[2].strip()
        return by_name.get(suffix)

    async def _run_call(self, offered: OfferedTool, arguments: Arguments, key: tuple[str, str]) -> str:
        name = offered.tool.name
        try:
            answer = await offered.handler(arguments)
        except (ValueError, PermissionError, InvalidInput) as refusal:
            self.failed += offered.is_limited
            log.info("tool_refused", tool=name, error=type(refusal).__name__)
            if isinstance(refusal, ValueError) and offered.is_limited:
                self.calls -= 1  # nothing was done: the model may correct the call
            return _error_json(str(refusal))
        log.info("tool_answered", tool=name, characters=len(answer))
        if len(answer) > MAX_RESULT_CHARS:
            self.failed += offered.is_limited
            return _error_json(
                f"the result has {len(answer):,} characters, more than the {MAX_RESULT_CHARS:,} that fit: ask for less"
            )
        self.succeeded += offered.is_limited
        self._answers[key] = answer
        return answer


async def _return_text(text: str) -> str:
    return text


def _error_json(message: str) -> str:
    return json.dumps({"status": "error", "error": message})
