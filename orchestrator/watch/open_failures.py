"""Checks that fail just now, a small file each in the data directory, and entries that the store has yet to take."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from hardwon.client.entries import entry_to_json
from hardwon.models.entries import EntryType, NewEntry
from knowledge.adapters.postgres.engine.ownership import make_home
from orchestrator.watch.work_tree import Snapshot

MAX_OPEN = 200
MAX_AGE = timedelta(days=30)
MAX_PENDING = 200
"""Limits of what is remembered, oldest dropped first; ours."""
LOCK_SECONDS = 2.0
_FOLDERS = ("open", "pending", "objects", "passed", "delivered", "withdrawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFailure:
    """A check that fails: what it said, without secrets, and the state of the work tree in which it first said so.

    `key`: of the check, as `failure_key` makes it. `command`: as it was typed, without secrets. `signature`: the lines
    that name the error, without what differs from run to run. `snapshot`: None outside of git. `task`: the check's id,
    the same as in sessions; empty in what an earlier release remembered.
    """

    key: str
    project: str
    command: str
    work_tree: str
    exit_code: int
    output: str
    signature: str
    failed_at: str
    times: int = 1
    snapshot: Snapshot | None = None
    task: str = ""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        values = json.loads(text)
        snapshot = values.pop("snapshot")
        return cls(**values, snapshot=None if snapshot is None else Snapshot(**snapshot))

    def to_json(self) -> str:
        """Return it as a file holds it."""
        return json.dumps(asdict(self))


def failure_key(project: str, command: str, work_tree: str) -> str:
    """Return the name under which a check is remembered."""
    return sha256(json.dumps([project, command, work_tree]).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The folder of open failures in a data directory."""

    home: Path

    @property
    def folder(self) -> Path:
        """All that `hardwon watch` remembers."""
        return self.home / "watch"

    def objects_of(self, key: str) -> Path:
        """Return the folder for the objects of a failure's snapshot."""
        return self.folder / "objects" / key

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock for a block, creating the folder. Raises OSError, also where another process holds it long."""
        make_home(self.home)
        for name in ("", *_FOLDERS):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock_within(descriptor, LOCK_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def find(self, key: str) -> OpenFailure | None:
        """Return an open failure; one that cannot be read is none."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return OpenFailure.from_json((self.folder / "open" / key).read_text("utf-8"))
        return None

    def has_open(self) -> bool:
        """Return whether any check fails just now."""
        return bool(_files(self.folder / "open"))

    def list_open(self) -> list[OpenFailure]:
        """Return all open failures, the latest first."""
        found = [self.find(path.name) for path in _files(self.folder / "open")]
        return sorted((each for each in found if each is not None), key=lambda each: each.failed_at, reverse=True)

    def remember(self, failure: OpenFailure, now: datetime) -> None:
        """Write an open failure over the one of its check, and drop what is too old or too many."""
        _write(self.folder / "open" / failure.key, failure.to_json())
        oldest = (now - MAX_AGE).isoformat()
        for place, each in enumerate(self.list_open()):
            if place >= MAX_OPEN or each.failed_at < oldest:
                self.forget(each.key)

    def forget(self, key: str) -> None:
        """Remove an open failure and its snapshot."""
        (self.folder / "open" / key).unlink(missing_ok=True)
        shutil.rmtree(self.objects_of(key), ignore_errors=True)

    def count(self, what: str) -> None:
        """Count what came of a run."""
        counts = self.counts()
        counts[what] += 1
        _write(self.folder / "counts.json", json.dumps(counts, sort_keys=True))

    def counts(self) -> Counter[str]:
        """Return what came of the runs, by name."""
        with suppress(OSError, ValueError, TypeError):
            return Counter(json.loads((self.folder / "counts.json").read_text("utf-8")))
        return Counter()

    def note_passed(self, key: str, tree: str, entry: NewEntry) -> None:
        """Remember in which state of the work tree a check passed, and what was learned by that."""
        _write(self.folder / "passed" / key, json.dumps({"tree": tree, "entry": _entry_name(entry)}))
        _drop_oldest(self.folder / "passed")

    def withdraw(self, key: str, tree: str) -> bool:
        """Take back what was learned from a check that fails in the very state in which it passed."""
        place = self.folder / "passed" / key
        with suppress(OSError, ValueError, TypeError, KeyError):
            passed = json.loads(place.read_text("utf-8"))
            if passed["tree"] != tree:
                return False
            place.unlink()
            (self.folder / "pending" / passed["entry"]).unlink(missing_ok=True)
            delivered = self.folder / "delivered" / passed["entry"]
            if delivered.exists():
                delivered.replace(self.folder / "withdrawn" / passed["entry"])
            return True
        return False

    def note_delivered(self, pending: Path, entry_id: str) -> None:
        """Note that the store has an entry, and its id there."""
        _write(self.folder / "delivered" / pending.name, entry_id)
        _drop_oldest(self.folder / "delivered")

    def list_withdrawn(self) -> list[tuple[Path, str]]:
        """Return the files and the ids of entries that the store is to delete."""
        found = []
        for path in _files(self.folder / "withdrawn"):
            with suppress(OSError):
                found.append((path, path.read_text("utf-8")))
        return found

    def add_pending(self, entry: NewEntry, reporter: str) -> None:
        """Write an entry for the store; it stays until the store has it."""
        name = _entry_name(entry)
        if len(_files(self.folder / "pending")) < MAX_PENDING:
            _write(self.folder / "pending" / name, json.dumps({"reporter": reporter, "entry": entry_to_json(entry)}))

    def list_pending(self) -> list[tuple[Path, str, NewEntry]]:
        """Return the entries that the store has yet to take, with their files and who reports them."""
        found = []
        for path in _files(self.folder / "pending"):
            with suppress(OSError, ValueError, TypeError, KeyError):
                values = json.loads(path.read_text("utf-8"))
                fields: dict[str, Any] = values["entry"]
                entry = NewEntry(**fields)
                found.append((path, values["reporter"], replace(entry, entry_type=EntryType(entry.entry_type))))
        return found


def _entry_name(entry: NewEntry) -> str:
    return sha256(str(entry.idempotency_key).encode()).hexdigest()[:24]


def _drop_oldest(folder: Path) -> None:
    with suppress(OSError):
        for path in sorted(_files(folder), key=lambda each: each.stat().st_mtime)[:-MAX_OPEN]:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return []


def _write(path: Path, text: str) -> None:
    """Write a private file atomically."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _lock_within(descriptor: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return
