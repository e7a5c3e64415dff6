"""Syncing writes of the embedded engine to disk without stopping the process: from outside, in a thread.

The engine's own flush holds the interpreter's lock while it syncs some fifty files (12 to 230 ms, measured). But it
logs each write first, and replays at the opening what is not yet in its files: once the log is synced nothing is lost,
whatever pages of the other files were written (tests/contract/test_qdrant_edge.py).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

_LOG = "wal"
_TRIES = 10


def sync_log(collection: Path) -> bool:
    """Sync a collection's log to disk; return False if the engine has no log there. Raises OSError.

    Blocks, but releases the interpreter's lock. The engine may begin a new file of the log at any time: then it is
    repeated.
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
    """Sync the files that a flush would sync; files that come or go meanwhile are left to the flush."""
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
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: its fsync stops at the disk's cache
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
