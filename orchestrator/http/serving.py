"""An ASGI app on a listening socket inside a running program: uvicorn without its hold on signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import resource
import socket as sockets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import uvicorn

from knowledge.logs import get_logger
from orchestrator.client.calls import overloaded

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as AutoHTTPProtocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

log = get_logger(__name__)

KEEP_ALIVE_SECONDS = 30
"""What the head of a request has to come, from the connecting or the answer before.

Longer than clients keep an idle connection (httpx: 5 s), so that none is closed just as a request goes out.
"""
UNREAD_SECONDS = 120
"""How long a caller may read nothing of an answer that waits for it, or not say that it is there; ours."""
CUT_SECONDS = 10
"""How long a request that was cut may take to give back what it holds and say so."""


MOST_HEAD_BYTES = 128 * 1024
"""What may come before the head of a request is whole. h11 takes half of that; httptools, which uvicorn prefers where
somebody installed it, would keep all that comes: 200 MB took 580 MB of memory, without a key (measured)."""

MOST_CHUNK_BYTES = 2**40
"""What a chunk of a body may say it has. h11 waits for all that 20 digits can say; httptools refuses such itself."""

PAUSE = "hardwon.pause"
"""Where in the scope of a request stands for how many seconds its connection is not read from once it is answered."""


OTHER_FILES = 256
"""Open files that are not connections of callers: the stores', their engines', the endpoints'; ours."""
LEAST_CONNECTIONS = 64
"""Connections that are taken however few files there may be."""
MOST_FILES = 8192
"""Open files that a server asks for, where its system lets it have so many."""
NO_ROOM_SECONDS = 1
_NO_ROOM = (
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n"
    b"retry-after: %d\r\nconnection: close\r\n\r\n"
)


def raise_file_limit() -> None:
    """Let this process open as many files as a server with many callers needs, or as its system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _most_connections() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_FILES if soft == resource.RLIM_INFINITY else max(LEAST_CONNECTIONS, soft - OTHER_FILES)


_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener(sockets.socket):
    """A listening socket that says once that no file is left for another connection, and then is quiet for a while.

    asyncio stops listening for a second where it is told, but goes on asking as often as connections may wait, 2,048
    times, and logs each: 7 MB a second (3.11, measured).
    """

    _quiet_until = -math.inf

    def accept(self) -> tuple[sockets.socket, Any]:
        """Take a connection that waits. Raises BlockingIOError where none does, or no more can be taken now."""
        if time.monotonic() < self._quiet_until:
            raise BlockingIOError
        try:
            return super().accept()
        except OSError as error:
            if error.errno in _NO_FILES:
                self._quiet_until = time.monotonic() + NO_ROOM_SECONDS / 2
            raise


class _Protocol(AutoHTTPProtocol):
    """uvicorn's protocol, which leaves a connection alone for a while where the app says so.

    What its caller sends meanwhile stays in the caller's own and the kernel's buffers, and costs nothing here. Of
    connections it takes as many as leave files for everything else: without one Postgres could not be asked. One on
    which no whole head of a request comes is closed, however much of it came: uvicorn waits for good.
    """

    _late: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Take a connection, or tell its caller to come again."""
        super().connection_made(transport)
        if len(self.connections) > _most_connections():
            body = overloaded(NO_ROOM_SECONDS, str(uuid4()))
            transport.write(_NO_ROOM % (len(body), NO_ROOM_SECONDS) + body)
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; where it ends the head of a request, that is not waited for any more."""
        super().data_received(data)
        if self._waits_for_good():
            self.send_400_response("Invalid HTTP request received.")
        elif self._answering():
            self._head_came()
        elif self._head_bytes + len(data) > MOST_HEAD_BYTES:
            self.transport.close()
        else:
            self._head_bytes += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._head_came()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Go on to the connection's next request, or pause before it is read."""
        seconds = cast(float, self.cycle.scope.get(PAUSE, 0.0))
        super().on_response_complete()
        if not self._answering():
            self._await_head()
        if seconds and not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(seconds, self.flow.resume_reading)

    def _waits_for_good(self) -> bool:
        """Return whether h11 waits for a chunk of a size that nobody sends."""
        reader = getattr(getattr(self, "conn", None), "_reader", None)
        left: int = getattr(reader, "_bytes_in_chunk", 0)
        return left > MOST_CHUNK_BYTES and not self.transport.is_closing()

    def _answering(self) -> bool:
        cycle: Any = self.cycle  # none before the first request, whatever uvicorn says of it
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        self._head_came()
        self._late = self.loop.call_later(KEEP_ALIVE_SECONDS, self.timeout_keep_alive_handler)

    def _head_came(self) -> None:
        self._head_bytes = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None


logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # in a program that does not log it is quiet, as we are


class _OfDefects(logging.Filter):
    """Leaves out what uvicorn takes for errors where requests are cut at the end, which is as it should be."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record tells of anything else."""
        cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return not cut and not str(record.msg).startswith("Cancel %s running task(s)")


logging.getLogger("uvicorn.error").addFilter(_OfDefects())


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield


@asynccontextmanager
async def serve_on(app: Any, listener: sockets.socket, *, grace_seconds: int) -> AsyncIterator[None]:
    """Serve an ASGI app for a block; at its end requests in flight have `grace_seconds`, then they are cancelled."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # whoever is on this machine could give any address as theirs
        timeout_graceful_shutdown=grace_seconds,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        if task.done():
            await task
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        if server.server_state.tasks:  # uvicorn does not wait for those it cancels
            log.info("requests_cut", requests=len(server.server_state.tasks))
            await asyncio.wait(set(server.server_state.tasks), timeout=CUT_SECONDS)
