"""How much a server takes on at a time: what does not fit is told at once to come again, and costs no memory."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.errors import Overloaded
from orchestrator.calls import ARCHIVE_PATH, MAX_BATCH_BYTES
from orchestrator.http_bodies import most_bytes
from orchestrator.problems import answer

RETRY_AFTER_SECONDS = 1.0
BODY_BYTES = 4 * MAX_BATCH_BYTES
"""Bodies of requests at work hold at most this much together; read as JSON they take several times as much."""

_FREE = ("/healthz", "/readyz", "/metrics", "/v1/operations/")
"""What must be answered however much there is to do, and costs next to nothing."""
_LONG = (
    "/v1/checkpoints",
    "/v1/sweeps",
    "/v1/prune",
    "/v1/jobs/",
    "/v1/verify",
    "/v1/rebuild",
    "/v1/reembed",
    "/api/kb:",
)
"""What may take minutes stands in a line of its own, so that captures and queries never wait for it."""
_LONG_TOO = {("DELETE", "/v1/projects"), ("GET", ARCHIVE_PATH), ("POST", ARCHIVE_PATH)}


class Admission:
    """ASGI middleware: so many requests are worked on at a time, so many more wait in line, any other gets a 429.

    A body is read once its request is at work; until then it stays with its sender.
    """

    def __init__(self, app: ASGIApp, *, at_work: int, waiting: int) -> None:
        self._app = app
        self._quick = _Line(at_work, waiting)
        self._long = _Line(at_work, waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"].startswith(_FREE):
            await self._app(scope, receive, send)
            return
        line = self._long if _is_long(scope) else self._quick
        weight = _weight(scope)
        try:
            await line.enter(weight)
        except Overloaded as error:
            await answer(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            line.leave(weight)


def _is_long(scope: Scope) -> bool:
    posted = scope["method"] == "POST" and scope["path"].startswith(_LONG)
    return posted or (scope["method"], scope["path"]) in _LONG_TOO


def _weight(scope: Scope) -> int:
    """Return how many bytes the body of a request may have: all that are allowed, where it does not say."""
    most = most_bytes(scope["path"])
    if most is None:
        return 0
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"")
    if declared.isdigit():
        return min(int(declared), most)
    return most if b"transfer-encoding" in headers else 0


class _Line:
    """Who is at work and who waits, first come, first served."""

    def __init__(self, at_work: int, waiting: int) -> None:
        self._free = at_work
        self._bytes = BODY_BYTES
        self._most_waiting = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, weight: int) -> None:
        """Begin work, or wait for it. Raises Overloaded, at once, where as many wait as may."""
        if not self._waiting and self._fits(weight):
            self._take(weight)
            return
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(
                "hardwon has as much to do as it can hold: come again in a moment",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((weight, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(weight)
            else:
                self._waiting.remove((weight, turn))
                self._call_next()
            raise

    def leave(self, weight: int) -> None:
        """End work and let in who waits."""
        self._free += 1
        self._bytes += weight
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            weight, turn = self._waiting.popleft()
            self._take(weight)
            turn.set_result(None)

    def _fits(self, weight: int) -> bool:
        return self._free > 0 and self._bytes >= weight

    def _take(self, weight: int) -> None:
        self._free -= 1
        self._bytes -= weight
