"""The MCP server: the tools of `tools` through the official SDK, on standard streams or over HTTP.

Needs `hardwon[mcp]`; imported on first use only, since the SDK takes two seconds of processor time to load.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import TypeAdapter

from hardwon.errors import HardwonError
from hardwon.event_log import get_logger
from hardwon.settings import VERSION
from knowledge.models import Context
from orchestrator.mcp.streams import standard_streams
from orchestrator.mcp.tools import TOOLS, Caller, KnowledgeTool

log = get_logger(__name__)
logging.getLogger("mcp").setLevel(logging.ERROR)  # it warns of each invalid message, which is the sender's fault

INSTRUCTIONS = (
    "The learning memory of an orchestrator. Before a task is assigned, build_context; when something failed and was"
    " mended, or a gate has decided, capture; when a phase or project ends, checkpoint; when a task has ended,"
    " record_outcome of the patterns in its context. Beside it, documents: the answer_from tools answer from what is"
    " written there. A key is shown the tools that it may use."
)


FindCaller = Callable[[Any], Awaitable[Caller]]
"""Returns the caller of a request of the SDK; raises a HardwonError for a request that is not allowed."""


def make_server(find_caller: FindCaller) -> Server[Any]:
    """Return the server. The services check permissions; the list only leaves out tools that they would refuse."""

    async def list_tools(context: Any, _: PaginatedRequestParams | None) -> ListToolsResult:
        caller = await _authenticate(find_caller, context)
        return ListToolsResult(tools=[_describe_tool(tool) for tool in TOOLS.values() if caller.sees(tool)])

    async def call_tool(context: Any, request: CallToolRequestParams) -> CallToolResult:
        caller = await _authenticate(find_caller, context)
        tool = TOOLS.get(request.name)
        if tool is None:
            names = ", ".join(each.name for each in TOOLS.values() if caller.sees(each)) or "another key"
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool of this name: use {names}")
        try:
            answer = await tool.call(caller, request.arguments or {})
        except HardwonError as error:
            return _make_error(error)
        except Exception:
            log.exception("tool_failed", tool=tool.name)
            return _make_error(HardwonError("hardwon met a defect of its own: its log says which"))
        return _make_result(tool.answer, answer)

    return Server(
        "hardwon",
        version=VERSION,
        title="hardwon",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_streams(caller: Caller) -> None:
    """Serve one caller on standard input and output until the input ends or the output is closed."""

    async def find_caller(_: Any) -> Caller:
        return caller

    server = make_server(find_caller)
    try:
        async with standard_streams() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* BrokenPipeError:
        log.info("caller_gone")


async def _authenticate(find_caller: FindCaller, context: Any) -> Caller:
    try:
        return await find_caller(context)
    except HardwonError as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from error


def _describe_tool(tool: KnowledgeTool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.arguments),
        output_schema=tool.answer_schema(),
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _make_result(kind: TypeAdapter[Any], answer: Any) -> CallToolResult:
    """Return an answer as an object, and as text for a client that reads only text."""
    if answer is None:
        return CallToolResult(content=[TextContent(text="done")])
    plain = kind.dump_python(answer, mode="json")
    text = answer.text if isinstance(answer, Context) else json.dumps(plain, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=plain)


def _make_error(error: HardwonError) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
