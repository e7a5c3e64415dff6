"""An ASGI app on a listening socket inside a running program: uvicorn without its signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket as sockets
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hardwon.event_log import get_logger

log = get_logger(__name__)

KEEP_ALIVE_SECONDS = 30
"""Longest wait for the head of a request, from the connection or the last response; in fact up to twice as long.

Longer than clients keep an idle connection (httpx: 5 s), so that none is closed just as a request is sent.
"""
UNREAD_SECONDS = 120
"""Longest time in which a client reads nothing of its response, or shows no sign of life; ours."""
CUT_SECONDS = 10
"""Longest cleanup of a request that was cancelled at shutdown."""
HEAD_BYTES = 16 * 1024
"""Longest head of a request: h11's own default. It is buffered until its end, before any key is checked."""
BACKLOG = 256
"""Connections that asyncio accepts before it handles any, and as many more meanwhile."""
OTHER_FILES = 256 + 3 * BACKLOG
"""Open files that are not connections of callers: the stores', the endpoints', and the backlog's; ours."""
MIN_CONNECTIONS = 64
"""Connections that are accepted even at a low limit of open files."""
MAX_FILES = 8192
"""Open files that a server asks the system for."""
_PROBLEM = (
    b'{"type":"about:blank","title":"Overloaded","status":429,"retry_after_seconds":1.0,'
    b'"detail":"hardwon has too many connections: come again in a moment"}'
)
_TOO_MANY_CONNECTIONS = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n%b"
) % (len(_PROBLEM), _PROBLEM)


def raise_file_limit() -> None:
    """Raise this process's limit of open files to `MAX_FILES`, or to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _max_connections() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_FILES if soft == resource.RLIM_INFINITY else max(MIN_CONNECTIONS, soft - OTHER_FILES)


class _Protocol(H11Protocol):
    """uvicorn's protocol that closes connections beyond the limit; uvicorn keeps them, and so their files, open.

    Without a free file Postgres cannot be reached.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Accept a connection, or answer 429 and close it."""
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            transport.write(_TOO_MANY_CONNECTIONS)
            transport.close()


async def _close_idle(connections: Collection[Any]) -> None:
    """Close connections that were idle at the last check and had no request since.

    uvicorn does so after a response; it waits without limit for the first head, and for one that stops half-way.
    """
    idle: dict[Any, Any] = {}
    while True:
        await asyncio.sleep(KEEP_ALIVE_SECONDS)
        before, idle = idle, {}
        for connection in list(connections):
            last = connection.cycle
            if last is not None and not last.response_complete:
                continue
            if connection in before and before[connection] is last:
                connection.timeout_keep_alive_handler()
            else:
                idle[connection] = last


logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # silent in a program that configures no logging


class _DefectFilter(logging.Filter):
    """Filter of the errors that uvicorn logs for requests cancelled at shutdown, which are no defects."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is about anything else."""
        cut = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return not cut and not str(record.msg).startswith("Cancel %s running task(s)")


logging.getLogger("uvicorn.error").addFilter(_DefectFilter())


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield


@asynccontextmanager
async def serve_on(app: Any, listener: sockets.socket, *, grace_seconds: int) -> AsyncIterator[None]:
    """Serve an ASGI app for a block; at its end running requests have `grace_seconds`, then they are cancelled."""
    config = uvicorn.Config(
        app,
        http=_Protocol,  # h11 even where httptools is installed, which buffers a head without limit
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # any process on this machine could forge the client's address
        timeout_graceful_shutdown=grace_seconds,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        limit_concurrency=_max_connections(),
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        if task.done():
            await task
        closing = asyncio.create_task(_close_idle(server.server_state.connections))
        try:
            yield
        finally:
            closing.cancel()
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        if server.server_state.tasks:  # uvicorn does not wait for those it cancels
            log.info("requests_cut", requests=len(server.server_state.tasks))
            await asyncio.wait(set(server.server_state.tasks), timeout=CUT_SECONDS)
