"""The directory of the embedded engine: owned by one process; each of its shards is whole or absent."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import qdrant_edge as edge

from hardwon.errors import HardwonError, IndexUnavailable, StoreIncompatible, StoreInUse
from knowledge.adapters.qdrant import payloads as shape
from knowledge.models import EmbeddingSpace

MB: Final = 1_000_000
"""Bytes."""
CREATING_PREFIX: Final = ".making-"
REMOVING_PREFIX: Final = ".dropped-"
"""Prefixes of incomplete shards, left by a kill."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the engine."""
    try:
        yield
    except HardwonError:
        raise
    except BaseException as exc:
        if not _is_engine_error(exc):
            raise
        advice = "If its files are damaged, `hardwon rebuild` puts everything back from Postgres."
        if isinstance(exc, PermissionError):
            advice = "Give all of it to the user that runs this (chown -R, chmod -R u+rwX)."
        raise IndexUnavailable(f"The index in {path} refused to work: {_shorten(exc)}. {advice}") from exc


def _is_engine_error(error: BaseException) -> bool:
    """Return whether the engine may have raised an error: an Exception or, in a panic, a class that cannot be imported.

    A panic is not an Exception: code that degrades, reports or retries would not catch it.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _shorten(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:200].rstrip(".")


def lock_directory(directory: Path) -> int:
    """Remove incomplete shards; return a descriptor that locks the directory until it is unlocked."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(directory / "owner", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        for left in (*directory.glob(f"{CREATING_PREFIX}*"), *directory.glob(f"{REMOVING_PREFIX}*")):
            shutil.rmtree(left)
    except BlockingIOError as exc:
        owner = os.read(lock, 20).decode(errors="replace") or "unknown"
        os.close(lock)
        raise StoreInUse(f"The index in {directory} belongs to process {owner}; stop that one first.") from exc
    except OSError:
        os.close(lock)
        raise
    return lock


def open_shard(path: Path, space: EmbeddingSpace, reserve_mb: int) -> edge.EdgeShard:
    """Open the shard of a space. Raises StoreInUse or StoreIncompatible."""
    shutil.rmtree(path / "temp_segments", ignore_errors=True)  # left by a kill during an optimisation
    advice = f"it holds nothing that Postgres lacks: delete {path} and run `hardwon rebuild`."
    try:
        shard = edge.EdgeShard.load(str(path))
        dims = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))["vectors"][shape.DENSE]["size"]
    except BaseException as exc:
        if not _is_engine_error(exc):
            raise
        if "WouldBlock" in str(exc):
            raise StoreInUse(f"The index in {path} is in use by another process; stop that one first.") from exc
        raise StoreIncompatible(f"The index in {path} cannot be opened ({_shorten(exc)}); {advice}") from exc
    if dims != space.dims:
        shard.close()
        raise StoreIncompatible(f"The index in {path} has {dims} dimensions, not {space.dims}; {advice}")
    size = sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
    if shutil.disk_usage(path).free > size + reserve_mb * MB:
        # Frees the space of deleted points once they are a fifth of all (1 s at 10,000 x 384, else nothing). It copies
        # the segment and blocks the process meanwhile; at the opening nobody waits for an answer yet.
        shard.optimize()
    return shard


def sync_folder(directory: Path) -> None:
    """Make renames in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
