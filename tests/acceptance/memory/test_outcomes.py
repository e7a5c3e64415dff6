"""Outcomes: what came of an injected pattern counts once a run, and no echo is evidence."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from hardwon.errors import InvalidInput, NotFound, NotOpen
from knowledge.models import Context, ContextId, EntryId, EntryStatus, EntryType, NewEntry, Pattern, PatternId, Task
from knowledge.ports import ContextStore
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_the_loop import fail
from tests.conftest import Opens, SetClock
from tests.support.cases import over
from tests.support.faults import Trips, Wired, wired
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared
from tests.support.stores import numbered

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

SOLUTION = "Treat a missing price as zero and log the product"
FAILURE = "Cart total raises TypeError when a product has no price"
OWN = NewEntry(
    entry_type=EntryType.FAILURE_SOLUTION,
    project_id="second",
    task_id="T-1",
    run_id="1",
    agent_type="backend",
    failure_description=FAILURE,
    solution_steps="Refuse to add a product that has no price to the catalogue",
    success_verified=True,
)
"""A solution of one's own, of the task that contexts are handed out for."""


@pytest.fixture
def settings(settings: KnowledgeSettings) -> KnowledgeSettings:
    """No deadline that a busy machine could miss: it is not what is tested."""
    return settings.model_copy(update={"query_deadline_ms": 30_000})


async def given(knowledge: Knowledge, run: str | None = "1", *, project: str = "second") -> Context:
    """Build a context in which the known solution is."""
    task = Task(description=FAILURE, project_id=project, task_id="T-1", run_id=run)
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert len(context.patterns) == 1, context
    return context


async def learned(knowledge: Knowledge) -> EntryId:
    entry_id = await fail(knowledge, failure_description=FAILURE, error_message=None, solution_steps=SOLUTION)
    await knowledge.checkpoints.process_all()
    return entry_id


async def the_pattern(knowledge: Knowledge) -> Pattern:
    (pattern,) = await knowledge.queries.query_for_failure(FAILURE, min_relevance=0)
    return pattern


def record(pattern: Pattern) -> tuple[int, int, int]:
    return pattern.success_count, pattern.attempt_count, pattern.project_count


@pytest.mark.long
async def test_outcomes_are_attempts_and_those_that_worked_successes(knowledge: Knowledge) -> None:
    await learned(knowledge)
    for run, worked in (("1", True), ("2", False), ("3", True)):
        context = await given(knowledge, run)
        await knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=worked)
    assert record(await the_pattern(knowledge)) == (3, 4, 2)


async def test_an_outcome_told_again_adds_nothing_and_told_otherwise_replaces(knowledge: Knowledge) -> None:
    """D33: a replay is no evidence."""
    await learned(knowledge)
    context = await given(knowledge)
    pattern_id = context.patterns[0].pattern_id
    for worked, expected in ((True, (2, 2, 2)), (True, (2, 2, 2)), (False, (1, 2, 1))):
        await knowledge.outcomes.record_outcome(context.context_id, pattern_id, worked=worked)
        assert record(await the_pattern(knowledge)) == expected


async def test_a_run_id_that_comes_again_on_another_day_is_another_attempt(
    knowledge: Knowledge, clock: SetClock
) -> None:
    await learned(knowledge)
    first = await given(knowledge)
    pattern_id = first.patterns[0].pattern_id
    await knowledge.outcomes.record_outcome(first.context_id, pattern_id, worked=False)
    clock.move(timedelta(days=1))
    second = await given(knowledge)
    told: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    for _ in range(2):
        await knowledge.events.task_solved(**told, solution_steps=SOLUTION, verified_by="pytest", tried=[pattern_id])
        assert record(await the_pattern(knowledge)) == (2, 3, 2)
    clock.move(timedelta(days=1))
    await knowledge.outcomes.record_outcome(second.context_id, pattern_id, worked=False)
    assert record(await the_pattern(knowledge)) == (1, 3, 1), "told otherwise on a later day, it is the same attempt"


async def test_an_outcome_of_what_was_not_handed_out_is_refused_by_name(knowledge: Knowledge) -> None:
    await learned(knowledge)
    context = await given(knowledge)
    with pytest.raises(NotFound, match="no context"):
        await knowledge.outcomes.record_outcome(ContextId(numbered(1)), context.patterns[0].pattern_id, worked=True)
    with pytest.raises(InvalidInput) as refused:
        await knowledge.outcomes.record_outcome(context.context_id, PatternId(numbered(1)), worked=True)
    assert refused.value.field == "pattern_id"
    assert record(await the_pattern(knowledge)) == (1, 1, 1)


@pytest.mark.long
async def test_fifty_rounds_of_inject_and_capture_add_no_entry_and_one_success_a_run(knowledge: Knowledge) -> None:
    """D34: a pattern does not feed on itself."""
    first = await learned(knowledge)
    for number in range(50):
        await given(knowledge, "the same run")
        entry_id = await fail(
            knowledge,
            project_id="second",
            task_id="T-1",
            run_id="the same run",
            failure_description=f"The total of cart {number} broke",
            solution_steps=SOLUTION.upper() if number % 2 else f"{SOLUTION}!",
        )
        assert entry_id == first
        await knowledge.checkpoints.process_all()
    assert dict((await knowledge.stats()).entries) == {"embedded": 1}
    assert record(await the_pattern(knowledge)) == (2, 2, 2)


async def test_a_task_that_is_tried_often_has_what_it_was_handed_out_read_once(knowledge: Knowledge) -> None:
    """Each context holds the same patterns again: a hundred tries read each of them a hundred times."""
    await learned(knowledge)
    for _ in range(5):
        await given(knowledge)
    trips = Trips({})
    (answer,) = await wired(knowledge, trips).capture.capture_all([OWN])
    assert (answer.outcome, answer.status, answer.informed) == ("accepted", EntryStatus.STAGED, True)
    assert trips.passed["patterns.get:before"] == 1


PUT_RIGHT = (
    (
        "Set pool_size to 20 in the options of the engine, then restart all the workers",
        "Set pool_size to 50 in the options of the engine, then restart all the workers",
    ),
    ("Retry the payment when the gateway answers 409", "Do not retry the payment when the gateway answers 409"),
    ("Run migrate and then seed", "Run seed and then migrate"),
)
"""A solution that was handed out, and what solved the failure instead, in nearly the same words."""


@pytest.mark.long
@over("handed_out, put_right", PUT_RIGHT, apart=True)
async def test_what_was_handed_out_and_put_right_is_a_solution_of_its_own(
    knowledge: Knowledge, handed_out: str, put_right: str
) -> None:
    """It was deleted as an echo, and what had not worked was counted as what did."""
    await fail(knowledge, failure_description=FAILURE, error_message=None, solution_steps=handed_out)
    await knowledge.checkpoints.process_all()
    await given(knowledge)
    run: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    await knowledge.events.task_failed(**run, agent_type="backend", failure_description=FAILURE)
    await knowledge.events.task_solved(**run, solution_steps=put_right, verified_by="pytest")
    assert dict((await knowledge.stats()).entries) == {"embedded": 1, "staged": 1}
    await knowledge.checkpoints.process_all()
    found = await knowledge.queries.query_for_failure(FAILURE)
    assert [(each.solution, *record(each)) for each in found] == [(put_right, 1, 1, 1), (handed_out, 1, 2, 1)]


TOLD_BACK = (f"{SOLUTION}.", SOLUTION.lower(), SOLUTION.upper(), f"1. {SOLUTION};", f"**{SOLUTION}**", f'"{SOLUTION}"')


@pytest.mark.long
@over("told", TOLD_BACK, apart=True)
async def test_what_was_handed_out_and_is_set_otherwise_as_prose_is_an_outcome(knowledge: Knowledge, told: str) -> None:
    await learned(knowledge)
    await given(knowledge)
    run: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    await knowledge.events.task_failed(**run, agent_type="backend", failure_description=FAILURE)
    await knowledge.events.task_solved(**run, solution_steps=told, verified_by="pytest")
    assert dict((await knowledge.stats()).entries) == {"embedded": 1}
    assert record(await the_pattern(knowledge)) == (2, 2, 2)


LONG = (
    f"{SOLUTION}; then mend the prices of the old products by hand. Do not build the catalogue again before that."
    " Rather than round each price up on its own, round the sum"
)


async def test_what_quotes_a_part_of_what_was_handed_out_is_an_outcome(knowledge: Knowledge) -> None:
    """Each part was a pattern of its own, shown beside the one that it was taken from."""
    await fail(knowledge, failure_description=FAILURE, error_message=None, solution_steps=LONG)
    await knowledge.checkpoints.process_all()
    parts = (
        SOLUTION,
        f"> - Solution: {SOLUTION.upper()}",
        "Then mend the prices of the old products by hand.\nDo not build the catalogue again before that",
        (await given(knowledge)).text.split("these ways:\n\n")[1].split("\n\nRecommendation")[0],
    )
    for number, part in enumerate(parts):
        await given(knowledge, str(number))
        told = replace(OWN, solution_steps=part, run_id=str(number))
        (answer,) = await knowledge.capture.capture_all([told])
        assert (answer.outcome, record(await the_pattern(knowledge))[0]) == ("duplicate", number + 2), part
    own = (
        f"{SOLUTION}, and then refuse it at the door",
        f"{SOLUTION}. That did it, with the flag of the checkout turned on",
        "Build the catalogue again before that",
        "Round each price up on its own",
        "Treat a missing price",
        FAILURE,
    )
    answers = await knowledge.capture.capture_all([replace(OWN, solution_steps=told) for told in own])
    assert [answer.outcome for answer in answers] == ["accepted"] * len(own)


async def test_a_context_that_is_told_back_whole_is_left_out_of_what_is_kept(knowledge: Knowledge) -> None:
    """A program that keeps all its agent was told fed it to the memory, each time with one more context inside."""
    await learned(knowledge)
    text = (await given(knowledge)).text
    assert text.startswith("Task: ")
    both = replace(
        OWN,
        task_description=f"You are a coder.\n\n{text}\nGo on.",
        failure_description=f"{text}{text}\nThe cart broke",
        solution_steps=f"As told:\n{text[text.index('[') :]}\nI moved the prices into a table",
    )
    entry = await knowledge.capture.get(await knowledge.capture.capture(both))
    of_task = text[: text.index("[")]
    assert entry.task_description == f"You are a coder.\n\n{of_task}\n\nGo on."
    assert entry.failure_description == "The cart broke"
    assert entry.solution_steps == "As told:\n\n\nI moved the prices into a table"
    alone = replace(OWN, run_id="4", solution_steps="Moved the prices into a table", task_description=text)
    entry = await knowledge.capture.get(await knowledge.capture.capture(alone))
    assert entry.task_description == of_task.strip(), (
        "a program that tells the whole context as the task loses no entry"
    )
    for told in (OWN, replace(OWN, success_verified=False)):
        with pytest.raises(InvalidInput, match="nothing but a context that was handed out") as refused:
            await knowledge.capture.capture(replace(told, solution_steps=text))
        assert refused.value.field == "solution_steps"
    open_one = await fail(knowledge, project_id="second", solution_steps=None, success_verified=False)
    with pytest.raises(InvalidInput, match="nothing but a context"):
        await knowledge.capture.resolve_failure(open_one, solution_steps=text, verified_by="pytest")
    cut = replace(OWN, run_id="2", solution_steps=f"It said {text[text.index('[') : 200]} and I moved on")
    entry = await knowledge.capture.get(await knowledge.capture.capture(cut))
    assert entry.solution_steps == cut.solution_steps, "where it does not end, nobody knows where it ends"


async def test_what_is_handed_out_for_another_task_is_no_echo(knowledge: Knowledge) -> None:
    await learned(knowledge)
    await given(knowledge)
    await fail(knowledge, project_id="second", task_id="T-2", failure_description=FAILURE, solution_steps=SOLUTION)
    assert (await knowledge.checkpoints.process_all()).embedded == 1


async def test_resolving_with_what_was_handed_out_may_be_repeated_where_the_answer_was_lost(
    knowledge: Knowledge,
) -> None:
    first = await learned(knowledge)
    opened = await fail(
        knowledge, project_id="second", task_id="T-1", run_id="1", solution_steps=None, success_verified=False
    )
    await given(knowledge)
    for said in (SOLUTION, f"{SOLUTION}!", SOLUTION):
        assert await knowledge.capture.resolve_failure(opened, solution_steps=said, verified_by="pytest") == first
    with pytest.raises(NotOpen, match="and is now an outcome of pattern"):
        await knowledge.capture.resolve_failure(opened, solution_steps="Restart the database", verified_by="pytest")
    assert record(await the_pattern(knowledge)) == (2, 2, 2)
    await knowledge.capture.delete(first)
    with pytest.raises(NotFound):
        await knowledge.capture.resolve_failure(opened, solution_steps=SOLUTION, verified_by="pytest")


async def test_an_echo_that_was_stored_and_no_more_is_an_outcome_when_it_is_told_again(knowledge: Knowledge) -> None:
    """Its deadline was over, or its process killed, while it waited for its turn: it stayed as evidence for good."""
    first = await learned(knowledge)
    await given(knowledge)
    echo = replace(OWN, solution_steps=SOLUTION)

    async def killed() -> None:
        raise asyncio.CancelledError

    wire = Trips({"contexts.record_outcomes:before:1": killed})
    stores = replace(knowledge.stores, contexts=cast(ContextStore, Wired(knowledge.stores.contexts, "contexts", wire)))
    with pytest.raises(asyncio.CancelledError):
        await replace(knowledge.capture, stores=stores).capture(echo)
    assert (await knowledge.stats()).entries == {"embedded": 1, "staged": 1}
    for _ in range(2):
        assert await knowledge.capture.capture(echo) == first
        assert (await knowledge.stats()).entries == {"embedded": 1}
    assert record(await the_pattern(knowledge)) == (2, 2, 2)


async def test_what_was_told_before_anything_was_handed_out_is_no_echo_when_it_is_told_again(
    knowledge: Knowledge, clock: SetClock
) -> None:
    await learned(knowledge)
    of_its_own = await knowledge.capture.capture(replace(OWN, solution_steps=SOLUTION))
    clock.move(timedelta(minutes=1))
    await given(knowledge)
    assert await knowledge.capture.capture(replace(OWN, solution_steps=SOLUTION)) == of_its_own
    assert (await knowledge.stats()).entries == {"embedded": 1, "staged": 1}


async def test_outcomes_live_a_year_as_knowledge_does(knowledge: Knowledge, clock: SetClock) -> None:
    await learned(knowledge)
    context = await given(knowledge)
    await knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=False)
    clock.move(timedelta(days=300))
    await fail(knowledge, failure_description=FAILURE, error_message=None, solution_steps=SOLUTION, run_id="later")
    await knowledge.checkpoints.process_all()
    assert record(await the_pattern(knowledge)) == (2, 3, 1)
    clock.move(timedelta(days=70))
    await knowledge.pruning.prune()
    assert record(await the_pattern(knowledge)) == (1, 1, 1)


async def test_outcomes_live_as_long_as_knowledge_is_kept(opens: Opens, clock: SetClock) -> None:
    """Without them, what failed in every second attempt would rank as what never did."""
    async with opens(retention_years=3, query_deadline_ms=30_000) as knowledge:
        await learned(knowledge)
        context = await given(knowledge)
        await knowledge.outcomes.record_outcome(context.context_id, context.patterns[0].pattern_id, worked=False)
        clock.move(timedelta(days=800))
        await knowledge.pruning.prune()
        assert record(await the_pattern(knowledge)) == (1, 2, 1)


async def test_a_project_that_is_deleted_takes_its_outcomes_along(knowledge: Knowledge) -> None:
    """D19: what was tried in it no longer counts for the patterns of others, and its own patterns are gone."""
    first = await learned(knowledge)
    context = await given(knowledge, project="second")
    pattern_id = context.patterns[0].pattern_id
    await fail(knowledge, project_id="second", failure_description="Something else broke", solution_steps="Mend it")
    await knowledge.checkpoints.process_all()
    await knowledge.outcomes.record_outcome(context.context_id, pattern_id, worked=False)
    assert record(await knowledge.queries.get(pattern_id)) == (1, 2, 1)
    await knowledge.capture.delete_project("second")
    assert record(await knowledge.queries.get(pattern_id)) == (1, 1, 1)
    assert (await knowledge.stats()).patterns == 1
    await knowledge.outcomes.record_outcome(
        (await given(knowledge, project="web-shop")).context_id, pattern_id, worked=True
    )
    await knowledge.capture.delete(first)
    assert (await knowledge.stats()).patterns == 0, "an outcome alone is no evidence"


async def test_an_empty_id_is_one_that_was_not_given(knowledge: Knowledge) -> None:
    await learned(knowledge)
    context = await given(knowledge)
    pattern_id = context.patterns[0].pattern_id
    blank: dict[str, Any] = dict.fromkeys(("project_id", "task_id", "run_id"), "")
    await knowledge.outcomes.record_outcome(context.context_id, pattern_id, worked=True)
    before = record(await the_pattern(knowledge))
    await knowledge.outcomes.record_outcome(context.context_id, pattern_id, worked=True, **blank)
    assert record(await the_pattern(knowledge)) == before, "the same attempt"
