"""Standard input and output for the SDK: read without a thread, and with all requests answered at the end."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

LINE_BYTES = 4 * 1024 * 1024
"""Longest message on standard input."""


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the input and the output stream of this process, as the SDK's server takes them."""
    async with stdio_server(stdin=await _standard_input()) as ends, finish_requests(*ends) as streams:
        yield streams


@asynccontextmanager
async def finish_requests(reading: Any, writing: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Yield message streams whose input ends only once all requests are answered.

    The SDK cancels running requests when its input ends, so a client that pipes in requests would get one answer.
    """
    requests_in, requests = anyio.create_memory_object_stream[SessionMessage | Exception]()
    answers, answers_out = anyio.create_memory_object_stream[SessionMessage]()
    pending = _PendingRequests()

    async def read() -> None:
        async with requests_in:
            with suppress(anyio.BrokenResourceError):  # the server ended first
                async for message in reading:
                    await requests_in.send(pending.track(message))
                await pending.wait_until_none()

    async def write() -> None:
        async with answers_out, writing:
            with suppress(anyio.BrokenResourceError):  # the output is closed: its writer reports that
                async for answer in answers_out:
                    await writing.send(answer)
                    if isinstance(answer.message, JSONRPCResponse | JSONRPCError) and answer.message.id is not None:
                        await pending.finish()

    async with anyio.create_task_group() as both:
        both.start_soon(read)
        both.start_soon(write)
        async with requests, answers:
            yield requests, answers


class _PendingRequests:
    """Counter of the requests without an answer; the SDK reports cancelled ones, which get none."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = asyncio.Event()

    def track(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        """Count a message if it is a request; return it as the server is to get it."""
        if isinstance(message, Exception) or not isinstance(message.message, JSONRPCRequest):
            return message
        self._number += 1
        return SessionMessage(message.message, ServerMessageMetadata(on_request_unanswered=self.finish))

    async def finish(self) -> None:
        """Count a request as finished."""
        self._number -= 1
        self._changed.set()

    async def wait_until_none(self) -> None:
        """Wait until all requests are finished."""
        while self._number:
            self._changed.clear()
            await self._changed.wait()


class _Lines:
    """The lines of a stream, as the SDK reads them; a line that is too long becomes an empty, invalid one."""

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
        return _ESCAPE.sub(_replace_surrogate, line.decode("utf-8", "replace"))


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""Escapes of JSON: a pair of surrogates, a lone surrogate, any other."""


def _replace_surrogate(escape: re.Match[str]) -> str:
    """Return an escape; for a lone surrogate that of U+FFFD, the replacement character.

    The SDK cannot read a message with a lone surrogate, and does not answer it: a client that cut a text in the middle
    of an emoji would wait for ever.
    """
    return r"\ufffd" if escape["half"] else escape[0]


async def _standard_input() -> Any:
    """Return standard input, read without a thread: a thread that waits for a line would keep the process alive.

    None where it is a file or the null device, which the SDK itself can read: these never block.
    """
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or sys.stdin.isatty()):
        return None
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return _Lines(reader)
