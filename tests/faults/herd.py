"""Workers to kill, seen from their parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self
from uuid import UUID

from knowledge.models import EntryId
from tests.faults.worker import Job

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


class Herd:
    """A process that forks workers, everything loaded; they end with the block."""

    def __init__(self) -> None:
        self._alive: dict[int, Worker] = {}

    def __enter__(self) -> Self:
        self.said = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.faults.worker"],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith(("HARDWON_", "OPENAI_"))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )
        assert self._line() == "ready", self.errors()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        self._process.communicate(timeout=SECONDS)
        self.said.close()

    def start(self, job: Job) -> Worker:
        pid = int(self._ask(f"work {json.dumps(asdict(job))}"))
        assert pid > 1, pid  # a signal to 0 would go to ourselves
        worker = self._alive[pid] = Worker(self, pid)
        return worker

    def run(self, job: Job) -> Worker:
        """Run a job to its end, whatever that is."""
        worker = self.start(job)
        worker.wait()
        return worker

    def clear(self) -> None:
        """Kill every worker that still lives."""
        for pid in list(self._alive):
            os.kill(pid, signal.SIGKILL)
            self.ended(pid)

    def errors(self) -> str:
        """Return what workers said to standard error."""
        self.said.seek(0)
        return self.said.read()

    def ended(self, pid: int) -> int:
        """Wait for a worker; return its exit code, or the negative number of the signal that ended it."""
        deadline = time.monotonic() + SECONDS
        while _state(pid) not in {"Z", ""}:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"worker {pid} did not end within {SECONDS} s\n{self.errors()}")
            time.sleep(0.002)
        del self._alive[pid]
        return int(self._ask(f"wait {pid}"))

    def _ask(self, line: str) -> str:
        assert self._process.poll() is None, f"the herd ended with {self._process.returncode}\n{self.errors()}"
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@dataclass
class Worker:
    """One worker."""

    herd: Herd
    pid: int
    code: int | None = None

    def wait(self, *, may_fail: bool = False) -> int:
        """Wait for its end; a worker that failed by itself fails the test, too, unless it `may_fail`."""
        if self.code is None:
            self.code = self.herd.ended(self.pid)
        assert self.code != 1 or may_fail, self.herd.errors()
        return self.code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, and do not wait for what comes of it."""
        os.kill(self.pid, number)

    @property
    def stopped(self) -> bool:
        """Whether it hangs at a place where it was to stop."""
        return _state(self.pid) == "T"

    @property
    def alive(self) -> bool:
        return _state(self.pid) not in {"Z", ""}


def entry_ids(told: list[str]) -> set[EntryId]:
    return {EntryId(UUID(value)) for value in told}


def _state(pid: int) -> str:
    """Return the letter of a process's state, nothing where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat[stat.rindex(")") + 2]
