"""Ten times what a server can take, for minutes (G18): bounded memory, and what it acknowledged is there once.

`python -m tests.faults.flood --seconds 300`. First it measures what the server sustains: eight callers that each wait
for their answer. Then new captures come at ten times that rate, whether earlier ones were answered or not. `--apart`
gives the server and its Postgres one core and the callers another, so that what is measured is the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.wiring.stores import migration_scripts
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, throwaway_postgres
from tests.support.processes import Commands, embedding_by, entry

CALLERS = 8
TIMES = 10
TEXT = "x" * 20_000
MOST_CONNECTIONS = 2_000
"""Callers that wait for an answer at the same time; one more is not sent, as a caller's own pool would hold it back."""
LEAST_GOODPUT = 0.5
"""What still gets through of what the server sustains, where it has a core to itself."""
MOST_MB = 250.0
"""What the server may grow by: 32 bodies at work and 512 waiting are 33 MB, and as much again while they are read."""


@dataclass(slots=True)
class Flood:
    """Captures over raw connections, each of its own task: the caller must cost less than the server."""

    host: str
    port: int
    numbers: count[int] = field(default_factory=count)
    answers: Counter[int] = field(default_factory=Counter)
    acknowledged: dict[str, str] = field(default_factory=dict)
    without_retry_after: int = 0
    unsent: int = 0
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    _open: int = 0

    async def capture(self) -> None:
        """Send one capture and note the answer."""
        if not self._idle and self._open >= MOST_CONNECTIONS:
            self.unsent += 1
            return
        task = str(next(self.numbers))
        body = json.dumps(entry(failure_description=f"{task} {TEXT}", task_id=task)).encode()
        head = (
            f"POST /v1/entries HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            self._open += 1
            reader, writer = await asyncio.open_connection(self.host, self.port)
        writer.write(head.encode() + body)
        status, headers, answer = await _answer(reader)
        self.answers[status] += 1
        if status == 201:
            self.acknowledged[json.loads(answer)["entry_id"]] = task
        elif b"\r\nretry-after:" not in headers:
            self.without_retry_after += 1
        if b"\r\nconnection: close" in headers:
            writer.close()
            self._open -= 1
        else:
            self._idle.append((reader, writer))

    async def sustained(self, seconds: float) -> float:
        """Return how many captures a second are acknowledged to callers that wait for each answer."""
        until = time.monotonic() + seconds
        before = len(self.acknowledged)

        async def caller() -> None:
            while time.monotonic() < until:
                await self.capture()

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return (len(self.acknowledged) - before) / seconds

    async def pour(self, rate: float, seconds: float) -> None:
        """Send captures at a rate, whether earlier ones were answered or not; wait for the last answers."""
        began = time.monotonic()
        sent = 0
        calls: set[asyncio.Task[None]] = set()
        while (now := time.monotonic() - began) < seconds:
            for _ in range(int(now * rate) - sent):
                sent += 1
                call = asyncio.create_task(self.capture())
                calls.add(call)
                call.add_done_callback(calls.discard)
            await asyncio.sleep(0.005)
        await asyncio.gather(*calls)

    async def close(self) -> None:
        """Close the connections."""
        for _, writer in self._idle:
            writer.close()
            await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    headers = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = next(int(line[15:]) for line in headers.split(b"\r\n") if line.startswith(b"content-length:"))
    return int(headers[9:12]), headers, await reader.readexactly(length)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, as Linux tells it."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process is gone")


def cpu_seconds(pid: int) -> float:
    """Return what a process has computed, as Linux tells it."""
    told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of a flood, in words, by how many MB the server grew, and what part of its rate still got through."""

    told: str
    grown: float
    goodput: float


async def flood(pouring: Flood, pid: int, *, seconds: float, measured: float) -> Came:
    """Measure, then pour."""
    computed = cpu_seconds(pid)
    sustained = await pouring.sustained(measured)
    a_capture = (cpu_seconds(pid) - computed) / (sustained * measured)
    before, most = rss_mb(pid), 0.0
    answered, computed = pouring.answers.copy(), cpu_seconds(pid)
    began = time.monotonic()
    work = asyncio.create_task(pouring.pour(TIMES * sustained, seconds))
    while not work.done():
        most = max(most, rss_mb(pid))
        await asyncio.sleep(0.1)
    await work
    took, computed = time.monotonic() - began, cpu_seconds(pid) - computed
    await pouring.close()
    answers = pouring.answers - answered
    a_refusal = (computed - a_capture * answers[201]) / max(1, answers[429])
    goodput = answers[201] / took
    told = (
        f"sustains {sustained:.0f} captures/s of 20 KB, {1000 * a_capture:.2f} ms of CPU each;"
        f" {answers.total() / took:.0f}/s came for {took:.0f} s: {dict(answers)},"
        f" {pouring.unsent} more held back by the callers; {goodput:.0f} captures/s got through,"
        f" {goodput / sustained:.2f} of what it sustains; the server computed for {computed / took:.2f} of the time,"
        f" {1000 * a_refusal:.2f} ms a refusal; memory {before:.0f} MB, at most {most:.0f} MB"
    )
    return Came(told=told, grown=most - before, goodput=goodput / sustained)


async def stored(dsn: str) -> Counter[tuple[str, str]]:
    """Return how often each (id, task) is there."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("select id, task_id from knowledge_staging")
    finally:
        await connection.close()
    return Counter((str(row["id"]), row["task_id"]) for row in rows)


def run(*, seconds: float, measured: float = 5.0, apart: bool = False) -> list[str]:
    """Run a server in a folder of its own and flood it; return what is wrong, and print what was measured."""
    cores = sorted(os.sched_getaffinity(0))
    if apart and len(cores) > 1:
        os.sched_setaffinity(0, cores[:1])  # for what is started from here on
    with throwaway_postgres() as server, OpenAIServer(dims=64) as endpoint, tempfile.TemporaryDirectory() as home:
        dsn = asyncio.run(_database(server.dsn))
        commands = Commands(Path(home), embedding_by(endpoint) | {"HARDWON_DATABASE_URL": dsn})
        with commands.serving() as (process, url):
            os.sched_setaffinity(0, cores[1:] if apart and len(cores) > 1 else cores)
            address = urlsplit(url)
            pouring = Flood(address.hostname or "", address.port or 0)
            came = asyncio.run(flood(pouring, process.pid, seconds=seconds, measured=measured))
        there = asyncio.run(stored(dsn))
    print(came.told)  # noqa: T201
    tasks = Counter(task for _, task in there)
    lost = sum((entry_id, task) not in there for entry_id, task in pouring.acknowledged.items())
    wrong = {
        "other answers than 201 and 429": sum(pouring.answers.values()) - pouring.answers[201] - pouring.answers[429],
        "refusals without Retry-After": pouring.without_retry_after,
        "acknowledged captures that are lost": lost,
        "captures stored twice": sum(times > 1 for times in tasks.values()),
        "captures stored that were refused": len(there) - len(pouring.acknowledged),
        f"MB above the bound of {MOST_MB:.0f}": max(0, round(came.grown - MOST_MB)),
        f"% of what it sustains too little got through (at least {LEAST_GOODPUT:.0%})": max(
            0, round(100 * (LEAST_GOODPUT - came.goodput)) if apart else 0
        ),
        "no refusal: it was no flood": int(not pouring.answers[429]),
    }
    return [f"{number} {what}" for what, number in wrong.items() if number]


async def _database(server_dsn: str) -> str:
    dsn = await create_database(server_dsn)
    engine = make_engine(dsn)
    await migrate(engine, migration_scripts())
    await engine.dispose()
    return dsn


def main() -> int:
    """Flood for as long as asked."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seconds", type=float, default=300.0)
    asked.add_argument("--apart", action="store_true", help="the server on a core of its own, the callers on another")
    told = asked.parse_args()
    wrong = run(seconds=told.seconds, apart=told.apart)
    for what in wrong:
        print(f"WRONG: {what}")  # noqa: T201
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
