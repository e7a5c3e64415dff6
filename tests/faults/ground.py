"""A store to do harm to: a database, a data directory and, for several workers, a Qdrant server."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from knowledge.adapters.postgres.engine.database import make_engine
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.models import EntryId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import open_knowledge
from knowledge.wiring.stores import migration_scripts
from tests.conftest import TEMPLATE, SetClock
from tests.faults.herd import SECONDS, Herd, Worker, entry_ids
from tests.faults.lessons import POISON
from tests.faults.truth import Truth, examine, lost_by_a_kill
from tests.faults.worker import Job, job_settings
from tests.support.embedders import HashingEmbedder
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import create_database, drop_database
from tests.support.qdrant_over_edge import QdrantProcess

_MEMORY = Path("/dev/shm")
"""A kill of ours needs no disk: what a process wrote stays in the kernel, and a flush costs nothing there."""
_ROOM = 2**30


@dataclass
class Ground:
    """One store and the workers on it."""

    herd: Herd
    dsn: str
    home: Path
    qdrant_url: str | None = None
    number: int = 0
    kills: int = 0
    usual: dict[str, Any] = field(default_factory=dict)
    endpoint: OpenAIServer | None = None
    _read: int = field(default=0, init=False)
    _heard: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list), init=False)

    def job(self, **changed: Any) -> Job:
        """Return a job with lessons of its own."""
        usual = {"captures": 10, **self._where, **self.usual}
        first, self.number = self.number, self.number + 997  # a prime: no two workers go through the same cases
        return Job(dsn=self.dsn, home=str(self.home), told=str(self.told), first=first, **usual | changed)

    @property
    def told(self) -> Path:
        return self.home / "told"

    def run(self, **changed: Any) -> Worker:
        worker = self.herd.run(self.job(**changed))
        self.kills += worker.code == -signal.SIGKILL
        return worker

    def start(self, **changed: Any) -> Worker:
        return self.herd.start(self.job(**changed))

    def run_until_killed(self, job: Job, seconds: float | None) -> None:
        """Run a job whose process is killed so long after its captures; where None, at one of its `trips`."""
        before = len(self.heard("working"))
        worker = self.herd.start(job)
        if seconds is not None:
            self.wait_for("working", before + 1)
            time.sleep(seconds)
            self.kill(worker)
        worker.wait()

    def kill(self, *workers: Worker) -> None:
        """Kill them all, then wait for all."""
        for worker in workers:
            if worker.code is None:
                worker.send(signal.SIGKILL)
        for worker in workers:
            self.kills += worker.wait() == -signal.SIGKILL

    def heard(self, word: str) -> list[str]:
        """Return what all workers told of one kind."""
        if self.told.exists():
            with self.told.open("rb") as told:
                told.seek(self._read)
                new = told.read()
            new = new[: new.rfind(b"\n") + 1]
            self._read += len(new)
            for line in new.decode().splitlines():
                kind, _, value = line.partition(" ")
                self._heard[kind].append(value)
        return self._heard[word]

    def wait_for(self, word: str, number: int) -> None:
        """Wait until all workers together told so much of one kind."""
        wait_until(lambda: len(self.heard(word)) >= number, f"fewer than {number} {word}\n{self.herd.errors()}")

    def settings(self) -> KnowledgeSettings:
        return job_settings(Job(dsn=self.dsn, home=str(self.home), told="", **self._where, lease_seconds=1))

    @property
    def _where(self) -> dict[str, Any]:
        endpoint = self.endpoint and (self.endpoint.base_url, self.endpoint.key)
        return {"qdrant_url": self.qdrant_url, "endpoint": endpoint}

    async def leases(self) -> int:
        """Return how many entries are leased, whoever holds them."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return int(
                await connection.fetchval("select count(*) from knowledge_staging where lease_token is not null")
            )
        finally:
            await connection.close()

    async def truth(
        self, *, deleted: Collection[EntryId] = (), later: timedelta = timedelta(0), rebuilding: bool = False
    ) -> Truth:
        """Let one checkpoint run undisturbed, after some time, and compare all accounts of what there is.

        Unless `rebuilding` was killed, the index has all that is marked before that, too.
        """
        embedder = None if self.endpoint else HashingEmbedder(dims=64, refuses=POISON)
        clock = SetClock(datetime.now(UTC) + later)
        async with asyncio.timeout(60), open_knowledge(self.settings(), embedder=embedder, clock=clock) as knowledge:
            lost = () if rebuilding else await lost_by_a_kill(knowledge)
            await knowledge.checkpoints.process_all()
            gone = set(deleted) | entry_ids(self.heard("deleted"))
            either = entry_ids(self.heard("deleting")) - gone  # killed in between: deleted or not, both is well
            left_out = entry_ids(self.heard("abandoned"))
            acknowledged = entry_ids(self.heard("captured")) - either
            truth = await examine(knowledge, acknowledged, deleted=gone, abandoned=left_out)
            return replace(truth, lost=(*lost, *truth.lost))


def wait_until(true: Callable[[], bool], else_say: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline, else_say
        time.sleep(0.005)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, in memory where there is room."""
    in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    place = str(_MEMORY) if in_memory else None
    with tempfile.TemporaryDirectory(prefix="hardwon-faults-", dir=place, ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextmanager
def ground(herd: Herd, server_dsn: str, *, several: bool = False, **usual: Any) -> Iterator[Ground]:
    """Make an empty store on a server that has the migrated template; `several` processes may share it."""
    dsn = asyncio.run(create_database(server_dsn, template=TEMPLATE))
    try:
        with folder() as home:
            if not several:
                yield Ground(herd, dsn, home, usual=usual)
                return
            with QdrantProcess(home / "qdrant") as qdrant:
                yield Ground(herd, dsn, home, qdrant.url, usual=usual)
    finally:
        herd.clear()
        asyncio.run(drop_database(dsn))


async def make_template(dsn: str) -> None:
    """Make the migrated database that grounds are copies of."""
    engine = make_engine(await create_database(dsn, name=TEMPLATE))
    await migrate(engine, migration_scripts())
    await engine.dispose()
