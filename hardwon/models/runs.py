"""Tool calls of an agent's run, as the program that runs the agent tells them, and the lessons of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

_TROUBLE = re.compile(
    r"timed?_?out|connection|cancel|interrupt|validation|invocation|unknown_?tool|tool_?not_?found", re.IGNORECASE
)
"""Match words in an error's type for what says nothing of the work: the tool was called wrongly, or stopped."""


def is_trouble(error_type: str) -> bool:
    """Return whether an error's type says that nothing was tried."""
    return _TROUBLE.search(error_type) is not None


class ToolOutcome(StrEnum):
    """The result of a tool call.

    `tool_error`: the tool could not do it (wrong arguments, a time limit, no connection), so nothing was tried.
    `denied`: it was not run, because somebody or something turned it down.
    """

    OK = "ok"
    FAILED = "failed"
    TOOL_ERROR = "tool_error"
    DENIED = "denied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call. `text`: the result, or the words of the error; of a denial its reason."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    id: Annotated[str, Field(max_length=200, description="The call's own id, the same in a repeated request.")]
    tool: Annotated[str, Field(max_length=200, description="The tool's name.")]
    arguments: Annotated[Mapping[str, Any], Field(description="The arguments.")]
    outcome: Annotated[ToolOutcome, Field(description="What came of it.")]
    text: Annotated[str, Field(description="The result or the error; of a denial its reason.")] = ""
    exit_code: Annotated[int | None, Field(description="The exit code, where the tool ran a program.")] = None
    proposal: Annotated[str, Field(description="What a person was asked, before the call was turned down.")] = ""
    by_person: Annotated[bool, Field(description="Whether a person turned it down.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRun:
    """The lessons of a run: the number of new ones and of known ones, and what was left out, by the reason."""

    captured: int
    known: int
    left_out: dict[str, int]
