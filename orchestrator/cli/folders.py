"""The files of a folder that become documents: nothing outside it, whatever links in it say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.documents.library import MAX_BYTES
from knowledge.documents.parsing import readable
from knowledge.errors import InvalidInput

_PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv", "dist", "build", "target"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file, and the name it gets as a document."""

    uri: str
    path: Path


def files_at(paths: Iterable[Path]) -> list[Found]:
    """Return the files of all paths, each once.

    Raises InvalidInput where there is nothing to read, or two files would get one name: the second would replace the
    first.
    """
    by_name: dict[str, Found] = {}
    for path in paths:
        for found in files_of(path):
            first = by_name.setdefault(found.uri, found)
            if first.path.resolve() != found.path.resolve():
                raise InvalidInput(
                    "path", f"{first.path} and {found.path} would both be {found.uri}: add a folder that holds both"
                )
    return list(by_name.values())


def files_of(path: Path) -> Iterator[Found]:
    """Yield a file, or the readable files below a folder in order; hidden ones and links that lead out are passed over.

    A folder that cannot be listed is yielded itself: its files are not known.

    Names are relative to the folder, with its own name first. Raises InvalidInput where there is nothing to read.
    """
    if path.is_file():
        yield Found(uri=_named(path.name), path=path)
        return
    if not path.is_dir():
        raise InvalidInput("path", f"there is no file or folder {path}")
    nothing = True
    for found in _below(path.resolve()):
        nothing = False
        yield found
    if nothing:
        raise InvalidInput("path", f"there is no file of a kind that hardwon reads in {path}: name one to have it read")


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


def _below(root: Path) -> Iterator[Found]:
    unread: list[OSError] = []
    for folder, folders, names in os.walk(root, onerror=unread.append):  # follows no links to folders
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in _PASSED_OVER)
        for name in sorted(names):
            found = Path(folder, name)
            if name.startswith(".") or not readable(name) or not _within(found, root):
                continue
            yield Found(uri=_named(f"{root.name}/{found.relative_to(root).as_posix()}"), path=found)
    for error in unread:  # whoever reads it is told why it cannot be
        path = Path(error.filename)
        yield Found(uri=_named(Path(root.name, path.relative_to(root)).as_posix()), path=path)


def _named(path: str) -> str:
    """Return a name as text, whatever bytes the system holds it in."""
    return os.fsencode(path).decode("utf-8", "replace")


def _within(path: Path, root: Path) -> bool:
    """Return whether a path is a plain file of the root, links followed."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return False
    return real.is_file() and real.is_relative_to(root)
