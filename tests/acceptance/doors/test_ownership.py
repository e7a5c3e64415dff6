"""Several processes on one data directory: one owns it, the others go through it, and the next takes over."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hardwon.errors import StorageUnavailable, StoreInUse
from hardwon.models.documents import NewDocument
from hardwon.owner.record import OWNER_FILE, read_owner, socket_path
from knowledge.adapters.owner_lock import owner_lock
from knowledge.adapters.postgres.engine.ownership import user_name
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from orchestrator import connect
from orchestrator.server.owner import listen_on_socket
from tests.acceptance.doors.test_opening import serving
from tests.conftest import TEMPLATE
from tests.support.folders import end_owner
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database
from tests.support.processes import PROGRAM, Commands, embedding_by, entry, free_port, lines, until

OPENS_ALONE = """
import asyncio, sys
from knowledge import open_knowledge

async def main():
    async with open_knowledge():
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
"""A program that opens the stores and serves nobody."""

LEAVES_FORKS = """
import asyncio, multiprocessing, time
from orchestrator import connect

async def main():
    async with connect() as knowledge:
        await knowledge.stats()
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(120,))
        worker.start()
    try:
        async with asyncio.timeout(40), connect() as knowledge:
            print((await knowledge.stats()).workspace)
    finally:
        worker.kill()

asyncio.run(main())
"""
"""A program with a worker that outlives its use of the stores, as those of a pool do."""


def statuses(commands: Commands) -> dict[str, int]:
    """Return the entries by status, as the owner tells them."""
    told: dict[str, int] = commands.owner("GET", "/v1/stats")["entries"]
    return told


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_request_has_an_owner_however_the_one_before_ended(commands: Commands, how: signal.Signals) -> None:
    with commands.program() as program, commands.program() as beside:
        for number in range(3):
            assert program.ask(f"through owner {number}")
            ended = end_owner(commands.home, how)
            assert ended is not None
            began = time.monotonic()
            assert beside.ask(f"after owner {number}")
            assert time.monotonic() - began < 60, "on a busy machine; a second or two elsewhere"
            now = read_owner(commands.home)
            assert now is not None
            assert now.pid != ended.pid
            assert statuses(commands) == {"staged": 2 * number + 2}, "and others go through it now"
        assert program.end() == (0, "", "")


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_checkpoint_goes_on_when_its_owner_leaves_in_the_middle(
    database_url: str, home: Path, how: signal.Signals
) -> None:
    """G2, as whoever asked for the checkpoint sees it."""
    with OpenAIServer(dims=64) as slow:
        settings = {"HARDWON_TEST_CHECKPOINT_BATCH": "1", "HARDWON_TEST_LEASE_SECONDS": "1"}
        commands = Commands(home, embedding_by(slow) | settings | {"HARDWON_DATABASE_URL": database_url})
        with commands.serving() as (owner, _):
            told = [entry(failure_description=f"failure {n}", task_id=str(n)) for n in range(14)]
            commands.owner("POST", "/v1/entries:batch", {"entries": told})
            with commands.start("checkpoint", "--json") as asking:
                slow.seconds_per_call = 0.2
                until(lambda: len(slow.batches) > 5)
                owner.process.send_signal(how)
                code, out, err = asking.end()
                assert (code, err) == (0, "")
                embedded = json.loads(out)["embedded"]
                assert 0 < embedded <= 14
                assert embedded < 14 or how == signal.SIGTERM, "one that is told to stop may finish first"
            slow.seconds_per_call = 0
        with commands.program():  # what the killed one had leased comes back
            until(lambda: commands.owner("POST", "/v1/checkpoints", {})["embedded"] == 0)
            stats = commands.owner("GET", "/v1/stats")
        assert (stats["entries"], stats["patterns"], stats["points"]) == ({"embedded": 14}, 14, 14)
        assert all(slow.batches.count(batch) <= 2 for batch in slow.batches), "what was embedded is not asked again"


@pytest.mark.long
def test_eight_that_start_at_once_on_an_empty_directory_all_succeed(endpoint: OpenAIServer, home: Path) -> None:
    """G19, with the embedded Postgres made on the way."""
    commands = Commands(home, embedding_by(endpoint))

    def capture(number: int) -> Any:
        done = commands.run("capture", "-", "--json", told=lines([entry(task_id=str(number))]))
        assert done.returncode == 0, done.stderr  # which may tell of an owner that takes seconds to start
        return json.loads(done.stdout)["accepted"]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(capture, range(8))) == [1] * 8
    assert commands.json("stats")["entries"] == {"staged": 8}
    assert end_owner(home) is not None
    assert not (home / "postgres/data/postmaster.pid").exists(), "it stopped the server"


@pytest.mark.long
async def test_stores_that_are_opened_twice_name_their_owner(commands: Commands, settings: KnowledgeSettings) -> None:
    with commands.program(OPENS_ALONE) as owner:
        for opening in (open_knowledge(settings), connect(settings)):
            with pytest.raises(StoreInUse, match=rf"process {owner.pid} \(-c\)") as refused:
                async with opening:
                    pass
            assert str(commands.home) in str(refused.value)
        sentence = commands.refused("stats")
        assert f"process {owner.pid}" in sentence
        assert "HARDWON_HOME" in sentence
        assert owner.end()[0] == 0
    async with connect(settings) as knowledge:
        assert knowledge.workspace == "default"


@pytest.mark.long
def test_whoever_waits_for_a_stopped_owner_is_told_so_and_goes_on_with_it(commands: Commands) -> None:
    """A minute went by without a word."""
    commands.json("stats")
    owner = read_owner(commands.home)
    assert owner is not None
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        with commands.start("stats", "--json") as asking:
            assert asking.process.stderr is not None
            told = asking.process.stderr.readline()
            os.kill(owner.pid, signal.SIGCONT)
            code, out, _ = asking.end()
    finally:
        os.kill(owner.pid, signal.SIGCONT)
    assert f"waiting for the owner of {commands.home}" in told
    assert (code, json.loads(out)["workspace"]) == (0, "default")


@pytest.mark.long
def test_an_owner_that_hangs_is_named_with_what_to_do_and_a_context_goes_on_without_it(commands: Commands) -> None:
    commands.json("stats")
    owner = read_owner(commands.home)
    assert owner is not None
    os.kill(owner.pid, signal.SIGSTOP)
    try:
        done = commands.run("stats")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"kill -9 {owner.pid}" in done.stderr.splitlines()[-1]
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        os.kill(owner.pid, signal.SIGCONT)
    assert commands.json("stats")["workspace"] == "default"


@pytest.mark.long
def test_an_owner_ends_when_nobody_asks_it_anything(commands: Commands) -> None:
    patched = "import orchestrator.server.owner as owner; owner.IDLE_SECONDS, owner._CHECK_SECONDS = 0.5, 0.05"
    with commands.program(patched + "\n" + PROGRAM) as program:
        owner = read_owner(commands.home)
        assert owner is not None
        assert owner.detached
        until(lambda: not owner.is_alive())
        assert program.ask("it starts another")
        assert program.end() == (0, "", "")
        now = read_owner(commands.home)
        until(lambda: now is None or not now.is_alive())
    assert (commands.home / OWNER_FILE).read_text() == ""
    assert not (commands.home / "hardwon.sock").exists()


@pytest.mark.long
def test_an_owner_ends_with_its_data_directory(tmp_path: Path, commands: Commands) -> None:
    home = tmp_path / "home"
    gone = Commands(home, commands.settings)
    with gone.program("import orchestrator.server.owner as owner; owner._CHECK_SECONDS = 0.05\n" + PROGRAM):
        owner = read_owner(home)
    assert owner is not None
    shutil.rmtree(home)
    until(lambda: not owner.is_alive())


@pytest.mark.long
def test_an_older_owner_is_replaced_and_a_newer_one_and_one_in_the_foreground_are_used(commands: Commands) -> None:
    for version, replaced in (("0.0.1", True), ("99.0", False)):
        with commands.program(f"import orchestrator.server.owner as owner; owner.VERSION = {version!r}\n{PROGRAM}"):
            before = read_owner(commands.home)
        assert before is not None
        assert before.version == version
        assert commands.json("stats")["workspace"] == "default"
        now = read_owner(commands.home)
        assert now is not None
        assert (now.pid != before.pid) is replaced
        end_owner(commands.home)


@pytest.mark.long
def test_settings_that_are_not_the_owners_have_one_of_their_own_and_other_stores_are_an_error(
    commands: Commands, postgres_dsn: str
) -> None:
    """A model was set, and the process that ran already said that there was none."""
    commands.json("stats")
    before = read_owner(commands.home)
    commands.json("stats", HARDWON_CONTEXT_MAX_TOKENS="300")
    now = read_owner(commands.home)
    assert before is not None
    assert now is not None
    assert now.pid != before.pid
    told = commands.refused("stats", HARDWON_DATABASE_URL=postgres_dsn.replace("hardwon@", "hardwon:sesame@"))
    assert told.startswith("HARDWON_DATABASE_URL: is postgresql://hardwon@")
    assert commands.settings["HARDWON_DATABASE_URL"] in told
    assert "sesame" not in told
    with commands.serving() as (server, _):
        commands.json("stats", HARDWON_CONTEXT_MAX_TOKENS="200")
        serving = read_owner(commands.home)
        assert serving is not None
        assert serving.pid == server.pid, "one that a person started is not ended for it"


@pytest.mark.long
def test_a_caller_whose_next_owner_has_other_stores_is_told_and_writes_nothing_there(
    commands: Commands, postgres_dsn: str
) -> None:
    """Only the first owner was looked at: what was captured after it went into somebody else's database."""
    other = asyncio.run(create_database(postgres_dsn, template=TEMPLATE))
    elsewhere = Commands(commands.home, {**commands.settings, "HARDWON_DATABASE_URL": other})
    with commands.program() as program:
        assert program.ask("through the first owner")
        end_owner(commands.home)
        with elsewhere.serving():
            program.say("through the next one")
            code, out, err = program.end()
            assert (code, out) == (1, "")
            assert f"HARDWON_DATABASE_URL: is {commands.settings['HARDWON_DATABASE_URL']} here" in err
            assert statuses(elsewhere) == {}
    asyncio.run(drop_database(other))


@pytest.mark.long
def test_a_server_takes_the_place_of_an_owner_that_a_command_started(commands: Commands) -> None:
    with commands.program() as program:
        detached = read_owner(commands.home)
        with commands.serving() as (server, _):
            owner = read_owner(commands.home)
            assert detached is not None
            assert owner is not None
            assert (owner.pid, owner.detached) == (server.pid, False)
            until(lambda: not detached.is_alive())
            assert program.ask("through the server")
            sentence = commands.refused("serve", "--port", str(free_port()))
            assert f"process {server.pid}" in sentence
        assert program.ask("and after it")


def test_the_socket_is_private_from_its_first_moment_and_changes_no_folder_of_another_thread(tmp_path: Path) -> None:
    """The umask that it was made under is of the whole process: a folder made just then could not be entered."""
    path, done = tmp_path / "hardwon.sock", threading.Event()
    modes: dict[str, set[int]] = {"folder": set(), "socket": set()}

    def make_folders() -> None:
        while not done.is_set():
            folder = tmp_path / "folder"
            folder.mkdir()
            modes["folder"].add(stat.S_IMODE(folder.stat().st_mode))
            folder.rmdir()
            with contextlib.suppress(FileNotFoundError):
                modes["socket"].add(stat.S_IMODE(path.stat().st_mode))

    mask = os.umask(0)
    tmp_path.chmod(0o777)
    other = threading.Thread(target=make_folders)
    try:
        other.start()
        for _ in range(1000):
            with listen_on_socket(path):
                pass
    finally:
        done.set()
        other.join()
        os.umask(mask)
    assert modes == {"folder": {0o777}, "socket": {0o600}}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_path_too_long_for_a_socket_will_do(commands: Commands) -> None:
    long = Commands(commands.home / ("long" * 30), commands.settings)
    private = socket_path(long.home).parent
    try:
        with long.program() as program:
            assert program.ask("x")
            assert long.here("stats")["entries"] == {"staged": 1}
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert private.parent == Path(tempfile.gettempdir())
    finally:
        shutil.rmtree(private)


def test_a_place_for_the_socket_that_others_can_open_is_refused(tmp_path: Path) -> None:
    long = tmp_path / ("long" * 30)
    private = socket_path(long).parent
    try:
        private.chmod(0o755)
        with pytest.raises(StorageUnavailable, match=f"{private} is not private"):
            socket_path(long)
        private.rmdir()
        private.symlink_to(tmp_path)
        with pytest.raises(StorageUnavailable, match="remove it"):
            socket_path(long)
    finally:
        private.unlink()


def test_who_may_not_write_the_data_directory_is_told_who_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "there")

    monkeypatch.setattr("knowledge.adapters.owner_lock.make_home", refuse)
    says = rf"\(there: Permission denied\): let {user_name(os.geteuid())} write there \(chown or chmod\), or set"
    with pytest.raises(StorageUnavailable, match=says), owner_lock(tmp_path / "new"):
        pass


@pytest.mark.long
@pytest.mark.parametrize(
    "left",
    [
        "",
        "not json",
        json.dumps({"pid": 1, "command": "gone", "socket": "/nowhere/hardwon.sock"}),
        json.dumps({"pid": 1, "command": "gone", "socket": None}),
        json.dumps({"another": "form"}),
    ],
)
async def test_what_a_killed_owner_left_is_harmless(settings: KnowledgeSettings, left: str) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(settings.home / "hardwon.sock"))
    (settings.home / OWNER_FILE).write_text(left)
    async with connect(settings) as knowledge:
        assert (await knowledge.stats()).workspace == "default"
        owner = read_owner(settings.home)
        assert owner is not None
        assert owner.is_alive()
    end_owner(settings.home)
    assert not (settings.home / "hardwon.sock").exists()
    assert (settings.home / OWNER_FILE).read_text() == ""


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can open what is another user's")
def test_root_works_beside_another_user_and_writes_nothing_into_their_directory_alone(commands: Commands) -> None:
    """A checkpoint by root left an index that its user could not open any more."""
    with commands.serving():
        os.chown(commands.home / OWNER_FILE, 65534, -1)
        assert commands.run("stats").returncode == 0, "through whoever owns it"
    refused = commands.run("checkpoint")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.search(r"is that of \w+, who could not open what root would write there: do it as", refused.stderr)


@pytest.mark.long
async def test_a_socket_that_cannot_be_made_is_named_and_the_stores_are_left(settings: KnowledgeSettings) -> None:
    (settings.home / "hardwon.sock").mkdir()
    with pytest.raises(StorageUnavailable, match=r"hardwon\.sock"):
        async with connect(settings):
            pass
    (settings.home / "hardwon.sock").rmdir()
    async with connect(settings):
        pass


@pytest.mark.long
def test_a_program_that_left_forks_behind_leaves_the_directory_to_the_next(home: Path) -> None:
    """They have its locks: it waited for their end without a word, in the next `connect` or command."""
    ran = Commands(home).python(LEAVES_FORKS)
    assert (ran.stdout, ran.returncode) == ("default\n", 0), ran.stderr


@pytest.mark.long
async def test_what_is_asked_of_a_copy_is_done_in_the_copy(settings: KnowledgeSettings, tmp_path: Path) -> None:
    """It has the file that names the owner, and so whatever was deleted in the copy went from the original."""
    (tmp_path / "copy").mkdir()
    async with connect(settings):
        for name in (OWNER_FILE, "seal-keys"):
            shutil.copy(settings.home / name, tmp_path / "copy")
        owner = read_owner(settings.home)
        async with connect(settings.model_copy(update={"home": tmp_path / "copy"})):
            assert read_owner(tmp_path / "copy") != owner
        (tmp_path / "the same").symlink_to(settings.home)
        async with connect(settings.model_copy(update={"home": tmp_path / "the same"})):
            assert read_owner(tmp_path / "the same") == owner
    end_owner(tmp_path / "copy")


@pytest.mark.long
@pytest.mark.parametrize("sent", ["a document", "an archive"])
async def test_a_file_is_sent_to_the_next_owner_where_the_one_before_is_gone(
    settings: KnowledgeSettings, sent: str
) -> None:
    """A program that only adds documents met every one refused, for as long as it ran, once its owner had ended."""
    async with connect(settings) as knowledge:
        archive = [piece async for piece in knowledge.archives.export_archive()]

        async def chunks() -> AsyncIterator[bytes]:
            for piece in archive:
                yield piece

        end_owner(settings.home)
        if sent == "a document":
            added = await knowledge.kb.add("global", None, NewDocument(uri="a.md", content=b"# A\n\nOne sentence."))
            assert added.changed
        else:
            assert (await knowledge.archives.import_archive(chunks())).points == 0


@pytest.mark.long
async def test_a_start_goes_on_where_the_call_that_needed_it_is_given_up(settings: KnowledgeSettings) -> None:
    """G11: a context gives up before stores are open; what was half open would be closed to everybody."""
    async with connect(settings) as knowledge:
        end_owner(settings.home)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await knowledge.stats()
        assert (await knowledge.stats()).workspace == "default"
        async with connect(settings) as another:
            assert (await another.stats()).workspace == "default"


@pytest.mark.long
def test_a_command_that_is_interrupted_leaves_its_work_to_the_owner_which_closes_in_order(
    home: Path, tmp_path: Path
) -> None:
    """G16: what was begun is finished, the embedded Postgres is stopped, and the next start finds everything."""
    with OpenAIServer(dims=64) as slow:
        settings = {"HARDWON_TEST_CHECKPOINT_BATCH": "1", "HARDWON_TEST_LEASE_SECONDS": "600"}
        commands = Commands(home, embedding_by(slow) | settings)
        file = tmp_path / "entries.jsonl"
        file.write_text(lines(entry(failure_description=f"failure {n}", task_id=str(n)) for n in range(30)))
        assert commands.json("capture", file)["accepted"] == 30
        slow.seconds_per_call = 0.1
        with commands.start("checkpoint", "--json") as checkpoint:
            calls = slow.calls
            until(lambda: slow.calls > calls + 3)
            code, out, err = checkpoint.end(signal.SIGINT)
            assert (code, out, err) == (130, "", "stopped\n")
        slow.seconds_per_call = 0
        until(lambda: commands.json("stats")["entries"] == {"embedded": 30})
        assert end_owner(home) is not None
        assert not (home / "postgres/data/postmaster.pid").exists()
        assert not (home / "hardwon.sock").exists()
        stats = commands.json("stats")
        assert (stats["entries"], stats["points"]) == ({"embedded": 30}, 30)
        end_owner(home)
        assert sys.platform != "linux" or "postgres" not in serving(home)


def processes_of(home: Path) -> list[str]:
    """Return the owner processes of a data directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "orchestrator.server.owner" in line and str(home) in line:
                found.append(process.name)
    return found


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a disk")
@pytest.mark.parametrize(
    ("mount", "says"),
    [("size=1m", "no space left"), ("ro", "Read-only file system")],
    ids=["full", "ro"],
)
def test_a_first_start_on_a_disk_that_takes_nothing_is_told_in_a_sentence_and_leaves_no_process(
    home: Path, mount: str, says: str
) -> None:
    inside = f'mount -t tmpfs -o {mount},mode=755 none {home} && exec "$@"'
    mounting = ["unshare", "-m", "sh", "-c", inside, "sh"]
    if subprocess.run([*mounting, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("nobody may mount a disk here")
    done = Commands(home).after(mounting, "stats")
    assert (done.returncode, done.stdout) == (1, "")
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert re.search(says, sentence), done.stderr
    assert str(home) in sentence
    until(lambda: not processes_of(home), seconds=20)


@pytest.mark.long
def test_a_start_that_fails_is_told_to_everybody_who_waits_and_leaves_no_process(home: Path) -> None:
    address = f"postgresql://u@127.0.0.1:{free_port()}/db"
    commands = Commands(home, {"HARDWON_DATABASE_URL": address})
    with ThreadPoolExecutor(3) as threads:
        said = list(threads.map(lambda _: commands.refused("stats"), range(3)))
    assert all("HARDWON_DATABASE_URL" in each for each in said), said
    until(lambda: not processes_of(home), seconds=20)
