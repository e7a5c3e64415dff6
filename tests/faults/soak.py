"""A soak against a model: random operations on the real stores, and dictionaries that say what must be there (G23).

`python -m tests.faults.soak --operations 200000 --seed N`; each walk prints its seed, and `--walks 1` with it repeats
the same operations.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from knowledge.adapters.postgres.tables import patterns
from knowledge.errors import NotFound, NotOpen
from knowledge.memory.retention import add_years
from knowledge.models import EntryId, EntryType, NewEntry
from knowledge.wiring import Knowledge, open_knowledge
from tests.conftest import SetClock
from tests.faults.ground import Ground, ground, make_template
from tests.faults.herd import ROOT, Herd, entry_ids
from tests.faults.lessons import lesson
from tests.faults.truth import examine
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import throwaway_postgres

CASES = 40
UNRESOLVED = timedelta(days=90)
COMPARED_EVERY = 200
TOLD_EVERY = 5_000


@dataclass(kw_only=True)
class _Known:
    """What the model knows of an entry."""

    told: NewEntry
    status: str
    captured_at: datetime
    expires_at: datetime | None = None

    @property
    def case(self) -> tuple[str, str]:
        """What entries of one pattern have in common: the numbers in the lessons' words."""
        return self.told.entry_type, self.told.failure_description or self.told.proposal or ""


class Diverged(AssertionError):
    """The stores hold something else than the model."""


@dataclass
class Model:
    """The entries as they must be."""

    entries: dict[EntryId, _Known] = field(default_factory=dict)

    def captured(self, entry_id: EntryId, told: NewEntry, now: datetime) -> None:
        if entry_id not in self.entries:  # a repeated event is the entry that is there
            ready = told.solution_steps or told.revision_approach or told.approved_approach
            self.entries[entry_id] = _Known(told=told, status="staged" if ready else "open", captured_at=now)

    def embed(self, now: datetime, *, project: str | None = None, vouched: bool = False) -> int:
        taken = [known for known in self._of(project, "staged") if not vouched or self._vouched(known)]
        for known in taken:
            known.status, known.expires_at = "embedded", add_years(now, 1)
        return len(taken)

    def abandon(self, project: str, *, unvouched: bool) -> None:
        for known in self._of(project, "open"):
            known.status = "abandoned"
        for known in self._of(project, "staged"):
            if unvouched and not self._vouched(known):
                known.status = "abandoned"

    def prune(self, now: datetime) -> int:
        gone = [i for i, known in self.entries.items() if known.expires_at and known.expires_at <= now]
        never = [
            i
            for i, known in self.entries.items()
            if known.status in {"open", "abandoned"} and known.captured_at < now - UNRESOLVED
        ]
        for entry_id in gone + never:
            del self.entries[entry_id]
        return len(gone)

    def statuses(self) -> Counter[str]:
        return Counter(known.status for known in self.entries.values())

    def counts(self) -> Counter[tuple[int, int]]:
        """Return how many patterns have how many successes in how many projects."""
        events: dict[tuple[str, str], set[tuple[str, str, str]]] = defaultdict(set)
        for entry_id, known in self.entries.items():
            if known.status == "embedded":
                told = known.told
                events[known.case].add((told.project_id, told.task_id or str(entry_id), told.run_id or ""))
        return Counter((len(of), len({project for project, _, _ in of})) for of in events.values())

    def successes(self, told: NewEntry, now: datetime) -> int | None:
        """Return how often a failure was solved, None where no evidence of it is live."""
        case = _Known(told=told, status="", captured_at=now).case
        behind = [known for known in self.entries.values() if known.case == case and known.status == "embedded"]
        if not any(known.expires_at and known.expires_at > now for known in behind):
            return None
        return len({(known.told.project_id, known.told.task_id, known.told.run_id) for known in behind})

    def _of(self, project: str | None, status: str) -> list[_Known]:
        return [k for k in self.entries.values() if k.status == status and project in {None, k.told.project_id}]

    @staticmethod
    def _vouched(known: _Known) -> bool:
        return known.told.entry_type != EntryType.FAILURE_SOLUTION or known.told.verified_by is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What a killed process had acknowledged, and what it was about to capture."""

    ids: set[EntryId]
    told: list[NewEntry]


@dataclass
class Soak:
    """A walk over one store."""

    ground: Ground
    rng: random.Random
    clock: SetClock = field(default_factory=SetClock)
    model: Model = field(default_factory=Model)
    did: Counter[str] = field(default_factory=Counter)
    number: int = 0
    deleted: list[EntryId] = field(default_factory=list)

    async def walk(self, operations: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Do so many random operations; raise Diverged where the stores are not what the model says."""
        chances = {
            "capture": 40, "resolve": 8, "query": 20, "checkpoint": 8, "end_project": 3,
            "delete": 6, "prune": 3, "reopen": 0.2, "kill": 0.3,
        }  # fmt: skip
        done = 0
        killed: Killed | None = None
        while done < operations:
            again = True
            async with self._open() as knowledge:
                if killed is not None:
                    await self._come_back(knowledge, killed)
                    killed = None
                await self._compare(knowledge)
                while again and done < operations:
                    (name,) = self.rng.choices(list(chances), list(chances.values()))
                    done += 1
                    self.did[name] += 1
                    again = name not in {"reopen", "kill"}
                    if again:
                        await getattr(self, f"_{name}")(knowledge)
                    if done % COMPARED_EVERY == 0:
                        await self._compare(knowledge)
                    if progress and done % TOLD_EVERY == 0:
                        progress(done, operations)
            if name == "kill":
                killed = await self._kill()
        async with self._open() as knowledge:
            if killed is not None:
                await self._come_back(knowledge, killed)
            await self._compare(knowledge)

    def _open(self) -> AbstractAsyncContextManager[Knowledge]:
        return open_knowledge(self.ground.settings(), embedder=HashingEmbedder(dims=64), clock=self.clock)

    def _lesson(self) -> NewEntry:
        self.number += 1
        told = lesson(self.number, sharing=1, cases=CASES)
        if self.rng.random() < 0.2 and told.entry_type != EntryType.GATE_APPROVAL:
            told = replace(told, solution_steps=None, revision_approach=None, success_verified=False, verified_by=None)
        if self.rng.random() < 0.1:  # an event of before, told again
            self.number = max(1, self.number - self.rng.randrange(5))
        return told

    async def _capture(self, knowledge: Knowledge) -> None:
        told = self._lesson()
        self.model.captured(await knowledge.capture.capture(told), told, self.clock.now())

    async def _resolve(self, knowledge: Knowledge) -> None:
        entry_id = self._any("open", "abandoned")
        if entry_id is None:
            return
        known = self.model.entries[entry_id]
        case = int((known.told.failure_description or known.told.proposal or "").split(" in case ")[1].split()[0])
        try:
            if known.told.entry_type == EntryType.FAILURE_SOLUTION:
                await knowledge.capture.resolve_failure(entry_id, solution_steps=f"mend {case}", verified_by="a test")
                known.told = replace(known.told, verified_by="a test")
            else:
                await knowledge.capture.resolve_gate_rejection(entry_id, revision_approach=f"rather {case}")
        except NotOpen:
            self._must(known.status == "abandoned", f"{entry_id} cannot be resolved, but it is {known.status}")
            return
        self._must(known.status == "open", f"{entry_id} was {known.status} and could be resolved")
        known.status = "staged"

    async def _checkpoint(self, knowledge: Knowledge) -> None:
        project = self.rng.choice([None, *(f"project {number}" for number in range(5))])
        expected = self.model.embed(self.clock.now(), project=project)
        if project is None:
            report = await knowledge.checkpoints.process_all()
        else:
            report = await knowledge.checkpoints.process_checkpoint(project, "phase_completion")
        self._must(report.embedded == expected, f"embedded {report.embedded}, not {expected}")

    async def _end_project(self, knowledge: Knowledge) -> None:
        project = f"project {self.rng.randrange(5)}"
        kind = self.rng.choice(["project_completion", "cancellation"])
        self.model.abandon(project, unvouched=kind == "cancellation")
        expected = self.model.embed(self.clock.now(), project=project, vouched=kind == "cancellation")
        report = await knowledge.checkpoints.process_checkpoint(project, kind)
        self._must(report.embedded == expected, f"embedded {report.embedded}, not {expected}")

    async def _delete(self, knowledge: Knowledge) -> None:
        entry_id = self._any("open", "staged", "embedded", "abandoned")
        if entry_id is not None:
            await knowledge.capture.delete(entry_id)
            del self.model.entries[entry_id]
            self.deleted.append(entry_id)
        gone = self.rng.choice(self.deleted) if self.deleted else None
        if gone is not None:
            try:
                await knowledge.capture.delete(gone)
            except NotFound:
                return
            raise Diverged(f"{gone} was deleted twice")

    async def _prune(self, knowledge: Knowledge) -> None:
        self.clock.move(timedelta(days=self.rng.randrange(120), seconds=self.rng.randrange(86400)))
        expected = self.model.prune(self.clock.now())
        pruned = await knowledge.pruning.prune_old_knowledge()
        self._must(pruned == expected, f"pruned {pruned}, not {expected}")

    async def _query(self, knowledge: Knowledge) -> None:
        told = lesson(3 * self.rng.randrange(CASES), sharing=1, cases=CASES)
        if told.failure_description is None:
            return
        found = await knowledge.queries.query_for_failure(told.failure_description, min_relevance=0, max_results=50)
        counts = [pattern.success_count for pattern in found if pattern.problem == told.failure_description]
        expected = self.model.successes(told, self.clock.now())
        self._must(counts == ([] if expected is None else [expected]), f"{told} is shown as {counts}, not {expected}")

    async def _kill(self) -> Killed:
        """Let another process capture and be killed at its checkpoint; what it had acknowledged is embedded later."""
        first, number = self.number + 1, self.rng.randrange(1, 8)
        self.number += number
        before = entry_ids(self.ground.heard("captured"))
        place = self.rng.choice(["entries.claim:after", "deciding.commit:after", "index.upsert:after"])
        now = self.clock.now()
        job = {
            "captures": number,
            "sharing": 1,
            "cases": CASES,
            "now": now.isoformat(),
            "trips": {f"{place}:1": "kill"},
        }
        await asyncio.to_thread(lambda: self.ground.herd.run(replace(self.ground.job(**job), first=first)))
        ids = entry_ids(self.ground.heard("captured")) - before
        return Killed(ids=ids, told=[lesson(at, sharing=1, cases=CASES) for at in range(first, first + number)])

    async def _come_back(self, knowledge: Knowledge, killed: Killed) -> None:
        now = self.clock.now()
        for entry_id in killed.ids:
            stored = await knowledge.capture.get(entry_id)
            self.model.captured(entry_id, next(one for one in killed.told if one.run_id == stored.run_id), now)
        await knowledge.checkpoints.process_all()
        self.model.embed(now)

    def _any(self, *statuses: str) -> EntryId | None:
        fitting = [i for i, known in self.model.entries.items() if known.status in statuses]
        return self.rng.choice(fitting) if fitting else None

    async def _compare(self, knowledge: Knowledge) -> None:
        """Compare statuses and counts with the model, and the index with Postgres."""
        stats = await knowledge.stats()
        self._must(dict(stats.entries) == dict(self.model.statuses()), f"{stats.entries} != {self.model.statuses()}")
        alive = {i for i, known in self.model.entries.items() if known.status != "staged"}
        staged = self.model.statuses()["staged"]
        truth = await examine(knowledge, alive, deleted=self.deleted)
        found = replace(truth, lost=tuple(said for said in truth.lost if "is still staged" not in said))
        self._must(found.sound and len(truth.lost) - len(found.lost) == staged, str(found))
        self._must(await _counts(knowledge) == self.model.counts(), "the patterns' counts are others")

    def _must(self, true: bool, else_say: str) -> None:  # noqa: FBT001
        if not true:
            raise Diverged(f"after {self.did.total()} operations: {else_say}")


async def _counts(knowledge: Knowledge) -> Counter[tuple[int, int]]:
    live = sa.select(patterns.c.success_count, patterns.c.project_count).where(patterns.c.success_count > 0)
    async with knowledge.engine.connect() as connection:
        return Counter((row.success_count, row.project_count) for row in await connection.execute(live))


def walk(operations: int, seed: int) -> int:
    """Walk over one store, and say what came of it."""
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        said = f"seed {seed}: {done:,} of {total:,} operations, {time.monotonic() - began:.0f} s"
        print(said, flush=True)  # noqa: T201

    tell(0, operations)
    with throwaway_postgres() as server, Herd() as herd:
        asyncio.run(make_template(server.dsn))
        with ground(herd, server.dsn) as made:
            soak = Soak(made, random.Random(seed))
            try:
                asyncio.run(soak.walk(operations, tell))
            except Diverged as diverged:
                print(f"seed {seed}: DIVERGED {diverged}")  # noqa: T201
                return 1
    seconds = time.monotonic() - began
    print(f"seed {seed}: 0 divergences in {seconds:.0f} s; {dict(soak.did)}")  # noqa: T201
    return 0


def walk_together(walks: int, operations: int, seed: int) -> int:
    """Walk in so many processes at once, each over a store of its own with a seed of its own."""
    command = [sys.executable, "-m", "tests.faults.soak", "--walks", "1"]
    shares = [operations // walks + (number < operations % walks) for number in range(walks)]
    running = [
        subprocess.Popen([*command, "--operations", str(share), "--seed", str(seed + number)], cwd=ROOT)
        for number, share in enumerate(shares)
    ]
    try:
        return max(process.wait() for process in running)
    finally:
        for process in running:
            process.terminate()


def main() -> int:
    """Walk as asked."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--operations", type=int, default=200_000)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--walks", type=int, default=os.cpu_count() or 1, help="how many at once, a store each")
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if given.walks == 1:
        return walk(given.operations, given.seed)
    began = time.monotonic()
    failed = walk_together(given.walks, given.operations, given.seed)
    said = "DIVERGED" if failed else "0 divergences"
    print(f"{given.operations} operations in {given.walks} walks: {said}, {time.monotonic() - began:.0f} s in all")  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(main())
