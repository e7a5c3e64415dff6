"""The MCP server: the tools of `tools` through the official SDK, on standard streams or over HTTP.

Needs `hardwon[mcp]`; the SDK takes two seconds of processor time to load, so that only who uses it loads this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Self

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
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

from knowledge.errors import HardwonError, InvalidInput
from knowledge.logs import get_logger
from knowledge.models import Context
from orchestrator.mcp.tools import TOOLS, Caller, KnowledgeTool

log = get_logger(__name__)
logging.getLogger("mcp").setLevel(logging.ERROR)  # it warns of each message that is none, which is the sender's affair

INSTRUCTIONS = (
    "The learning memory of an orchestrator. Before a task is assigned, build_context; when something failed and was"
    " mended, or a gate has decided, capture; when a phase or project ends, checkpoint; when a task has ended,"
    " record_outcome of the patterns in its context. Beside it, documents: the answer_from tools answer from what is"
    " written there. A key is shown the tools that it may use."
)


LINE_BYTES = 4 * 1024 * 1024
"""A message on standard input is at most so long."""

FindCaller = Callable[[Any], Awaitable[Caller]]
"""From a request of the SDK to the caller; raises a HardwonError where nobody may come in."""


def make_server(find_caller: FindCaller) -> Server[Any]:
    """Return the server. What is refused to a caller the services refuse; the list only spares it the attempt."""

    async def list_tools(context: Any, _: PaginatedRequestParams | None) -> ListToolsResult:
        caller = await _entered(find_caller, context)
        return ListToolsResult(tools=[_told(tool) for tool in TOOLS.values() if caller.sees(tool)])

    async def call_tool(context: Any, asked: CallToolRequestParams) -> CallToolResult:
        caller = await _entered(find_caller, context)
        tool = TOOLS.get(asked.name)
        if tool is None:
            shown = ", ".join(each.name for each in TOOLS.values() if caller.sees(each)) or "another key"
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool of this name: use {shown}")
        try:
            answer = await tool.call(caller, asked.arguments or {})
        except HardwonError as error:
            return _failed(error)
        except Exception:
            log.exception("tool_failed", tool=tool.name)
            return _failed(HardwonError("hardwon met a defect of its own: its log says which"))
        return _answered(tool.answer, answer)

    return Server(
        "hardwon",
        version=version("hardwon"),
        title="hardwon",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_streams(caller: Caller) -> None:
    """Serve one caller on standard input and output until the input ends, or nobody reads the output any more."""

    async def always(_: Any) -> Caller:
        return caller

    server = make_server(always)
    try:
        async with stdio_server(stdin=await _standard_input()) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* BrokenPipeError:
        log.info("caller_gone")


class _Lines:
    """The lines of a stream, as the SDK reads them; a line that is too long is told as what no message looks like."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except ValueError:  # it was longer than the limit, and is dropped
            return "\n"
        if not line:
            raise StopAsyncIteration
        return _ESCAPE.sub(_readable, line.decode("utf-8", "replace"))


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""What JSON escapes: a character in two halves, half a one, anything else."""


def _readable(escape: re.Match[str]) -> str:
    """Return an escape; for half a character that of U+FFFD, which stands for bytes that are no character, too.

    The SDK does not read a message with a half, and answers it nothing: who had cut a text in the middle of an emoji
    would wait for good.
    """
    return r"\ufffd" if escape["half"] else escape[0]


async def _standard_input() -> Any:
    """Return standard input, read without a thread: one that waits for a line would keep the process from ending.

    None, for the SDK's own way, where it is a file or the null device, which always has a line or an end.
    """
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or sys.stdin.isatty()):
        return None
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return _Lines(reader)


async def _entered(find_caller: FindCaller, context: Any) -> Caller:
    try:
        return await find_caller(context)
    except HardwonError as error:
        raise MCPError(code=INVALID_PARAMS, message=f"{type(error).__name__}: {error}") from error


def _told(tool: KnowledgeTool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.says,
        input_schema=dict(tool.arguments),
        output_schema=tool.answer_schema(),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _answered(kind: TypeAdapter[Any], answer: Any) -> CallToolResult:
    """Return an answer as an object, and as text for a client that reads that alone."""
    plain = kind.dump_python(answer, mode="json")
    text = answer.text if isinstance(answer, Context) else json.dumps(plain, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=text)], structured_content=plain)


def _failed(error: HardwonError) -> CallToolResult:
    said = f"{error.field}: {error.reason}" if isinstance(error, InvalidInput) else str(error)
    return CallToolResult(content=[TextContent(text=f"{type(error).__name__}: {said}")], is_error=True)
