"""A wire to a server that can be cut, held or made to drip: TCP on loopback before any server, on TCP or a unix socket.

with Relay(("127.0.0.1", 6333)) as relay:      # or a path: Relay("/run/postgres/.s.PGSQL.5432")
    connect(relay.port)
    relay.be(Wire.HANG)                        # from now on, for connections that are open as well

It runs in a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Self

_PIECE = 65536


class Wire(StrEnum):
    """What the wire does to what is sent over it."""

    SOUND = "sound"
    REFUSE = "refuse"  # nobody listens, and what is open is reset
    HANG = "hang"  # connections are taken, and nothing comes back
    DRIP = "drip"  # what comes back comes a byte each 50 ms
    HALF_OPEN = "half open"  # what comes back is passed on, but not that it ended


class Relay:
    """Passes on what it gets, as its wire is at the time. The port stays the same.

    With `tls` it is where a Postgres that encrypts would be: its side of the wire is encrypted as a client asks for it.
    `away`: seconds that an answer is on its way.
    """

    def __init__(self, target: tuple[str, int] | str, *, tls: ssl.SSLContext | None = None, away: float = 0.0) -> None:
        self._target = target
        self._tls = tls
        self._away = away
        self._wire = Wire.SOUND
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    def be(self, wire: Wire) -> None:
        """Change the wire; it has changed when this returns."""
        asyncio.run_coroutine_threadsafe(self._be(wire), self._loop).result(10)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.be(Wire.SOUND)
        return self

    def __exit__(self, *_: object) -> None:
        self.be(Wire.REFUSE)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _be(self, wire: Wire) -> None:
        self._wire = wire
        if wire is Wire.REFUSE:
            if self._server is not None:
                self._server.close()
                self._server = None
            for writer in list(self._open):
                writer.transport.abort()
        elif self._server is None:
            listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", self.port))
            self.port = listening.getsockname()[1]
            self._server = await asyncio.start_server(self._connected, sock=listening)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened = (
            asyncio.open_unix_connection(self._target)
            if isinstance(self._target, str)
            else asyncio.open_connection(*self._target)
        )
        with suppress(OSError):
            far_reader, far_writer = await opened
            self._open.add(far_writer)
            if self._tls is not None:
                await reader.readexactly(8)  # the request to encrypt
                writer.write(b"S")
                await writer.start_tls(self._tls)
            self._open |= {writer, far_writer}
            for one, other, back in ((reader, far_writer, False), (far_reader, writer, True)):
                task = asyncio.create_task(self._pass_on(one, other, back=back))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return
        writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while piece := await reader.read(_PIECE):
                if back and self._away:
                    await asyncio.sleep(self._away)
                await self._while(lambda: self._wire is Wire.HANG)
                if back and self._wire is Wire.DRIP:
                    piece = await self._drip(piece, writer)
                writer.write(piece)
                await writer.drain()
        if not (back and self._wire is Wire.HALF_OPEN):
            writer.close()
            self._open.discard(writer)

    async def _drip(self, piece: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Pass on a byte at a time until that ends; return what is left."""
        while piece and self._wire is Wire.DRIP:
            writer.write(piece[:1])
            await writer.drain()
            await asyncio.sleep(0.05)
            piece = piece[1:]
        return piece

    @staticmethod
    async def _while(true: Callable[[], bool]) -> None:
        while true():  # noqa: ASYNC110 - whatever thread changes it
            await asyncio.sleep(0.005)
