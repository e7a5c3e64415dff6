"""The services of a client for code without an event loop: each method waits for the answer.

Made of the same table of operations as the client: a method of `BlockingKnowledge` is that of `KnowledgeClient`, run in
a thread that has an event loop.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from hardwon.client.knowledge_client import SERVICES, KnowledgeClient
from hardwon.client.operations import Service
from hardwon.connection import connect
from hardwon.errors import OwnerUnavailable
from hardwon.hooks import Hooks
from hardwon.models.ids import DEFAULT_WORKSPACE

_Result = TypeVar("_Result")


class EventLoopThread:
    """A thread with an event loop, for a block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hardwon", daemon=True)
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        """Start it."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if os.getpid() != self._pid:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of a coroutine.

        Raises OwnerUnavailable in a process that was forked from this one, and after the end of the block.
        """
        if self._loop.is_closed():
            work.close()
            raise OwnerUnavailable("this connection is closed: use it within its `with` block")
        if os.getpid() != self._pid:
            work.close()
            raise OwnerUnavailable(
                "this connection belongs to the process that this one was forked from: call hardwon.connect_sync() in"
                " each worker"
            )
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as Ctrl-C while it waits
            future.cancel()
            raise


class Blocking:
    """An object whose asynchronous methods wait for their result."""

    def __init__(self, target: Any, loop: EventLoopThread) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        """Return a method that waits, a service of such methods, or a plain attribute."""
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._target, name)
        if isinstance(value, Service) and not isinstance(value, KnowledgeClient):
            found: Any = Blocking(value, self._loop)
        elif callable(value):
            found = self._wait(value)
        else:
            return value
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        """Return the names of the services and methods, for a person at a prompt."""
        return sorted({*dir(self._target), *(SERVICES if isinstance(self._target, KnowledgeClient) else ())})

    def _wait(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = method(*args, **kwargs)
            if inspect.iscoroutine(returned):
                result = self._loop.run(returned)
                return Blocking(result, self._loop) if isinstance(result, Service) else result
            if isinstance(returned, AsyncIterator):
                return self._iterate(returned)
            return BlockingKnowledge(returned, self._loop) if isinstance(returned, KnowledgeClient) else returned

        return call

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def next_item() -> Any:
            return await anext(items, _END)

        while (item := self._loop.run(next_item())) is not _END:
            yield item


_END = object()


class BlockingKnowledge(Blocking):
    """`KnowledgeClient` for code without an event loop."""

    def hooks(self, **options: Any) -> Blocking:
        """Return `Hooks` over these services, whose methods wait; `options` as theirs."""
        return Blocking(Hooks(self._target, **options), self._loop)


@contextmanager
def connect_sync(
    *,
    workspace: str = DEFAULT_WORKSPACE,
    settings: Mapping[str, str] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Iterator[BlockingKnowledge]:
    """Yield the services of a workspace for code without an event loop; arguments and errors as those of `connect`.

    May be used by several threads. A process that was forked meanwhile needs a connection of its own.
    """
    with EventLoopThread() as loop:
        connection = connect(workspace=workspace, settings=settings, on_wait=on_wait)
        client = loop.run(connection.__aenter__())
        error: BaseException | None = None
        try:
            yield BlockingKnowledge(client, loop)
        except BaseException as raised:
            error = raised
            raise
        finally:
            kind: Any = type(error) if error is not None else None
            loop.run(connection.__aexit__(kind, error, error.__traceback__ if error is not None else None))
