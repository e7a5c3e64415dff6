"""The form of an archive: a gzipped tar with one member per table, written by COPY, and a manifest at its end.

Nothing is ever extracted to a path: members are read in order from the stream, by names of a fixed form. The manifest
has the columns, the number of rows and the sha256 of each member; written last, it tells a whole archive from one that
was cut off.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import IO, Final

from pydantic import TypeAdapter, ValidationError

from hardwon.errors import InvalidInput
from knowledge.ports import Origin

FORMAT: Final = "hardwon-archive"
VERSION: Final = 9
LAST_JSON_LINES: Final = "7e69ee7"
"""The last commit that reads archives of versions 1 to 8, which were JSON lines."""

MAX_ROW_BYTES: Final = 128 * 1024 * 1024
"""No row is longer: a document has 15 MB of text, and as much that it says of itself, escaped at most twice as long."""
_MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024
_MAX_PADDING_BYTES: Final = 1024 * 1024
_MAX_RATIO: Final = 400
"""An archive that unpacks to more times its size is a bomb; deflate reaches 1,030, rows of real stores 4 to 30."""
_FREE_BYTES: Final = 64 * 1024 * 1024
"""An archive may unpack to this much whatever its size."""
_PIECE_BYTES: Final = 1024 * 1024

_BLOCK: Final = tarfile.BLOCKSIZE
_MEMBER: Final = re.compile(rf"{FORMAT}-(\d+)/(?:([a-z_]{{1,63}})\.copy|manifest\.json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table in an archive: its columns in the order of COPY, the number of its rows, the sha256 of its member."""

    columns: tuple[str, ...]
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Contents and origin of an archive."""

    format: str
    version: int
    hardwon: str
    origin: Origin
    tables: Mapping[str, Table]

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        return {name: table.rows for name, table in self.tables.items()}


_MANIFEST = TypeAdapter(Manifest)


def damaged(reason: str) -> InvalidInput:
    """Return the error that an archive is not whole."""
    return InvalidInput("archive", f"{reason}: export it again")


class ArchiveWriter:
    """Makes the bytes of an archive, piece by piece; the same rows are the same bytes."""

    def __init__(self) -> None:
        self._gzip = zlib.compressobj(level=1, wbits=31)  # a gzip header without a time
        self._tables: dict[str, Table] = {}

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return sum(table.rows for table in self._tables.values())

    def add(self, name: str, columns: Sequence[str], file: IO[bytes]) -> Iterator[bytes]:
        """Yield a member with all rows of a file that COPY wrote."""
        size = file.tell()
        file.seek(0)
        digest, rows = sha256(), 0
        yield self._gzip.compress(_header(f"{name}.copy", size))
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            rows += piece.count(b"\n")
            yield self._gzip.compress(piece)
        yield self._gzip.compress(bytes(-size % _BLOCK))
        self._tables[name] = Table(columns=tuple(columns), rows=rows, sha256=digest.hexdigest())

    def end(self, origin: Origin) -> bytes:
        """Return the manifest and the end of the archive."""
        manifest = Manifest(
            format=FORMAT, version=VERSION, hardwon=version("hardwon"), origin=origin, tables=self._tables
        )
        content = json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode()
        member = _header("manifest.json", len(content)) + content + bytes(-len(content) % _BLOCK)
        return self._gzip.compress(member + bytes(2 * _BLOCK)) + self._gzip.flush()


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(f"{FORMAT}-{VERSION}/{name}")
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")  # has sizes of more than 8 GB


def check(file: IO[bytes]) -> Manifest:
    """Read a whole archive and return its manifest, to which all members fit.

    Raises InvalidInput (field `archive`) for one that is cut off, damaged, of another version, or no archive.
    """
    found: dict[str, tuple[int, str]] = {}
    manifest: Manifest | None = None
    stream = _Stream(file)
    for name, pieces in _members(stream):
        if manifest is not None:
            raise damaged("goes on after its manifest")
        if name is None:
            manifest = _read_manifest(pieces)
        elif name in found:
            raise damaged(f"holds {name} twice")
        else:
            found[name] = _sum_rows(pieces)
    if manifest is None:
        raise damaged("is cut off, its manifest is missing")
    stream.read_padding()
    if {name: (table.rows, table.sha256) for name, table in manifest.tables.items()} != found:
        raise damaged("is damaged, it does not hold what its manifest says")
    return manifest


def read_tables(file: IO[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield each table of a checked archive with the pieces of its rows, which are read before the next one."""
    for name, pieces in _members(_Stream(file)):
        if name is None:
            return
        yield name, pieces


def _sum_rows(pieces: Iterator[bytes]) -> tuple[int, str]:
    """Return the number of rows and the sha256; in the text format of COPY a line feed ends a row and nothing else."""
    digest, rows, length = sha256(), 0, 0
    for piece in pieces:
        digest.update(piece)
        rows += piece.count(b"\n")
        ends = piece.rfind(b"\n")
        length = length + len(piece) if ends < 0 else len(piece) - ends - 1
        if length > MAX_ROW_BYTES:
            raise damaged("is damaged, it has a row that is too long")
    return rows, digest.hexdigest()


def _read_manifest(pieces: Iterator[bytes]) -> Manifest:
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > _MAX_MANIFEST_BYTES:
            raise damaged("is damaged, its manifest is too long")
    try:
        manifest = _MANIFEST.validate_json(content)
    except (ValidationError, RecursionError) as error:
        raise damaged("is damaged, its manifest is not one") from error
    if (manifest.format, manifest.version) != (FORMAT, VERSION):
        raise damaged("is damaged, its manifest is of another format")
    return manifest


class _Stream:
    """The tar of an archive, gzipped or plain, read forward."""

    def __init__(self, file: IO[bytes]) -> None:
        file.seek(0)
        begins = file.read(2)
        if not begins:
            raise InvalidInput("archive", "is empty: give the file that hardwon export wrote")
        self._most = file.seek(0, 2) * _MAX_RATIO + _FREE_BYTES
        file.seek(0)
        self._tar: IO[bytes] = gzip.GzipFile(fileobj=file, mode="rb") if begins == b"\x1f\x8b" else file  # type: ignore[assignment]

    def read(self, size: int) -> bytes:
        """Return so many bytes. Raises InvalidInput where there are fewer."""
        content = self._read(size)
        while len(content) < size:
            more = self._read(size - len(content))
            if not more:
                raise damaged("is cut off")
            content += more
        return content

    def read_padding(self) -> None:
        """Read to the end, where only zeros may be."""
        size = 0
        while piece := self._read(_PIECE_BYTES):
            size += len(piece)
            if piece.strip(b"\0") or size > _MAX_PADDING_BYTES:
                raise damaged("goes on after its end")

    def _read(self, size: int) -> bytes:
        try:
            content = self._tar.read(size)
        except EOFError as error:
            raise damaged("is cut off") from error
        except gzip.BadGzipFile as error:
            raise InvalidInput(
                "archive", "is not what hardwon export wrote: damaged, or with something after its end"
            ) from error
        except zlib.error as error:
            raise damaged("is damaged") from error
        self._most -= len(content)
        if self._most < 0:
            raise InvalidInput("archive", f"unpacks to more than {_MAX_RATIO} times its size, as no store does")
        return content


def _members(stream: _Stream) -> Iterator[tuple[str | None, Iterator[bytes]]]:
    """Yield the name of each table, None for the manifest, and its pieces; what is left of them is skipped."""
    first = True
    while True:
        block = stream.read(_BLOCK)
        if not first and not any(block):
            stream.read(_BLOCK)  # a tar ends with two of these
            return
        name, size = _read_header(block, first=first)
        first = False
        pieces = _pieces(stream, size)
        yield name, pieces
        for _ in pieces:
            pass
        stream.read(-size % _BLOCK)


def _pieces(stream: _Stream, size: int) -> Iterator[bytes]:
    while size:
        piece = stream.read(min(size, _PIECE_BYTES))
        size -= len(piece)
        yield piece


def _read_header(block: bytes, *, first: bool) -> tuple[str | None, int]:
    """Return the name and the size of a member; links, folders and all names but those of tables are refused."""
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        if f'"{FORMAT}"'.encode() in block:
            raise InvalidInput(
                "archive",
                f"is one of JSON lines, as hardwon wrote them up to commit {LAST_JSON_LINES}: import it with that"
                " version into a store, which this version opens as it is",
            ) from error
        raise (_not_ours() if first else damaged("is damaged, it holds a member without a header")) from error
    named = _MEMBER.fullmatch(info.name)
    if named is None or info.type != tarfile.REGTYPE or info.size < 0:
        raise _not_ours() if first else damaged("holds a member that is not one of its own")
    if int(named[1]) != VERSION:
        raise InvalidInput(
            "archive", f"is of format version {named[1]}, this hardwon reads {VERSION}: use the one that wrote it"
        )
    return named[2], info.size


def _not_ours() -> InvalidInput:
    return InvalidInput("archive", "is no archive of hardwon: give the file that hardwon export wrote")
