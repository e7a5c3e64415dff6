"""The standard streams of a process, whatever it was given: closed ones, or a disk without room."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Lossy(io.FileIO):
    """A stream of what only helps: what cannot be written is lost, and the work goes on."""

    def write(self, told: Buffer, /) -> int:
        try:
            return super().write(told) or memoryview(told).nbytes  # none where a reader is too slow for it
        except OSError:
            return memoryview(told).nbytes


def keep_streams() -> None:
    """Have standard streams: what is read of a closed one is nothing, and what is written to one fails.

    Else the next file that is opened has its number, and whoever writes there, such as the engine as it ends in a
    panic, writes into a file of the stores. Standard error has only what helps: none of it is worth a failure.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.flush()
        lossy = io.BufferedWriter(_Lossy(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            lossy, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True, write_through=True
        )
