"""The streams of MCP on standard input and output: all that was asked is answered, though the input ended."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import CallToolRequestParams, CallToolResult, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from orchestrator.mcp.streams import finish_requests


def _call(request_id: str | int, seconds: float) -> JSONRPCRequest:
    """Return the call of a tool that takes so long."""
    params = {"name": "sleep", "arguments": {"seconds": seconds}}
    return JSONRPCRequest(jsonrpc="2.0", id=request_id, method="tools/call", params=params)


def _cancel(request_id: object) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": request_id})


_OF_NONE: list[object] = [[], {}, None, True, 1.0, 99]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ([_call(7, 0.2), _call("late", 0.1)], ["late", 7]),
        ([_call(7, 0.1), _call(7, 0.3)], [7, 7]),
        ([_call(5, 60), _cancel("5"), _call(6, 0.1)], [6]),
        ([_call("5", 60), _cancel(5), _call(6, 0.1)], [6]),
        ([_call(1, 0.2), *map(_cancel, _OF_NONE)], [1]),
    ],
    ids=["slow ones", "an id twice", "a cancelled one", "a cancelled one by its text", "cancels of none"],
)
async def test_what_is_read_ends_once_nothing_waits_for_its_answer(asked: list[Any], answered: list[Any]) -> None:
    """What is cancelled has no answer, and nobody waits for it."""

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        await asyncio.sleep((params.arguments or {})["seconds"])
        return CallToolResult(content=[])

    server: Server[Any] = Server("slow", on_call_tool=call_tool)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    first = JSONRPCRequest(jsonrpc="2.0", id=0, method="initialize", params=hello)
    ready = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
    to_server, reading = anyio.create_memory_object_stream[SessionMessage | Exception](20)
    writing, from_server = anyio.create_memory_object_stream[SessionMessage](20)
    async with to_server:
        for message in (first, ready, *asked):
            await to_server.send(SessionMessage(message))
    async with asyncio.timeout(20), reading, from_server:
        async with finish_requests(reading, writing) as streams:
            await server.run(*streams, server.create_initialization_options())
        told = [each.message async for each in from_server]
    assert [each.id for each in told if isinstance(each, JSONRPCResponse)] == [0, *answered]
    assert len(told) == 1 + len(answered)
