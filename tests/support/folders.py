"""Where the tests keep what they throw away."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

from hardwon.owner.record import Owner, read_owner

DISK = tempfile.gettempdir()
"""For what has to wait for a disk."""

_MEMORY = Path("/dev/shm")  # memory that is a folder: nothing waits for a disk there
_ROOM = 6 * 2**30
"""What the tests of eight processes take at most is half of it (measured: 0.3 GiB a process)."""


def keep_in_memory() -> None:
    """Put temporary folders of this process and its children into memory, unless TMPDIR says where they are to be."""
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def end_owner(home: Path, number: signal.Signals = signal.SIGTERM) -> Owner | None:
    """End the detached owner of a data directory, if it has one, and wait for its end."""
    owner = read_owner(home)
    if owner is None or not owner.detached:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.pid, number)
    deadline = time.monotonic() + 60
    while owner.is_alive():
        assert time.monotonic() < deadline, f"{owner} does not end"
        time.sleep(0.01)
    return owner
