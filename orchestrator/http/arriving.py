"""Bodies that are still coming: no request stands in line before its body is here, and none keeps another caller's out.

Whoever sends a body slowly, or only says how large it is, holds a place among the bodies of the same caller, and no
other. What a caller has declared counts against its own share; against what all may have, only what has come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from knowledge.errors import Overloaded
from orchestrator.client.calls import FULL, MAX_BATCH_BYTES

RETRY_AFTER_SECONDS = 1
BODY_BYTES = 4 * MAX_BATCH_BYTES
"""Bodies that came hold at most this much together until their requests are answered, in each of the three lines: four
batches, or 32 requests with all the texts they may have. Read as JSON they take several times as much."""
SHARE_BYTES = BODY_BYTES // 2
"""What bodies of one caller may declare together; the next ones wait unread."""
CALLERS = 4
"""Callers that may fill their shares of requests at once before the next request is refused, whoever sends it; ours."""
_SMALL_BYTES = 64 * 1024
"""A body that is here at once and no larger is taken though others fill the memory: the connection held it before."""


class Line:
    """Who is at work and who waits, first come, first served."""

    def __init__(self, at_work: int, waiting: int, most_bytes: int = 0) -> None:
        self._free = at_work
        self._bytes = most_bytes
        self._most_waiting = waiting
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def full(self) -> bool:
        """Whether nobody else may enter, whatever they bring."""
        return len(self._waiting) >= self._most_waiting and (bool(self._waiting) or self._free <= 0)

    async def enter(self, weight: int = 0) -> None:
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

    def leave(self, weight: int = 0) -> None:
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


class Share(Line):
    """The bodies of one caller: those that may be read, and those that wait for it."""

    requests = 0
    """How many have it, also before they enter."""


class Arriving:
    """The requests of a line that bring a body, from their heads to their answers: each caller's share, and the sum."""

    def __init__(self, *, at_work: int, waiting: int) -> None:
        self._at_work, self._waiting = at_work + waiting // 2, waiting - waiting // 2
        self._places = CALLERS * (at_work + waiting)
        self._bytes = BODY_BYTES
        self._shares: dict[str, Share] = {}

    @property
    def full(self) -> bool:
        """Whether there are as many as may be, whoever sent them."""
        return self._places <= 0

    def begin(self, caller: str) -> Share:
        """Count a request; return the share of its caller, in which it waits for its turn to be read."""
        self._places -= 1
        share = self._shares.get(caller)
        if share is None:
            share = self._shares[caller] = Share(self._at_work, self._waiting, SHARE_BYTES)
        share.requests += 1
        return share

    def end(self, caller: str, held: int) -> None:
        """Count a request no more, nor the bytes of it that came."""
        self._places += 1
        self._bytes += held
        share = self._shares[caller]
        share.requests -= 1
        if not share.requests:
            del self._shares[caller]

    def take(self, size: int, *, whole: bool) -> None:
        """Count bytes that came. Raises Overloaded where all callers' hold as much as they may."""
        if size > self._bytes and not (whole and size <= _SMALL_BYTES):
            raise Overloaded(FULL, retry_after_seconds=RETRY_AFTER_SECONDS)
        self._bytes -= size


class Arrival:
    """A request with a body, which stands in line once that has been asked for, and has come whole.

    Until then only what is cheap has been done for it: its key, its route and its operation are known.
    """

    __slots__ = (
        "_arriving",
        "_asked_for",
        "_at_work",
        "_caller",
        "_held",
        "_in_share",
        "_line",
        "_receive",
        "_share",
        "_weight",
    )

    def __init__(self, line: Line, arriving: Arriving, *, caller: str, weight: int, receive: Receive) -> None:
        self._line, self._arriving, self._caller = line, arriving, caller
        self._weight = weight
        self._receive = receive
        self._share = arriving.begin(caller)
        self._held = 0
        self._asked_for = self._in_share = self._at_work = False

    async def receive(self) -> Message:
        """Return the body, all of it at once, and after it what else comes.

        Raises HTTPException (429) where there is no room for it, since frameworks let that through.
        """
        if self._asked_for:
            return await self._receive()
        self._asked_for = True
        try:
            message = await self._whole()
            if message["type"] == "http.request":
                await self._line.enter()
                self._at_work = True
        except Overloaded as error:
            headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            raise HTTPException(HTTPStatus.TOO_MANY_REQUESTS, str(error), headers) from error
        return message

    async def _whole(self) -> Message:
        await self._share.enter(self._weight)
        self._in_share = True
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":  # its caller went
                return message
            piece, more = message.get("body", b""), message.get("more_body", False)
            whole = not (more or pieces)
            self._arriving.take(len(piece), whole=whole)
            self._held += len(piece)
            if whole:  # as most are
                return message
            pieces.append(piece)
        return {"type": "http.request", "body": b"".join(pieces), "more_body": False}

    def end(self) -> None:
        """Give back what the request holds."""
        if self._at_work:
            self._line.leave()
        if self._in_share:
            self._share.leave(self._weight)
        self._arriving.end(self._caller, self._held)
