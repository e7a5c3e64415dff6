"""Many callers of two workspaces at once over few connections: each must find its own, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from knowledge.models import ContextId, EntryId, PatternId, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.isolation.leaks import CASES, own
from tests.support.entries import failure

_WEIGHTS = {"capture": 30, "query": 20, "context": 15, "entry_by_id": 10, "outcome": 10, "list": 12, "checkpoint": 3}


class Empty(AssertionError):
    """A read found nothing, though something was stored and embedded before."""


@dataclass
class _Shared:
    """What the callers of a workspace know of it."""

    entries: list[EntryId] = field(default_factory=list)
    patterns: list[PatternId] = field(default_factory=list)
    contexts: list[ContextId] = field(default_factory=list)


class Crowd:
    """Callers of the workspaces of a store."""

    def __init__(self, store: Knowledge, *, workspaces: int = 2, seed: int = 1) -> None:
        self._of = [store.in_workspace(f"workspace {number}") for number in range(workspaces)]
        self._known = [_Shared() for _ in self._of]
        self._chance = random.Random(seed)
        self._told = 0
        self.done: Counter[str] = Counter()

    async def work(self, operations: int, *, callers: int) -> None:
        """Do so many operations, by so many callers at once; raises the first error of any of them."""
        for here, knowledge in enumerate(self._of):
            for case in CASES:
                self._known[here].entries.append(await knowledge.capture.capture(self._entry(here, case)))
            await knowledge.checkpoints.process_all()
            await self._context(here)
        left = iter(range(operations))
        async with asyncio.TaskGroup() as group:
            for caller in range(callers):
                group.create_task(self._call(caller % len(self._of), left))

    async def _call(self, here: int, left: Iterator[int]) -> None:
        acts = [getattr(self, f"_{name}") for name in _WEIGHTS]
        for _ in left:
            (act,) = self._chance.choices(acts, list(_WEIGHTS.values()))
            await act(here)
            self.done[act.__name__.lstrip("_")] += 1

    def _entry(self, here: int, case: str) -> Any:
        self._told += 1
        return failure(
            project_id=f"project {self._chance.randrange(3)}",
            failure_description=f"{case} mark{here}x",
            solution_steps=f"Mend it as mark{here}x says, way {self._chance.randrange(4)}",
            task_id=f"T-{self._chance.randrange(20)}",
            run_id=str(self._told),
        )

    async def _capture(self, here: int) -> None:
        new = self._entry(here, self._chance.choice(CASES))
        self._known[here].entries.append(await self._of[here].capture.capture(new))

    async def _query(self, here: int) -> None:
        found = await self._of[here].queries.query_for_failure(self._chance.choice(CASES), min_relevance=0.0)
        self._look(here, found)
        self._known[here].patterns = [pattern.pattern_id for pattern in found]

    async def _context(self, here: int) -> None:
        task = Task(description=self._chance.choice(CASES), project_id="project 1", task_id="T-1")
        context = await OrchestratorContextBuilder(self._of[here]).build_context_for_task(task, "backend")
        self._look(here, context.patterns, f"{context.reason}, degraded: {context.degraded}")
        own(here, context)
        self._known[here].contexts.append(context.context_id)
        self._known[here].patterns = [pattern.pattern_id for pattern in context.patterns]

    async def _entry_by_id(self, here: int) -> None:
        own(here, await self._of[here].capture.get(self._chance.choice(self._known[here].entries)))

    async def _outcome(self, here: int) -> None:
        task = Task(description=self._chance.choice(CASES), project_id="project 1", task_id="T-1")
        context = await OrchestratorContextBuilder(self._of[here]).build_context_for_task(task, "backend")
        self._look(here, context.patterns, f"{context.reason}, degraded: {context.degraded}")
        told = context.context_id, context.patterns[0].pattern_id
        await self._of[here].outcomes.record_outcome(*told, worked=True)  # what fails often is not shown

    async def _list(self, here: int) -> None:
        self._look(here, await self._of[here].lists.patterns(limit=10))
        stats = await self._of[here].stats()
        if not stats.patterns or not sum(stats.entries.values()):
            raise Empty(f"workspace {here} has lost its counts")

    async def _checkpoint(self, here: int) -> None:
        await self._of[here].checkpoints.process_all()

    async def end_in_a_workspace(self) -> None:
        """Read an entry: heads of the whole store may have been the last that was read and written."""
        await self._entry_by_id(0)

    def _look(self, here: int, found: object, reason: str = "") -> None:
        if not found:
            raise Empty(f"workspace {here} found nothing {reason}")
        own(here, found)
