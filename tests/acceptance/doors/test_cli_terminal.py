"""The command in a real terminal, narrow or wide, watched or piped, stopped; and with whatever may be typed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hardwon.errors import HardwonError
from orchestrator.cli.commands.root import app
from tests.acceptance.doors.test_cli import every_command
from tests.support.openai_server import OpenAIServer
from tests.support.processes import STARTER, Commands, embedding_by, entry, lines

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HUE = re.compile(r"\x1b\[[0-9;]*(?:3[0-8]|4[0-8]|9[0-7])[0-9;]*m")
"""A colour, where bold and the like are none."""
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
CTRL_C = b"\x03"


@dataclass
class Terminal:
    """A command whose input, output and errors are one terminal of so many columns."""

    arguments: tuple[str | Path, ...]
    environment: dict[str, str]
    columns: int = 80
    said: str = ""
    _bytes: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> Self:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.columns, 0, 0))
        environment = {name: value for name, value in self.environment.items() if name != "COLUMNS"}
        environment["TERM"] = "xterm-256color"
        command = ["hardwon", *map(str, self.arguments)]
        self._process = STARTER.on_terminal(command, environment, theirs)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, text: str, *, seconds: float = 60) -> None:
        late = time.monotonic() + seconds
        while text not in self._bytes.decode(errors="replace"):
            assert time.monotonic() < late, self._bytes
            time.sleep(0.02)

    def end(self, *, seconds: float = 90) -> int:
        """Wait for the end of the command; return its exit code."""
        code = self._process.wait(seconds)
        self._reader.join(10)
        self.said = self._bytes.decode()
        return code

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody holds the other end any more
            while told := os.read(self._ours, 65536):
                self._bytes += told


def staged(commands: Commands, workspace: str, number: int, tmp_path: Path) -> None:
    file = tmp_path / "entries.jsonl"
    file.write_text(lines(entry(failure_description=f"failure number {each} of many") for each in range(number)))
    commands.here("capture", file, "--workspace", workspace)


@pytest.mark.long
def test_a_terminal_is_shown_a_bar_that_moves_and_gets_its_cursor_back(beside: Commands, tmp_path: Path) -> None:
    staged(beside, "shown", 600, tmp_path)
    with Terminal(("checkpoint", "--workspace", "shown"), beside.environment()) as terminal:
        assert terminal.end() == 0
    assert "Embedding" in terminal.said
    assert "━" in terminal.said
    assert COLOUR.search(terminal.said)
    assert terminal.said.rfind(SHOW) > terminal.said.rfind(HIDE) > -1
    assert "600" in ESCAPE.sub("", terminal.said)


@pytest.mark.long
def test_in_a_narrow_terminal_nothing_breaks_and_the_bar_stays_on_its_line(beside: Commands, tmp_path: Path) -> None:
    columns, workspace = 20, "narrow"
    staged(beside, workspace, 300, tmp_path)
    with Terminal(("checkpoint", "--workspace", workspace), beside.environment(), columns) as terminal:
        assert terminal.end() == 0
    bars = [part for part in re.split(r"[\r\n]", ESCAPE.sub("", terminal.said)) if "━" in part]
    assert bars
    assert max(map(len, bars)) <= columns
    for asked in (("stats",), ("query", "failure", "failure number 7", "--min-relevance", "0"), ("--help",)):
        typed = asked if asked == ("--help",) else (*asked, "--workspace", workspace)
        with Terminal(typed, beside.environment(), columns) as terminal:
            assert terminal.end() == 0, terminal.said
        assert "Traceback" not in terminal.said


@pytest.mark.long
@pytest.mark.parametrize("typed", [("stats",), ("checkpoint",), ("query", "failure", "anything")])
def test_what_is_piped_has_no_colours_and_moves_no_cursor(beside: Commands, typed: tuple[str, ...]) -> None:
    ran = beside.run(*typed)
    assert ran.returncode == 0
    assert not ESCAPE.search(ran.stdout + ran.stderr)


@pytest.mark.long
def test_a_terminal_may_ask_for_no_colours(beside: Commands) -> None:
    for told, colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        with Terminal(("checkpoint",), {**beside.environment(), **told}) as terminal:
            assert terminal.end() == 0
        assert bool(HUE.search(terminal.said)) is colours


@pytest.mark.long
def test_ctrl_c_stops_a_checkpoint_with_130_gives_back_the_cursor_and_loses_nothing(
    database_url: str, home: Path, tmp_path: Path
) -> None:
    with OpenAIServer(dims=64, seconds_per_call=3.0) as slow:
        commands = Commands(home, embedding_by(slow) | {"HARDWON_DATABASE_URL": database_url})
        file = tmp_path / "entries.jsonl"
        file.write_text(lines(entry(failure_description=f"failure number {each}") for each in range(20)))
        commands.json("capture", file)
        with Terminal(("checkpoint",), commands.environment()) as terminal:
            terminal.until("Embedding")
            time.sleep(0.5)
            terminal.type(CTRL_C)
            assert terminal.end(seconds=30) == 128 + signal.SIGINT
        said = ESCAPE.sub("", terminal.said)
        assert said.rstrip().endswith("stopped")
        assert "Traceback" not in said
        assert terminal.said.rfind(SHOW) > terminal.said.rfind(HIDE)
        slow.seconds_per_call = 0.0
        commands.json("checkpoint")
        assert commands.json("stats")["entries"] == {"embedded": 20}


def test_no_help_is_wider_than_eighty_columns_and_no_command_in_it_is_cut_short() -> None:
    groups = {typed[:length] for typed in every_command() for length in range(len(typed) + 1)}
    for typed in sorted(groups):
        told = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(
            app, [*typed, "--help"], terminal_width=80
        )
        assert told.exit_code == 0, typed
        lines = told.stdout.splitlines()
        assert [line for line in lines if len(line) > 80] == [], typed
        _, _, commands = told.stdout.partition("Commands:")
        assert [line for line in commands.splitlines() if line.endswith("...")] == [], typed


NEVER = {"serve", "jobs", "demo", "mcp", "evaluate", "doctor", "migrate", "watch"}
"""What serves, measures, opens stores of its own or runs what is typed."""
TYPED = sorted(typed for typed in every_command() if typed[0] not in NEVER)
WORD = st.text(st.characters(exclude_characters="/\0"), max_size=30)
OPTIONS = st.sampled_from(
    sorted({option for command in every_command().values() for each in command.params for option in each.opts})
)
ARGUMENTS = st.lists(
    OPTIONS
    | WORD
    | st.sampled_from(["-", "--", "--json", "0", "-1", "1e400", "99999999999999999999", "bad.jsonl", "\udcff"])
    | st.integers().map(str)
    | st.uuids().map(str),
    max_size=6,
)


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own as the working directory: what is typed may be the name of a file to write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_bytes(b'{"entry_type": "lunch"}\n\xff\xfe\x00[[[[\n')
    return tmp_path


def exit_code(commands: Commands, typed: list[str], told: bytes = b"") -> int:
    """Run a command in this process as `main` does; fail where it would print a trace."""
    done = CliRunner(env=commands.environment()).invoke(app, typed, input=told)
    if isinstance(done.exception, HardwonError | OSError):
        assert str(done.exception).strip()
        return 1
    assert done.exception is None or isinstance(done.exception, SystemExit), (typed, done.exc_info)
    assert "Traceback" not in done.output
    return done.exit_code


@pytest.mark.long
@pytest.mark.timeout(600)
def test_whatever_is_typed_a_command_ends_with_0_1_or_2_and_never_with_a_trace(
    beside: Commands, somewhere: Path
) -> None:
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(typed=st.sampled_from(TYPED), arguments=ARGUMENTS, told=st.binary(max_size=100))
    def fuzz(typed: tuple[str, ...], arguments: list[str], told: bytes) -> None:
        assert exit_code(beside, [*typed, *arguments], told) in {0, 1, 2}

    fuzz()


READERS = [
    ("capture", "told"),
    ("learn", "junit", "told", "told"),
    ("learn", "sarif", "told"),
    ("learn", "reviews", "told"),
    ("import", "told"),
]
BEGINNINGS = (
    b"",
    b'{"entry_type":"failure_solution","project_id":"p"',
    b'<?xml version="1.0"?><testsuite><testcase classname="a" name="b"><failure/>',
    b'{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"x"}},"results":[',
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
    b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite>&b;',
)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("typed", READERS, ids=" ".join)
def test_whatever_a_file_holds_it_is_refused_with_a_sentence_and_never_with_a_trace(
    beside: Commands, somewhere: Path, typed: tuple[str, ...]
) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(begun=st.sampled_from(BEGINNINGS), rest=st.binary(max_size=200) | st.text(max_size=80).map(_bytes))
    @example(begun=b"[" * 100_000, rest=b"")
    @example(begun=b"\xef\xbb\xbf", rest=b"{}")
    def fuzz(begun: bytes, rest: bytes) -> None:
        (somewhere / "told").write_bytes(begun + rest)
        assert exit_code(beside, [*typed, "--json"]) in {0, 1, 2}

    fuzz()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
