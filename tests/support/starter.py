"""Commands in forks of an interpreter that has everything loaded: processes like any other, but there at once.

That a command starts, and what it loads, is tested with interpreters of its own (`test_starting`, `Commands.start`).
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "alembic.command", "fastapi", "knowledge.adapters.local_embedder", "knowledge.adapters.openai_embedder",
    "knowledge.adapters.postgres.embedded", "knowledge.adapters.qdrant_edge", "knowledge.wiring", "openai",
    "orchestrator.cli", "orchestrator.client_capture", "orchestrator.connection", "orchestrator.entries",
    "orchestrator.hooks", "orchestrator.http_api", "orchestrator.logs", "orchestrator.reports", "orchestrator.serving",
    "orchestrator.terminal",
)  # fmt: skip
"""What the commands load; nothing of it starts a thread or reads the environment."""
_MOST = 1 << 17


@dataclass
class Starter:
    """The interpreter, started with the first command and ended with this process."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], given: bytes, *, seconds: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `hardwon` with these arguments to its end, as subprocess.run would."""
        told = json.dumps({"arguments": list(arguments), "environment": dict(environment), "cwd": str(Path.cwd())})
        ours, theirs = socket.socketpair()
        (stdin, to_stdin), (from_stdout, stdout), (from_stderr, stderr) = os.pipe(), os.pipe(), os.pipe()
        with self._lock:
            socket.send_fds(self._started(), [told.encode()], [stdin, stdout, stderr, theirs.fileno()])
        for end in (stdin, stdout, stderr):
            os.close(end)
        theirs.close()
        with ours, ours.makefile("r") as said, os.fdopen(to_stdin, "wb") as inlet:
            pid = int(said.readline())
            late = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
            late.start()
            read = [_Reading(os.fdopen(end, "rb")) for end in (from_stdout, from_stderr)]
            with contextlib.suppress(BrokenPipeError):
                inlet.write(given)
                inlet.flush()
            with contextlib.suppress(BrokenPipeError):
                inlet.close()
            code = int(said.readline())
            late.cancel()
            out, err = (each.whole() for each in read)
        return subprocess.CompletedProcess(["hardwon", *arguments], code, out, err)

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.starter", str(theirs.fileno())],
                    cwd=ROOT,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            atexit.register(process.wait)
            atexit.register(self._socket.close)  # called first: it ends with its socket
        return self._socket


class _Reading(threading.Thread):
    """Reads all of a pipe, beside whoever reads another."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self._pipe = pipe
        self._read = b""
        self.start()

    def run(self) -> None:
        with self._pipe:
            self._read = self._pipe.read()

    def whole(self) -> bytes:
        self.join()
        return self._read


def _serve(asked: socket.socket) -> None:
    """Fork for each command that is asked for; returns in the fork that is to be the command, and at the end."""
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    while True:
        told, ancillary, _, _ = asked.recvmsg(_MOST, socket.CMSG_SPACE(4 * array.array("i").itemsize))
        if not told:
            os._exit(0)
        ends = array.array("i")
        for _, _, found in ancillary:
            ends.frombytes(found)
        if os.fork() == 0:
            asked.close()
            if _kept(ends[3]):
                return _become(json.loads(told), ends)
        for end in ends:
            os.close(end)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _kept(answer: int) -> bool:
    """Fork once more; return True in the command, and in its keeper tell how it ended, and end."""
    pid = os.fork()
    if pid == 0:
        return True
    with socket.socket(fileno=answer) as told:
        told.sendall(f"{pid}\n".encode())
        for end in range(3):
            with contextlib.suppress(OSError):
                os.close(end)
        os.closerange(3, answer)
        os.closerange(answer + 1, 256)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        told.sendall(f"{code}\n".encode())
    os._exit(0)


def _become(told: dict[str, Any], ends: array.array[int]) -> None:
    """Be the process that was asked for: its streams, environment, directory and arguments."""
    for number, end in enumerate(ends[:3]):
        os.dup2(end, number)
    for end in ends:
        os.close(end)
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["cwd"])
    sys.argv = ["hardwon", *told["arguments"]]
    sys.modules["__main__"].__package__ = None  # else the command would be called by the name of this module
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from orchestrator.cli import main

    main()
