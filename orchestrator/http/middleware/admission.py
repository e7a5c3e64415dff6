"""Admission control: limits on concurrent requests (429), and on the size and the time of their bodies (413, 408)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from fastapi import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardwon.client.transport import (
    ARCHIVE_PATH,
    BATCH_PATH,
    MAX_BATCH_BYTES,
    MAX_BODY_BYTES,
    MAX_DOCUMENT_BYTES,
    MAX_MCP_BYTES,
    MAX_SPANS_BYTES,
    MAX_TEXTS_BYTES,
    MCP_PATH,
    SPANS_PATH,
)
from hardwon.errors import InvalidInput, Overloaded
from orchestrator.http.middleware.problems import problem_response

QUEUE_SECONDS = 30.0
"""Longest wait in a queue: half of what the client gives a short request, so that it can try once more."""
RETRY_AFTER_SECONDS = 1
BODY_SECONDS = 120.0
"""Longest time for a body to arrive, and for the next piece of an archive: 16 MiB need 140 KB/s; ours."""
BUFFER_BYTES = 4 * MAX_BATCH_BYTES
"""Memory for bodies, from their arrival to the response, beyond the first 64 KiB of each; ours."""
SMALL_BYTES = 64 * 1024
"""Part of a body that takes none of `BUFFER_BYTES`, so that large bodies never keep out small ones. uvicorn buffers as
much of each connection in any case."""
FULL = "hardwon is overloaded: come again in a moment"

_READS_NO_BODY = frozenset({"GET", "HEAD"})
_EXEMPT = ("/healthz", "/readyz", "/metrics", "/v1/operations/")
_DOCUMENTS = re.compile(r"/api/kb/[^/]+/[^/]+/documents")
_TEXTS = re.compile(r"/v1/(?:entries(?:/[^/]+/resolution)?|tasks:[^/]+|gates:decided|contexts|runs|queries/[^/]+)")
_LONG = re.compile(
    r"""
      POST\ /v1/(?:checkpoints|sweeps|prune|jobs/|verify|recall|layout|rebuild|reembed|redactions)
    | POST\ /v1/(?:revocations|patterns:split)
    | POST\ /v1/patterns/[^/]+/join$
    | (?:GET|POST)\ /v1/archive(?:/entries)?$
    | GET\ /v1/audit:verify$
    | DELETE\ /v1/(?:projects|patterns/[^/]+)$
    | POST\ /api/(?:ask|agent|kb/query)$
    | POST\ /api/kb(?::|/[^/]+/[^/]+/(?:ask|sync)$)
    | GET\ /w/[^/]+/ask$
    | POST\ /w/[^/]+/(?:health/jobs/|audit/verify|entries/[^/]+/correct)
    | POST\ /subagents/documentation-qa
    | POST\ /mcp  # only its body tells which tool is called, a checkpoint or a question to a model among them
    """,
    re.VERBOSE,
)
"""Work that takes seconds to minutes: embedding, chat models, archives, and what grows with the store."""


def max_body_bytes(path: str) -> int | None:
    """Return the size limit of a body, None for an archive, which is written to a file as it arrives."""
    if path == ARCHIVE_PATH:
        return None
    if _DOCUMENTS.fullmatch(path):
        return MAX_DOCUMENT_BYTES
    if path == BATCH_PATH:
        return MAX_BATCH_BYTES
    if path == SPANS_PATH:
        return MAX_SPANS_BYTES
    if path.removesuffix("/") == MCP_PATH:
        return MAX_MCP_BYTES
    return MAX_TEXTS_BYTES if _TEXTS.fullmatch(path) else MAX_BODY_BYTES


class Queue:
    """A semaphore for the requests at work, with a queue that is bounded by length and by time."""

    def __init__(self, *, concurrent: int, waiting: int) -> None:
        self._semaphore = asyncio.Semaphore(concurrent)
        self._max_waiting = waiting
        self._waiting = 0

    def check(self) -> None:
        """Raise Overloaded where the queue is full."""
        if self._semaphore.locked() and self._waiting >= self._max_waiting:
            raise _queue_full()

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Hold a permit for a block. Raises Overloaded where the queue is full or the wait too long."""
        self.check()
        self._waiting += 1
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await self._semaphore.acquire()
        except TimeoutError:
            raise _queue_full() from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._semaphore.release()


class Admission:
    """ASGI middleware: two queues, of short requests and of long work, so that long work never delays an answer.

    A body is read whole, as far as the route asks for it, before its request enters the queue: a slow caller holds no
    permit. An archive, which no buffer holds, arrives while its request is at work.
    """

    def __init__(self, app: ASGIApp, *, concurrent: int, waiting: int) -> None:
        self._app = app
        self._short, self._long = (Queue(concurrent=concurrent, waiting=waiting) for _ in range(2))
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        max_bytes = max_body_bytes(scope["path"])
        if refusal := _invalid_length(headers, max_bytes):
            await refusal(scope, receive, send)
            return
        if scope["path"].startswith(_EXEMPT):
            await self._app(scope, receive, send)
            return
        has_body = scope["method"] not in _READS_NO_BODY and _declares_body(headers)
        queue = self.queue(scope["method"], scope["path"])
        async with AsyncExitStack() as resources:
            try:
                if has_body and max_bytes is not None:
                    queue.check()
                    receive = self._read_first(receive, max_bytes, queue, resources)
                else:
                    await resources.enter_async_context(queue.admit())
                    receive = _with_timeout(receive) if has_body else receive
            except Overloaded as error:
                await problem_response(error)(scope, receive, send)
                return
            await self._app(scope, receive, send)

    def queue(self, method: str, path: str) -> Queue:
        """Return the queue of a request."""
        return self._long if _LONG.match(f"{method} {path}") else self._short

    def _read_first(self, receive: Receive, max_bytes: int, queue: Queue, resources: AsyncExitStack) -> Receive:
        """Return a `receive` that reads the whole body and then waits for a permit; `resources` releases both.

        Its errors are HTTPExceptions, the only ones that FastAPI does not take for a body that cannot be parsed.
        """
        received = False

        async def read() -> Message:
            nonlocal received
            if received:
                return await receive()  # the disconnect, whenever that is
            received = True
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await self._read(receive, max_bytes, resources)
                if message["type"] == "http.request":
                    await resources.enter_async_context(queue.admit())
            except TimeoutError:
                raise _body_timeout() from None
            except Overloaded as error:
                headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
                raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, str(error), headers) from error
            return message

        return read

    async def _read(self, receive: Receive, max_bytes: int, resources: AsyncExitStack) -> Message:
        """Return the whole body as one message, or the disconnect of its caller."""
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            piece, more = message.get("body", b""), message.get("more_body", False)
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _size_message(max_bytes))
            self._buffer(min(len(piece), size - SMALL_BYTES), resources)
        return {"type": "http.request", "body": b"".join(pieces), "more_body": False}

    def _buffer(self, size: int, resources: AsyncExitStack) -> None:
        """Count bytes until the request ends. Raises Overloaded where the buffer is full."""
        if size <= 0:
            return
        if self._buffered + size > BUFFER_BYTES:
            raise _queue_full()
        self._buffered += size
        resources.callback(self._release, size)

    def _release(self, size: int) -> None:
        self._buffered -= size


def _queue_full() -> Overloaded:
    return Overloaded(FULL, retry_after_seconds=RETRY_AFTER_SECONDS)


def _invalid_length(headers: dict[bytes, bytes], max_bytes: int | None) -> Response | None:
    """Return the refusal of a body that has two lengths, or declares one that is too large."""
    declared = headers.get(b"content-length")
    if declared is not None and b"transfer-encoding" in headers:  # RFC 9112, 6.1: a proxy may go by the other one
        error = InvalidInput("body", "has both a Content-Length and a Transfer-Encoding: send one of them")
        return problem_response(error, status=HTTPStatus.BAD_REQUEST, headers={"Connection": "close"})
    if max_bytes is not None and declared is not None and declared.isdigit() and int(declared) > max_bytes:
        return problem_response(
            InvalidInput("body", _size_message(max_bytes)), status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    return None


def _declares_body(headers: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _with_timeout(receive: Receive) -> Receive:
    """Return a `receive` that gives up on a body whose next piece does not arrive in time."""

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await receive()
        except TimeoutError:
            raise _body_timeout() from None

    return receive_in_time


def _body_timeout() -> HTTPException:
    return HTTPException(
        HTTPStatus.REQUEST_TIMEOUT, "did not come in time: send all of it again", {"Connection": "close"}
    )


def _size_message(max_bytes: int) -> str:
    return f"has more than the {max_bytes:,} bytes allowed"
