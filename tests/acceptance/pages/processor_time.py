"""Time that this process and Postgres compute and wait for a processor: for bounds that hold on a busy machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.wiring.open import Knowledge

IS_COUNTED: Final = Path("/proc/self/schedstat").exists()
"""Linux counts it of each process."""


class Spent(NamedTuple):
    """Seconds that processes computed, and that they waited for a processor that others had."""

    computing: float
    waiting: float


async def find_postmaster(knowledge: Knowledge) -> int:
    """Return the process that is the parent of all others of Postgres."""
    async with autocommit(knowledge.engine) as connection:
        backend = await connection.scalar(sa.text("SELECT pg_backend_pid()"))
    return int(_stat(Path(f"/proc/{backend}"))[1])


def spent_by(postgres: int) -> Spent:
    """Return the time of all threads of this process and of all processes of Postgres, also of those that ended."""
    numbers = [_schedstat(each) for each in (*Path("/proc/self/task").iterdir(), *_processes_of(postgres))]
    computing, waiting = (sum(column) / 1e9 for column in zip(*numbers, strict=True))
    ended = sum(int(ticks) for ticks in _stat(Path(f"/proc/{postgres}"))[13:15]) / os.sysconf("SC_CLK_TCK")
    return Spent(computing + ended, waiting)


def _processes_of(postgres: int) -> Iterator[Path]:
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                if str(postgres) in {each.name, _stat(each)[1]}:
                    yield each


def _stat(process: Path) -> list[str]:
    """Return the fields of a process behind its name: its state, its parent ..."""
    return (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _schedstat(task: Path) -> tuple[int, int]:
    try:
        computing, waiting, _ = (task / "schedstat").read_text(encoding="utf-8").split()
    except OSError:  # it ended meanwhile
        return 0, 0
    return int(computing), int(waiting)
