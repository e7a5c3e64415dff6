"""The command `hardwon`, the jobs and programs that embed hardwon, as processes of their own.

`Commands.here` runs a command in the test's own process instead: all of it but the start of an interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import typer.main
import typer.testing
from typer.testing import CliRunner

from orchestrator.cli.commands.root import app
from tests.support.openai_server import OpenAIServer
from tests.support.starter import Piped, Starter

HARDWON = Path(sys.executable).with_name("hardwon")
SECONDS = 180
"""How long a process may take on a busy machine; a test that waits longer has found one that hangs."""

STARTER = Starter()
setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))  # noqa: B010 - made once, not each time

PROGRAM = """
import asyncio, sys
from orchestrator import connect
from orchestrator.observability.logging import configure_logs

async def main():
    async with connect() as knowledge:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            entry_id = await knowledge.capture.capture_failure_solution(
                project_id="program", agent_type="coder", failure_description=line.strip(),
                solution_steps="mend it", success_verified=True,
            )
            print(entry_id, flush=True)

configure_logs()
asyncio.run(main())
"""
"""A program that embeds hardwon: it captures each line it is given and answers with the entry's id."""


def entry(**told: object) -> dict[str, object]:
    """Return a verified failure as JSON lines have it."""
    usual: dict[str, object] = {
        "entry_type": "failure_solution",
        "project_id": "web-shop",
        "agent_type": "backend",
        "failure_description": "the total of an empty cart raises KeyError",
        "solution_steps": "treat a missing price as zero",
        "success_verified": True,
    }
    return usual | told


def lines(entries: Iterable[object]) -> str:
    """Return entries as JSON lines."""
    return "".join(json.dumps(each) + "\n" for each in entries)


_MANY = 500
_BLOCKS = range(10_000, 32_000, _MANY)
"""Of ports, below those that the system gives away; the first port of each says whose it is."""


@functools.cache
def _ports() -> tuple[Iterator[int], socket.socket]:
    """Return ports of this process alone, and what keeps them: two runs of the tests at once took each other's."""
    for first in _BLOCKS:
        keeper = socket.socket()
        try:
            keeper.bind(("127.0.0.1", first))
        except OSError:
            keeper.close()
        else:
            return itertools.cycle(range(first + 1, first + _MANY)), keeper
    raise AssertionError("other runs of the tests have all ports")


def free_port() -> int:
    """Return a port that nobody listens on, and no other test takes before it is used."""
    for port in _ports()[0]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable: the ports go round")


def until(true: Callable[[], object], *, seconds: float = 60) -> None:
    """Wait until something is true; fail if it never is."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def answers(path: Path) -> bool:
    """Return whether somebody listens on a unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _forks(more: Mapping[str, str]) -> bool:
    """Whether a fork will do: not where an interpreter reads its environment as it starts."""
    return sys.platform == "linux" and not any(name.startswith(("PYTHON", "LC_", "LANG")) for name in more)


def _program(command: list[str | Path]) -> list[str | Path]:
    """Return the command line of a command with an interpreter of its own."""
    return [HARDWON, *command[1:]] if command[0] == "hardwon" else [sys.executable, *command]


def _without_waiting(errors: str) -> str:
    """Return what a command said, but for what it says on a busy machine, where its owner starts slowly."""
    return "".join(line for line in errors.splitlines(keepends=True) if "waiting for the owner" not in line)


@dataclass
class Running:
    """A process with its standard streams as text; ended with its block if it still runs."""

    process: subprocess.Popen[str] | Piped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """Return the next line of its standard output; fail with what it said if there is none."""
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said, self.process.communicate()[1]
        return said.rstrip("\n")

    def ask(self, line: str) -> str:
        self.say(line)
        return self.line()

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Send a signal, or close its standard input; return its exit code and what it still said."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.wait(), out, _without_waiting(err)


def _document(arguments: tuple[str | Path, ...], code: int, out: str, errors: str) -> Any:
    """Return what a command with --json printed, which is all it said; only a capture that refused a line failed."""
    assert errors == "", errors
    document = json.loads(out)
    assert code == int(arguments[0] == "capture" and document["refused"] > 0), out
    return document


@dataclass
class Commands:
    """Runs processes on one data directory, with settings of their own."""

    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "HARDWON_HOME": str(self.home), **self.settings, **more}

    def run(self, *arguments: str | Path, told: str | bytes = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self._finish(["hardwon", *arguments], told, more)

    def after(self, before: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end behind another one, such as `unshare -m`."""
        return self._run([*before, HARDWON, *arguments], b"", self.environment())

    def jobs(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `python -m jobs` to its end."""
        return self._finish(["-m", "jobs", *arguments], "", more)

    def python(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return self._finish(["-c", script], "", more)

    def _finish(
        self, command: list[str | Path], told: str | bytes, more: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run it in a fork of an interpreter that has everything loaded, or in one of its own where it must differ."""
        given = told.encode() if isinstance(told, str) else told
        environment = self.environment(**more)
        if _forks(more):
            done = STARTER.run([str(each) for each in command], environment, given, seconds=SECONDS)
        else:
            done = self._run(_program(command), given, environment)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout, _without_waiting(done.stderr))

    def _run(
        self, command: list[str | Path], given: bytes, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, input=given, env=environment, capture_output=True, timeout=SECONDS, check=False)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def here(self, *arguments: str | Path, **more: str) -> Any:
        """Run a command with --json in this process; return the document that standard output is, whole.

        Only where another process owns the data directory: logging is not set up here.
        """
        done = CliRunner(env=self.environment(**more)).invoke(app, [*map(str, arguments), "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return _document(arguments, done.exit_code, done.stdout, done.stderr)

    def json(self, *arguments: str | Path, told: str | bytes = "", **more: str) -> Any:
        """Run a command with --json; return the document that standard output is, whole."""
        done = self.run(*arguments, "--json", told=told, **more)
        return _document(arguments, done.returncode, done.stdout, done.stderr)

    def refused(self, *arguments: str | Path, told: str | bytes = "", **more: str) -> str:
        """Run a command that fails; return the sentence it says, which is all it says."""
        done = self.run(*arguments, told=told, **more)
        assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
        *before, last = done.stderr.splitlines()
        assert all(line in {"Capturing", "Embedding", "Pruning"} for line in before), done.stderr
        assert last.startswith("error: "), done.stderr
        return last.removeprefix("error: ")

    def start(self, *arguments: str | Path, **more: str) -> Running:
        """Start a command, to be used as a context manager."""
        return self._start(["hardwon", *arguments], more)

    def start_jobs(self, *arguments: str, **more: str) -> Running:
        """Start `python -m jobs`, to be used as a context manager."""
        return self._start(["-m", "jobs", *arguments], more)

    def _start(self, command: list[str | Path], more: Mapping[str, str], *, fresh: bool = False) -> Running:
        environment = self.environment(**more)
        if _forks(more) and not fresh:
            return Running(STARTER.start([str(each) for each in command], environment))
        pipe = subprocess.PIPE
        return Running(
            subprocess.Popen(_program(command), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, text=True)
        )

    def owner(self, method: str, path: str, body: object = None) -> Any:
        """Return what the owner of the data directory answers over its socket, which is quicker than a command."""
        transport = httpx.HTTPTransport(uds=str(self.home / "hardwon.sock"), verify=False)
        with httpx.Client(transport=transport, base_url="http://hardwon", timeout=SECONDS) as client:
            answer = client.request(method, path, json=body)
            answer.raise_for_status()
            return answer.json()

    @contextlib.contextmanager
    def program(self, script: str = PROGRAM, *, fresh: bool = False, **more: str) -> Iterator[Running]:
        """Run a program that embeds hardwon, once it has what it needs; fresh: with nothing loaded before."""
        with self._start(["-c", script], more, fresh=fresh) as running:
            assert running.line() == "ready"
            yield running

    @contextlib.contextmanager
    def serving(self, *arguments: str, port: int | None = None, **more: str) -> Iterator[tuple[Running, str]]:
        """Run `hardwon serve` on a free port; give it and its address once it answers."""
        asked = ("serve", "--port", str(port or free_port()), *arguments)
        with self.start(*asked, **more) as running:
            assert running.process.stderr is not None
            said = []
            while told := running.process.stderr.readline():  # logs may come before, as of a head of another store
                if told.startswith("hardwon serves on "):
                    break
                said.append(told)
            assert told, "".join(said)
            yield running, told.removeprefix("hardwon serves on ").split()[0]


def embedding_by(server: OpenAIServer) -> dict[str, str]:
    """Return the settings that have texts embedded by an endpoint, which is there sooner than a model in process."""
    return {
        "HARDWON_EMBEDDING_BASE_URL": server.base_url,
        "HARDWON_EMBEDDING_API_KEY": server.key,
        "HARDWON_EMBEDDING_MODEL": "test-model",
    }
