"""The files of a folder that become documents; links that lead out of it are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hardwon.errors import InvalidInput
from knowledge.documents.ingestion.service import MAX_BYTES
from knowledge.documents.parsing.decode import is_readable

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file, and its name as a document."""

    uri: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that become documents, and the other files and folders beside them. Hidden ones are in neither."""

    taken: list[SourceFile]
    left_out: list[SourceFile]


def files_at(paths: Iterable[Path]) -> Files:
    """Return the files of all paths, each once, and what is left out of folders, except for paths that were given.

    Raises InvalidInput if there is nothing to read, or if two files would get one name: the second would replace the
    first.
    """
    by_name: dict[str, SourceFile] = {}
    left_out: dict[Path, SourceFile] = {}
    paths = list(paths)
    for path in paths:
        files = files_of(path)
        left_out |= {found.path: found for found in files.left_out}
        for found in files.taken:
            first = by_name.setdefault(found.uri, found)
            if first.path.resolve() != found.path.resolve():
                raise InvalidInput(
                    "path", f"{first.path} and {found.path} would both be {found.uri}: add a folder that holds both"
                )
    for path in paths:
        left_out.pop(path.resolve(), None)
    return Files(taken=list(by_name.values()), left_out=list(left_out.values()))


def files_of(path: Path) -> Files:
    """Return a file, or the readable files below a folder in order, and what is left out of it.

    Left out are links that lead out, files of unsupported formats, and folders of built or installed files. A folder
    that cannot be listed is returned as a file, so that its error is reported.

    Names are relative to the folder, with its own name first. Raises InvalidInput if there is nothing to read.
    """
    if path.is_file():
        return Files(taken=[SourceFile(uri=_decode_name(path.name), path=path)], left_out=[])
    if not path.is_dir():
        raise InvalidInput("path", f"there is no file or folder {path}")
    files = _walk(path.resolve())
    if not files.taken:
        raise InvalidInput("path", f"{path} has no file of a supported format: name a file to have it read as text")
    return files


def folders_among(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are folders."""
    return [path for path in paths if path.is_dir()]


def find_deleted(folder: Path, uris: Iterable[str]) -> list[str]:
    """Return the names of documents that came from a folder and whose files do not exist any more.

    A file that cannot be checked is taken to exist.
    """
    root = folder.resolve()
    first = f"{_decode_name(root.name)}/"
    return [uri for uri in uris if uri.startswith(first) and not _exists(root / uri.removeprefix(first))]


def read_contents(path: Path) -> bytes | str:
    """Return the content of a file, or a sentence that says why it cannot be a document."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            limit = MAX_BYTES // 1_000_000
            return f"it has {size // 1_000_000} MB, more than the {limit} MB that a document may have"
        return path.read_bytes()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # such as a folder without permission to read it
        return True
    return True


def _walk(root: Path) -> Files:
    files = Files(taken=[], left_out=[])
    errors: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=errors.append):  # follows no links to folders
        visible = sorted(each for each in folders if not each.startswith("."))
        folders[:] = [each for each in visible if each not in _SKIPPED_FOLDERS]
        for name in sorted(names):
            if not name.startswith("."):
                found = Path(folder, name)
                fits = is_readable(name) and _is_file_within(found, root)
                (files.taken if fits else files.left_out).append(_source_file(found, root))
        skipped = (each for each in visible if each in _SKIPPED_FOLDERS or _is_link(Path(folder, each)))
        files.left_out.extend(_source_file(Path(folder, each), root, "/") for each in skipped)
    for error in errors:  # reading it as a file reports the error
        files.taken.append(_source_file(Path(error.filename), root))
    return files


def _source_file(path: Path, root: Path, ending: str = "") -> SourceFile:
    return SourceFile(uri=_decode_name(Path(root.name, path.relative_to(root)).as_posix()) + ending, path=path)


def _decode_name(path: str) -> str:
    """Return a path as text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # a path that is too long
        return False


def _is_file_within(path: Path, root: Path) -> bool:
    """Return whether a path, with links followed, is a regular file below the root."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return False
    return real.is_file() and real.is_relative_to(root)
