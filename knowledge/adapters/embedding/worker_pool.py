"""Threads shared by several calls: short calls go first, long ones take turns."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from hardwon.errors import EmbedderUnavailable

_SHORT = 4
"""Pieces of a call that goes before longer ones."""

TURN = 64
"""Pieces of a long call before another waiting one has its turn: a second."""

_MAX_SHORT_IN_A_ROW = 16
"""Pieces of short calls after which a long one advances by one: a flood of queries does not stop a checkpoint."""


class EmbeddingThreads:
    """A small pool whose threads fetch their next piece themselves: the event loop is involved once per call.

    A short call waits for a piece of each other short one, a long one for a turn of each other one; when a call runs
    out of pieces the threads go on with the next. A cancelled call leaves nothing behind but the pieces in progress.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._short: deque[_Call] = deque()
        self._long: list[tuple[int, int, _Call]] = []
        self._in_a_row = 0
        self._numbers = itertools.count()
        self.closed = False

    async def each(self, work: Callable[[int], None], numbers: Iterable[int], *, at_once: bool = False) -> None:
        """Call `work` with each of the numbers; the first error ends it. Raises EmbedderUnavailable once closed.

        `at_once`: before longer calls, however long this one is.
        """
        todo = deque(numbers)
        if todo:
            call = _Call(
                shared=self,
                work=work,
                todo=todo,
                threads=min(self._threads, len(todo)),
                short=at_once or len(todo) <= _SHORT,
                turn=self.number(),
            )
            for _ in range(call.threads):
                self.submit(call)
            await call.all_done

    def number(self) -> int:
        """Return a number higher than those before."""
        return next(self._numbers)

    def goes_first(self, call: _Call) -> bool:
        """Return whether another waiting call may go before this one, which has just done a piece."""
        with self._lock:
            if call.short or self._short:  # the limit of short ones in a row is in one place, `_take`
                return bool(self._short or self._long)
            return bool(self._long) and self._long[0][0] < call.turn

    def submit(self, call: _Call) -> None:
        """Queue a call for a thread, by priority."""
        self.refuse_closed()
        with self._lock:
            if call.short:
                self._short.append(call)
            else:
                heapq.heappush(self._long, (call.turn, self.number(), call))
        try:
            self._pool.submit(self._take)
        except RuntimeError as exc:
            raise _make_closed_error() from exc

    def refuse_closed(self) -> None:
        """Raise EmbedderUnavailable once closed."""
        if self.closed:
            raise _make_closed_error()

    def close(self) -> None:
        """End the threads after the pieces in progress; running calls then fail. May be called again."""
        self.closed = True
        self._pool.shutdown()

    def _take(self) -> None:
        with self._lock:
            if self._short and (not self._long or self._in_a_row < _MAX_SHORT_IN_A_ROW):
                self._in_a_row += 1
                call = self._short.popleft()
            else:
                self._in_a_row = 0
                _, _, call = heapq.heappop(self._long)
        call.take()


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """One call, on which some threads work; of long ones the lowest turn goes first."""

    shared: EmbeddingThreads
    work: Callable[[int], None]
    todo: deque[int]
    threads: int
    short: bool
    turn: int
    done: int = 0
    """Pieces done in its turn, approximately: threads count without a lock."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    all_done: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.all_done = self.loop.create_future()

    def take(self) -> None:
        """Work on piece after piece, in a thread, until all are done or another call goes first."""
        error: BaseException | None = None
        try:
            if self._run_turn():
                return
        except BaseException as exc:  # noqa: BLE001 - it is raised in the caller
            error = exc
        with suppress(RuntimeError):  # the event loop may have ended meanwhile
            self.loop.call_soon_threadsafe(self._thread_done, error)

    def _run_turn(self) -> bool:
        while not self.all_done.done():  # by an error in another thread, or because it was cancelled
            self.shared.refuse_closed()
            try:
                number = self.todo.popleft()
            except IndexError:
                break
            self.work(number)
            self.done += 1
            if self.done >= TURN:
                self.done, self.turn = 0, self.shared.number()
            if self.todo and self.shared.goes_first(self):
                self.shared.submit(self)
                return True
        return False

    def _thread_done(self, error: BaseException | None) -> None:
        self.threads -= 1
        if self.all_done.done():
            return
        if error is not None:
            self.all_done.set_exception(error)
        elif not self.threads:
            self.all_done.set_result(None)


def _make_closed_error() -> EmbedderUnavailable:
    return EmbedderUnavailable("The local embedder was closed: open the stores again.")
