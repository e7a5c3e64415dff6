"""A lock on a data directory for one process at a time; the kernel drops it when the owner dies."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hardwon.errors import StorageUnavailable, StoreInUse
from knowledge.adapters.postgres.engine.ownership import make_home, user_name

OWNER_FILE = "owner.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that owns a data directory, and the unix socket it serves the API on, if it does."""

    pid: int
    command: str
    socket: str | None

    def __str__(self) -> str:
        """Describe the process to a person."""
        return f"process {self.pid} ({self.command})"


@contextmanager
def owner_lock(home: Path, *, socket: Path | None = None) -> Iterator[None]:
    """Own the data directory for a block, creating it.

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
            raise StoreInUse(
                f"the data directory {home} is in use by {read_owner(home) or 'another process'}: stop it, or set"
                " HARDWON_HOME to another directory"
            ) from error
        _check_user(home, os.fstat(descriptor).st_uid)
        owner = Owner(pid=os.getpid(), command=_command(), socket=str(socket) if socket else None)
        file.truncate(0)
        file.write(json.dumps(asdict(owner)))
        file.flush()
        try:
            yield
        finally:
            if os.getpid() == owner.pid:  # not in a fork, which shares the lock
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


def read_owner(home: Path) -> Owner | None:
    """Return the recorded owner, which may have ended since."""
    try:
        return Owner(**json.loads((home / OWNER_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])[:120]
