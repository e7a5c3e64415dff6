"""Where the tests keep what they throw away."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

DISK = tempfile.gettempdir()
"""For what has to wait for a disk."""

_MEMORY = Path("/dev/shm")  # memory that is a folder: nothing waits for a disk there
_ROOM = 6 * 2**30
"""What the tests of eight processes take at most is half of it (measured: 0.3 GiB a process)."""


def keep_in_memory() -> None:
    """Put temporary folders of this process and its children into memory, unless TMPDIR says where they are to be."""
    if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
