"""A real Postgres inside the data directory, shared by every process that opens it.

    with EmbeddedPostgres(home) as server:   # starts it, or joins the one that runs
        asyncpg.connect(server.dsn)          # the last process to leave stops it

Its files are in `home/postgres`, which is 0700 and belongs to the user the server runs as: ourselves or, where root
runs this, the owner of the data, else `postgres`, else `nobody`. It listens on no network, only on a socket in there,
and believes whoever may reach that. `home` itself is made 0700, for root 0755; what exists already is never chmodded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote
from uuid import uuid4

from knowledge.adapters.postgres import binaries, ownership
from knowledge.errors import HardwonError, InvalidSetting, StorageUnavailable, StoreIncompatible
from knowledge.logs import get_logger

if sys.platform != "win32":
    import fcntl
    import pwd

APP = ROLE = "hardwon"
DATABASE = "postgres"
PORT = 5432
"""Names the socket only: nothing listens on the network."""

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "listen_addresses": "",
    "log_checkpoints": "off",
    "log_directory": "log",
    "log_error_verbosity": "terse",  # details repeat stored values, and statements may hold some
    "log_filename": "postgres-%a.log",
    "log_min_error_statement": "panic",
    "log_rotation_age": "1d",
    "log_truncate_on_rotation": "on",
    "logging_collector": "on",
    "max_connections": "100",
    "port": str(PORT),
    "recovery_init_sync_method": "syncfs" if sys.platform == "linux" else "fsync",  # recovers in 0.2 s, not 4.8 s
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "unix_socket_permissions": "0700",
}

SOCKET_BYTES = 100
"""Longest path of a socket we ask for: Linux allows 107 bytes, macOS 103."""
LOCK_SECONDS = 300
STOP_SECONDS = 60
START_SECONDS = 120
START_TRIES = 10
SILENT_SECONDS = 8
"""What one that runs and does not answer is tried for: a server that was killed may still be leaving; ours."""
GIVE_UP_SECONDS = 3
FULL_BYTES = 64 * 1024
"""Postgres starts with less, but nothing can be kept there: where a start fails with this little, that is why."""
_UNSAFE_IN_SOCKET_PATHS = frozenset(',:"\\%?#$`')
"""libpq, asyncpg and SQLAlchemy split hosts at some of these, and Postgres unquotes others."""

log = get_logger(__name__)


class EmbeddedPostgres:
    """The Postgres of one data directory, as a context manager. Blocking: async code enters it in a thread.

    Enter and leave it in the same process; children get its `dsn`. A process that is killed without leaving costs
    nothing: the server stays up, and the next one to leave stops it, unless that one is to `keep` it running.
    Raises StorageUnavailable, StoreIncompatible (data of another major) or InvalidSetting (HARDWON_PG_HOME).
    """

    def __init__(self, home: Path, *, settings: Mapping[str, str] | None = None, keep: bool = False) -> None:
        self.home = home.expanduser().resolve()
        self.base = self.home / "postgres"
        self.data = self.base / "data"
        self._settings = {**SETTINGS, **(settings or {})}
        self._keep = keep
        self._user: pwd.struct_passwd | None = None
        self._install = Path()
        self._users: IO[bytes]

    def __enter__(self) -> Self:
        if sys.platform == "win32":
            raise StorageUnavailable(
                "the embedded Postgres does not run on Windows: set HARDWON_DATABASE_URL to a Postgres server"
            )
        with contextlib.ExitStack() as undo, self._explained():
            self._prepare()
            self._users = self._lock_file("users.lock")
            undo.callback(self._give_up)
            with self._alone():
                fcntl.flock(self._users, fcntl.LOCK_SH)  # the kernel drops it if we are killed
                self._ensure_running()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def ensure(self) -> None:
        """Start the server again if it was killed under us: for a health check, or after a failed connect."""
        with self._explained(), self._alone():
            if not self._users.closed:  # else whoever wanted it back has left meanwhile
                self._ensure_running()

    @property
    def dsn(self) -> str:
        """The address of the server for asyncpg and SQLAlchemy; no password, the socket is private."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.socket_dir))}&port={PORT}"

    @property
    def socket_dir(self) -> Path:
        """The private directory of the socket: the data directory; one in /tmp where that path is too long or odd."""
        path = str(self.data / f".s.PGSQL.{PORT}")
        if len(os.fsencode(path)) <= SOCKET_BYTES and path.isprintable() and not _UNSAFE_IN_SOCKET_PATHS & set(path):
            return self.data
        uid = self._user.pw_uid if self._user else os.geteuid()
        name = f"{APP}-{uid}-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"
        # not the temporary directory of this process: another one's may differ
        private = Path("/tmp", name)  # noqa: S108  (made 0700, and refused below if somebody else made it)
        if not private.exists():
            with contextlib.suppress(FileExistsError):
                private.mkdir(mode=0o700)
                os.chown(private, uid, -1, follow_symlinks=False)
        found = private.lstat()
        if found.st_uid != uid or found.st_mode & 0o077:
            raise StorageUnavailable(
                f"{private} is not private to uid {uid}, so Postgres cannot listen there: remove it"
            )
        return private

    def _give_up(self) -> None:
        with contextlib.suppress(HardwonError):  # why entering failed is what counts
            self._leave(wait_seconds=GIVE_UP_SECONDS)

    def _leave(self, *, wait_seconds: int = STOP_SECONDS) -> None:
        with self._explained(), self._users, self._alone(), contextlib.ExitStack() as undo:
            undo.callback(fcntl.flock, self._users, fcntl.LOCK_UN)  # a fork of us has the file, too, and would keep it
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # somebody else still uses it
            self._drop_stale_pid()
            # whether it answers does not matter: on a busy machine it may take longer than anybody asks for
            running = (self.data / "postmaster.pid").exists()
            if running and not self._keep and not self._held_still():
                stopped = self._run("pg_ctl", "-D", self.data, "-w", "-t", str(wait_seconds), "-m", "fast", "stop")
                if stopped.returncode != 0:
                    log.warning("embedded_postgres_did_not_stop", home=str(self.home))
                elif self.socket_dir != self.data:
                    self.socket_dir.rmdir()

    def _prepare(self) -> None:
        """Find out whom to run which Postgres as, and make what is missing of its directories."""
        ownership.make_home(self.home)
        self._user = user = ownership.server_user(self.home, self.base)
        self._install = binaries.locate()
        reachable = user is None or binaries.runs(self._install, user)
        if not self.base.is_dir():
            ownership.make_directory(self.base, 0o700, user)
        if user and not reachable:
            if os.environ.get("HARDWON_PG_HOME"):
                raise InvalidSetting("HARDWON_PG_HOME", f"{self._install} cannot be run by {user.pw_name}")
            with self._alone():
                self._install = binaries.copied(self._install, self.base)

    def _lock_file(self, name: str) -> IO[bytes]:
        """Open a lock file, the server user's as everything here, so that root and that user can share it."""
        opened = os.open(self.base / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        found = os.fstat(opened)
        if self._user and found.st_uid == 0 and found.st_nlink == 1:  # not what that user may have linked here
            os.fchown(opened, self._user.pw_uid, self._user.pw_gid)
        return os.fdopen(opened, "r+b")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only process that starts or stops this server."""
        deadline = time.monotonic() + LOCK_SECONDS
        with self._lock_file("start.lock") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > deadline:
                        raise StorageUnavailable(
                            f"another process has been starting or stopping Postgres in {self.base} for"
                            f" {LOCK_SECONDS // 60} minutes: look for one that hangs, and end it"
                        ) from error
                time.sleep(0.02)
            yield

    def _run(self, program: str, *arguments: str | Path, cwd: Path = Path("/")) -> subprocess.CompletedProcess[str]:
        """Run a program of Postgres as the server's user, without the environment's Postgres and locale settings."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return subprocess.run(  # noqa: S603  (our own program, by its whole path; no shell)
            [self._install / "bin" / program, *arguments],
            env={**kept, "LC_ALL": "C"},
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )

    def _ready(self) -> bool:
        """Return whether the server answers; waits while one is up but still recovering or going down."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            answer = self._run("pg_isready", "-q", "-h", self.socket_dir, "-p", str(PORT)).returncode
            if answer != 1 or time.monotonic() > deadline:
                return answer == 0
            time.sleep(0.1)

    def _ensure_running(self) -> None:
        made = (self.data / "PG_VERSION").exists()
        if made and (pid := self._held_still()):
            raise StorageUnavailable(
                f"the Postgres of {self.data} was stopped and stands still: have it go on with kill -CONT {pid}"
            )
        if made and self._ready():
            return
        if not made and self.data.is_dir() and any(self.data.iterdir()):
            raise StoreIncompatible(
                f"{self.data} is no data directory of Postgres: move it away, or set HARDWON_HOME to another directory"
            )
        self._check_major()
        if not made:
            self._init()
        self._start()

    def _init(self) -> None:
        for left in self.base.glob("init-*"):  # by one that was killed half-way
            shutil.rmtree(left, ignore_errors=True)
        aside = self.base / f"init-{uuid4().hex[:12]}"
        sync = "--no-sync" if self._settings["fsync"] == "off" else "--sync-method=syncfs"
        if sys.platform != "linux" and sync != "--no-sync":
            sync = "--sync-method=fsync"
        made = self._run(
            *("initdb", "-D", aside, "-U", ROLE, "--auth=trust", "--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", sync),
        )
        if made.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise StorageUnavailable(self._sentence(made.stderr))
        aside.rename(self.data)  # appears whole or not at all

    def _check_major(self) -> None:
        asked = self._run("postgres", "--version")
        ours = binaries.major(asked.stdout)
        if ours < binaries.OLDEST_MAJOR:
            raise InvalidSetting(
                "HARDWON_PG_HOME",
                f"Postgres {binaries.OLDEST_MAJOR} or newer is needed, but {self._install}/bin/postgres says"
                f" {(asked.stdout + asked.stderr).strip()!r}",
            )
        version = self.data / "PG_VERSION"
        theirs = version.read_text(encoding="utf-8", errors="replace").strip() if version.exists() else str(ours)
        if theirs != str(ours):
            raise StoreIncompatible(
                f"{self.data} was made by Postgres {theirs}, but the one here is Postgres {ours}:"
                f" set HARDWON_PG_HOME to an install of Postgres {theirs}, or move the data with pg_upgrade"
            )

    def _start(self) -> None:
        settings = {**self._settings, "unix_socket_directories": f'"{self.socket_dir}"'}
        options = " ".join("-c " + shlex.quote(f"{name}={value}") for name, value in settings.items())
        if original := self._original():
            raise StorageUnavailable(
                f"{self.data} is a copy of {original}, made while a Postgres worked there, so that it may lack parts:"
                " copy it while nothing uses it, or move what is stored with hardwon export and hardwon import"
            )
        said = ""
        silent_until = time.monotonic() + SILENT_SECONDS
        for _ in range(START_TRIES):
            self._drop_stale_pid()
            before = self._log_sizes()
            started = self._run(  # pg_ctl puts the path into a shell's line, so it is given none
                *("pg_ctl", "-D", ".", "-w", "-t", str(START_SECONDS), "-l", "start.log", "-o", options, "start"),
                cwd=self.data,
            )
            if started.returncode == 0 or self._ready():
                return
            said = self._logged_since(before) or started.stdout + started.stderr
            if _full(said) or ("shared memory block" not in said and "lock file" not in said):
                break
            if "lock file" in said and time.monotonic() > silent_until:
                break
            time.sleep(0.5)  # backends of a server that was killed, still leaving
        if "lock file" in said and not _full(said):
            raise StorageUnavailable(
                f"a Postgres already runs in {self.data}, but it does not answer in {self.socket_dir}:"
                " end the process whose number is the first line of postmaster.pid there"
            )
        raise StorageUnavailable(self._sentence(said))

    def _original(self) -> str | None:
        """Return of which directory this is a copy, where the Postgres that the copied pid file names works there."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid, directory = (self.data / "postmaster.pid").read_text().splitlines()[:2]
            if _elsewhere(int(pid), self.data) and not _elsewhere(int(pid), Path(directory)):
                return directory
        return None

    def _drop_stale_pid(self) -> None:
        """Remove the lock files of a server that is gone, where that pid now is a zombie or some other program.

        Postgres will not start while the recorded pid lives; live backends of ours still stop it, by shared memory.
        """
        for lock_file in (self.data / "postmaster.pid", self.socket_dir / f".s.PGSQL.{PORT}.lock"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(lock_file.read_text().split()[0])
                name, state = _program(pid)
                if name != "postgres" or state == "Z" or _elsewhere(pid, self.data):
                    lock_file.unlink()

    def _held_still(self) -> int | None:
        """Return the process of a server that somebody stopped, by SIGSTOP, and that neither answers nor ends so."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            name, state = _program(pid)
            if name == "postgres" and state == "T" and not _elsewhere(pid, self.data):
                return pid
        return None

    def _log_sizes(self) -> dict[Path, int]:
        logs = (self.data / "start.log", *self.data.glob("log/*.log"))
        return {path: path.stat().st_size for path in logs if path.exists()}

    def _logged_since(self, before: Mapping[Path, int]) -> str:
        said = []
        for path in self._log_sizes():
            with path.open("rb") as written:
                written.seek(before.get(path, 0))
                said.append(written.read(65536).decode("utf-8", "replace"))
        return "".join(said)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageUnavailable(self._sentence(f"{error.strerror}: {error.filename}")) from error

    def _sentence(self, said: str) -> str:
        """Return one sentence for a person: what of Postgres' or the system's words is wrong, and what to do."""
        other = "or set HARDWON_DATABASE_URL to a Postgres server"
        place = Path("/dev/shm") if "shared memory segment" in said else self.home  # noqa: S108 (Postgres' own choice)
        free = _free(place)
        if _full(said) or free < FULL_BYTES:  # where no log can be written, nothing says so
            return f"there is no space left for Postgres in {place} ({_megabytes(free)} free): make room, {other}"
        if os.strerror(errno.EROFS) in said:
            return f"{self.home} is on a read-only file system: set HARDWON_HOME to a directory to write in, {other}"
        reasons = next(filter(None, (re.findall(told, said) for told in _REASONS)), said.split("\n", 1)[:1])
        reason = reasons[-1].strip().rstrip(".")
        if os.strerror(errno.EACCES) in said:
            me = ownership.user_name(os.geteuid())
            return (
                f"{self.home} cannot be used by {me} ({reason}): set HARDWON_HOME to a directory of your own, {other}"
            )
        return f"Postgres does not start in {self.base} ({reason}; {_megabytes(free)} free): put that right, {other}"


_REASONS = (r"(?:FATAL|PANIC|error): +(.+)", r"LOG: +(could not .+)")
"""Where Postgres tells why it ended; of a process that it may not have, only by the way."""


def _full(said: str) -> bool:
    return any(os.strerror(code) in said for code in (errno.ENOSPC, errno.EDQUOT))


def _free(place: Path) -> int:
    """Return the free bytes of the disk that a path is on, or will be."""
    there = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    return shutil.disk_usage(there).free


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _program(pid: int) -> tuple[str, str]:
    """Return the name and the state letter of a process. Raises OSError or ValueError where there is none."""
    if sys.platform != "linux":
        asked = subprocess.run(  # noqa: S603  (a number is all that is put in)
            ["/bin/ps", "-o", "state=,ucomm=", "-p", str(pid)], capture_output=True, encoding="utf-8", check=False
        )
        state, name = asked.stdout.split(None, 1)
        return name.strip(), state[0]
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    start, end = stat.index("(") + 1, stat.rindex(")")
    return stat[start:end], stat[end + 2]


def _elsewhere(pid: int, data: Path) -> bool:
    """Return whether a Postgres is known to serve another data directory: it works inside of its own."""
    if sys.platform != "linux":
        return False
    try:
        return not Path(f"/proc/{pid}/cwd").samefile(data)
    except PermissionError:
        return False
