"""CPU seconds and memory of processes, read from /proc. Linux only."""

from __future__ import annotations

import gc
import re
from pathlib import Path

import sqlalchemy as sa

from hardwon.models.reports import Progress
from knowledge.wiring.open import Knowledge

_PROC = Path("/proc")


def anonymous_mb() -> float:
    """Return the resident anonymous memory of this process."""
    status = (_PROC / "self" / "status").read_text(encoding="ascii")
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1000


class HighestMemory:
    """The highest memory of this process since it was made; a progress that looks at each call."""

    def __init__(self, shown: Progress | None) -> None:
        self._shown = shown
        gc.collect()
        self.before = self.highest = anonymous_mb()

    def __call__(self, done: int, total: int | None) -> None:
        """Look, and pass the progress on."""
        self.highest = max(self.highest, anonymous_mb())
        if self._shown:
            self._shown(done, total)

    @property
    def growth(self) -> float:
        """By how many MB the memory grew at most."""
        return self.highest - self.before


async def server_of(knowledge: Knowledge) -> int:
    """Return the process id of the Postgres server on this machine."""
    async with knowledge.engine.connect() as connection:
        backend = await connection.scalar(sa.select(sa.func.pg_backend_pid()))
    return _parent_of(_PROC / str(backend))


def cpu_seconds(server: int) -> float:
    """Return the CPU seconds of a server and of its processes that are alive."""
    seconds = 0.0
    for process in _PROC.glob("[0-9]*"):
        try:
            if server in {_parent_of(process), int(process.name)}:
                seconds += int((process / "schedstat").read_text().split()[0]) / 1e9
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
    return seconds


def qdrant_seconds() -> float | None:
    """Return the CPU seconds of all Qdrant servers on this machine, None if there is none."""
    seconds = []
    for process in _PROC.glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == "qdrant":
                seconds.append(sum(int(told.read_text().split()[0]) for told in process.glob("task/*/schedstat")) / 1e9)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sum(seconds) if seconds else None


def _parent_of(process: Path) -> int:
    return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
