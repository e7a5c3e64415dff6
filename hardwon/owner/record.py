"""The record of the process that owns a data directory, in the file that it keeps locked."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from hardwon.errors import StorageUnavailable

OWNER_FILE = "owner.lock"
LOG_FILE = "owner.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that owns a data directory.

    `socket`: where it serves the API, None where it serves nobody. `version`: of hardwon, None in a release before this
    record had it. `detached`: it was started by a caller and ends when it is idle; else a person or a supervisor
    started it. `stage`: what it waits for while it starts. `settings`: the variables that say which stores it opened,
    without passwords.
    """

    pid: int
    command: str
    socket: str | None
    version: str | None = None
    detached: bool = False
    stage: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Describe the process to a person."""
        return f"process {self.pid} ({self.command})"

    def to_json(self) -> str:
        """Return the record as it is stored."""
        return json.dumps(asdict(self))

    def is_alive(self) -> bool:
        """Return whether a process with this id runs; a later one may have the id."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


def read_owner(home: Path) -> Owner | None:
    """Return the recorded owner, which may have ended since."""
    known = {each.name for each in fields(Owner)}
    try:
        values = json.loads((home / OWNER_FILE).read_text())
        return Owner(**{name: value for name, value in values.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def socket_path(home: Path) -> Path:
    """Return the owner's socket: in the data directory, or in a private directory if that path is too long."""
    path = home / "hardwon.sock"
    if len(os.fsencode(path)) <= 100:  # Linux allows 107 bytes, macOS 103
        return path
    private = Path(tempfile.gettempdir()) / f"hardwon-{os.geteuid()}-{_home_digest(home)}"
    try:
        with contextlib.suppress(FileExistsError):
            private.mkdir(mode=0o700)
        state = private.lstat()
    except OSError as error:
        raise StorageUnavailable(
            f"no socket can be created in {private.parent} ({error.strerror}): set TMPDIR to a writable directory"
        ) from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise StorageUnavailable(f"{private} is not private to this user: remove it")
    return private / "hardwon.sock"


def is_socket_of(socket: str, home: Path) -> bool:
    """Return whether a socket belongs to a data directory, by any path of that directory.

    A copy of a directory that was in use names the socket of the original: requests for the copy would go there.
    """
    place = Path(socket).parent
    if place.name.rpartition("-")[2] in {_home_digest(home), _home_digest(home.resolve())}:
        return True
    with contextlib.suppress(OSError):
        return place.samefile(home)
    return False


def _home_digest(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
