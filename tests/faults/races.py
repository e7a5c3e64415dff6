"""Prune, checkpoints and deletions at the same time, in random order: every call waits for a random moment first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from hardwon.errors import NotFound
from knowledge.models import EntryId
from knowledge.wiring import services
from knowledge.wiring.open import Knowledge, open_knowledge
from tests.conftest import SetClock
from tests.faults.ground import Ground
from tests.faults.lessons import lesson
from tests.faults.truth import Truth, examine
from tests.support.embedders import HashingEmbedder
from tests.support.faults import wired

STEP = timedelta(days=200)
"""What is embedded in one round is there in the next, and has expired in the one after that."""
LONGEST_WAIT = 0.004


@dataclass
class Races:
    """A store in which everything happens at once; `truths` is what was found after each round."""

    knowledge: Knowledge
    clock: SetClock
    rng: random.Random
    number: int = 0
    alive: dict[EntryId, int] = field(default_factory=dict)
    deleted: set[EntryId] = field(default_factory=set)
    truths: list[Truth] = field(default_factory=list)
    calls: int = 0

    async def round(self) -> Truth:
        """Let two checkpoints, a prune and deletions run at once, and compare the accounts afterwards."""
        self.clock.move(STEP)
        at = len(self.truths)
        for number in range(self.number, self.number + 12):
            entry_id = await self.knowledge.capture.capture(lesson(number, sharing=1, cases=8))
            self.alive[entry_id] = at
        self.number += 12
        doomed = self.rng.sample(sorted(self.alive), min(len(self.alive), 4))
        shuffled = [wired(self.knowledge, self._wait) for _ in range(4)]
        await asyncio.gather(
            shuffled[0].checkpoints.process_all(),
            shuffled[1].checkpoints.process_all(),
            shuffled[2].pruning.prune(),
            *(self._delete(shuffled[3], entry_id) for entry_id in doomed),
        )
        await self.knowledge.checkpoints.process_all()
        await self.knowledge.pruning.prune()
        expected = {i for i, born in self.alive.items() if born >= at - 1} - self.deleted
        self.alive = {i: born for i, born in self.alive.items() if i in expected}
        truth = await examine(self.knowledge, expected, deleted=self.deleted)
        self.truths.append(truth)
        return truth

    async def _wait(self, place: str) -> None:
        self.calls += 1
        await asyncio.sleep(self.rng.random() ** 2 * LONGEST_WAIT)

    async def _delete(self, knowledge: Knowledge, entry_id: EntryId) -> None:
        await asyncio.sleep(self.rng.random() * 0.1)
        self.deleted.add(entry_id)
        try:
            await knowledge.capture.delete(entry_id)
        except NotFound:
            return  # it had expired, and the prune was quicker


@asynccontextmanager
async def races(ground: Ground, seed: int) -> AsyncIterator[Races]:
    """Open the store of a ground for races."""
    clock = SetClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "CHECKPOINT_BATCH", 3)
        async with open_knowledge(ground.settings(), embedder=HashingEmbedder(dims=64), clock=clock) as knowledge:
            yield Races(knowledge, clock, random.Random(seed))
