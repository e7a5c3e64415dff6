"""Standard input and output as the SDK takes them: read without a thread, and answered to the end."""

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
"""A message on standard input is at most so long."""


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Give what is read and what is written of this process, as the SDK's server takes them."""
    async with stdio_server(stdin=await _standard_input()) as ends, answered_to_the_end(*ends) as streams:
        yield streams


@asynccontextmanager
async def answered_to_the_end(reading: Any, writing: Any) -> AsyncIterator[tuple[Any, Any]]:
    """Give streams of messages of which what is read ends once all that was asked is answered.

    The SDK drops what it is at when its input ends, so that whoever pipes requests into it would be answered the first.
    """
    asked_in, asked = anyio.create_memory_object_stream[SessionMessage | Exception]()
    answers, answers_out = anyio.create_memory_object_stream[SessionMessage]()
    waiting = _Waiting()

    async def read() -> None:
        async with asked_in:
            with suppress(anyio.BrokenResourceError):  # the server ended first
                async for told in reading:
                    await asked_in.send(waiting.asked(told))
                await waiting.none()

    async def write() -> None:
        async with answers_out, writing:
            with suppress(anyio.BrokenResourceError):  # nobody reads any more: what writes says so itself
                async for told in answers_out:
                    await writing.send(told)
                    if isinstance(told.message, JSONRPCResponse | JSONRPCError) and told.message.id is not None:
                        await waiting.settled()

    async with anyio.create_task_group() as both:
        both.start_soon(read)
        both.start_soon(write)
        async with asked, answers:
            yield asked, answers


class _Waiting:
    """How many requests wait for their answers; a cancelled one has none, of which the SDK tells."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = asyncio.Event()

    def asked(self, told: SessionMessage | Exception) -> SessionMessage | Exception:
        """Take a message of the client's; return it as the server is to have it."""
        if isinstance(told, Exception) or not isinstance(told.message, JSONRPCRequest):
            return told
        self._number += 1
        return SessionMessage(told.message, ServerMessageMetadata(on_request_unanswered=self.settled))

    async def settled(self) -> None:
        """Take note that one waits no longer."""
        self._number -= 1
        self._changed.set()

    async def none(self) -> None:
        """Wait until none waits."""
        while self._number:
            self._changed.clear()
            await self._changed.wait()


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
