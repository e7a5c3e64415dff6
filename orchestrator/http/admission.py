"""How much a server takes on at a time: what does not fit is told at once to come again, and costs no memory."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.errors import Overloaded
from knowledge.logs import get_logger
from orchestrator.client.calls import ARCHIVE_PATH, FULL, MAX_BATCH_BYTES
from orchestrator.http.bodies import most_bytes
from orchestrator.http.problems import answer, refusal
from orchestrator.http.serving import PAUSE

log = get_logger(__name__)

RETRY_AFTER_SECONDS = 1
BODY_BYTES = 4 * MAX_BATCH_BYTES
"""Bodies of requests at work hold at most this much together, in each of the three lines: four batches, or 32 requests
with all the texts they may have. Read as JSON they take several times as much."""

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
    "/v1/revocations",
    "/api/kb:",
    "/mcp",  # which tool is called, a checkpoint too, only its body says
)
"""What may take minutes stands in a line of its own, so that captures and queries never wait for it."""
_ASKS = re.compile("/api/(?:ask|agent|kb/query|kb/[^/]+/[^/]+/ask)|/subagents/documentation-qa(?::best-effort)?")
"""What waits for a chat model, for seconds, stands in another: nor does it wait for checkpoints, or they for it."""
_LONG_TOO = re.compile(
    rf"(?:GET|POST) {re.escape(ARCHIVE_PATH)}"
    "|POST /api/kb/[^/]+/[^/]+/sync"
    "|GET /v1/audit:verify"
    "|DELETE /v1/(?:projects|patterns/[^/]+)"
)


REFUSALS_PER_SECOND = 250.0
"""How many requests are refused a second before whoever is refused is kept waiting. Each costs 0.5 ms, for its head is
read, and its body where it came along (20 KB, measured): at this rate an eighth of a core."""
MOST_PAUSE_SECONDS = 10.0
"""How long at most a connection is not read from after a refusal, and so what a refused caller is told at most."""
TELL_SECONDS = 10.0
"""How often at most the log is told of refusals."""


class Lines:
    """Where requests stand that are worked on a few at a time; what takes minutes, or a model's time, on its own."""

    def __init__(self, *, at_work: int, waiting: int) -> None:
        self._quick = _Line(at_work, waiting)
        self._long = _Line(at_work, waiting)
        self._asking = _Line(at_work, waiting)

    def of(self, scope: Scope) -> _Line | None:
        """Return the line of a request, None for one that is answered however much there is to do."""
        if scope["type"] != "http" or scope["path"].startswith(_FREE):
            return None
        if scope["method"] == "POST" and _ASKS.fullmatch(scope["path"]):
            return self._asking
        return self._long if _is_long(scope) else self._quick


class Admission:
    """ASGI middleware: so many requests are worked on at a time, so many more wait in line, any other gets a 429.

    A body is read once its request is at work; until then it stays with its sender.
    """

    def __init__(self, app: ASGIApp, *, lines: Lines) -> None:
        self._app = app
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        line = self._lines.of(scope)
        if line is None:
            await self._app(scope, receive, send)
            return
        weight = _weight(scope)
        try:
            await line.enter(weight)
        except Overloaded as error:  # it was not full when this request came
            await answer(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            line.leave(weight)


class Overflow:
    """ASGI middleware, the outermost: answers 429 where the line is full, before anything else is done for a request.

    No key is looked at, no body read, no line of the log written for each. A refusal is cheap, and still as dear as the
    caller's next try: beyond REFUSALS_PER_SECOND whoever was refused is told to come again later, and not read from
    until then (`serving.py`), so that a flood leaves the processor to the requests that are at work.
    """

    def __init__(self, app: ASGIApp, *, lines: Lines, refused: Callable[[str], None]) -> None:
        self._app = app
        self._lines = lines
        self._refused = refused
        self._pace = _Pace()
        self._told_at = -math.inf
        self._untold = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        line = self._lines.of(scope)
        if line is None or not line.full:
            await self._app(scope, receive, send)
            return
        now = time.monotonic()
        pause = self._pace.after(now)
        scope[PAUSE] = pause
        self._refused(scope["method"])
        self._tell(now)
        start, body = refusal(scope, max(RETRY_AFTER_SECONDS, math.ceil(pause)))
        await send(start)
        await send(body)

    def _tell(self, now: float) -> None:
        self._untold += 1
        if now - self._told_at >= TELL_SECONDS:
            log.warning("requests_refused", number=self._untold, reason="as much to do as the server can hold")
            self._told_at, self._untold = now, 0


class _Pace:
    """A token bucket of refusals that goes into debt: how long the next one's connection is to be left alone."""

    def __init__(self) -> None:
        self._due = -math.inf

    def after(self, now: float) -> float:
        """Count a refusal; return for how many seconds its connection is not read from."""
        self._due = max(self._due, now) + 1 / REFUSALS_PER_SECOND
        ahead = min(self._due - now, MOST_PAUSE_SECONDS)
        self._due = now + ahead
        return ahead


def _is_long(scope: Scope) -> bool:
    method, path = scope["method"], scope["path"]
    posted = method == "POST" and path.startswith(_LONG)
    return posted or _LONG_TOO.fullmatch(f"{method} {path}") is not None


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

    @property
    def full(self) -> bool:
        """Whether nobody else may enter, whatever they bring."""
        return len(self._waiting) >= self._most_waiting and (bool(self._waiting) or self._free <= 0)

    async def enter(self, weight: int) -> None:
        """Begin work, or wait for it. Raises Overloaded, at once, where as many wait as may."""
        if not self._waiting and self._fits(weight):
            self._take(weight)
            return
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(FULL, retry_after_seconds=RETRY_AFTER_SECONDS)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((weight, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(weight)
            else:
                with suppress(ValueError):  # passed over already
                    self._waiting.remove((weight, turn))
                self._call_next()
            raise

    def leave(self, weight: int) -> None:
        """End work and let in who waits."""
        self._free += 1
        self._bytes += weight
        self._call_next()

    def _call_next(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            weight, turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled, and its task does not know yet
                self._take(weight)
                turn.set_result(None)

    def _fits(self, weight: int) -> bool:
        return self._free > 0 and self._bytes >= weight

    def _take(self, weight: int) -> None:
        self._free -= 1
        self._bytes -= weight
