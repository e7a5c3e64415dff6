"""How soon Python's threads take turns: sooner while some compute outside of the interpreter, and soon want back."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SECONDS = 0.0005
"""What a thread that computes may keep others waiting. Python's 5 ms left a core idle for 0.3 ms of each text that was
embedded while a checkpoint compared others (of 16; measured on two cores); a tenth of it costs nothing that shows."""


class _Switching:
    """The interval of the whole process, shortened by the first who asks for it and given back by the last."""

    def __init__(self) -> None:
        self._asking = 0
        self._before = 0.0
        self._alone = threading.Lock()

    def begin(self) -> None:
        with self._alone:
            if not self._asking:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SECONDS))
            self._asking += 1

    def end(self) -> None:
        with self._alone:
            self._asking -= 1
            if not self._asking:
                sys.setswitchinterval(self._before)


_switching = _Switching()


@contextmanager
def switching_soon() -> Iterator[None]:
    """Let no thread of this process wait long for one that computes in Python; ends where the last of several ends."""
    _switching.begin()
    try:
        yield
    finally:
        _switching.end()
