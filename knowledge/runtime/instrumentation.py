"""Instrumentation: start and end callbacks for spans; without observers a span costs next to nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias, TypeVar

SpanEnd: TypeAlias = Callable[[object, BaseException | None], None]
"""Called at the end of a span with its result, or with the error that ended it."""
SpanObserver: TypeAlias = Callable[[str, tuple[object, ...]], SpanEnd]
"""Called at the start of a span with its name and values, in the task that runs it. Must not raise."""

_Params = ParamSpec("_Params")
_Returned = TypeVar("_Returned")

_observers: ContextVar[tuple[SpanObserver, ...]] = ContextVar("hardwon_observers", default=())


@contextmanager
def observe(*observers: SpanObserver) -> Iterator[None]:
    """Call these observers for each span within a block and in the tasks started in it."""
    token = _observers.set(tuple(dict.fromkeys((*_observers.get(), *observers))))
    try:
        yield
    finally:
        _observers.reset(token)


class Span:
    """A block as a span without a result."""

    __slots__ = ("_ends", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._ends: list[SpanEnd] = []

    def __enter__(self) -> None:
        """Start the span."""
        observers = _observers.get()
        if observers:
            self._ends = [observer(self._name, ()) for observer in observers]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """End the span."""
        _end(self._ends, None, error)


def step(
    name: str,
) -> Callable[[Callable[_Params, Coroutine[Any, Any, _Returned]]], Callable[_Params, Coroutine[Any, Any, _Returned]]]:
    """Run each call of a method as a span whose values are its positional arguments."""

    def decorate(
        method: Callable[_Params, Coroutine[Any, Any, _Returned]],
    ) -> Callable[_Params, Coroutine[Any, Any, _Returned]]:
        @functools.wraps(method)
        async def run(*args: _Params.args, **kwargs: _Params.kwargs) -> _Returned:
            observers = _observers.get()
            if not observers:
                return await method(*args, **kwargs)
            ends = [observer(name, args[1:]) for observer in observers]
            try:
                returned = await method(*args, **kwargs)
            except BaseException as error:
                _end(ends, None, error)
                raise
            _end(ends, returned, None)
            return returned

        return run

    return decorate


def _end(ends: list[SpanEnd], returned: object, error: BaseException | None) -> None:
    """Call the end callbacks in reverse order."""
    for end in reversed(ends):
        end(returned, error)
