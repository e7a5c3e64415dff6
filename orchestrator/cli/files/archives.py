"""Archives and entries as files, written whole or not at all; `-` is standard output or input."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from hardwon.errors import InvalidInput
from knowledge.memory.maintenance.archive_format import check
from orchestrator.cli.files.capture_files import run_in_daemon_thread

_CHUNK = 256 * 1024
_Read = TypeVar("_Read")


async def write_archive(file: str, pieces: AsyncGenerator[bytes, None]) -> dict[str, int] | None:
    """Write an archive and return how many rows each part has, read back from it.

    None for standard output, and for what is no file: a pipe or a device is written to as it is. Raises InvalidInput
    where it cannot be written, or where what came was cut off: then nothing is left.
    """
    return await _write(file, pieces, lambda written: check(written).rows)


async def write_entries(file: str, pieces: AsyncGenerator[bytes, None]) -> int | None:
    """Write entries as JSON lines and return how many; otherwise as `write_archive`."""
    return await _write(file, pieces, _count_lines)


def _count_lines(written: IO[bytes]) -> int:
    written.seek(0)
    return sum(1 for _ in written)


async def _write(file: str, pieces: AsyncGenerator[bytes, None], read: Callable[[IO[bytes]], _Read]) -> _Read | None:
    """Write a file whole or not at all, and return what `read` finds in it; None for what is not a file."""
    path = Path(file)
    async with aclosing(pieces):
        if file == "-":
            await _pour(pieces, sys.stdout.buffer)
            return None
        if _leads_elsewhere(path):
            with _naming(path), await run_in_daemon_thread(partial(_open_to_write, path)) as opened:
                await _pour(pieces, opened)
            return None
        with _whole(path) as written:
            await _pour(pieces, written)
            await run_in_daemon_thread(partial(_keep, written))
            return await run_in_daemon_thread(partial(read, written))


def _leads_elsewhere(path: Path) -> bool:
    """Return whether a path is a pipe or a device, which no file may replace."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _open_to_write(path: Path) -> IO[bytes]:
    """Open a pipe or a device; a pipe waits for who reads it."""
    return path.open("wb")


async def _pour(pieces: AsyncIterator[bytes], into: IO[bytes]) -> None:
    async for piece in pieces:
        await run_in_daemon_thread(partial(into.write, piece))


def _keep(written: IO[bytes]) -> None:
    written.flush()
    os.fsync(written.fileno())


@contextmanager
def _whole(file: Path) -> Iterator[IO[bytes]]:
    """Give a file to write beside the wanted one, whose place it takes when the block ends well."""
    if file.is_dir():  # checked now, not after all of it is written
        raise InvalidInput(str(file), "is a directory: name a file in it")
    if file.is_symlink():
        file = file.resolve()
    with _naming(file):  # of a name that nobody else knows: read by its owner alone, as all workspaces are in it
        descriptor, name = tempfile.mkstemp(prefix=f"{file.name}.", suffix=".part", dir=file.parent)
    part = Path(name)
    try:
        with _naming(file):
            with os.fdopen(descriptor, "w+b") as written:
                yield written
            if file.exists():  # whoever may read what it takes the place of goes on
                part.chmod(stat.S_IMODE(file.stat().st_mode))
            part.replace(file)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Raise InvalidInput, which names the file, where a block cannot write it."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(str(file), f"cannot be written: {error.strerror}") from error


@asynccontextmanager
async def read_archive(file: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Give the bytes of a file a chunk at a time. Raises InvalidInput where it cannot be read."""
    opened = await run_in_daemon_thread(partial(_open, file))
    try:
        yield _chunks(file, opened)
    finally:
        opened.close()


def _open(file: str) -> IO[bytes]:
    try:
        return open(0 if file == "-" else file, "rb", closefd=file != "-")
    except OSError as error:
        raise _unreadable(file, error) from error


async def _chunks(file: str, opened: IO[bytes]) -> AsyncIterator[bytes]:
    try:
        while chunk := await run_in_daemon_thread(partial(opened.read, _CHUNK)):
            yield chunk
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> InvalidInput:
    return InvalidInput(file, f"cannot be read: {error.strerror}")
