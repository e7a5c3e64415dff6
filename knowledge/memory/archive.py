"""The form of an archive: one gzip stream of JSON lines that ends with a manifest. Reading and writing, no store.

The first line says what it is. Then `[part, row]` lines, parts in the order of `PARTS`. The last line is the manifest:
how many rows each part has and the sha256 of its lines. It is written last, so what was cut off is seen to be.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import IO, Any
from uuid import UUID

from knowledge.errors import Conflict, InvalidInput

FORMAT = "hardwon-archive"
VERSION = 8
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

_MAX_LINE = 8 * 1024 * 1024
"""No row is longer, but for those with texts of documents: an entry has ten texts of 64 KiB, JSON at most six times."""

_MAX_TEXT_LINE = 128 * 1024 * 1024
"""Nor is one of those: what a document of 15 MB tells of itself can be as long as its text, which stands beside it.

They are written as UTF-8, so neither of the two takes more than twice its bytes, unless it is of control characters.
"""

_LONG = tuple(f'["{part}",{{'.encode() for part in ("document_versions", "passages", "log_lines"))
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)

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
        """Return the next rows; parts come in the order of `PARTS`. Raises Conflict for one that none could read."""
        lines = [_line([part, row]) for row in rows]
        for line, row in zip(lines, rows, strict=True):
            if len(line) > _most(line) or _swollen(line):
                raise Conflict(_too_long(part, row))
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
        if isinstance(told, list) and len(told) == 2 and isinstance(told[0], str) and told[0] in sums:
            if not isinstance(told[1], dict):
                raise damaged(f"holds {told[0]} that are none")
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
    line = _read(unpacked, _MAX_LINE)
    if not line.endswith(b"\n") and line.startswith(_LONG):
        line += _read(unpacked, _MAX_TEXT_LINE - len(line))
    if line and not line.endswith(b"\n"):
        raise damaged("is damaged, it has a line that is too long or without an end")
    if _swollen(line):
        raise damaged("holds a line that is none of its own")
    return line


def _read(unpacked: gzip.GzipFile, most: int) -> bytes:
    try:
        return unpacked.readline(most)
    except EOFError as error:
        raise damaged("is cut off") from error
    except gzip.BadGzipFile as error:
        raise InvalidInput(
            "archive", "is not what hardwon export wrote: no gzip, or with something after it"
        ) from error
    except zlib.error as error:
        raise damaged("is damaged") from error


def _most(line: bytes) -> int:
    """Return how long a line may be that begins like this one."""
    return _MAX_TEXT_LINE if line.startswith(_LONG) else _MAX_LINE


def _swollen(line: bytes) -> bool:
    """Return whether a long line is long by more than its texts: a list in JSON takes twenty times its bytes."""
    if len(line) <= _MAX_LINE:
        return False
    beside = end = 0
    for text in _TEXT.finditer(line):
        beside += text.start() - end
        end = text.end()
        if beside > _MAX_LINE:
            return True
    return beside + len(line) - end > _MAX_LINE


def _too_long(part: str, row: Mapping[str, Any]) -> str:
    if (document_id := row.get("document_id")) is not None:
        return (
            f"document {document_id} is too long for an archive: delete it (hardwon kb delete), or have less in what it"
            " tells of itself at its beginning, and export again"
        )
    return f"one of the {part} is too long for an archive ({row.get('id', 'it has no id')})"


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
    told = json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))
    return told.encode(errors="surrogatepass") + b"\n"


def _plain(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no place in an archive")
