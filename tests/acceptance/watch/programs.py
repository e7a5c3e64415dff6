"""Random programs for `hardwon watch`: what they write where, when, what they leave behind and how they end."""

from __future__ import annotations

import os
import pty
import random
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

SIGNALS = ("TERM", "KILL", "INT", "HUP", "SEGV", "ABRT", "USR1", "PIPE", "ALRM")
WORDS = (
    "error",
    "ok",
    "FAILED",
    "warning: x",
    "\\033[31mred\\033[0m",
    "",
    "a b  c",
    "100%",
    "tab\\there",
    "no\\rreturn",
)

LATE = "(while kill -0 $$ 2>/dev/null; do sleep 0.05; done; echo late) &"
"""A background child that writes when the program has ended."""


class Streams(StrEnum):
    """Standard output and error of a program: two pipes, one pipe for both, a terminal, or a file each."""

    APART = "apart"
    TOGETHER = "together"
    TERMINAL = "terminal"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended, and the bytes of each of its streams."""

    code: int
    written: tuple[bytes, ...]


def make_program(seed: int) -> tuple[list[str], Streams, bytes]:
    """Return a command line, its streams and its input."""
    luck = random.Random(seed)
    streams = luck.choice([Streams.APART, Streams.TOGETHER, Streams.TOGETHER, Streams.TERMINAL, Streams.FILES])
    given = "".join(f"line {number}\n" for number in range(luck.randrange(5))).encode()
    steps = [_step(luck) for _ in range(luck.randrange(1, 9))]
    if streams is not Streams.FILES and luck.random() < 0.3:  # of a file nobody knows when a child has written its last
        steps.append(LATE if luck.random() < 0.5 else f"({LATE}) >&2")
    return ["sh", "-c", "\n".join([*steps, _end(luck)])], streams, given


def _step(luck: random.Random) -> str:
    where = luck.choice(["", "", " >&2"])
    text = luck.choice(WORDS)
    return luck.choice(
        [
            f"printf '{text}\\n'{where}",
            f"printf '{text}'{where}",
            f'i=0; while [ $i -lt {luck.randrange(1, 400)} ]; do echo "$i {luck.random()}"{where}; i=$((i+1)); done',
            f"head -c {luck.choice([1, 4095, 4096, 70_000, 200_000])} /dev/zero | tr '\\0' x{where}",
            "if [ -t 1 ]; then echo terminal; else echo none; fi",
            "if [ -t 2 ]; then echo terminal; else echo none; fi",
            'read line; echo "read $line"',
            "cat",
            f"sleep 0.0{luck.randrange(1, 5)}",
            "echo out; echo err >&2; echo out again",
            "yes | head -3",
            'umask; ulimit -n; echo "$0 $# $HOME $LC_CTYPE $PYDANTIC_DISABLE_PLUGINS"',
            "trap 'echo got usr2' USR2; kill -USR2 $$; trap - USR2",
            "env | grep -c . ; ls /proc/self/fd | wc -l",
        ]
    )


def _end(luck: random.Random) -> str:
    return luck.choice(
        [
            "exit 0",
            f"exit {luck.choice([1, 2, 3, 7, 126, 127, 128, 130, 255])}",
            f"kill -{luck.choice(SIGNALS)} $$",
            "true",
            "no-such-command-at-all",
            "exec sh -c 'echo replaced; exit 4'",
            "echo 'no end of line' | tr -d '\\n'; exit 1",
        ]
    )


@dataclass
class _Reading:
    """All that comes from a descriptor, until its end."""

    descriptor: int
    data: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                piece = os.read(self.descriptor, 65536)
            except OSError:  # the end of a terminal
                break
            if not piece:
                break
            self.data += piece
        os.close(self.descriptor)

    def all(self) -> bytes:
        self._thread.join(60)
        assert not self._thread.is_alive(), "its output has no end"
        return bytes(self.data)


class Process(Protocol):
    """As much of a `subprocess.Popen` as is needed here."""

    def wait(self, timeout: float | None = None) -> int: ...


Start = Callable[[Sequence[str], dict[str, str], str, tuple[int, int, int]], Process]
"""Starts a command with an environment and three streams in a folder."""


def start_alone(
    command: Sequence[str], environment: dict[str, str], folder: str, streams: tuple[int, int, int]
) -> Process:
    """Start a command with an interpreter or shell of its own."""
    stdin, stdout, stderr = streams
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd=folder)


def run(
    command: Sequence[str],
    streams: Streams,
    given: bytes,
    environment: dict[str, str],
    folder: str,
    *,
    start: Start = start_alone,
) -> Ended:
    """Run a command with such streams to the end of its output."""
    ends: list[tuple[int, int]] = []
    if streams is Streams.TERMINAL:
        ours, theirs = pty.openpty()
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        ends = [(ours, theirs)]
    elif streams is Streams.FILES:
        opened = [os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")]
    else:
        ends = [os.pipe() for _ in range(1 if streams is Streams.TOGETHER else 2)]
    writers = opened if streams is Streams.FILES else [theirs for _, theirs in ends]
    stdin, to_stdin = os.pipe()
    os.write(to_stdin, given)  # a few lines: they fit into the pipe
    os.close(to_stdin)
    process = start(command, environment, folder, (stdin, writers[0], writers[-1]))
    for each in (stdin, *(writers if streams is not Streams.FILES else [])):
        os.close(each)
    readings = [_Reading(ours) for ours, _ in ends]
    code = process.wait(60)
    if streams is Streams.FILES:
        return Ended(code=code, written=tuple(_read_file(each) for each in opened))
    return Ended(code=code, written=tuple(each.all() for each in readings))


def _read_file(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
