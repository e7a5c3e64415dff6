"""Marks of what was read and learned, in the data directory, so that reading again learns nothing twice."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hardwon.errors import StorageUnavailable
from orchestrator.importers.sessions.formats import Transcript

FILE = "sessions.sqlite3"
_READER = 1
"""Number of the rules of reading: files that were read by others are read again."""
_PREFIX_BYTES = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    workspace TEXT, path TEXT, prefix TEXT, size INTEGER, modified_ns INTEGER, reader INTEGER,
    PRIMARY KEY (workspace, path));
CREATE TABLE IF NOT EXISTS lessons (
    workspace TEXT, identity TEXT, entry_id TEXT, kind TEXT, PRIMARY KEY (workspace, identity));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLesson:
    """A lesson that was learned: its entry, and the kind that it had."""

    identity: str
    entry_id: str
    kind: str


@dataclass(slots=True)
class ReadMarks:
    """The marks of one workspace."""

    connection: sqlite3.Connection
    workspace: str

    def is_read(self, transcript: Transcript) -> bool:
        """Return whether a file was read as it is: the same beginning, size and time."""
        row = self.connection.execute(
            "SELECT prefix, size, modified_ns, reader FROM files WHERE workspace = ? AND path = ?",
            (self.workspace, str(transcript.path)),
        ).fetchone()
        if row is None or row[1:] != (transcript.size, transcript.modified_ns, _READER):
            return False
        try:
            return bool(row[0] == _prefix_hash(transcript))
        except OSError:
            return False

    def mark_read(self, transcripts: Sequence[Transcript]) -> None:
        """Store that files were read up to the size that they had when they were found."""
        rows = [
            (self.workspace, str(each.path), _prefix_hash(each), each.size, each.modified_ns, _READER)
            for each in transcripts
        ]
        with self.connection:
            self.connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", rows)

    def find(self, identity: str) -> KnownLesson | None:
        """Return a lesson by its identity, from whichever session it was learned."""
        row = self.connection.execute(
            "SELECT identity, entry_id, kind FROM lessons WHERE workspace = ? AND identity = ?",
            (self.workspace, identity),
        ).fetchone()
        return None if row is None else KnownLesson(identity=row[0], entry_id=row[1], kind=row[2])

    def save(self, lesson: KnownLesson) -> None:
        """Store that a lesson was learned."""
        with self.connection:
            self.connection.execute(
                "INSERT OR REPLACE INTO lessons VALUES (?, ?, ?, ?)",
                (self.workspace, lesson.identity, lesson.entry_id, lesson.kind),
            )

    def forget(self, identity: str) -> None:
        """Drop a lesson that was withdrawn."""
        with self.connection:
            self.connection.execute(
                "DELETE FROM lessons WHERE workspace = ? AND identity = ?", (self.workspace, identity)
            )


def _prefix_hash(transcript: Transcript) -> str:
    with transcript.path.open("rb") as stream:
        return hashlib.sha256(stream.read(min(_PREFIX_BYTES, transcript.size))).hexdigest()


@contextmanager
def open_marks(home: Path, workspace: str, *, for_writing: bool) -> Iterator[ReadMarks]:
    """Open the marks of a data directory; without `for_writing` nothing is created there. Raises StorageUnavailable."""
    path = home / FILE
    try:
        if for_writing:
            home.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path if for_writing or path.exists() else ":memory:", timeout=10)
    except (OSError, sqlite3.Error) as error:
        raise StorageUnavailable(f"{path} cannot be opened: {error}") from error
    try:
        connection.executescript(_SCHEMA)
        yield ReadMarks(connection, workspace)
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path}: {error}; without it, transcripts are read anew") from error
    finally:
        connection.close()
