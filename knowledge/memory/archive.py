"""The form of an archive: one gzip stream of JSON lines that ends with a manifest. Reading and writing, no store.

The first line says what it is. Then `[part, row]` lines, parts in the order of `PARTS`. The last line is the manifest:
how many rows each part has and the sha256 of its lines. It is written last, so what was cut off is seen to be.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import IO, Any
from uuid import UUID

from knowledge.errors import InvalidInput

FORMAT = "hardwon-archive"
VERSION = 5
PARTS = (
    "workspaces",
    "spaces",
    "projects",
    "patterns",
    "match_keys",
    "links",
    "entries",
    "points",
    "vectors",
    "lexicon",
    "checkpoints",
    "contexts",
    "outcomes",
    "partitions",
    "grants",
    "sources",
    "documents",
    "document_versions",
    "passages",
    "log_lines",
    "passage_vectors",
    "scales",
    "escalations",
    "qa_events",
    "feedback",
)
"""In this order each row comes after those it refers to."""

DOCUMENT_PARTS = PARTS[PARTS.index("partitions") :]
_SINCE = {"match_keys": 2, "links": 2, "workspaces": 3} | dict.fromkeys(DOCUMENT_PARTS, 5)
"""The format version a part came with, where it is not the first; older archives are read without it."""

SLICE_ROWS = 500
SLICE_BYTES = 4 * 1024 * 1024
"""Rows are read in slices of at most this much (a single row may be larger)."""

_MAX_LINE = 128 * 1024 * 1024
"""No row is as long as this: a document has at most 15 MB, and JSON writes six characters for one at most."""

Row = dict[str, Any]


def damaged(why: str) -> InvalidInput:
    """Return the error that an archive is not whole."""
    return InvalidInput("archive", f"{why}: export it again")


@dataclass(slots=True)
class _Sum:
    """How many lines a part has so far, and their digest."""

    count: int = 0
    digest: Any = field(default_factory=sha256)

    def add(self, line: bytes) -> None:
        self.count += 1
        self.digest.update(line)

    def told(self) -> dict[str, Any]:
        return {"count": self.count, "sha256": self.digest.hexdigest()}


class ArchiveWriter:
    """Makes the bytes of an archive, piece by piece. Rows hold JSON values, ids, times and bytes."""

    def __init__(self) -> None:
        self._gzip = zlib.compressobj(wbits=31)  # a gzip header without a time: the same rows are the same bytes
        self._sums = {part: _Sum() for part in PARTS}

    def head(self) -> bytes:
        """Return the beginning."""
        return self._gzip.compress(_line({"format": FORMAT, "version": VERSION}))

    def rows(self, part: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the next rows; parts come in the order of `PARTS`."""
        lines = [_line([part, row]) for row in rows]
        for line in lines:
            self._sums[part].add(line)
        return self._gzip.compress(b"".join(lines))

    def end(self) -> bytes:
        """Return the manifest and the end."""
        return self._gzip.compress(_line({"manifest": _manifest(VERSION, self._sums)})) + self._gzip.flush()


def _manifest(version: int, sums: Mapping[str, _Sum]) -> dict[str, Any]:
    parts = {name: told.told() for name, told in sums.items() if _SINCE.get(name, 1) <= version}
    return {"format": FORMAT, "version": version, "parts": parts}


def check(file: IO[bytes]) -> dict[str, int]:
    """Read a whole archive from its beginning and return how many rows each part has.

    Raises InvalidInput (field `archive`) for one that is cut off, damaged, of another version, or no archive.
    """
    sums = {part: _Sum() for part in PARTS}
    manifest: object = None
    last = PARTS[0]
    for line in _lines(file):
        if manifest is not None:
            raise damaged("goes on after its manifest")
        told = _parsed(line)
        if isinstance(told, list) and len(told) == 2 and told[0] in sums:
            if PARTS.index(told[0]) < PARTS.index(last):
                raise damaged("has its parts in another order")
            last = told[0]
            sums[last].add(line)
        elif isinstance(told, dict) and "manifest" in told:
            manifest = told["manifest"]
        else:
            raise damaged("holds a line that is none of its own")
    if manifest is None:
        raise damaged("is cut off, its manifest is missing")
    if manifest not in [_manifest(version, sums) for version in range(1, VERSION + 1)]:
        raise damaged("is damaged, it does not hold what its manifest says")
    return {name: part.count for name, part in sums.items()}


def slices(file: IO[bytes], *, only: Collection[str] = PARTS) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of a checked archive, from its beginning, in slices of one part each; `only` those of some."""
    rows: list[Row] = []
    size = 0
    part = PARTS[0]
    last = max(map(PARTS.index, only))
    for line in _lines(file):
        told = _parsed(line)
        if not isinstance(told, list):
            break
        if PARTS.index(told[0]) > last:
            break
        if told[0] not in only:
            continue
        if rows and (told[0] != part or len(rows) >= SLICE_ROWS or size >= SLICE_BYTES):
            yield part, rows
            rows, size = [], 0
        part = told[0]
        rows.append(told[1])
        size += len(line)
    if rows:
        yield part, rows


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines after the first one, which says that this is an archive and of which version."""
    file.seek(0)
    with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
        first = True
        while line := _next(unpacked):
            if first:
                _check_head(line)
                first = False
            else:
                yield line
        if first:
            raise InvalidInput("archive", "is empty: give the file that hardwon export wrote")


def _next(unpacked: gzip.GzipFile) -> bytes:
    try:
        line = unpacked.readline(_MAX_LINE)
    except EOFError as error:
        raise damaged("is cut off") from error
    except gzip.BadGzipFile as error:
        raise InvalidInput(
            "archive", "is not what hardwon export wrote: no gzip, or with something after it"
        ) from error
    except zlib.error as error:
        raise damaged("is damaged") from error
    if line and not line.endswith(b"\n"):
        raise damaged("is damaged, it has a line without an end")
    return line


def _check_head(line: bytes) -> None:
    try:
        told = json.loads(line)
        named, version = told["format"], told["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        named, version = None, None
    if named != FORMAT:
        raise InvalidInput("archive", "is no archive of hardwon: give the file that hardwon export wrote")
    if version not in range(1, VERSION + 1):
        raise InvalidInput(
            "archive", f"is of format version {version}, this hardwon reads up to {VERSION}: use the one that wrote it"
        )


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged("is damaged, it holds a line that is not JSON") from error


def _line(value: object) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":")).encode() + b"\n"


def _plain(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no place in an archive")
