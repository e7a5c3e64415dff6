"""What comes of contexts that were handed out, told by whom, and taken back: operations of the soak."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta

import sqlalchemy as sa

from hardwon.errors import NotFound
from hardwon.models.access import EntryFilter
from knowledge.access.principals import Principal, Scope, Trust
from knowledge.adapters.postgres.memory_tables import knowledge_staging, patterns
from knowledge.models import Context, ContextId, EntryId, NewEntry, PatternId, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import SetClock
from tests.faults.lessons import lesson
from tests.faults.model import Case, Diverged, Model, case_of

CASES = 40
AGENTS = ("agent1", "agent2")
"""Ids of keys that can capture only."""

REMEMBERED = 30
"""Contexts that something may yet be told of."""
_A_MOMENT = timedelta(milliseconds=1)


def of_case(number: int) -> NewEntry:
    """Return a lesson of a case."""
    return lesson(number, sharing=1, cases=CASES)


def case_in(said: str) -> Case:
    """Return the case that a text of a lesson is about."""
    return case_of(of_case(number_in(said)))


def number_in(said: str) -> int:
    """Return the number of that."""
    return int(said.split(" in case ")[1].split(maxsplit=1)[0])


@dataclass
class Telling:
    """The part of a walk that hands out contexts and hears what came of them."""

    rng: random.Random
    clock: SetClock = field(default_factory=SetClock)
    model: Model = field(default_factory=Model)
    deleted: list[EntryId] = field(default_factory=list)
    given: list[tuple[ContextId, PatternId]] = field(default_factory=list)
    cases: dict[PatternId, Case] = field(default_factory=dict)
    contexts: int = 0

    def _must(self, true: bool, else_say: str) -> None:  # noqa: FBT001
        """Raise Diverged unless something is as it must be."""
        raise NotImplementedError

    def _by_somebody(self, knowledge: Knowledge) -> tuple[Knowledge, str | None]:
        """Return the services as the owner has them, or an agent's key, and the id of that."""
        key_id = self.rng.choice(AGENTS) if self.rng.random() < 0.15 else None
        if key_id is None:
            return knowledge, None
        self.clock.move(_A_MOMENT)  # the first of what it tells counts: no two are told at once
        scopes = frozenset({Scope.CAPTURE})
        agent = Principal(trust=Trust.KEY, scopes=scopes, workspace=knowledge.workspace, key_id=key_id)
        return knowledge.for_principal(agent), key_id

    async def _handed_out(self, knowledge: Knowledge) -> tuple[Context, Task]:
        """Return a context that was built for a task of its own."""
        asked = of_case(self.rng.randrange(CASES))
        self.contexts += 1
        task = Task(
            description=asked.failure_description or asked.proposal or "",
            project_id=f"project {self.rng.randrange(5)}",
            task_id=f"H{self.contexts}",
            run_id="R1",
        )
        context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "agent 1")
        self._must(context.degraded is None, f"no context: {context.degraded}")
        return context, task

    async def _hand_out(self, knowledge: Knowledge) -> None:
        context, task = await self._handed_out(knowledge)
        shown = {each.pattern_id: case_in(each.problem) for each in context.patterns}
        if shown:
            self.model.handed_out(context.context_id, task, shown, self.clock.now())
        self.cases |= shown
        self.given = [*self.given, *((context.context_id, each) for each in shown)][-REMEMBERED:]

    async def _chosen(self, knowledge: Knowledge) -> tuple[ContextId, PatternId] | None:
        """Return a context and a pattern that was in it, both of which may be gone by now, or None.

        A pattern that has no evidence any more stays for as long as the index may still hold of it, and whoever tells
        the same meanwhile is evidence for it again, as the only difference between that one and a new one is its id.
        """
        if not self.given:
            return None
        ids = {pattern_id for _, pattern_id in self.given}
        has_entries = sa.exists().where(knowledge_staging.c.pattern_id == patterns.c.id)
        query = sa.select(patterns.c.id).where(patterns.c.id.in_(ids), has_entries)
        async with knowledge.engine.connect() as connection:
            there = {PatternId(each) for each in (await connection.execute(query)).scalars()}
        self._must(self.model.patterns.keys() & ids <= there, "a pattern that has evidence is gone")
        self.model.patterns |= {each: self.cases[each] for each in there}
        return self.rng.choice(self.given)

    async def _outcome(self, knowledge: Knowledge) -> None:
        chosen = await self._chosen(knowledge)
        if chosen is None:
            return
        context_id, pattern_id = chosen
        worked = self.rng.random() < 0.6
        expected = self.model.tell(context_id, pattern_id, worked=worked, now=self.clock.now())
        try:
            await knowledge.outcomes.record_outcome(context_id, pattern_id, worked=worked)
        except NotFound as error:
            self._must(not expected, f"an outcome of {pattern_id} was refused: {error}")
        else:
            self._must(expected, f"an outcome of {pattern_id} was taken, and it or its context is gone")

    async def _event(self, knowledge: Knowledge) -> None:
        """Let a task end well: the first hint handed out for it worked, unless something was told of that."""
        chosen = await self._chosen(knowledge)
        context_id, _ = chosen or (None, None)
        context = self.model.contexts.get(context_id) if context_id else None
        if context_id is None or context is None:
            return
        first = context.patterns[0]
        expected = first in self.model.untold(context_id)
        if expected:
            self.model.tell(context_id, first, worked=True, now=self.clock.now())
        kept = await knowledge.events.task_solved(
            project_id=context.project_id, task_id=context.task_id, run_id=context.run_id
        )
        self._must(kept.outcomes == expected, f"{kept.outcomes} outcomes of an event, not {expected}")

    async def _echo(self, knowledge: Knowledge) -> None:
        """Let somebody tell again what was handed out for a task."""
        chosen = await self._chosen(knowledge)
        if chosen is None:
            return
        context_id, pattern_id = chosen
        context, case = self.model.contexts.get(context_id), self.model.patterns.get(pattern_id)
        if context is None or case is None:
            return
        told = replace(
            of_case(number_in(case[1])),
            project_id=context.project_id,
            task_id=context.task_id,
            run_id=context.run_id,
        )
        theirs, key_id = self._by_somebody(knowledge)
        entry_id = await theirs.capture.capture(told)
        known = self.model.entries.get(entry_id)
        self._must(known is not None and known.case == case, f"{told} is {entry_id}, and no outcome of what is there")
        self.model.tell(context_id, pattern_id, worked=True, now=self.clock.now(), key_id=key_id)

    async def _revoke(self, knowledge: Knowledge) -> None:
        key_id = self.rng.choice(AGENTS)
        gone, outcomes = self.model.revoke(key_id)
        self.deleted += gone
        try:
            report = await knowledge.revocations.revoke(EntryFilter(key_id=key_id))
        except NotFound:  # a key that no store has, by which nothing was told that is still there
            found = (0, 0)
        else:
            found = (report.entries, report.outcomes)
        self._must(found == (len(gone), outcomes), f"revoked {found}, not {len(gone), outcomes}")

    async def _delete_project(self, knowledge: Knowledge) -> None:
        project = f"project {self.rng.randrange(5)}"
        gone = self.model.forget(project)
        self.deleted += gone
        try:
            deleted = await knowledge.capture.delete_project(project)
        except NotFound:
            deleted = 0
        self._must(deleted == len(gone), f"deleted {deleted} of {project}, not {len(gone)}")

    async def _delete_pattern(self, knowledge: Knowledge) -> None:
        chosen = await self._chosen(knowledge)
        if chosen is None:
            return
        _, pattern_id = chosen
        case = self.model.patterns.get(pattern_id)
        try:
            await knowledge.capture.delete_pattern(pattern_id)
        except NotFound:
            self._must(case is None, f"{pattern_id} is not found, and has evidence")
            return
        if case is None:
            raise Diverged(f"{pattern_id} was deleted twice")
        gone = [i for i, known in self.model.entries.items() if known.case == case and known.status == "embedded"]
        self.model.remove(gone)
        self.deleted += gone
