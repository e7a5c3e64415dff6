"""Events of tasks against a model of the truth: no event resolves two failures, or one of another task or run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardwon.models.reports import EventResult
from knowledge.memory.capture import task_events
from knowledge.models import EntryId, EntryStatus
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

TEXTS = ("Cart total raises TypeError", "Invoice prints no currency", "Login answers slowly", "Search finds nothing")
STEPS = ("Restart the workers", "Look the currency up for each invoice", "Raise the pool for a login")
_projects = itertools.count(1)

_EVENTS = st.one_of(
    st.tuples(st.just("fail"), st.sampled_from("AB"), st.sampled_from("12"), st.sampled_from(TEXTS)),
    st.tuples(st.just("solve"), st.sampled_from("AB"), st.sampled_from("12"), st.sampled_from(STEPS)),
    st.tuples(st.just("day"), st.none(), st.none(), st.none()),
)


@dataclass(slots=True)
class Truth:
    """The failures that were told, each with the task, run and day that it was told of."""

    knowledge: Knowledge
    project: str
    day: int = 0
    number: int = 0
    told_of: dict[EntryId, tuple[str, str, int]] = field(default_factory=dict)

    async def statuses(self) -> dict[EntryId, EntryStatus]:
        return {each: (await self.knowledge.capture.get(each)).status for each in self.told_of}

    async def fail(self, task: str, run: str, text: str) -> EventResult:
        return await self.knowledge.events.task_failed(
            project_id=self.project, task_id=task, run_id=run, agent_type="backend", failure_description=text
        )

    async def solve(self, task: str, run: str, steps: str) -> EventResult:
        return await self.knowledge.events.task_solved(
            project_id=self.project, task_id=task, run_id=run, solution_steps=steps, verified_by="pytest"
        )

    async def check_failure(self, task: str, run: str, text: str) -> None:
        before = await self.statuses()
        first = await self.fail(task, run, text)
        (entry_id,) = first.entry_ids
        where = (task, run, self.day)
        assert self.told_of.setdefault(entry_id, where) == where, "a failure is of its own task, run and day"
        assert first.already_resolved is (before.get(entry_id) is EntryStatus.STAGED)
        again = await self.fail(task, run, text)
        assert again.entry_ids == first.entry_ids
        assert before.items() <= (await self.statuses()).items(), "a failure resolves nothing"

    async def check_solution(self, task: str, run: str, steps: str) -> None:
        self.number += 1
        steps = f"{steps}, by way {self.number}"
        before = await self.statuses()
        result = await self.solve(task, run, steps)
        after = await self.statuses()
        resolved = [each for each in after if after[each] is EntryStatus.STAGED is not before[each]]
        assert len(resolved) <= 1
        assert tuple(resolved) == result.entry_ids
        assert not result.already_resolved
        still_open = {each for each, status in before.items() if status is EntryStatus.OPEN}
        of_task = {each for each in still_open if self.told_of[each][0] == task}
        of_run = {each for each in of_task if self.told_of[each] == (task, run, self.day)}
        assert set(resolved) <= (of_run or of_task), (
            "neither another task's failure nor, where it has its own, another run's"
        )
        if len(of_run) == 1 or len(of_task) == 1:
            assert resolved, "it can be about one alone"
        assert bool(result.open_entry_ids) is (bool(of_task) and not resolved)
        assert set(result.open_entry_ids) <= of_task
        assert all(after[each] == before[each] for each in before.keys() - of_task), "other tasks are as they were"
        again = await self.solve(task, run, steps)
        assert (again.entry_ids, await self.statuses()) == (result.entry_ids, after), "told again it changes nothing"
        assert again.already_resolved is bool(resolved)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(_EVENTS, min_size=3, max_size=14))
async def test_no_event_resolves_two_failures_or_one_of_another_task_or_run(
    knowledge: Knowledge, clock: SetClock, events: list[tuple[str, Any, Any, Any]]
) -> None:
    await walk(Truth(knowledge, f"project {next(_projects)}"), clock, events)


async def walk(truth: Truth, clock: SetClock, events: Iterable[tuple[str, Any, Any, Any]]) -> None:
    for kind, task, run, text in events:
        if kind == "day":
            truth.day += 1
            clock.move(timedelta(days=1))
        elif kind == "fail":
            await truth.check_failure(task, run, text)
        else:
            await truth.check_solution(task, run, text)


async def _select_all(_: Any, candidates: list[Any], *__: Any) -> list[Any]:
    return candidates


@dataclass(frozen=True)
class Mutant:
    """A part of the rules that is replaced, and events that show it."""

    of: Any
    part: str
    by: Callable[..., Any]
    events: tuple[tuple[str, Any, Any, Any], ...]


FAILED, FAILED_AGAIN = ("fail", "A", "1", TEXTS[0]), ("fail", "A", "2", TEXTS[1])
MUTANTS = (
    Mutant(task_events, "is_of_attempt", lambda *_: True, (FAILED, FAILED_AGAIN, ("solve", "A", "2", STEPS[0]))),
    Mutant(task_events, "is_same_day", lambda *_: True, (FAILED, ("day", None, None, None), FAILED)),
    Mutant(
        task_events.TaskEventService,
        "_select_meant",
        _select_all,
        (FAILED, FAILED_AGAIN, ("solve", "A", "3", STEPS[0])),
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.part)
async def test_events_that_ignore_the_run_or_the_day_or_resolve_several_are_caught(
    knowledge: Knowledge, clock: SetClock, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    await walk(Truth(knowledge, f"project {next(_projects)}"), clock, mutant.events)
    monkeypatch.setattr(mutant.of, mutant.part, mutant.by)
    with pytest.raises(AssertionError):
        await walk(Truth(knowledge, f"project {next(_projects)}"), clock, mutant.events)
