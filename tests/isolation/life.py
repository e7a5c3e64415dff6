"""Many workspaces in one store, told nearly the same, and random operations that must see one of them alone (T7)."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from hardwon.errors import HardwonError, InvalidInput, NotFound
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import points
from knowledge.models import ContextId, EntryId, PatternId, PointFilter, PointId, SparseVector, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import SetClock
from tests.isolation.leaks import CASES, Leak, own
from tests.isolation.papers import Papers
from tests.support.embedders import HashingEmbedder, hashed_bag
from tests.support.entries import failure

_STAYS = 8
"""Fewer operations than this are done in a workspace before another one has its turn, on the same connections."""


class Life:
    """Operations in workspaces of one store. Each told text bears the mark of its workspace."""

    def __init__(self, knowledge: Knowledge, workspaces: int, chance: random.Random) -> None:
        self._chance = chance
        self._clock = knowledge.stores.clock
        self._of = [knowledge.in_workspace(f"workspace {number}") for number in range(workspaces)]
        self._store = knowledge
        self._entries: defaultdict[int, list[EntryId]] = defaultdict(list)
        self._patterns: defaultdict[int, list[PatternId]] = defaultdict(list)
        self._contexts: defaultdict[int, list[ContextId]] = defaultdict(list)
        self._told = 0
        self.done: Counter[str] = Counter()
        self._papers = Papers(self._of, chance, self._there)
        self._acts = {
            self._capture: 24,
            self._query: 12,
            self._context: 5,
            self._entry: 10,
            self._pattern: 10,
            self._foreign: 18,
            self._search: 8,
            self._scan: 3,
            self._outcome: 5,
            self._delete: 3,
            self._checkpoint: 1,
            self._grouping: 0.5,
            **self._papers.acts,
        }

    async def live(self, operations: int) -> None:
        """Do so many operations, a few in one workspace, then in the next; raise Leak at the first that leaks."""
        for here in range(len(self._of)):  # something is to be found in each of them
            await self._capture(here)
            await self._checkpoint(here)
            await self._papers.begin(here)
        acts, weights = list(self._acts), list(self._acts.values())
        left = operations
        while left > 0:
            here = self._chance.randrange(len(self._of))
            for act in self._chance.choices(acts, weights, k=min(left, self._chance.randrange(1, _STAYS))):
                await act(here)
                self.done[act.__name__.lstrip("_")] += 1
                left -= 1

    def _there(self, here: int) -> int:
        """Return another workspace."""
        return (here + self._chance.randrange(1, len(self._of))) % len(self._of)

    async def _capture(self, here: int) -> None:
        told = [self._entry_of(here) for _ in range(self._chance.choice((1, 1, 1, 4)))]
        for captured in await self._of[here].capture.capture_all(told):
            if captured.entry_id is not None:
                self._entries[here].append(captured.entry_id)

    def _entry_of(self, here: int) -> Any:
        self._told += 1
        return failure(
            project_id=f"project {self._chance.randrange(3)}",  # the same names in all of them
            failure_description=f"{self._chance.choice(CASES)} mark{here}x",
            solution_steps=f"Mend it as mark{here}x says, way {self._chance.randrange(4)}",
            task_id=f"T-{self._chance.randrange(20)}",
            run_id=str(self._told),
        )

    async def _query(self, here: int) -> None:
        found = await self._of[here].queries.query_for_failure(
            self._chance.choice(CASES), min_relevance=0.0, max_results=self._chance.choice((1, 3, 10))
        )
        own(here, found)
        self._patterns[here] = [*self._patterns[here][-5:], *(pattern.pattern_id for pattern in found)]

    async def _context(self, here: int) -> None:
        task = Task(description=self._chance.choice(CASES), project_id="project 1", task_id="T-1")
        context = await OrchestratorContextBuilder(self._of[here]).build_context_for_task(task, "backend")
        own(here, context)
        if context.patterns:
            self._contexts[here] = [*self._contexts[here][-5:], context.context_id]

    async def _entry(self, here: int) -> None:
        if self._entries[here]:
            with suppress(NotFound):
                own(here, await self._of[here].capture.get(self._chance.choice(self._entries[here])))

    async def _pattern(self, here: int) -> None:
        if self._patterns[here]:
            with suppress(NotFound):
                own(here, await self._of[here].queries.get(self._chance.choice(self._patterns[here])))

    async def _foreign(self, here: int) -> None:
        """Ask for, change and delete what is another's, by its id."""
        there = self._there(here)
        ours = self._of[here]
        if not self._entries[there]:
            return
        entry_id = self._chance.choice(self._entries[there])
        acts = [ours.capture.get, ours.capture.delete]
        with suppress(NotFound):
            await self._chance.choice(acts)(entry_id)
            raise Leak(f"workspace {here} reached entry {entry_id} of {there}")
        for pattern_id in self._patterns[there][:1]:
            with suppress(NotFound):
                await self._chance.choice([ours.queries.get, ours.grouping.show])(pattern_id)
                raise Leak(f"workspace {here} was shown pattern {pattern_id} of {there}")
        for context_id in self._contexts[there][:1]:
            with suppress(NotFound):
                await ours.outcomes.record_outcome(context_id, PatternId(entry_id), worked=True)
                raise Leak(f"workspace {here} told an outcome of context {context_id} of {there}")

    async def _search(self, here: int) -> None:
        """Ask the index itself: Postgres would leave out what is another's, so no query shows that it was found."""
        stores = self._of[here].stores
        bound = await stores.spaces.bound()
        if bound is None:
            return
        dense = hashed_bag(self._chance.choice(CASES), dims=bound.space.dims)
        where = PointFilter(workspace=stores.workspace, live_at=self._clock.now())
        lexical = SparseVector(indices=(), values=())
        hits = await stores.index.search(bound.space, dense, lexical, where, limit=20)
        await self._owned(here, [hit.point_id for hit in hits])

    async def _owned(self, here: int, ids: list[PointId]) -> None:
        foreign = sa.select(points.c.workspace).where(
            points.c.id.in_(ids), points.c.workspace != self._of[here].workspace
        )
        async with autocommit(self._store.engine) as connection:
            if found := (await connection.execute(foreign)).scalars().all():
                raise Leak(f"the index showed workspace {here} points of {set(found)}")

    async def _scan(self, here: int) -> None:
        stores = self._of[here].stores
        bound = await stores.spaces.bound()
        if bound is not None:
            page = await stores.index.scan(bound.space, stores.workspace, after=None, limit=20)
            if any(point is None or point.workspace != stores.workspace for _, point in page):
                raise Leak(f"the index gave workspace {here} points of others")

    async def _outcome(self, here: int) -> None:
        if self._contexts[here] and self._patterns[here]:
            told = self._chance.choice(self._contexts[here]), self._chance.choice(self._patterns[here])
            with suppress(NotFound, InvalidInput):
                await self._of[here].outcomes.record_outcome(*told, worked=self._chance.random() < 0.8)

    async def _delete(self, here: int) -> None:
        if len(self._entries[here]) > 5:
            entry_id = self._entries[here].pop(self._chance.randrange(len(self._entries[here])))
            with suppress(NotFound):
                await self._of[here].capture.delete(entry_id)

    async def _checkpoint(self, here: int) -> None:
        with suppress(HardwonError):
            await self._of[here].checkpoints.process_all()

    async def _grouping(self, here: int) -> None:
        own(here, await self._of[here].grouping.suggest(limit=5))
        own(here, await self._of[here].stats())


@asynccontextmanager
async def one_store(dsn: str, home: Path, workspaces: int, seed: int) -> AsyncIterator[Life]:
    """Give workspaces on a database that is migrated and empty."""
    settings = KnowledgeSettings(home=home, database_url=SecretStr(dsn), redaction=False)
    embedder = HashingEmbedder(dims=64)
    async with open_knowledge(settings, clock=SetClock(), embedder=embedder) as knowledge:
        yield Life(knowledge, workspaces, random.Random(seed))
