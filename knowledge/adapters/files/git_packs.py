"""Limits on the unpacked size of a pack, checked while it is received: a few bytes can unpack to all memory.

A reader holds a whole object in memory, and the base of a delta, too. Here only the sizes of unpacked data are kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from typing import Any, Final

from dulwich.client import HttpGitClient
from dulwich.errors import GitProtocolError

MAX_OBJECT_BYTES: Final = 200_000_000
"""More than ten times the largest file that becomes a document; other files in a repository may be larger."""
MAX_OBJECTS: Final = 5_000_000

_HEAD: Final = 12
_OFS_DELTA, _REF_DELTA = 6, 7
_NAME: Final = 20
_HASH: Final = 20
_CHUNK: Final = 65_536
_MAX_NUMBER_BYTES: Final = 10


class PackCheck:
    """Checks the bytes of a pack as they come. Raises GitProtocolError for one that would unpack to too much."""

    def __init__(self, most: int = MAX_OBJECT_BYTES) -> None:
        """Allow objects of at most `most` bytes."""
        self._most = most
        self._left = b""
        self._reading = self._read()
        next(self._reading)

    def feed(self, data: bytes) -> None:
        """Check the next bytes; after the last object only a hash of the pack follows."""
        self._reading.send(data)

    def _read(self) -> Generator[None, bytes, None]:
        head = yield from self._take(_HEAD)
        if head[:4] != b"PACK":
            raise GitProtocolError("it sends no pack")
        objects = int.from_bytes(head[8:])
        if objects > MAX_OBJECTS:
            raise GitProtocolError(f"it has more than {MAX_OBJECTS:,} objects")
        for _ in range(objects):
            yield from self._object()
        while len(self._left) <= _HASH:
            self._left += yield
        raise GitProtocolError("it sends more than one pack")

    def _object(self) -> Generator[None, bytes, None]:
        first = (yield from self._take(1))[0]
        kind, size, shift = first >> 4 & 7, first & 15, 4
        while first & 128:
            first = (yield from self._take(1))[0]
            size |= (first & 127) << shift
            shift += 7
            self._check(shift // 7, _MAX_NUMBER_BYTES)
        self._check(size, self._most)
        if kind == _REF_DELTA:
            yield from self._take(_NAME)
        elif kind == _OFS_DELTA:
            while (yield from self._take(1))[0] & 128:
                pass
        begin = yield from self._unpack(size)
        if kind in {_REF_DELTA, _OFS_DELTA}:
            _, after = _number(begin, 0)
            self._check(_number(begin, after)[0], self._most)

    def _unpack(self, size: int) -> Generator[None, bytes, bytes]:
        """Return the first unpacked bytes of an object; its size must be the declared one."""
        unpacking, length, begin = zlib.decompressobj(), 0, b""
        while not unpacking.eof:
            if not self._left:
                self._left = yield
                continue
            try:
                some = unpacking.decompress(self._left, _CHUNK)
            except zlib.error as error:
                raise GitProtocolError("its pack is broken") from error
            self._left = unpacking.unconsumed_tail or unpacking.unused_data
            length += len(some)
            self._check(length, size)
            begin += some[: 2 * _MAX_NUMBER_BYTES - len(begin)]
        return begin

    def _take(self, number: int) -> Generator[None, bytes, bytes]:
        while len(self._left) < number:
            self._left += yield
        data, self._left = self._left[:number], self._left[number:]
        return data

    def _check(self, size: int, most: int) -> None:
        if size > most:
            raise GitProtocolError(f"an object in it would unpack to more than {self._most // 1_000_000} MB")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of a delta's head, and the position after it."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        number |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if not byte & 128:
            break
    return number, at


class CheckedClient(HttpGitClient):
    """A client that checks packs before they are unpacked."""

    def fetch_pack(
        self, path: Any, determine_wants: Any, graph_walker: Any, pack_data: Any, *arguments: Any, **options: Any
    ) -> Any:
        """Fetch a pack. Raises GitProtocolError."""
        check = PackCheck()

        def check_and_write(data: bytes) -> int:
            check.feed(data)
            written: int = pack_data(data)
            return written

        return super().fetch_pack(path, determine_wants, graph_walker, check_and_write, *arguments, **options)
