"""The files of a folder that become documents: nothing outside it, whatever links in it say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from knowledge.documents.library import MAX_BYTES
from knowledge.documents.parsing import is_readable
from knowledge.errors import InvalidInput

_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file, and the name it gets as a document."""

    uri: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files that become documents, and what else is in their folders: files and whole folders.

    What is hidden is in neither.
    """

    taken: list[Found]
    left_out: list[Found]


def files_at(paths: Iterable[Path]) -> Files:
    """Return the files of all paths, each once, and what is left out of folders and was not named itself.

    Raises InvalidInput where there is nothing to read, or two files would get one name: the second would replace the
    first.
    """
    by_name: dict[str, Found] = {}
    left_out: dict[Path, Found] = {}
    named = list(paths)
    for path in named:
        files = files_of(path)
        left_out |= {found.path: found for found in files.left_out}
        for found in files.taken:
            first = by_name.setdefault(found.uri, found)
            if first.path.resolve() != found.path.resolve():
                raise InvalidInput(
                    "path", f"{first.path} and {found.path} would both be {found.uri}: add a folder that holds both"
                )
    for path in named:
        left_out.pop(path.resolve(), None)
    return Files(taken=list(by_name.values()), left_out=list(left_out.values()))


def files_of(path: Path) -> Files:
    """Return a file, or the readable files below a folder in order, and what is left out of it.

    Left out are links that lead out, files of other kinds, and folders that hold what was made or installed. A folder
    that cannot be listed is taken itself: its files are not known.

    Names are relative to the folder, with its own name first. Raises InvalidInput where there is nothing to read.
    """
    if path.is_file():
        return Files(taken=[Found(uri=_named(path.name), path=path)], left_out=[])
    if not path.is_dir():
        raise InvalidInput("path", f"there is no file or folder {path}")
    files = _below(path.resolve())
    if not files.taken:
        raise InvalidInput("path", f"there is no file of a kind that hardwon reads in {path}: name one to have it read")
    return files


def folders_among(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are folders."""
    return [path for path in paths if path.is_dir()]


def gone_from(folder: Path, uris: Iterable[str]) -> list[str]:
    """Return those of some documents' names that are names of a folder's files, and whose files are not there any more.

    What cannot be looked at is taken to be there.
    """
    root = folder.resolve()
    first = f"{_named(root.name)}/"
    return [uri for uri in uris if uri.startswith(first) and not _there(root / uri.removeprefix(first))]


def contents_of(path: Path) -> bytes | str:
    """Return what a file holds; else, in a sentence, why it cannot be a document."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            most = MAX_BYTES // 1_000_000
            return f"it has {size // 1_000_000} MB, more than the {most} MB that a document may have"
        return path.read_bytes()
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):  # such as a folder that is not ours to look into
        return True
    return True


def _below(root: Path) -> Files:
    files = Files(taken=[], left_out=[])
    unread: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=unread.append):  # follows no links to folders
        shown = sorted(each for each in folders if not each.startswith("."))
        folders[:] = [each for each in shown if each not in _PASSED_OVER]
        for name in sorted(names):
            if not name.startswith("."):
                found = Path(folder, name)
                fits = is_readable(name) and _within(found, root)
                (files.taken if fits else files.left_out).append(_found(found, root))
        aside = (each for each in shown if each in _PASSED_OVER or _is_link(Path(folder, each)))
        files.left_out.extend(_found(Path(folder, each), root, "/") for each in aside)
    for error in unread:  # whoever reads it is told why it cannot be
        files.taken.append(_found(Path(error.filename), root))
    return files


def _found(path: Path, root: Path, ending: str = "") -> Found:
    return Found(uri=_named(Path(root.name, path.relative_to(root)).as_posix()) + ending, path=path)


def _named(path: str) -> str:
    """Return a name as text, whatever bytes the system holds it in."""
    return os.fsencode(path).decode("utf-8", "replace")


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # a path that is too long
        return False


def _within(path: Path, root: Path) -> bool:
    """Return whether a path is a plain file of the root, links followed."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return False
    return real.is_file() and real.is_relative_to(root)
