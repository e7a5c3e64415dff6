"""Threads that several calls share: each takes one piece of work after another, and lets those who wait have a turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from knowledge.errors import EmbedderUnavailable


class EmbeddingThreads:
    """A small pool whose threads fetch their next piece themselves: the event loop is asked once a call.

    After each piece those who wait for a thread get their turn: a call of one piece waits for one piece of each other
    call at most, and a call that is cancelled leaves nothing behind but the pieces being worked on.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._counting = threading.Lock()
        self._waiting = 0
        self.closed = False

    @property
    def others_wait(self) -> bool:
        """Whether work waits for a thread."""
        return self._waiting > 0

    async def each(self, work: Callable[[int], None], numbers: Iterable[int]) -> None:
        """Call `work` with each of the numbers; the first error ends it. Raises EmbedderUnavailable once closed."""
        todo = list(numbers)
        if todo:
            call = _Call(shared=self, work=work, todo=iter(todo), threads=min(self._threads, len(todo)))
            for _ in range(call.threads):
                self.submit(call.take)
            await call.all_done

    def submit(self, take: Callable[[], None]) -> None:
        """Have a thread do something after what waits already."""
        self.refuse_closed()
        with self._counting:
            self._waiting += 1

        def begin() -> None:
            with self._counting:
                self._waiting -= 1
            take()

        try:
            self._pool.submit(begin)
        except RuntimeError as exc:
            raise _closed() from exc

    def refuse_closed(self) -> None:
        """Raise EmbedderUnavailable once closed."""
        if self.closed:
            raise _closed()

    def close(self) -> None:
        """End the threads once the pieces being worked on are done; calls under way then fail. May be called again."""
        self.closed = True
        self._pool.shutdown()


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """One call, on which some threads work."""

    shared: EmbeddingThreads
    work: Callable[[int], None]
    todo: Iterator[int]
    threads: int
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    all_done: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.all_done = self.loop.create_future()

    def take(self) -> None:
        """Work on piece after piece, in a thread, until all are done or others wait."""
        error: BaseException | None = None
        try:
            if self._goes_on_later():
                return
        except BaseException as exc:  # noqa: BLE001 - it is raised to whoever waits
            error = exc
        with suppress(RuntimeError):  # the event loop may have ended meanwhile
            self.loop.call_soon_threadsafe(self._thread_done, error)

    def _goes_on_later(self) -> bool:
        while not self.all_done.done():  # by an error in another thread, or as it was cancelled
            self.shared.refuse_closed()
            number = next(self.todo, None)
            if number is None:
                break
            self.work(number)
            if self.shared.others_wait:
                self.shared.submit(self.take)
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


def _closed() -> EmbedderUnavailable:
    return EmbedderUnavailable("The local embedder was closed: open the stores again.")
