"""The steps that work consists of, told to whoever watches it; a step that nobody watches costs next to nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias, TypeVar

Ended: TypeAlias = Callable[[object, BaseException | None], None]
"""Told of a step's end: what it returned, or the error that ended it."""
Watcher: TypeAlias = Callable[[str, tuple[object, ...]], Ended]
"""Told of a step's beginning, by its name and the values it is about; in the task that takes the step. Never raises."""

_Told = ParamSpec("_Told")
_Returned = TypeVar("_Returned")

_watching: ContextVar[tuple[Watcher, ...]] = ContextVar("hardwon_watching", default=())


@contextmanager
def watched_by(*watchers: Watcher) -> Iterator[None]:
    """Have these told of each step that is taken within a block, and by the tasks that are started in it."""
    token = _watching.set(tuple(dict.fromkeys((*_watching.get(), *watchers))))
    try:
        yield
    finally:
        _watching.reset(token)


class Taking:
    """A block as a step that returns nothing."""

    __slots__ = ("_ends", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._ends: list[Ended] = []

    def __enter__(self) -> None:
        """Tell of its beginning."""
        watchers = _watching.get()
        if watchers:
            self._ends = [watcher(self._name, ()) for watcher in watchers]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Tell of its end."""
        _end(self._ends, None, error)


def step(
    name: str,
) -> Callable[[Callable[_Told, Coroutine[Any, Any, _Returned]]], Callable[_Told, Coroutine[Any, Any, _Returned]]]:
    """Tell of each call of a method as a step, about its arguments by position."""

    def told_of(
        method: Callable[_Told, Coroutine[Any, Any, _Returned]],
    ) -> Callable[_Told, Coroutine[Any, Any, _Returned]]:
        @functools.wraps(method)
        async def taken(*args: _Told.args, **kwargs: _Told.kwargs) -> _Returned:
            watchers = _watching.get()
            if not watchers:
                return await method(*args, **kwargs)
            ends = [watcher(name, args[1:]) for watcher in watchers]
            try:
                returned = await method(*args, **kwargs)
            except BaseException as error:
                _end(ends, None, error)
                raise
            _end(ends, returned, None)
            return returned

        return taken

    return told_of


def _end(ends: list[Ended], returned: object, error: BaseException | None) -> None:
    """Tell of the end, whoever was told last of the beginning first."""
    for end in reversed(ends):
        end(returned, error)
