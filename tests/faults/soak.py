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
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar

import sqlalchemy as sa
import structlog

from benchmarks.asked import at_least_one
from hardwon.errors import NotFound, NotOpen
from knowledge.adapters.postgres.memory_tables import patterns
from knowledge.models import EntryId, EntryType, NewEntry
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.faults.at_once import DIMS, MODELS, WORK, AtOnce, shown_of
from tests.faults.ground import Ground, ground, make_template
from tests.faults.herd import ROOT, Herd, entry_ids
from tests.faults.lessons import lesson
from tests.faults.model import Diverged, case_of
from tests.faults.telling import CASES, Telling, number_in
from tests.faults.truth import examine, lost_by_a_kill
from tests.integrity.edits import problems
from tests.support.archives import as_stream
from tests.support.embedders import HashingEmbedder
from tests.support.postgres import throwaway_postgres

FRESH = 10**7
"""Lessons told while other things go on have numbers from here on: none of them was told before."""

CHANCES = {
    "capture": 40, "resolve": 8, "query": 20, "checkpoint": 8, "end_project": 3,
    "delete": 6, "prune": 3, "at_once": 1, "reopen": 0.2, "kill": 0.3,
    "hand_out": 5, "outcome": 4, "event": 1, "echo": 3, "revoke": 0.3, "delete_pattern": 0.3, "delete_project": 0.1,
    "rotate_seal_key": 0.2, "archive": 0.1,
}  # fmt: skip
COMPARED_EVERY = 200
TOLD_EVERY = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What a killed process had acknowledged, and what it was about to capture."""

    ids: set[EntryId]
    told: list[NewEntry]
    at_work: str | None


@dataclass
class Soak(Telling):
    """A walk over one store; `chances` say how often it does what."""

    chances: ClassVar[Mapping[str, float]] = CHANCES
    ground: Ground = field(kw_only=True)
    did: Counter[str] = field(default_factory=Counter)
    number: int = 0
    fresh: int = FRESH
    embedding_model: str = MODELS[0]

    async def walk(self, operations: int, progress: Callable[[int, int], None] | None = None) -> None:
        """Do so many random operations; raise Diverged where the stores are not what the model says."""
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
                    (name,) = self.rng.choices(list(self.chances), list(self.chances.values()))
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
        embedder = HashingEmbedder(dims=DIMS, model=self.embedding_model)
        unhurried = self.ground.settings().model_copy(update={"query_deadline_ms": 60_000})
        return open_knowledge(unhurried, embedder=embedder, clock=self.clock)

    @property
    def _other_model(self) -> str:
        return MODELS[self.embedding_model == MODELS[0]]

    def _failure(self) -> str:
        """Return a failure of the lessons."""
        told = lesson(3 * self.rng.randrange(-(-CASES // 3)), sharing=1, cases=CASES).failure_description
        assert told is not None
        return told

    def _fresh_lesson(self) -> NewEntry:
        self.fresh += 1
        return lesson(self.fresh, sharing=1, cases=CASES)

    def _certain(self, gone: Collection[EntryId], fresh: Collection[NewEntry]) -> bool:
        """Whether it does not matter for outcomes when these entries go.

        What is told of a pattern goes with the last of its evidence: it matters whether some came before.
        """
        coming = {known.case for known in self.model.entries.values() if known.status == "staged"}
        coming |= {case_of(told) for told in fresh}
        return not any(
            case in coming and self.model.told_of(case) and not self.model.outlives(case, gone)
            for case in {self.model.entries[entry_id].case for entry_id in gone}
        )

    def _deletable(self, asked: str, now: datetime) -> EntryId | None:
        """Return an entry that nobody prunes or asks for, or None."""
        entry_id = self._any("staged", "embedded")
        if entry_id is None or self.rng.random() < 0.5:
            return None
        known = self.model.entries[entry_id]
        expired = known.expires_at is not None and known.expires_at <= now
        return None if expired or known.case[1] == asked else entry_id

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
        theirs, key_id = self._by_somebody(knowledge)
        self.model.captured(await theirs.capture.capture(told), told, self.clock.now(), key_id)

    async def _resolve(self, knowledge: Knowledge) -> None:
        entry_id = self._any("open", "abandoned")
        if entry_id is None:
            return
        known = self.model.entries[entry_id]
        case = number_in(known.case[1])
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
            self.model.remove([entry_id])
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

    async def _rotate_seal_key(self, knowledge: Knowledge) -> None:
        await knowledge.audits.rotate_seal_key()

    async def _archive(self, knowledge: Knowledge) -> None:
        """Export the store, and import that into it: nothing is new."""
        archive = b"".join([piece async for piece in knowledge.archives.export_archive()])
        report = await knowledge.archives.import_archive(as_stream(archive))
        self._must(not sum(report.new.values()), f"its own archive brought {report.new}")

    async def _query(self, knowledge: Knowledge) -> None:
        told = self._failure()
        found = await knowledge.queries.query_for_failure(told, min_relevance=0, max_results=50)
        counts = shown_of(found, told)
        expected = self.model.successes(told, self.clock.now())
        self._must(counts == ([] if expected is None else [expected]), f"{told} is shown as {counts}, not {expected}")

    async def _at_once(self, knowledge: Knowledge) -> None:
        """Let upkeep, captures, a deletion and questions go on while a checkpoint runs."""
        works = self.rng.sample(WORK, self.rng.randrange(1, 3))
        asked, told = self._failure(), [self._fresh_lesson() for _ in range(self.rng.randrange(4))]
        later = timedelta(days=self.rng.randrange(60)) if "prune" in works else timedelta(0)
        now = self.clock.now() + later
        deleting, expiring = self._deletable(asked, now), self.model.expired(now)
        if not self._certain({*expiring, *([deleting] if deleting else [])}, told):
            works, later, deleting = [each for each in works if each != "prune"], timedelta(0), None
        self.clock.move(later)
        now = self.clock.now()
        doing = AtOnce(
            knowledge=knowledge,
            rng=self.rng,
            works=works,
            to_model=self._other_model,
            told=told,
            deleting=deleting,
            asked=asked,
        )
        before = self.model.evidence(asked), self.model.successes(asked, now) is not None
        await doing.run()
        if "reembed" in works:
            self.embedding_model = self._other_model
        if "prune" in works:
            expected = self.model.prune(now)
            self._must(bool(doing.given_up) or doing.pruned == expected, f"pruned {doing.pruned}, not {expected}")
        fewest = self.model.evidence(asked)
        self._take_note(doing)
        most = before[0] + self.model.evidence(asked) - fewest
        shown = {count for count in doing.shown if count is not None}
        self._must(all(fewest <= count <= most for count in shown), f"{doing}: {shown} of {fewest} to {most} shown")
        there = before[1] and fewest and "rebuild" not in works
        self._must(not (there and doing.shown[None]), f"{doing}: {asked} was not shown {doing.shown[None]} times")
        await self._compare(knowledge, after=str(doing))

    def _take_note(self, doing: AtOnce) -> None:
        """Have the model hold what was captured, deleted and embedded."""
        now = self.clock.now()
        for entry_id, told in doing.captured:
            self.model.captured(entry_id, told, now)
        staged = 0
        if doing.deleting is not None:
            staged = self.model.entries[doing.deleting].status == "staged"
            self.model.remove([doing.deleting])
            self.deleted.append(doing.deleting)
        expected = self.model.embed(now)
        counted = bool(doing.given_up) or expected <= doing.embedded <= expected + staged
        self._must(counted, f"{doing} embedded {doing.embedded}, not {expected}")

    async def _kill(self) -> Killed:
        """Let another process capture and be killed at its checkpoint; what it had acknowledged is embedded later."""
        first, number = self.number + 1, self.rng.randrange(1, 8)
        self.number += number
        before = entry_ids(self.ground.heard("captured"))
        at_work = self.rng.choice([None, *WORK])
        place = self.rng.choice(["entries.claim:after", "deciding.commit:after", "index.upsert:after"])
        job = self.ground.job(
            captures=number,
            sharing=1,
            cases=CASES,
            now=self.clock.now().isoformat(),
            model=self.embedding_model,
            beside=at_work,
            to_model=self._other_model,
            trips={} if at_work else {f"{place}:1": "kill"},
        )
        seconds = self.rng.uniform(0, 0.15) if at_work else None
        await asyncio.to_thread(self.ground.run_until_killed, replace(job, first=first), seconds)
        ids = entry_ids(self.ground.heard("captured")) - before
        told = [lesson(at, sharing=1, cases=CASES) for at in range(first, first + number)]
        return Killed(ids=ids, told=told, at_work=at_work)

    async def _come_back(self, knowledge: Knowledge, killed: Killed) -> None:
        now = self.clock.now()
        if killed.at_work != "rebuild":
            lost = await lost_by_a_kill(knowledge)
            self._must(not lost, f"a kill at {killed.at_work}: {lost}")
        again = AtOnce(knowledge=knowledge, rng=self.rng, works=(), to_model=self._other_model)
        if killed.at_work is not None and killed.at_work != "rebuild":  # that one is finished by the checkpoint
            await getattr(again, killed.at_work)()
        if killed.at_work == "reembed":
            self.embedding_model = self._other_model
        for entry_id in killed.ids:
            stored = await knowledge.capture.get(entry_id)
            self.model.captured(entry_id, next(one for one in killed.told if one.run_id == stored.run_id), now)
        await again.checkpoint()
        self.model.embed(now)
        if killed.at_work == "prune":
            self.model.prune(now)

    def _any(self, *statuses: str) -> EntryId | None:
        fitting = [i for i, known in self.model.entries.items() if known.status in statuses]
        return self.rng.choice(fitting) if fitting else None

    async def _compare(self, knowledge: Knowledge, *, after: str = "") -> None:
        """Compare statuses and counts with the model, and the index with Postgres."""
        stats = await knowledge.stats()
        self._must(
            dict(stats.entries) == dict(self.model.statuses()), f"{after}: {stats.entries} != {self.model.statuses()}"
        )
        alive = {i for i, known in self.model.entries.items() if known.status != "staged"}
        staged = self.model.statuses()["staged"]
        truth = await examine(knowledge, alive, deleted=self.deleted)
        found = replace(truth, lost=tuple(said for said in truth.lost if "is still staged" not in said))
        self._must(found.sound and len(truth.lost) - len(found.lost) == staged, f"{after}: {found}")
        self._must(await _counts(knowledge) == self.model.counts(), f"{after}: the patterns' counts are others")
        altered = await problems(knowledge)
        self._must(not altered, f"{after}: what honest work left is taken for altered: {altered}")

    def _must(self, true: bool, else_say: str) -> None:  # noqa: FBT001
        if not true:
            raise Diverged(f"after {self.did.total()} operations: {else_say}")


async def _counts(knowledge: Knowledge) -> Counter[tuple[int, int, int]]:
    counts = (patterns.c.success_count, patterns.c.attempt_count, patterns.c.project_count)
    live = sa.select(*counts).where(patterns.c.success_count > 0)
    async with knowledge.engine.connect() as connection:
        return Counter((row[0], row[1], row[2]) for row in await connection.execute(live))


def walk(operations: int, seed: int, kind: type[Soak] = Soak) -> int:
    """Walk over one store, and say what came of it."""
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        said = f"seed {seed}: {done:,} of {total:,} operations, {time.monotonic() - began:.0f} s"
        print(said, flush=True)  # noqa: T201

    tell(0, operations)
    with throwaway_postgres() as server, Herd() as herd:
        asyncio.run(make_template(server.dsn))
        with ground(herd, server.dsn) as made:
            soak = kind(random.Random(seed), ground=made)
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
    asked.add_argument("--operations", type=at_least_one, default=200_000)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    asked.add_argument("--walks", type=at_least_one, default=os.cpu_count() or 1, help="how many at once, a store each")
    given = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    walks = min(given.walks, given.operations)
    if walks == 1:
        return walk(given.operations, given.seed)
    began = time.monotonic()
    failed = walk_together(walks, given.operations, given.seed)
    said = "DIVERGED" if failed else "0 divergences"
    print(f"{given.operations} operations in {walks} walks: {said}, {time.monotonic() - began:.0f} s in all")  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(main())
