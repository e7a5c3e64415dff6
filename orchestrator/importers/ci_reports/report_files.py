"""The report files of a run: files, folders, globs, and zip or tar archives of a CI's artifacts.

Archives are read in memory, member by member and within limits; nothing is unpacked to disk.
"""

from __future__ import annotations

import glob
import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, cast

from hardwon.errors import InvalidInput

MAX_FILES = 100_000
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
"""Limit of all that is read out of one archive: a zip bomb has more."""
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".xml.gz")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")
_HEAD_BYTES = 512
_REPORTS = (".xml", ".tap", ".json", ".jsonl")
_GLOB = frozenset("*?[")
_READ_ERRORS = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    LookupError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)


class TooLarge(Exception):
    """An archive unpacks to more than the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """A file to read. `folder` is relative to what was given; `named`: given itself, not found in a folder."""

    path: Path
    name: str
    folder: tuple[str, ...]
    named: bool
    open: Callable[[], IO[bytes]]


def find_files(sources: Sequence[Path], field: str) -> Iterator[Path | tuple[Path, Path]]:
    """Yield the files of a run in a stable order: a file that was given itself, or a folder and a file found in it.

    Raises InvalidInput for `field`: nothing given, a glob that matches nothing, a folder without reports.
    """
    if not sources:
        raise InvalidInput(field, "give a report, a folder or a glob")
    seen: set[tuple[int, int] | Path] = set()
    for source in sources:
        found = False
        for each in _expand(source, field):
            path = each[1] if isinstance(each, tuple) else each
            found, number = True, len(seen)
            seen.add(_identity(path))
            if len(seen) > number:
                yield each
            if len(seen) > MAX_FILES:
                raise InvalidInput(field, f"{source} has more than the {MAX_FILES:,} files allowed")
        if not found:
            raise InvalidInput(
                field, f"{source} has no report: no file in it ends in .xml, .tap, .json, .jsonl, .zip or .tar"
            )


def _identity(path: Path) -> tuple[int, int] | Path:
    """Return what a file has in common with its links and its other spellings."""
    try:
        stat = path.stat()
    except OSError:
        return path
    return stat.st_dev, stat.st_ino


def _expand(source: Path, field: str) -> Iterator[Path | tuple[Path, Path]]:
    if source.is_dir():
        for path in _walk(source):
            yield source, path
    elif not source.exists() and _GLOB & set(str(source)):
        matches = sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
        if not matches:
            raise InvalidInput(field, f"{source} matches no file")
        root = _root(source)
        for match in map(Path, matches):
            for path in _walk(match) if match.is_dir() else [match]:
                yield root, path
    else:
        yield source


def _root(pattern: Path) -> Path:
    """Return the folder of a glob: the part of it before the first special character."""
    fixed: list[str] = []
    for part in pattern.parts[:-1]:
        if _GLOB & set(part):
            break
        fixed.append(part)
    return Path(*fixed)


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.lower().endswith((*_REPORTS, *_ARCHIVES)):
                yield Path(parent, name)


def open_reports(found: Sequence[Path | tuple[Path, Path]]) -> Iterator[ReportFile]:
    """Yield the files to read, those in archives too. Folders are relative to what the files were given in."""
    singles = [each.absolute().parent for each in found if not isinstance(each, tuple)]
    common = Path(os.path.commonpath(singles)) if singles else Path()
    for each in found:
        root, path = each if isinstance(each, tuple) else (common, each.absolute())
        folder = _relative_folder(root, path.parent)
        named = not isinstance(each, tuple)
        shown = each if not isinstance(each, tuple) else path
        yield from _open_file(shown, folder, named=named)


@lru_cache(maxsize=64)
def _relative_folder(root: Path, folder: Path) -> tuple[str, ...]:
    return folder.relative_to(root).parts


def _open_file(path: Path, folder: tuple[str, ...], *, named: bool) -> Iterator[ReportFile]:
    def unpacked() -> IO[bytes]:
        return cast("IO[bytes]", _Bounded(cast("IO[bytes]", gzip.open(path)), [MAX_UNPACKED_BYTES]))

    one = ReportFile(path=path, name=str(path), folder=folder, named=named, open=lambda: path.open("rb"))
    try:
        stream = path.open("rb")
        head = stream.read(_HEAD_BYTES)
        stream.seek(0)
    except OSError:
        yield one  # opening it again says what is wrong
        return
    if not head.startswith(_PACKED) and head[257:262] != b"ustar":
        yield replace(one, open=lambda: stream)
        return
    stream.close()
    if head.startswith(b"PK\x03\x04"):
        yield from _zip_members(path, folder)
    elif head[257:262] == b"ustar" or _is_tar(path):
        yield from _tar_members(path, folder)
    else:
        yield replace(one, open=unpacked) if head.startswith(b"\x1f\x8b") else one


def _is_tar(path: Path) -> bool:
    try:
        return tarfile.is_tarfile(path)
    except _READ_ERRORS:
        return False


@dataclass(slots=True)
class _Bounded:
    """A member of an archive, read within the limit of the whole archive."""

    stream: IO[bytes]
    room: list[int]

    def read(self, size: int = -1) -> bytes:
        try:
            chunk = self.stream.read(size)
        except _READ_ERRORS as error:
            raise ValueError(f"the archive is broken: {error}") from error
        self.room[0] -= len(chunk)
        if self.room[0] < 0:
            raise TooLarge(f"unpacks to more than the {MAX_UNPACKED_BYTES:,} bytes allowed")
        return chunk

    def close(self) -> None:
        self.stream.close()


def _member(path: Path, name: str, folder: tuple[str, ...], room: list[int], stream: IO[bytes]) -> ReportFile:
    parts = tuple(part for part in name.replace("\\", "/").split("/")[:-1] if part not in {"", ".", ".."})
    bounded = cast("IO[bytes]", _Bounded(stream, room))
    return ReportFile(path=path, name=f"{path}!{name}", folder=(*folder, *parts), named=False, open=lambda: bounded)


def _zip_members(path: Path, folder: tuple[str, ...]) -> Iterator[ReportFile]:
    room = [MAX_UNPACKED_BYTES]
    try:
        with zipfile.ZipFile(path) as archive:
            for info in sorted(archive.infolist()[:MAX_FILES], key=lambda each: each.filename):
                if info.filename.lower().endswith(_REPORTS) and not info.is_dir():
                    yield _member(path, info.filename, folder, room, archive.open(info))
    except _READ_ERRORS as error:
        yield _broken(path, folder, error)


def _tar_members(path: Path, folder: tuple[str, ...]) -> Iterator[ReportFile]:
    room = [MAX_UNPACKED_BYTES]
    try:
        with tarfile.open(path) as archive:
            for number, info in enumerate(archive):
                if number >= MAX_FILES:
                    break
                room[0] -= info.size if not info.name.lower().endswith(_REPORTS) else 0
                if room[0] < 0:
                    raise tarfile.ReadError(f"unpacks to more than the {MAX_UNPACKED_BYTES:,} bytes allowed")
                stream = archive.extractfile(info) if info.isreg() and info.name.lower().endswith(_REPORTS) else None
                if stream is not None:
                    yield _member(path, info.name, folder, room, stream)
    except _READ_ERRORS as error:
        yield _broken(path, folder, error)


def _broken(path: Path, folder: tuple[str, ...], error: Exception) -> ReportFile:
    def refuse() -> IO[bytes]:
        raise ValueError(f"the archive is broken: {error}")

    return ReportFile(path=path, name=str(path), folder=folder, named=True, open=refuse)
