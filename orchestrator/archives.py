"""Archives as files: written whole or not at all, read a chunk at a time; `-` is standard output or input."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from knowledge.errors import InvalidInput
from knowledge.memory.archive import check
from orchestrator.capturing import apart

_CHUNK = 256 * 1024


async def write_archive(file: str, pieces: AsyncGenerator[bytes, None]) -> dict[str, int] | None:
    """Write an archive and return how many rows each part has, read back from it; None for standard output.

    Raises InvalidInput where it cannot be written, or where what came was cut off: then nothing is left.
    """
    if file == "-":
        async for piece in pieces:
            await apart(partial(sys.stdout.buffer.write, piece))
        return None
    with _whole(Path(file)) as written:
        async for piece in pieces:
            await apart(partial(written.write, piece))
        await apart(partial(_keep, written))
        return await apart(partial(check, written))


def _keep(written: IO[bytes]) -> None:
    written.flush()
    os.fsync(written.fileno())


@contextmanager
def _whole(file: Path) -> Iterator[IO[bytes]]:
    """Give a file to write beside the wanted one, whose place it takes when the block ends well.

    A link stays, and leads to it. What is there and no file is refused: root would put a file in the place of a device.
    """
    place = Path(os.path.realpath(file))
    part = place.with_name(f"{place.name}.part")
    try:
        if place.exists() and not place.is_file():
            raise InvalidInput(str(file), "is no file: for a device or a pipe, export to - and lead that there")
        with part.open("w+b") as written:
            yield written
        part.replace(place)
    except OSError as error:
        raise InvalidInput(str(file), f"cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@asynccontextmanager
async def read_archive(file: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Give the bytes of a file a chunk at a time. Raises InvalidInput where it cannot be read."""
    opened = await apart(partial(_open, file))
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
        while chunk := await apart(partial(opened.read, _CHUNK)):
            yield chunk
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> InvalidInput:
    return InvalidInput(file, f"cannot be read: {error.strerror}")
