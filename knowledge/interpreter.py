"""Settings of the Python interpreter that long work borrows for the whole process, and gives back."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_TURN_SECONDS = 0.0005
"""What a thread that computes may keep others waiting. Python's 5 ms left a core idle for 0.3 ms of each text that was
embedded while a checkpoint compared others (of 16; measured on two cores); a tenth of it costs nothing that shows."""

_NEW_OBJECTS = 50_000
"""So many more objects before it is looked which of them are garbage that refers to itself. With Python's 700 a
checkpoint of 500 entries had all there is looked through, 200,000 objects, which stops every thread for 0.1 s."""


class Borrowed(Generic[T]):
    """A setting of the process: changed by the first who borrows it, given back by the last."""

    def __init__(self, read: Callable[[], T], write: Callable[[T], object], wanted: Callable[[T], T]) -> None:
        self._read, self._write, self._wanted = read, write, wanted
        self._before: list[T] = []
        self._borrowers = 0
        self._alone = threading.Lock()

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Have the setting as it is wanted until the last of those that borrow it at the same time is done."""
        with self._alone:
            if not self._borrowers:
                self._before = [self._read()]
                self._write(self._wanted(self._before[0]))
            self._borrowers += 1
        try:
            yield
        finally:
            with self._alone:
                self._borrowers -= 1
                if not self._borrowers:
                    self._write(self._before.pop())


def _seldom(before: tuple[int, int, int]) -> tuple[int, int, int]:
    young, older, oldest = before
    return max(young, _NEW_OBJECTS) if young else 0, older, oldest  # 0: whoever runs this process wants no search


def _take_turns(seconds: float) -> None:
    sys.setswitchinterval(seconds + 1e-7)  # it is cut to whole microseconds: 5,994 would be given back as 5,993


turns_sooner: Final = Borrowed(sys.getswitchinterval, _take_turns, lambda before: min(before, _TURN_SECONDS))
"""Lets no thread wait long for one that computes in Python: some compute outside of it, and soon want back."""

garbage_seldom: Final = Borrowed(gc.get_threshold, lambda told: gc.set_threshold(*told), _seldom)
"""Has what is new looked through for garbage less often; most of it goes by itself, once nothing refers to it."""
