"""A lock on a data directory for one process at a time; the kernel drops it when the owner dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from hardwon.errors import StorageUnavailable, StoreInUse
from hardwon.owner.record import OWNER_FILE, Owner, read_owner
from knowledge.adapters.postgres.engine.ownership import make_home, user_name


class OwnerLock:
    """A lock that is held, and the record of its holder in the locked file."""

    def __init__(self, file: IO[str], owner: Owner) -> None:
        self._file = file
        self.owner = owner

    def write(self, **changes: Any) -> None:
        """Change fields of the record."""
        self.owner = replace(self.owner, **changes)
        record = self.owner.to_json()
        self._file.seek(0)
        self._file.write(record)
        self._file.truncate()
        self._file.flush()

    def is_in_place(self, home: Path) -> bool:
        """Return whether the locked file is still that of the data directory, which may have been removed."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._file.fileno()), (home / OWNER_FILE).stat())
        return False


def check_unowned(home: Path) -> None:
    """Raise StoreInUse if a process holds the lock of a data directory just now; nothing is created."""
    import fcntl  # noqa: PLC0415

    try:
        file = (home / OWNER_FILE).open("r+")
    except OSError:
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _in_use(home) from error
        fcntl.flock(file, fcntl.LOCK_UN)


def _in_use(home: Path) -> StoreInUse:
    owner = read_owner(home) or "another process"
    return StoreInUse(
        f"the data directory {home} is in use by {owner}: stop it, or set HARDWON_HOME to another directory"
    )


@contextmanager
def owner_lock(home: Path, **record: Any) -> Iterator[OwnerLock]:
    """Own the data directory for a block, creating it. `record`: fields of the `Owner` that others read.

    Raises StoreInUse, naming the owner, if another process owns it, and StorageUnavailable if another user does.
    """
    import fcntl  # noqa: PLC0415 - POSIX only; the embedded stores are too

    try:
        make_home(home)
        descriptor = os.open(home / OWNER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageUnavailable(
            f"the data directory {home} cannot be used ({_why_not(home, error)}set HARDWON_HOME to another directory"
        ) from error
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _in_use(home) from error
        _check_user(home, os.fstat(descriptor).st_uid)
        lock = OwnerLock(file, Owner(**{"pid": os.getpid(), "command": _command(), "socket": None, **record}))
        try:
            lock.write()
            yield lock
        finally:
            if os.getpid() == lock.owner.pid:  # not in a fork, which shares the lock
                file.seek(0)
                file.truncate(0)
                fcntl.flock(file, fcntl.LOCK_UN)  # closing it would leave the lock to forks


def _check_user(home: Path, owner_uid: int) -> None:
    """Raise StorageUnavailable for root in another user's directory: that user could not open root's files."""
    if owner_uid != os.geteuid():
        name = user_name(owner_uid)
        raise StorageUnavailable(
            f"the data directory {home} is that of {name}, who could not open what {user_name(os.geteuid())} would"
            f" write there: do it as {name}, or chown all of it"
        )


def _why_not(home: Path, error: OSError) -> str:
    """Return the reason, and another remedy if there is one."""
    if os.path.lexists(home) and not os.path.isdir(home):  # noqa: PTH112 - a Path raises where it may not look
        return "it is not a directory): "
    me = user_name(os.geteuid())
    let = f"let {me} write there (chown or chmod), or " if isinstance(error, PermissionError) else ""
    return f"{error.filename}: {error.strerror}): {let}"


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])[:120]
