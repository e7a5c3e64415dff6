"""Making writes of the embedded engine outlast a power cut without stopping the process: from outside, in a thread.

The engine's own flush holds the interpreter's lock while it waits for some fifty files (12 to 230 ms, measured). But it
logs each write before it does it, and does again at the opening what is in the log and not yet in its files: with the
log on the disk nothing is lost, whatever pages of the other files got there (tests/contract/test_qdrant_edge.py).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

_LOG = "wal"
_TRIES = 10


def sync_log(collection: Path) -> bool:
    """Put a collection's log on the disk; False where the engine keeps none there. Raises OSError.

    Blocks, but lets others run meanwhile. The engine may begin a new file of the log at any time: then once more.
    """
    log = collection / _LOG
    for _ in range(_TRIES - 1):
        try:
            return _sync_files(log.iterdir(), log)
        except FileNotFoundError:
            if not log.exists():
                return False
    return _sync_files(log.iterdir(), log)


def sync_ahead(collection: Path) -> None:
    """Put on the disk what a flush would have to wait for; what comes or goes meanwhile is left to the flush."""
    for path in collection.rglob("*"):
        if path.is_file():
            try:
                _sync(path)
            except FileNotFoundError:
                continue


def _sync_files(files: Iterable[Path], folder: Path) -> bool:
    found = [path for path in files if path.is_file()]
    for path in found:
        _sync(path)
    if found:
        _sync(folder)  # the names of new files
    return bool(found)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: its fsync stops at the disk's own memory
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
