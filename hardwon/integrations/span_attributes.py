"""Attributes of OpenTelemetry spans that say what an agent did, as the GenAI conventions and older writers name them.

All others are left out: those of requests to models hold prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOOL_NAME: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "tool_name")
CALL_ID: Final = ("gen_ai.tool.call.id", "tool_call.id", "tool_use_id")
COMMAND: Final = ("full_command",)
"""A line of shell, as Claude Code tells it."""
ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool_arguments", "input.value", "traceloop.entity.input")
RESULT: Final = ("gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output")
AGENT_NAME: Final = ("gen_ai.agent.name", "agent.name")
CONVERSATION: Final = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
REPOSITORY: Final = ("vcs.repository.name", "service.name")
FOLDER: Final = "process.working_directory"
RETRY_CAUSE: Final = "pydantic_ai.tool.retry.cause"
EXCEPTION: Final = ("exception.type", "exception.message")

_KINDS: Final = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind")
_TOOLS: Final = frozenset({"execute_tool", "tool"})
_AGENTS: Final = frozenset({"invoke_agent", "create_agent", "agent"})
_OF_ANY_SPAN: Final = frozenset(
    {*_KINDS, *AGENT_NAME, *CONVERSATION, "span.type", "decision", "source", "success", "error.type"}
)
_OF_TOOLS: Final = frozenset({*TOOL_NAME, *CALL_ID, *COMMAND, *ARGUMENTS, *RESULT, "gen_ai.tool.type", RETRY_CAUSE})
OF_SPANS: Final = _OF_ANY_SPAN | _OF_TOOLS
RESOURCE: Final = frozenset({*REPOSITORY, FOLDER})


def is_tool_span(attributes: Mapping[str, object]) -> bool:
    """Return whether a span is the call of a tool."""
    return _kind_of(attributes) in _TOOLS


def is_agent_span(attributes: Mapping[str, object]) -> bool:
    """Return whether a span is the run of an agent."""
    return _kind_of(attributes) in _AGENTS


def wanted_attributes(attributes: Mapping[str, object]) -> frozenset[str]:
    """Return the names of the attributes of a span that are kept: arguments and results are those of tools alone."""
    return _OF_ANY_SPAN | _OF_TOOLS if is_tool_span(attributes) else _OF_ANY_SPAN


def _kind_of(attributes: Mapping[str, object]) -> str:
    told = (attributes.get(name) for name in _KINDS)
    return next((each.lower() for each in told if isinstance(each, str)), "")
