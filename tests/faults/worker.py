"""A worker that is killed: captures and runs the real checkpoint on the real stores, in a process of its own.

`python -m tests.faults.worker` loads everything once and then forks a worker for each job it reads, one JSON a line;
`tests.faults.herd` talks to it.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from pydantic import SecretStr

from hardwon.errors import IndexUnavailable, NotFound, OwnerUnavailable
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.memory.checkpoint import pipeline
from knowledge.models import EntryId
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator import connect
from orchestrator.connection import AnyKnowledge
from tests.conftest import SetClock
from tests.faults.at_once import MODELS, AtOnce
from tests.faults.lessons import POISON, lesson
from tests.support.faults import Mutant, Trips, WiredEmbedder, mutated, wired
from tests.support.starter import load, set_checkpoints

GRACE_SECONDS = 5.0
"""A worker that gets SIGTERM is gone by then."""

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: a worker does not outlive a parent that was killed itself."""

_KEEPS_UP = 0.5
"""How often a member of a data directory does something for its upkeep, too, between two checkpoints."""

_SINGLY = 100
"""More captures than these go in one call."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker does: capture lessons, run checkpoints, and come to grief at a place.

    `trips` says what happens where: `kill`, `stop` (as SIGSTOP: it hangs), or `delete` (an entry it is embedding is
    deleted by somebody). `beside` names what `AtOnce` does while its checkpoint runs, `to_model` the model it changes
    to, should that be `reembed`. `endpoint`: the address and key of what embeds, for one of several processes that
    share a data directory as an orchestrator's do; whoever comes first owns it. `embed_seconds` is what each embedding
    call takes. `now` is what its clock says, the machine's where it is None.
    `forever`: captures and checkpoints alternate until it is ended. `told` is the file it writes to: a line for each
    acknowledged capture, each deletion, what it kept up and, at the end, its embedding calls.
    """

    dsn: str
    home: str
    told: str
    qdrant_url: str | None = None
    first: int = 0
    captures: int = 0
    sharing: int = 3
    cases: int | None = None
    poisoned: bool = False
    checkpoints: bool = True
    forever: bool = False
    wait_for: str | None = None
    batch: int = 4
    lease_seconds: float = 0.3
    embed_seconds: float = 0.0
    trips: dict[str, str] = field(default_factory=dict)
    mutant: Mutant | None = None
    now: str | None = None
    model: str = MODELS[0]
    beside: str | None = None
    endpoint: tuple[str, str] | None = None
    to_model: str = MODELS[1]


class _Told:
    """The worker's file: what was written survives its kill."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, word: str, value: object) -> None:
        os.write(self._file, f"{word} {value}\n".encode())


class Worker:
    """One run of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._told = _Told(job.told)
        self._real: Knowledge
        self._captured: list[EntryId] = []
        self._embedder = WiredEmbedder(self._trips(), self._embedding, refuses=POISON, model=job.model)

    async def run_as_member(self) -> None:
        """Capture, run checkpoints and keep up the store through whoever owns the data directory, until it is ended."""
        async with connect(job_settings(self._job)) as knowledge:
            self._told.say("ready", os.getpid())
            number, rng = self._job.first, random.Random(self._job.first)
            while True:
                with suppress(OwnerUnavailable):  # each owner it asked was killed: it is told to try again, and does
                    number = await self._capture(knowledge, number)
                    await knowledge.checkpoints.process_all()
                    if rng.random() < _KEEPS_UP:
                        await self._keep_up(knowledge, rng)

    async def _keep_up(self, knowledge: AnyKnowledge, rng: random.Random) -> None:
        """Do what an operator, a job or a query does while others work."""
        what = rng.choice(("prune", "rebuild", "repair", "delete", "ask"))
        self._told.say("keeping", what)
        match what:
            case "prune":
                await knowledge.pruning.prune_old_knowledge()
            case "rebuild":
                await knowledge.store_upkeep.rebuild()
            case "repair":
                await knowledge.upkeep.verify(repair=True)
            case "delete":
                entry_id = rng.choice(self._captured)
                self._told.say("deleting", entry_id)
                with suppress(NotFound):
                    await knowledge.capture.delete(entry_id)
                self._told.say("deleted", entry_id)
            case "ask":
                with suppress(IndexUnavailable):  # while another member makes the index anew, a query says so
                    await knowledge.queries.query_for_failure("The build fails", min_relevance=0)
        self._told.say("kept", what)

    async def run(self) -> None:
        job = self._job
        settings = job_settings(job)
        clock = SetClock(datetime.fromisoformat(job.now)) if job.now else None
        async with open_knowledge(settings, embedder=self._embedder, clock=clock) as self._real:
            lease = timedelta(seconds=job.lease_seconds)
            knowledge = mutated(wired(self._real, self._wire, lease=lease), job.mutant)
            self._told.say("ready", os.getpid())
            if job.wait_for:
                while not Path(job.wait_for).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
                    await asyncio.sleep(0.005)
            number = job.first
            while True:
                number = await self._capture(knowledge, number)
                self._told.say("working", os.getpid())
                if job.beside:
                    works = [job.beside]
                    await AtOnce(knowledge=knowledge, rng=random.Random(), works=works, to_model=job.to_model).run()
                elif job.checkpoints:
                    report = await knowledge.checkpoints.process_all()
                    self._told.say("embedded", report.embedded)
                if not job.forever:
                    break
        self._told.say("calls", self._embedder.calls)

    async def _capture(self, knowledge: Knowledge | AnyKnowledge, number: int) -> int:
        job = self._job
        numbers = range(number, number + job.captures)
        entries = [
            lesson(n, sharing=job.sharing, cases=job.cases, poisoned=job.poisoned and n % 5 == 0) for n in numbers
        ]
        if job.captures > _SINGLY:
            for answer in await knowledge.capture.capture_all(entries):
                self._told.say("captured", answer.entry_id)
            return numbers.stop
        for entry in entries:
            self._captured.append(await knowledge.capture.capture(entry))
            self._told.say("captured", self._captured[-1])
        return numbers.stop

    async def _embedding(self) -> None:
        await asyncio.sleep(self._job.embed_seconds)

    def _trips(self) -> Trips:
        does: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": _kill,
            "stop": _stop,
            "delete": self._delete,
            "abandon": self._abandon,
        }
        self._wire = Trips({place: does[what] for place, what in self._job.trips.items()})
        return self._wire

    async def _delete(self) -> None:
        """Delete an entry that is being embedded, as somebody else would; other batches go on meanwhile."""
        entry_id = await self._in_flight()
        self._told.say("deleting", entry_id)
        await self._real.capture.delete(entry_id)
        self._told.say("deleted", entry_id)

    async def _abandon(self) -> None:
        """Abandon an entry that is being embedded, as the end of its project would."""
        entry_id = await self._in_flight()
        row = knowledge_staging.c
        abandoned = {"status": "abandoned", "lease_token": None, "lease_until": None}
        async with self._real.engine.begin() as connection:
            await connection.execute(sa.update(knowledge_staging).where(row.id == entry_id).values(**abandoned))
        self._told.say("abandoned", entry_id)

    async def _in_flight(self) -> EntryId:
        row = knowledge_staging.c
        others = knowledge_staging.alias("others")
        of_pattern = sa.select(sa.func.count()).where(others.c.pattern_id == row.pattern_id).scalar_subquery()
        order = (
            row.pattern_id.is_(None),  # the next batch may be leased, too
            row.lease_until < sa.func.now(),  # what one that was killed before still held
            of_pattern,  # so that a point goes with it
            row.lease_until.desc(),
            row.id,
        )
        query = sa.select(row.id).where(row.lease_token.is_not(None)).order_by(*order).limit(1)
        async with self._real.engine.connect() as connection:
            return EntryId((await connection.execute(query)).scalar_one())


def job_settings(job: Job) -> KnowledgeSettings:
    """Return the settings of a worker's stores."""
    endpoint, key = job.endpoint or (None, None)
    return KnowledgeSettings(
        home=Path(job.home),
        database_url=SecretStr(job.dsn),
        qdrant_url=job.qdrant_url,
        embedding_base_url=endpoint,
        embedding_api_key=key and SecretStr(key),
        embedding_model="test-model" if endpoint else "all-MiniLM-L6-v2",
    )


async def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


async def _until_terminated(job: Job) -> None:
    working = asyncio.create_task(Worker(job).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    with suppress(asyncio.CancelledError):
        await working


def _work(told: dict[str, Any]) -> None:
    pipeline._POLL_SECONDS = 0.05
    job = Job(**told | {"mutant": told.get("mutant") and Mutant(told["mutant"])})
    set_checkpoints(batch=job.batch, lease=timedelta(seconds=max(1, job.lease_seconds)))
    asyncio.run(Worker(job).run_as_member() if job.endpoint else _until_terminated(job))


def main() -> None:
    """Fork a worker for each line `work JOB` and answer with its process id; answer `wait PID` with how it ended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    load()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        verb, _, rest = line.partition(" ")
        if verb == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(int(rest), 0)[1]), flush=True)  # noqa: T201
            continue
        pid = os.fork()
        if pid == 0:
            _become_worker(json.loads(rest))
        print(pid, flush=True)  # noqa: T201


def _become_worker(told: dict[str, Any]) -> None:
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        os.close(0)
        os.dup2(2, 1)  # the answers are the parent's
        _work(told)
        code = 0
    except BaseException:  # noqa: BLE001 - it is said, and this process ends
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
