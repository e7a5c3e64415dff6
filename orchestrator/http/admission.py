"""How much a server takes on at a time: what does not fit is told at once to come again, and costs no memory."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.errors import Overloaded
from knowledge.logs import get_logger
from orchestrator.client.calls import ARCHIVE_PATH
from orchestrator.http.access import PRINCIPAL, address_of
from orchestrator.http.arriving import RETRY_AFTER_SECONDS, Arrival, Arriving, Line
from orchestrator.http.bodies import most_bytes
from orchestrator.http.problems import answer, refusal
from orchestrator.http.serving import PAUSE

log = get_logger(__name__)

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
    "|POST /v1/patterns(?::split|/[^/]+/join)"
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


_READS_NO_BODY = frozenset({"GET", "HEAD"})


class Lines:
    """Where requests stand that are worked on a few at a time; what takes minutes, or a model's time, on its own."""

    def __init__(self, *, at_work: int, waiting: int) -> None:
        self._quick, self._long, self._asking = (_Place(at_work=at_work, waiting=waiting) for _ in range(3))

    def of(self, scope: Scope) -> _Place | None:
        """Return the line of a request, None for one that is answered however much there is to do."""
        if scope["type"] != "http" or scope["path"].startswith(_FREE):
            return None
        if scope["method"] == "POST" and _ASKS.fullmatch(scope["path"]):
            return self._asking
        return self._long if _is_long(scope) else self._quick


class _Place:
    """A line, and the bodies of requests that are to stand in it."""

    def __init__(self, *, at_work: int, waiting: int) -> None:
        self.line = Line(at_work, waiting)
        self.arriving = Arriving(at_work=at_work, waiting=waiting)

    @property
    def full(self) -> bool:
        """Whether nobody else is taken."""
        return self.line.full or self.arriving.full


class Admission:
    """ASGI middleware: so many requests are worked on at a time, so many more wait in line, any other gets a 429.

    Who brings a body stands in line once that has come, whole: how slowly it comes holds up nobody but its caller.
    """

    def __init__(self, app: ASGIApp, *, lines: Lines) -> None:
        self._app = app
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        place = self._lines.of(scope)
        if place is None:
            await self._app(scope, receive, send)
            return
        weight = 0 if scope["method"] in _READS_NO_BODY else _weight(scope)
        if not weight:
            await self._in_line(place.line, scope, receive, send)
            return
        coming = Arrival(place.line, place.arriving, caller=_caller(scope), weight=weight, receive=receive)
        try:
            await self._app(scope, coming.receive, send)
        finally:
            coming.end()

    async def _in_line(self, line: Line, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await line.enter()
        except Overloaded as error:  # it was not full when this request came
            await answer(error)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            line.leave()


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
        place = self._lines.of(scope)
        if place is None or not place.full:
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


def _caller(scope: Scope) -> str:
    """Return by whom a request is: its key, or its address where it has none."""
    principal = scope.get(PRINCIPAL)
    return address_of(scope) if principal is None or principal.key_id is None else f"key {principal.key_id}"


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
