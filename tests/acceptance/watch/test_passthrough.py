"""`hardwon watch` changes nothing of a command: exit codes, signals, output and its order, terminals, what is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.watch.programs import Start, make_program, run, start_alone
from tests.support.processes import HARDWON, STARTER, until
from tests.support.starter import Forked

WATCH = (str(HARDWON), "watch", "--")


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "HARDWON_HOME": str(home)}


def start_forked(
    command: Sequence[str], environment: dict[str, str], folder: str, streams: tuple[int, int, int]
) -> Forked:
    """Start `hardwon` in a fork of an interpreter that has everything loaded; the folder is the test's own."""
    del folder
    return Forked(STARTER._fork(["hardwon", *command[1:]], environment, streams))


def differences(seeds: Sequence[int], environment: dict[str, str], start_watched: Start) -> list[str]:
    """Return the programs that do something else when they are watched."""

    def compare(seed: int) -> str | None:
        command, streams, given = make_program(seed)
        with tempfile.TemporaryDirectory() as folder:
            alone = run(command, streams, given, environment, folder)
            watched = run([*WATCH, *command], streams, given, environment, folder, start=start_watched)
        return None if alone == watched else f"{seed} {streams}: {alone} {watched}\n{command[2]}"

    with ThreadPoolExecutor(8) as pool:
        return [found for found in pool.map(compare, seeds) if found is not None]


@pytest.mark.long
def test_random_programs_run_as_they_do_alone(environment: dict[str, str]) -> None:
    assert differences(range(30), environment, start_forked) == []


@pytest.mark.long
@pytest.mark.harness
@pytest.mark.timeout(1800)
def test_a_thousand_random_programs_run_as_they_do_alone(environment: dict[str, str]) -> None:
    assert differences(range(1000, 2000), environment, start_alone) == []


def start(script: str, environment: dict[str, str], **more: object) -> subprocess.Popen[bytes]:
    """Start a watched shell script in a process group of its own."""
    options: dict[str, object] = {"stdout": subprocess.PIPE, "process_group": 0, "env": environment, **more}
    return subprocess.Popen([*WATCH, "sh", "-c", script], **options)  # type: ignore[call-overload,no-any-return]


def read_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT])
def test_a_signal_to_the_watching_process_reaches_the_command(
    environment: dict[str, str], number: signal.Signals
) -> None:
    process = start("echo ready; exec sleep 60", environment)
    assert read_line(process) == b"ready\n"
    process.send_signal(number)
    assert process.wait(30) == -number


@pytest.mark.long
def test_a_command_that_handles_a_signal_ends_as_it_likes(environment: dict[str, str]) -> None:
    process = start("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.05; done", environment)
    assert read_line(process) == b"ready\n"
    process.terminate()
    assert (process.communicate(timeout=30)[0], process.returncode) == (b"bye\n", 9)


STOPPED_TWICE = """
import os, signal
from orchestrator.watch.passthrough import _Child
signals = {signal.SIGTSTP, signal.SIGCONT, signal.SIGCHLD}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
command = os.posix_spawnp("true", ["true"], os.environ)
os.kill(os.getpid(), signal.SIGTSTP)
_Child(pid=command, signals=signals, terminals=[], woken=-1)._stop(signal.SIGTSTP)
"""


def write_around_a_pause(exit_code: int) -> str:
    """Return a script that can be stopped at any time: a shell that starts a program by vfork cannot."""
    program = f"import time; print('ready', flush=True); time.sleep(0.3); print('done'); raise SystemExit({exit_code})"
    return f'exec {sys.executable} -S -c "{program}"'


@pytest.mark.long
def test_a_stop_and_a_continuation_of_the_job_reach_both(environment: dict[str, str]) -> None:
    process = start(write_around_a_pause(3), environment)
    assert read_line(process) == b"ready\n"
    os.killpg(process.pid, signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGTSTP
    os.killpg(process.pid, signal.SIGCONT)
    assert (process.communicate(timeout=30)[0], process.returncode) == (b"done\n", 3)


@pytest.mark.long
def test_a_stop_of_the_watching_process_alone_stops_the_command(environment: dict[str, str]) -> None:
    process = start(write_around_a_pause(0), environment)
    assert read_line(process) == b"ready\n"
    process.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.send_signal(signal.SIGCONT)
    assert (process.communicate(timeout=30)[0], process.returncode) == (b"done\n", 0)


def test_a_stop_that_waits_already_and_one_of_the_command_stop_the_watching_process_once() -> None:
    process = subprocess.Popen([sys.executable, "-c", STOPPED_TWICE], process_group=0)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.send_signal(signal.SIGCONT)
    try:
        assert process.wait(20) == 0
    finally:
        process.kill()


@pytest.mark.long
def test_the_command_ends_though_a_background_child_holds_its_output(
    environment: dict[str, str], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    process = start(f"(until [ -e {gate} ]; do sleep 0.05; done; echo late) & echo early", environment)
    assert process.wait(30) == 0
    gate.touch()
    assert process.stdout is not None
    assert process.stdout.read() == b"early\nlate\n"


@pytest.mark.long
def test_a_reader_that_leaves_ends_the_command(environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(WATCH)} yes | head -1; echo ${{PIPESTATUS[0]}}"],
        env=environment, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == b"y\n141\n"


@pytest.mark.long
def test_a_command_that_is_not_there_is_said_as_a_shell_does(environment: dict[str, str], tmp_path: Path) -> None:
    for name, code in (("no-such-command", 127), (str(tmp_path), 126)):
        done = subprocess.run([*WATCH, name], env=environment, capture_output=True, check=False, timeout=60)
        assert done.returncode == code
        assert done.stderr.decode().startswith(f"hardwon watch: {name}: ")


class Terminal:
    """A watched script that has a terminal of its own, as a shell's foreground job has."""

    def __init__(self, script: str, environment: dict[str, str]) -> None:
        self.pid, self.ours = pty.fork()
        if self.pid == 0:
            os.execve(HARDWON, [*WATCH, "sh", "-c", script], environment)
        self.said = b""

    def read_until(self, text: bytes) -> None:
        def seen() -> bool:
            with contextlib.suppress(OSError):
                self.said += os.read(self.ours, 4096)
            return text in self.said

        until(seen)

    def end(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.ours)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.long
def test_ctrl_c_reaches_the_command_once(environment: dict[str, str]) -> None:
    terminal = Terminal(
        "trap 'echo interrupted' INT; echo ready; n=0; while [ $n -lt 10 ]; do sleep 0.1; n=$((n+1)); done; echo end",
        environment,
    )
    terminal.read_until(b"ready")
    os.write(terminal.ours, b"\x03")
    terminal.read_until(b"end")
    assert terminal.said.count(b"interrupted") == 1
    assert terminal.end() == 0


def test_a_terminal_has_its_size_also_when_it_changes(environment: dict[str, str]) -> None:
    terminal = Terminal("trap 'stty size <&1' WINCH; echo ready; read line; echo end", environment)
    terminal.read_until(b"ready")
    fcntl.ioctl(terminal.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    terminal.read_until(b"33 99")
    os.write(terminal.ours, b"x\n")
    terminal.read_until(b"end")
    assert terminal.end() == 0
