"""Safe standard streams, even if a process was started with closed ones or the disk is full."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Lossy(io.FileIO):
    """A stream that ignores failed writes: the output is lost, and the work goes on."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data) or memoryview(data).nbytes  # None if a non-blocking reader is too slow
        except OSError:
            return memoryview(data).nbytes


def ensure_standard_streams() -> None:
    """Replace closed standard streams: reading from one gives nothing, and writing to one fails.

    Otherwise the next file that is opened would get its number, and a write there, such as the engine's last words in
    a panic, would go into a file of the stores. Failed writes to standard error are ignored.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.flush()
        lossy = io.BufferedWriter(_Lossy(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            lossy, encoding=sys.stderr.encoding, errors="backslashreplace", line_buffering=True, write_through=True
        )
