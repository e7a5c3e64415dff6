"""The context an agent gets with its task: never late, never failing, and what fits of what is known in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from hardwon.context.deadline import Patience
from hardwon.errors import IndexUnavailable, TextRejected
from knowledge.memory.rules.hints import is_held_out
from knowledge.models import (
    Choice,
    Context,
    Entry,
    EntryType,
    Hint,
    Pattern,
    PatternId,
    Reason,
    Task,
)
from orchestrator import OrchestratorContextBuilder
from orchestrator.context.rendering import render
from orchestrator.context.token_budget import estimate_tokens
from tests.support.cases import over
from tests.support.entries import choice_of, failure, pattern, stored


@dataclass(frozen=True, kw_only=True)
class Settings:
    query_deadline_ms: int = 300
    context_max_tokens: int = 2000
    context_max_patterns: int = 3
    holdout: float = 0


@dataclass
class Answers:
    """Services that follow a script: a query answers, waits or fails as it is told; contexts are noted."""

    answer: Callable[[], Sequence[Pattern]]
    settings: Settings = field(default_factory=Settings)
    seconds: float = 0
    records_in: float = 0
    failure: Entry | None = None
    mended: Callable[[], Sequence[Pattern]] = list
    tried: set[PatternId] = field(default_factory=set)
    asked: list[tuple[object, ...]] = field(default_factory=list)
    kept: list[Context] = field(default_factory=list)
    choices: list[Choice | None] = field(default_factory=list)

    @property
    def queries(self) -> Answers:
        return self

    @property
    def contexts(self) -> Answers:
        return self

    async def hint_for_task(
        self, task: Task, agent_type: str, *, embed_by: float | None = None, patience: Patience | None = None
    ) -> Hint:
        self.asked.append((task, agent_type))
        await asyncio.sleep(self.seconds)
        return hint(self.answer())

    async def hint_for_failure(
        self,
        failure: Entry,
        task: Task,
        agent_type: str,
        *,
        embed_by: float | None = None,
        patience: Patience | None = None,
    ) -> Hint:
        self.asked.append((failure, task, agent_type))
        return hint(self.mended())

    async def find_open_failure(self, task: Task) -> Entry | None:
        return self.failure

    async def find_failed_patterns(self, task: Task, patterns: Collection[PatternId]) -> set[PatternId]:
        return self.tried.intersection(patterns)

    async def find_dead_ends(self, patterns: Collection[PatternId]) -> dict[PatternId, tuple[str, ...]]:
        return {}

    async def record(self, context: Context, task: Task, agent_type: str, choice: Choice | None = None) -> None:
        await asyncio.sleep(self.records_in)
        self.kept.append(context)
        self.choices.append(choice)


def hint(found: Sequence[Pattern], reason: Reason | None = None) -> Hint:
    """Return the hint of a query that found these patterns, and gives them unless another reason is named."""
    if not found:
        return Hint()
    reason = reason or Reason.SPOKE
    choice = choice_of(*((each.pattern_id, "a", 1.0) for each in found))
    shown = tuple(found) if reason is Reason.SPOKE else ()
    return Hint(patterns=shown, reason=reason, choice=choice)


TASK = Task(description="Show the total of a cart", type="bugfix", technology="python")
BASIC = "Task: Show the total of a cart\nType: bugfix\nTechnology: python"


async def test_the_basic_context_comes_first_then_a_blank_line_then_the_block() -> None:
    one = pattern()
    knowledge = Answers(lambda: [one])
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
    assert context.text == f"{BASIC}\n\n{render([one], max_tokens=2000)[0]}"
    assert context.patterns == (one,)
    assert context.degraded is None
    assert (context.reason, context.confidence) == ("spoke", 0.75)
    assert knowledge.asked == [(TASK, "backend")]
    assert knowledge.kept == [context]


async def test_of_a_task_that_failed_what_mends_the_failure_comes_first_and_each_pattern_once() -> None:
    one, two, three = (pattern(solution=f"mend {number}") for number in range(3))
    told = stored(failure(failure_description="it fell", error_message="KeyError", solution_steps=None))
    knowledge = Answers(lambda: [one, two], failure=told, mended=lambda: [three, two])
    again = replace(TASK, project_id="shop", task_id="T-1", run_id="2")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(again, "backend")
    assert context.patterns == (three, two, one)
    tried = replace(knowledge, tried={three.pattern_id, two.pattern_id})
    context = await OrchestratorContextBuilder(tried).build_context_for_task(again, "backend")
    assert context.patterns == (one, three, two), "what it was tried with comes last"
    told_again = pattern(solution="mend  2")
    tried = replace(tried, mended=lambda: [told_again, three, two])
    context = await OrchestratorContextBuilder(tried).build_context_for_task(again, "backend")
    assert context.patterns == (one, told_again, two), "and whoever else told of it comes no earlier"
    assert (told, again, "backend") in knowledge.asked


async def test_without_a_pattern_the_context_is_the_basic_one_alone() -> None:
    knowledge = Answers(list)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
    assert (context.text, context.patterns, context.degraded) == (BASIC, (), None)
    assert (context.reason, context.confidence, context.candidates) == ("nothing_near", None, ())
    assert knowledge.kept == [context], "what came of it without a hint says how well agents do alone"


async def test_a_context_says_what_was_weighed_and_why_it_has_none_of_it() -> None:
    """Of the two candidates, though neither is shown; a person sees why."""
    found = [pattern(solution=f"mend {number}") for number in range(7)]
    for reason in (Reason.NOT_SURE, Reason.AGENT_KNOWS):
        knowledge = Answers(list)
        queries = SimpleNamespace(hint_for_task=lambda *_, reason=reason, **__: answer(hint(found, reason)))
        with_queries = SimpleNamespace(queries=queries, contexts=knowledge, settings=knowledge.settings)
        built = await OrchestratorContextBuilder(cast("Any", with_queries)).build_context_for_task(TASK, "backend")
        assert (built.text, built.patterns, built.reason, built.confidence) == (BASIC, (), reason.value, 0.75)
        assert [each.pattern_id for each in built.candidates] == [each.pattern_id for each in found[:5]]
        assert all(each.withheld and each.successes == 1.235 for each in built.candidates)
        assert knowledge.kept == [built]
        assert knowledge.choices[0] is not None
    shown = await OrchestratorContextBuilder(Answers(lambda: found)).build_context_for_task(TASK, "backend")
    assert [each.withheld is None for each in shown.candidates] == [True, True, True, False, False]


async def answer(found: Hint) -> Hint:
    return found


async def test_a_task_that_is_held_out_gets_no_hint_and_is_on_record_and_an_urgent_one_never_is() -> None:
    knowledge = Answers(lambda: [pattern()], settings=Settings(holdout=0.5))
    builder = OrchestratorContextBuilder(knowledge)
    built = [await builder.build_context_for_task(TASK, "backend") for _ in range(60)]
    held = [each for each in built if each.reason == "held_out"]
    assert 10 < len(held) < 50
    assert all(is_held_out(each.context_id, 0.5) is (each in held) for each in built)
    for each in held:
        assert (each.text, each.patterns, each.degraded) == (BASIC, (), None)
        assert [one.withheld for one in each.candidates] == ["held out, to measure the lift"]
    assert knowledge.kept == built
    assert all(knowledge.choices)
    urgent = [await builder.build_context_for_task(replace(TASK, urgent=True), "backend") for _ in range(40)]
    assert {each.reason for each in urgent} == {"spoke"}
    told = {"description": "Show the total", "urgent": True}
    assert {(await builder.build_context_for_task(told, "backend")).reason for _ in range(20)} == {"spoke"}
    silent = OrchestratorContextBuilder(Answers(list, settings=Settings(holdout=0.5)))
    assert {(await silent.build_context_for_task(TASK, "backend")).reason for _ in range(20)} == {"nothing_near"}


async def test_the_patterns_of_a_context_are_those_in_its_text() -> None:
    found = [pattern(problem="word " * 3000, solution="word " * 3000, when_to_try="word " * 3000) for _ in range(4)]
    for settings in (Settings(context_max_patterns=2), Settings(context_max_tokens=200), Settings()):
        knowledge = Answers(lambda: found, settings=settings)
        context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
        assert 1 <= len(context.patterns) <= settings.context_max_patterns
        assert context.text.count("- Problem: ") == len(context.patterns)
        assert estimate_tokens(context.text.removeprefix(f"{BASIC}\n\n")) <= settings.context_max_tokens


async def test_a_task_may_be_anything_with_a_description() -> None:
    knowledge = Answers(list)
    task = SimpleNamespace(description="Show the total", type=EntryType.GATE_APPROVAL, id=17)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert context.text == "Task: Show the total\nType: gate_approval"
    assert knowledge.asked == [(Task(description="Show the total", type="gate_approval", task_id="17"), "backend")]


async def test_a_task_may_be_a_mapping_as_states_of_graphs_are() -> None:
    knowledge = Answers(list)
    task = {"description": "Show the total", "type": "bugfix", "id": 17, "facts": {"tool": "pytest"}}
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert context.text == "Task: Show the total\nType: bugfix"
    asked = Task(description="Show the total", type="bugfix", task_id="17", facts={"tool": "pytest"})
    assert knowledge.asked == [(asked, "backend")]


class Broken:
    """A task that cannot be read."""

    @property
    def description(self) -> str:
        raise RuntimeError("the session is closed")


async def test_a_text_that_is_refused_between_failures_shows_that_the_endpoint_answers() -> None:
    """Three failures among as many answers, and nothing was tried for a while."""
    ends = [IndexUnavailable("gone"), TextRejected("not this one")] * 3

    async def ends_so(*_: Any, **__: Any) -> list[Pattern]:
        raise ends.pop(0)

    queries = SimpleNamespace(hint_for_task=ends_so)
    settings = SimpleNamespace(query_deadline_ms=5000, context_max_tokens=800, context_max_patterns=3)
    builder = OrchestratorContextBuilder(cast("Any", SimpleNamespace(queries=queries, settings=settings)))
    told = [(await builder.build_context_for_task(Task(description="t"), "backend")).degraded for _ in range(6)]
    assert told == ["gone", "not this one"] * 3


@over(
    "task, degraded",
    [
        ({}, "description: is required"),
        (SimpleNamespace(), "description: is required"),
        (None, "task: is required"),
        (Broken(), "the session is closed"),
    ],
)
async def test_what_is_no_task_gets_a_context_that_says_so(task: object, degraded: str) -> None:
    knowledge = Answers(list)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert (context.text, context.patterns, context.degraded) == ("", (), degraded)
    assert knowledge.asked == []


@over("described", [None, 17, b"bytes"])
async def test_a_task_whose_words_are_none_stops_nobody(described: Any) -> None:
    task = Task(description=described, type=described)
    context = await OrchestratorContextBuilder(Answers(list)).build_context_for_task(task, "backend")
    assert context.text.startswith("Task:")


async def test_what_is_found_in_time_is_handed_out_and_its_record_goes_on() -> None:
    knowledge = Answers(lambda: [pattern()], records_in=0.3)
    knowledge.settings = replace(knowledge.settings, query_deadline_ms=100)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
    assert (len(context.patterns), context.degraded, knowledge.kept) == (1, None, [])
    await asyncio.sleep(0.4)
    assert knowledge.kept == [context]


async def test_what_is_found_too_late_ends_by_itself_and_is_on_record_nowhere() -> None:
    """What nobody saw has no outcome: a failure would count against it."""
    found: list[Pattern] = []

    def finds() -> list[Pattern]:
        found.append(pattern())
        return found

    knowledge = Answers(finds, seconds=0.3)
    knowledge.settings = replace(knowledge.settings, query_deadline_ms=100)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(TASK, "backend")
    assert (context.patterns, context.degraded) == ((), "no answer within 100 ms")
    await asyncio.sleep(0.4)
    assert (len(found), knowledge.kept) == (1, [])
