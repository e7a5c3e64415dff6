"""Work on a store whose index is a cluster of which nodes die, hang and come back, compared with a model (G24).

`python -m tests.faults --only G24`. In rounds: while `NodeFaults` does its harm, several clients capture, resolve,
delete, embed, prune, verify, lay the index out anew and ask; then every node comes back, what a scheduler does within
the hour is done, and the stores are compared with the model, and by `verify` without repair.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
import sqlalchemy as sa

from hardwon.errors import Conflict, IndexUnavailable, NotFound
from jobs.table import JOBS
from knowledge.adapters.postgres.memory_tables import patterns
from knowledge.adapters.qdrant.cluster import nodes
from knowledge.memory.checkpoint import pipeline
from knowledge.models import EntryId, EntryType, NewEntry, PointId, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring import services
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import SetClock
from tests.faults.cluster.node_faults import NodeFaults
from tests.faults.lessons import lesson
from tests.faults.model import Model
from tests.faults.truth import examine, lacking_points
from tests.support.embedders import HashingEmbedder
from tests.support.qdrant.process import QdrantClusterProcess

STEP = timedelta(days=200)
"""What is embedded in one round is there in the next, and has expired in the one after that."""
CASES = 12
CAPTURES = 60
"""Captures of a round at most."""
TOLD_EVERY = 200
"""Kills and hangs after which a long run says how far it is."""
HARMS = 20
"""Kills and hangs of a round."""
LAYOUTS = ((3, 2), (2, 2), (4, 2), (3, 3))
"""Shards and replicas of the layouts that are changed to."""
CHANCES = {
    "capture": 30, "repeat": 4, "resolve": 6, "delete": 5, "checkpoint": 10, "prune": 2, "ask": 12, "query": 6,
    "verify": 2, "sweep": 1, "lay_out": 3,
}  # fmt: skip
_TICK = timedelta(seconds=1)
"""Time between two operations, so that each has an expiry of its own."""
_RECENT = 8
"""Entries of the last captures, which are deleted rather than older ones: their points may be on their way."""
_LATE_SECONDS = 0.25
"""A deletion that took longer may be done once more by the node that it was sent to first."""
SAMPLE = 8
"""Entries that are asked for by their own text after a healing."""
TIMES = {
    "HEDGE_SECONDS": 0.1, "READ_SECONDS": 1.0, "WRITE_SECONDS": 2.0, "STALE_SECONDS": 0.5, "_PROBE_SECONDS": 0.3,
    "_PROBE_EVERY": 0.2,
}  # fmt: skip
"""The times of the adapter, as much shorter as those of the faults are."""


@dataclass
class Wounds:
    """What came of it: `outcomes` of the operations, sentences on what was wrong, and how long contexts took."""

    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    longest_context: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing was lost, doubled or otherwise wrong."""
        return not (self.lost or self.doubled or self.wrong or self.unsound or self.unexpected)

    def __str__(self) -> str:
        """Say it in some lines."""
        kinds = ("lost", "doubled", "wrong", "unsound", "unexpected")
        said = [each for kind in kinds for each in getattr(self, kind)[:3]]
        harms = self.faults["kill"] + self.faults["hang"]
        return "; ".join(
            [
                f"{harms} kills and hangs ({_list(self.faults)})",
                f"operations: {_list(self.outcomes)}",
                ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in kinds),
                f"the longest context took {1000 * self.longest_context:.0f} ms",
                *said,
            ]
        )


def _list(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counter.items()) if number)


@dataclass
class Deletions:
    """The points of deletions that took long: a node may delete them late, when they were written again."""

    late: set[PointId] = field(default_factory=set)

    def note(self, request: httpx.Request) -> None:
        """Note the points that a request deletes."""
        if request.url.path.endswith("/points/delete"):
            self.late.update(PointId(UUID(each)) for each in json.loads(request.content).get("points") or ())


@dataclass
class Wounded:
    """A store, its clients and the faults of its nodes."""

    clients: list[Knowledge]
    designers: list[Knowledge]
    """Clients whose settings ask for one layout each."""
    faults: NodeFaults
    clock: SetClock
    rng: random.Random
    deletions: Deletions
    model: Model = field(default_factory=Model)
    found: Wounds = field(default_factory=Wounds)
    deleted: set[EntryId] = field(default_factory=set)
    _numbers: dict[int, EntryId] = field(default_factory=dict)
    """Of the lessons captured in this round that nobody is deleting."""
    _number: int = 0
    _captures: int = 0
    _asked: int = 0
    _working: bool = False

    def __post_init__(self) -> None:
        """Keep a context builder for each client, with breakers of its own."""
        self._builders = [OrchestratorContextBuilder(client) for client in self.clients]

    async def run(self, harms: int, progress: Callable[[Wounds], None] | None = None) -> Wounds:
        """Do so much harm, in rounds, and compare after each; return what came of it."""
        while (left := harms - self.faults.harms) > 0:
            await self.round(min(HARMS, left))
            self.found.faults = self.faults.done
            if progress:
                progress(self.found)
        return self.found

    async def round(self, harms: int) -> None:
        """Do harm while the clients work; heal, and compare."""
        self.clock.move(STEP)
        self._numbers, self._captures, self._working = {}, 0, True
        working = [asyncio.create_task(self._work(number)) for number in range(len(self.clients))]
        laying = asyncio.create_task(self._lay_out_now_and_then())
        try:
            await self.faults.harm(harms)
            await self.faults.heal()
        finally:
            self._working = False
            await asyncio.gather(*working, laying)
        await self._compare()

    # What goes on meanwhile

    async def _work(self, number: int) -> None:
        names = [name for name in CHANCES if name != "lay_out"]
        while self._working:
            self.clock.move(_TICK)
            (name,) = self.rng.choices(names, [CHANCES[name] for name in names])
            await self._try(name, getattr(self, f"_{name}")(number))
            await asyncio.sleep(0.005)

    async def _lay_out_now_and_then(self) -> None:
        while self._working:
            designer = self.rng.choice(self.designers)
            await self._try("lay_out", _lay_out(designer))
            await asyncio.sleep(self.rng.uniform(0.2, 1.0))

    async def _try(self, name: str, work: Awaitable[str]) -> None:
        """Do something, and count what came of it: only an index that is down may be an obstacle."""
        try:
            outcome = await work
        except IndexUnavailable as error:
            if name in {"capture", "repeat", "resolve", "delete", "ask"}:
                self.found.unexpected.append(f"{name}: {error}")
            outcome = "put off"
        except Exception as error:  # noqa: BLE001 - it is told
            self.found.unexpected.append(f"{name}: {type(error).__name__}: {error}")
            outcome = "failed"
        self.found.outcomes[f"{name} {outcome}"] += 1

    async def _capture(self, number: int) -> str:
        if self._captures >= CAPTURES:
            return "not done"
        self._captures += 1
        self._number += 1
        at, told = self._number, self._lesson(self._number)
        entry_id = await self.clients[number].capture.capture(told)
        self.model.captured(entry_id, told, self.clock.now())
        self._numbers[at] = entry_id
        return "done"

    def _lesson(self, number: int) -> NewEntry:
        """Return a lesson, one of five without its solution; the same for the same number."""
        told = lesson(number, sharing=1, cases=CASES)
        if number % 5 == 0 and told.entry_type != EntryType.GATE_APPROVAL:
            return replace(told, solution_steps=None, revision_approach=None, success_verified=False, verified_by=None)
        return told

    async def _repeat(self, number: int) -> str:
        """Tell an event of this round again."""
        if not self._numbers:
            return "not done"
        at = self.rng.choice(sorted(self._numbers))
        expected = self._numbers.pop(at)  # nobody deletes it meanwhile
        entry_id = await self.clients[number].capture.capture(self._lesson(at))
        if entry_id != expected:
            self.found.doubled.append(f"lesson {at} is {expected} and {entry_id}")
        self._numbers[at] = expected
        return "done"

    async def _resolve(self, number: int) -> str:
        open_now = [at for at, entry_id in self._numbers.items() if self.model.entries[entry_id].status == "open"]
        if not open_now:
            return "not done"
        at = self.rng.choice(open_now)
        entry_id = self._numbers.pop(at)
        known, whole = self.model.entries[entry_id], lesson(at, sharing=1, cases=CASES)
        capture = self.clients[number].capture
        if whole.entry_type == EntryType.FAILURE_SOLUTION:
            assert whole.solution_steps is not None
            await capture.resolve_failure(entry_id, solution_steps=whole.solution_steps, verified_by="a test")
        else:
            assert whole.revision_approach is not None
            await capture.resolve_gate_rejection(entry_id, revision_approach=whole.revision_approach)
        known.status = "staged"
        return "done"

    async def _delete(self, number: int) -> str:
        """Delete an entry of this round, or one that was embedded in the round before."""
        if self._numbers and self.rng.random() < 0.6:
            entry_id = self._numbers.pop(self.rng.choice(sorted(self._numbers)[-_RECENT:]))
        else:
            this_round = set(self._numbers.values())
            older = [i for i, known in self.model.entries.items() if known.status == "embedded" and i not in this_round]
            if not older:
                return "not done"
            entry_id = self.rng.choice(older)
        del self.model.entries[entry_id]
        self.deleted.add(entry_id)
        try:
            await self.clients[number].capture.delete(entry_id)
        except NotFound:
            return "too late"  # it had expired, and a prune was quicker
        return "done"

    async def _checkpoint(self, number: int) -> str:
        checkpoints = self.clients[number].checkpoints
        if self.rng.random() < 0.5:
            await checkpoints.process_all()
        else:
            await checkpoints.process_checkpoint(f"project {self.rng.randrange(5)}", "phase_completion")
        return "done"

    async def _prune(self, number: int) -> str:
        await self.clients[number].pruning.prune()
        return "done"

    async def _verify(self, number: int) -> str:
        report = await self.clients[number].upkeep.verify()
        return "sound" if report.sound else "different"

    async def _sweep(self, number: int) -> str:
        await self.clients[number].checkpoints.sweep(staged_for=timedelta(0))
        return "done"

    async def _query(self, number: int) -> str:
        found = await _ask_for(self.clients[number], self._any_lesson())
        return "answered" if found else "without matches"

    async def _ask(self, number: int) -> str:
        self._asked += 1
        told = self._any_lesson()
        description = told.task_description or told.failure_description or told.proposal or ""
        task = Task(description=description, project_id="project 1", task_id=f"A{self._asked}")
        began = time.perf_counter()
        context = await self._builders[number].build_context_for_task(task, "agent 0")
        self.found.longest_context = max(self.found.longest_context, time.perf_counter() - began)
        return "degraded" if context.degraded else "answered"

    def _any_lesson(self) -> NewEntry:
        return lesson(self.rng.randrange(CASES), sharing=1, cases=CASES)

    # What must be true afterwards

    async def _compare(self) -> None:
        """Let the jobs of an hour run, and compare the stores with the model."""
        knowledge, at = self.clients[0], f"round {self.faults.done['healing']}"
        for point in await lacking_points(knowledge) - self.deletions.late:
            self.found.lost.append(f"{at}: point {point} of a marked entry is not in the index")
        self.deletions.late.clear()
        for name in ("sweep", "reconcile", "prune"):
            await JOBS[name].work(knowledge)
        await knowledge.checkpoints.process_all()
        self.model.embed(self.clock.now())
        self.model.prune(self.clock.now())
        for client in self.clients[:2]:
            report = await client.upkeep.verify()
            if not report.sound or report.repaired:
                self.found.unsound.append(f"{at}: {report}")
        truth = await examine(knowledge, list(self.model.entries), deleted=self.deleted)
        self.found.lost += [f"{at}: {each}" for each in truth.lost]
        self.found.doubled += [f"{at}: {each}" for each in truth.doubled]
        self.found.wrong += [f"{at}: {each}" for each in truth.wrong]
        statuses = {name: number for name, number in (await knowledge.stats()).entries.items() if number}
        if statuses != dict(self.model.statuses()):
            self.found.wrong.append(f"{at}: {statuses}, not {dict(self.model.statuses())}")
        if await _counts(knowledge) != self.model.counts():
            self.found.wrong.append(f"{at}: the patterns' counts are others")
        embedded = sorted(i for i, known in self.model.entries.items() if known.status == "embedded")
        for entry_id in self.rng.sample(embedded, min(SAMPLE, len(embedded))):
            told = self.model.entries[entry_id].told
            if not await _ask_for(knowledge, told):
                self.found.lost.append(f"{at}: {entry_id} is not found by its own text")


async def _lay_out(designer: Knowledge) -> str:
    try:
        report = await designer.store_upkeep.rebuild_layout()
    except Conflict:
        return "refused beside another"
    return "changed" if report.layout_changes else "as it is"


async def _ask_for(knowledge: Knowledge, told: NewEntry) -> bool:
    """Return whether a lesson is found by its own text."""
    if told.failure_description is not None:
        found = await knowledge.queries.query_for_failure(told.failure_description, min_relevance=0, max_results=50)
        return any(pattern.problem == told.failure_description for pattern in found)
    assert told.proposal is not None
    assert told.gate_type is not None
    found = await knowledge.queries.query_for_gate(told.gate_type, told.proposal, min_relevance=0, max_results=50)
    return any(pattern.problem.startswith(told.proposal) for pattern in found)


async def _counts(knowledge: Knowledge) -> Counter[tuple[int, int, int]]:
    counts = (patterns.c.success_count, patterns.c.attempt_count, patterns.c.project_count)
    async with knowledge.engine.connect() as connection:
        rows = await connection.execute(sa.select(*counts).where(patterns.c.success_count > 0))
        return Counter((row[0], row[1], row[2]) for row in rows)


@contextmanager
def scaled_times(counted: Counter[str], deletions: Deletions | None = None) -> Iterator[None]:
    """Shorten the waits of the adapter and of checkpoints, and their batches, so that more happens.

    Counts the writes that were sent to a second node because the first hung.
    """
    has_hung, send = nodes._Attempts._hangs, nodes._Attempts.run

    async def run(attempts: nodes._Attempts) -> httpx.Response:
        began = time.monotonic()
        try:
            return await send(attempts)
        finally:
            if deletions is not None and time.monotonic() - began > _LATE_SECONDS:
                deletions.note(attempts.request)

    async def hangs(attempts: nodes._Attempts) -> bool:
        hung = await has_hung(attempts)
        counted["write sent to a second node"] += hung
        return hung

    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in TIMES.items():
            patch.setattr(nodes, name, seconds)
        patch.setattr(nodes._Attempts, "_hangs", hangs)
        patch.setattr(nodes._Attempts, "run", run)
        patch.setattr(pipeline, "_POLL_SECONDS", 0.05)
        patch.setattr(services, "CHECKPOINT_BATCH", 4)
        yield


@asynccontextmanager
async def wounded(
    settings: KnowledgeSettings, cluster: QdrantClusterProcess, seed: int, *, clients: int = 4
) -> AsyncIterator[Wounded]:
    """Open a store on a cluster for several clients."""
    clock, rng = SetClock(), random.Random(seed)
    on_cluster = settings.model_copy(update={"qdrant_url": ",".join(cluster.urls), "qdrant_replication": 2})
    asked = [on_cluster] * clients + [
        on_cluster.model_copy(update={"qdrant_shards": shards, "qdrant_replication": replicas})
        for shards, replicas in LAYOUTS
    ]
    found, deletions = Wounds(), Deletions()
    with scaled_times(found.outcomes, deletions):
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(open_knowledge(each, embedder=HashingEmbedder(dims=64), clock=clock))
                for each in asked
            ]
            faults = NodeFaults(cluster, random.Random(seed + 1))
            yield Wounded(opened[:clients], opened[clients:], faults, clock, rng, deletions, found=found)
