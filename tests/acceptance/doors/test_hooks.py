"""What an orchestrator tells as its work goes on: kept whatever restarts, and never a reason for it to stop."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from pydantic import SecretStr
from structlog.testing import capture_logs

from hardwon.errors import InvalidInput, NotFound, RejectionOnRecord, StorageUnavailable
from hardwon.models.reports import EventResult
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.models import AppliesWhen, CheckpointType, Embeddings, EntryStatus, EntryType, Pattern, PatternId, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge, open_knowledge
from orchestrator import OrchestratorHooks
from orchestrator.client import KnowledgeClient
from orchestrator.connection import AnyKnowledge
from tests.conftest import Opens, SetClock
from tests.support.cases import case_by_case
from tests.support.clients import client_of
from tests.support.embedders import HashingEmbedder
from tests.support.openai_server import OpenAIServer
from tests.support.postgres import over_tcp, socket_of
from tests.support.processes import Commands, embedding_by
from tests.support.relay import Relay, Wire
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

DOCS = (Path(__file__).resolve().parents[3] / "docs/hooks.md").read_text(encoding="utf-8")
FAILURE = "Cart total raises TypeError when a product has no price"
SOLUTION = "Treat a missing price as zero and log the product"
OTHER = "Refuse to add a product that has no price to the catalogue"
MINUTE = timedelta(minutes=1)
SOLVED: dict[str, Any] = {
    "project_id": "first",
    "task_id": "T-1",
    "run_id": "1",
    "solution_steps": SOLUTION,
    "verified_by": "pytest",
}


@pytest.fixture
def settings(database_url: str, home: Path) -> KnowledgeSettings:
    """Settings with time for a context on a machine that is busy with other tests."""
    return KnowledgeSettings(home=home, database_url=SecretStr(database_url), query_deadline_ms=10_000)


class SlowEmbedder(HashingEmbedder):
    """Takes its time for what it stores."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Embeddings:
        await asyncio.sleep(0.5)
        return await super().embed(texts, kind)


AT_BOTH_DOORS = pytest.mark.parametrize("opened", ["in process", "over HTTP"], indirect=True)
"""For what depends on how an event is sent: one test an event, and texts; the rest is the service's own work."""


@pytest_asyncio.fixture(loop_scope="session")
async def opened(request: pytest.FixtureRequest, knowledge: Knowledge) -> AsyncIterator[AnyKnowledge]:
    """The services in process, and over HTTP where a test asks for both doors."""
    if getattr(request, "param", "in process") == "in process":
        yield knowledge
        return
    async with client_of(knowledge) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def hooks(opened: AnyKnowledge) -> AsyncIterator[OrchestratorHooks]:
    async with OrchestratorHooks(opened) as hooks:
        yield hooks


def task(project: str = "second", run: str | None = "1") -> Task:
    return Task(description=FAILURE, type="bugfix", technology="python", project_id=project, task_id="T-1", run_id=run)


async def fails(hooks: OrchestratorHooks, **told: Any) -> EventResult:
    defaults: dict[str, Any] = {
        "project_id": "first",
        "task_id": "T-1",
        "run_id": "1",
        "agent_type": "backend",
        "task_type": "bugfix",
        "technology": "python",
        "failure_description": FAILURE,
    }
    return await hooks.task_failed(**defaults | told)


async def solves(hooks: OrchestratorHooks, **told: Any) -> EventResult:
    return await hooks.task_solved(**SOLVED | told)


async def learned(hooks: OrchestratorHooks) -> None:
    """Have the first project fail, solve it and complete its phase."""
    await fails(hooks)
    kept = await solves(hooks)
    assert (len(kept.entry_ids), kept.degraded) == (1, None)
    await hooks.phase_completed("first")
    await hooks.wait_for_checkpoints()


async def record(hooks: OrchestratorHooks) -> tuple[int, int, int]:
    """Return successes, attempts and projects of the one pattern there is."""
    (pattern,) = await hooks.knowledge.queries.query_for_failure(FAILURE, min_relevance=0)
    return pattern.success_count, pattern.attempt_count, pattern.project_count


async def started(hooks: OrchestratorHooks, run: str | None = "1") -> Pattern:
    context = await hooks.task_started(task(run=run), "backend")
    assert context.degraded is None
    (pattern,) = context.patterns
    return pattern


# failures


@pytest.mark.long
@AT_BOTH_DOORS
async def test_what_one_project_solved_is_in_the_context_of_anothers_task(hooks: OrchestratorHooks) -> None:
    nothing = await hooks.task_started(task(), "backend")
    assert (nothing.patterns, nothing.degraded) == ((), None)
    await learned(hooks)
    context = await hooks.task_started(task(), "backend")
    assert f"- Solution: {SOLUTION}" in context.text
    assert hooks.counts == {"task_started": 2, "task_failed": 1, "task_solved": 1, "phase_completed": 1}


@pytest.mark.long
async def test_a_task_that_is_tried_again_is_given_what_mends_the_failure_it_ended_in(
    hooks: OrchestratorHooks,
) -> None:
    """What it is to do tells nothing of what is in the way: an agent met the same failure twice without the lesson."""
    await learned(hooks)
    other = replace(task(), description="Print an invoice in two languages", type="feature")
    assert (await hooks.task_started(other, "backend")).patterns == ()
    assert (await hooks.task_started(replace(other, task_id=None), "backend")).patterns == ()
    told = {"project_id": "second", "task_id": "T-1", "run_id": "1", "failure_description": FAILURE}
    (failed,) = (await fails(hooks, **told)).entry_ids
    again = await hooks.task_started(replace(other, run_id="2"), "backend")
    assert [pattern.solution for pattern in again.patterns] == [SOLUTION]
    for elsewhere in (replace(other, task_id="T-2"), replace(other, project_id="third")):
        assert (await hooks.task_started(elsewhere, "backend")).patterns == ()
    solved = await solves(hooks, project_id="second", run_id="2")
    assert solved.degraded is None
    assert await record(hooks) == (2, 2, 2)
    assert (await hooks.task_started(replace(other, run_id="3"), "backend")).patterns == (), "nothing is in the way"
    assert failed not in {each.entry_id for each in await hooks.knowledge.capture.unresolved()}


async def test_a_failure_stays_open_until_its_own_task_is_solved(hooks: OrchestratorHooks) -> None:
    (entry_id,) = (await fails(hooks, applies_when=AppliesWhen(technology="python", version=">=3.11"))).entry_ids
    for other in ({"task_id": "T-2"}, {"project_id": "second"}):
        assert await solves(hooks, **other) == EventResult()
    assert (await hooks.knowledge.capture.get(entry_id)).status is EntryStatus.OPEN
    assert await solves(hooks, run_id="2") == EventResult(entry_ids=(entry_id,)), "a later run of the task solves it"
    entry = await hooks.knowledge.capture.get(entry_id)
    assert (entry.status, entry.solution_steps, entry.verified_by) == (EntryStatus.STAGED, SOLUTION, "pytest")


async def test_without_a_run_a_failure_that_came_back_after_its_solution_is_said_to_be_on_record(
    hooks: OrchestratorHooks,
) -> None:
    """It was taken for the same event, and the solution that held in the end was refused: nobody was told why."""
    told: dict[str, Any] = {"run_id": None}
    first = await fails(hooks, **told)
    assert (await fails(hooks, **told)) == first == EventResult(entry_ids=first.entry_ids)
    await solves(hooks, **told)
    again = await fails(hooks, **told)
    assert again.entry_ids == first.entry_ids
    assert (again.degraded or "").startswith("run_id: this failure is on record")
    in_another = await fails(hooks, run_id="2")
    assert in_another.entry_ids != first.entry_ids
    assert in_another.degraded is None


@AT_BOTH_DOORS
async def test_of_several_failures_those_that_are_named_are_resolved_and_the_others_stay_open(
    hooks: OrchestratorHooks,
) -> None:
    """What mended the last failure of a task was kept as the solution of all it had met before."""
    (first,) = (await fails(hooks)).entry_ids
    (last,) = (await fails(hooks, failure_description="Now a KeyError")).entry_ids
    strange, invented = uuid4(), "entry 1"
    solved = await solves(hooks, failures=[last, strange, invented])
    assert solved.entry_ids == (last,)
    assert "failures: ignored ids that are not a failure of this task" in (solved.degraded or "")
    told = await hooks.knowledge.events.task_solved(**SOLVED, failures=[last, strange])
    assert str(strange) in (told.degraded or "")
    statuses = [(await hooks.knowledge.capture.get(each)).status for each in (first, last)]
    assert statuses == [EntryStatus.OPEN, EntryStatus.STAGED]
    again = await solves(hooks, failures=[str(last)])
    assert (again.entry_ids, again.degraded) == ((last,), None), "told again"
    assert (await solves(hooks, solution_steps=OTHER, failures=[first])).entry_ids == (first,)
    assert (await hooks.knowledge.capture.get(first)).solution_steps == OTHER


@AT_BOTH_DOORS
async def test_of_several_open_failures_none_is_resolved_where_none_fits_better(hooks: OrchestratorHooks) -> None:
    """One solution was kept as that of all failures on the way to it."""
    opened = [*(await fails(hooks)).entry_ids, *(await fails(hooks, failure_description="Now a KeyError")).entry_ids]
    told = await solves(hooks, solution_steps="Restart the workers")
    assert (told.entry_ids, set(told.open_entry_ids)) == ((), set(opened))
    assert "several failures of this task are open" in (told.degraded or "")
    assert {(await hooks.knowledge.capture.get(each)).status for each in opened} == {EntryStatus.OPEN}
    assert (await solves(hooks, solution_steps="Restart the workers", failures=opened[:1])).open_entry_ids == ()


async def test_the_failure_is_resolved_whose_words_the_solution_tells(hooks: OrchestratorHooks) -> None:
    await fails(hooks)
    (meant,) = (await fails(hooks, failure_description="The invoice raises KeyError for a currency")).entry_ids
    assert (await solves(hooks, solution_steps="Look the currency up before the invoice")).entry_ids == (meant,)


@AT_BOTH_DOORS
async def test_the_failure_of_the_run_goes_before_those_of_other_runs(hooks: OrchestratorHooks) -> None:
    await fails(hooks)
    (meant,) = (await fails(hooks, run_id="2", failure_description="Now a KeyError")).entry_ids
    assert await solves(hooks, run_id="2") == EventResult(entry_ids=(meant,))
    again = await solves(hooks, run_id="2")
    assert again == EventResult(entry_ids=(meant,), already_resolved=True)
    told = await fails(hooks, run_id="2", failure_description="Now a KeyError")
    assert told == EventResult(entry_ids=(meant,), already_resolved=True), "the failure, told again"


async def test_the_number_of_an_attempt_is_another_run_on_another_day(
    hooks: OrchestratorHooks, clock: SetClock
) -> None:
    """The failure of the second day was taken for that of the first, which was resolved, and its solution was lost."""
    (first,) = (await fails(hooks)).entry_ids
    await solves(hooks)
    clock.move(timedelta(days=1))
    told = await fails(hooks)
    assert told.entry_ids != (first,)
    assert not told.already_resolved
    assert (await fails(hooks)).entry_ids == told.entry_ids, "told again"
    assert await solves(hooks, solution_steps=OTHER) == EventResult(entry_ids=told.entry_ids)
    assert (await hooks.knowledge.capture.get(first)).solution_steps == SOLUTION
    assert (await fails(hooks)).already_resolved


async def test_a_run_over_midnight_is_one_run(hooks: OrchestratorHooks, clock: SetClock) -> None:
    now = hooks.knowledge.stores.clock.now()
    clock.move(now.replace(hour=23, minute=59) - now)
    opened = (await fails(hooks)).entry_ids
    await fails(hooks, run_id="2", failure_description="Now a KeyError")
    clock.move(2 * MINUTE)
    assert (await fails(hooks)).entry_ids == opened
    clock.move(timedelta(hours=8))
    assert (await solves(hooks, solution_steps="Restart the workers")).entry_ids == opened


async def test_a_task_solved_by_following_advice_closes_the_failure_it_was_advised_on(hooks: OrchestratorHooks) -> None:
    await learned(hooks)
    (failed,) = (await fails(hooks, project_id="second")).entry_ids
    (other,) = (await fails(hooks, project_id="second", failure_description="The invoice is blank")).entry_ids
    pattern = await started(hooks)
    of_task: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    solved = await hooks.task_solved(**of_task, tried=[pattern.pattern_id])
    assert (len(solved.entry_ids), solved.outcomes, solved.degraded) == (1, 1, None)
    still_open = {each.entry_id for each in await hooks.knowledge.capture.unresolved()}
    assert failed not in still_open
    assert other in still_open
    assert await record(hooks) == (2, 2, 2)


async def test_a_failure_that_took_five_runs_is_solved_once(hooks: OrchestratorHooks, clock: SetClock) -> None:
    """It was five successes, and the longer a solution took to be found, the better it ranked."""
    for run in range(1, 6):
        (latest,) = (await fails(hooks, run_id=str(run))).entry_ids
        clock.move(MINUTE)
    (other,) = (await fails(hooks, run_id="2", failure_description="Now a KeyError")).entry_ids
    kept = await solves(hooks, run_id="5")
    assert kept.entry_ids == (latest,)
    for run in range(1, 6):
        await fails(hooks, run_id=str(run))
    assert (await solves(hooks, run_id="5")).entry_ids == kept.entry_ids, "told again"
    assert (await solves(hooks, run_id="5", failures=[other])).entry_ids == (other,)
    await hooks.phase_completed("first")
    await hooks.wait_for_checkpoints()
    assert dict((await hooks.knowledge.stats()).entries) == {"abandoned": 4, "embedded": 2}
    found = await hooks.knowledge.queries.query_for_failure(FAILURE, min_relevance=0)
    assert {(each.success_count, each.attempt_count) for each in found} == {(1, 1)}


@case_by_case
async def test_a_failure_of_earlier_runs_alone_is_solved_once_by_a_later_one(
    hooks: OrchestratorHooks, told: str
) -> None:
    """A stack trace tells the same failure whatever its line numbers and addresses; other texts do not."""
    await fails(hooks, run_id="1")
    await fails(hooks, run_id="2")
    for number in (404, 500):
        await fails(hooks, run_id=str(number), failure_description=told.format(number), task_id="T-2")
    solved = await solves(hooks, run_id="3", task_id="T-2", solution_steps=OTHER)
    assert len(solved.entry_ids) == (1 if "Traceback" in told else 0)
    assert len(solved.open_entry_ids) == (0 if "Traceback" in told else 2)
    assert len((await solves(hooks, run_id="3")).entry_ids) == 1
    await hooks.phase_completed("first")
    await hooks.wait_for_checkpoints()
    found = await hooks.knowledge.queries.query_for_failure(FAILURE)
    assert [(each.success_count, each.attempt_count) for each in found] == [(1, 1)]


async def test_a_task_that_is_solved_without_a_word_leaves_its_failure_open(hooks: OrchestratorHooks) -> None:
    (entry_id,) = (await fails(hooks)).entry_ids
    assert await solves(hooks, solution_steps=None, verified_by=None) == EventResult()
    assert (await hooks.knowledge.capture.get(entry_id)).status is EntryStatus.OPEN


async def test_a_solution_that_comes_second_neither_wins_nor_breaks_anything(hooks: OrchestratorHooks) -> None:
    (entry_id,) = (await fails(hooks)).entry_ids
    told = await asyncio.gather(solves(hooks), solves(hooks, solution_steps=OTHER))
    first, second = sorted(told, key=lambda kept: -len(kept.entry_ids))
    assert (first.entry_ids, first.degraded) == ((entry_id,), None)
    assert second.entry_ids == ()
    assert "solution_steps: not stored" in (second.degraded or "")
    assert (await hooks.knowledge.capture.get(entry_id)).solution_steps in {SOLUTION, OTHER}


# outcomes


@AT_BOTH_DOORS
async def test_a_task_solved_with_what_it_was_given_is_a_success_of_that(hooks: OrchestratorHooks) -> None:
    await learned(hooks)
    for run, expected in (("1", (2, 2, 2)), ("2", (3, 3, 2))):
        await started(hooks, run)
        assert (await hooks.task_solved(project_id="second", task_id="T-1", run_id=run)).outcomes == 1
        assert await record(hooks) == expected
    assert (await hooks.task_solved(project_id="second", task_id="T-1", run_id="2")).outcomes == 0, "told before"


@AT_BOTH_DOORS
async def test_a_task_that_fails_in_spite_of_it_is_an_attempt_and_stays_one(
    hooks: OrchestratorHooks, clock: SetClock
) -> None:
    await learned(hooks)
    await started(hooks)
    assert (await fails(hooks, project_id="second")).outcomes == 1
    assert await record(hooks) == (1, 2, 1)
    clock.move(MINUTE)
    assert (await solves(hooks, project_id="second", solution_steps=OTHER)).outcomes == 0
    assert await record(hooks) == (1, 2, 1), "something else solved it"


async def test_what_is_handed_out_again_after_a_failure_may_yet_work(hooks: OrchestratorHooks, clock: SetClock) -> None:
    await learned(hooks)
    for failures in (1, 2):
        await started(hooks)
        clock.move(MINUTE)
        assert (await fails(hooks, project_id="second")).outcomes == 1, f"the same failure, {failures} times"
        clock.move(MINUTE)
        assert await record(hooks) == (1, 2, 1)
    await started(hooks)
    assert (await hooks.task_solved(project_id="second", task_id="T-1", run_id="1")).outcomes == 1
    assert await record(hooks) == (2, 2, 2)


async def test_a_solution_told_back_worked_in_the_run_that_solved_it_alone(
    hooks: OrchestratorHooks, clock: SetClock
) -> None:
    """The runs that had failed in spite of it became successes, too: one of five was six of six."""
    await learned(hooks)
    for run in ("1", "2", "3", "4"):
        await started(hooks, run)
        clock.move(MINUTE)
        words = f'Traceback (most recent call last):\n  File "cart.py", line {run}, in total\nTypeError: no price'
        assert (await fails(hooks, project_id="second", run_id=run, failure_description=words)).outcomes == 1
    assert await record(hooks) == (1, 5, 1)
    await started(hooks, "5")
    for _ in range(2):
        await solves(hooks, project_id="second", run_id="5")
        assert await record(hooks) == (2, 6, 2)
    assert dict((await hooks.knowledge.stats()).entries) == {"abandoned": 3, "embedded": 1}


async def test_an_agent_that_says_it_went_by_nothing_tells_of_nothing(hooks: OrchestratorHooks) -> None:
    await learned(hooks)
    await started(hooks)
    told: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    assert (await hooks.task_solved(**told, tried=[])).outcomes == 0
    assert (await fails(hooks, **told, tried=[])).outcomes == 0
    assert await record(hooks) == (1, 1, 1)


@AT_BOTH_DOORS
async def test_what_is_no_id_of_a_pattern_is_named_and_the_rest_of_the_event_is_kept(hooks: OrchestratorHooks) -> None:
    """An agent made one up, and the solution that it had found was lost with it."""
    await learned(hooks)
    pattern = await started(hooks)
    told: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    tried: list[Any] = ["pattern 1", pattern.pattern_id, 5]
    kept = await hooks.task_solved(**told, tried=tried)
    assert (kept.outcomes, kept.degraded) == (1, "tried: ignored, not an id of a pattern: 'pattern 1', 5")
    assert await record(hooks) == (2, 2, 2)
    assert hooks.counts["task_solved_degraded"] == 1
    with pytest.raises(InvalidInput):
        await hooks.knowledge.events.task_solved(**told, tried=tried)
    alone: Any = pattern.pattern_id
    assert (await hooks.task_solved(**told, tried=alone)).degraded is None, "a single one is one that was tried"
    nothing: Any = 5
    kept = await hooks.task_solved(**told, tried=nothing)
    assert kept.degraded == "tried: ignored, not an id of a pattern: 5"


# gates


async def decides(hooks: OrchestratorHooks, *, accepted: bool, **told: Any) -> EventResult:
    defaults: dict[str, Any] = {"project_id": "first", "gate_type": "design_review", "task_id": "T-1"}
    return await hooks.gate_decided(accepted=accepted, **defaults | told)


@AT_BOTH_DOORS
async def test_rejections_stay_open_until_a_revision_passes(hooks: OrchestratorHooks) -> None:
    first = await decides(hooks, accepted=False, proposal="Rename it in place", human_feedback="No migration plan")
    second = await decides(hooks, accepted=False, proposal="Rename it at night", human_feedback="Still no plan")
    passed = await decides(hooks, accepted=True, proposal="Expand, migrate, contract")
    assert sorted(passed.entry_ids) == sorted([*first.entry_ids, *second.entry_ids])
    assert await decides(hooks, accepted=True, proposal="Expand, migrate, contract") == passed, "told again"
    entry = await hooks.knowledge.capture.get(first.entry_ids[0])
    assert (entry.entry_type, entry.status) == (EntryType.GATE_REJECTION, EntryStatus.STAGED)
    assert entry.revision_approach == "Expand, migrate, contract"


@AT_BOTH_DOORS
async def test_what_passes_at_the_first_attempt_is_an_approval(hooks: OrchestratorHooks) -> None:
    await decides(hooks, accepted=False, human_feedback="No", task_id="T-2")
    kept = await decides(hooks, accepted=True, proposal="Cache the list", approach="An ETag, five minutes")
    entry = await hooks.knowledge.capture.get(kept.entry_ids[0])
    assert (entry.entry_type, entry.proposal) == (EntryType.GATE_APPROVAL, "Cache the list")
    assert entry.approved_approach == "An ETag, five minutes"


@AT_BOTH_DOORS
async def test_a_second_acceptance_after_a_rejection_is_told_to_be_no_first_attempt(hooks: OrchestratorHooks) -> None:
    await decides(hooks, accepted=False, proposal="Rename it", human_feedback="No plan")
    await decides(hooks, accepted=True, proposal="Expand, migrate, contract")
    kept = await decides(hooks, accepted=True, proposal="Something else")
    assert kept.entry_ids == ()
    assert kept.degraded is not None
    assert "a rejection is on record" in kept.degraded


# checkpoints


@AT_BOTH_DOORS
@case_by_case
async def test_the_end_of_a_phase_or_project_is_a_checkpoint_of_its_kind(
    hooks: OrchestratorHooks, end: str, after: dict[str, int]
) -> None:
    await fails(hooks)
    await solves(hooks)
    await fails(hooks, task_id="T-2")
    await getattr(hooks, end)("first")
    await hooks.wait_for_checkpoints()
    assert dict((await hooks.knowledge.stats()).entries) == after


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_checkpoint_holds_nobody_up_and_ends_before_its_block(opens: Opens) -> None:
    async with opens(embedder=SlowEmbedder(dims=64)) as knowledge:
        async with OrchestratorHooks(knowledge) as hooks:
            await fails(hooks)
            await solves(hooks)
            await hooks.phase_completed("first")
            await fails(hooks, task_id="T-2")
            assert dict((await knowledge.stats()).entries) == {"open": 1, "staged": 1}
        assert dict((await knowledge.stats()).entries) == {"open": 1, "embedded": 1}


class Checkpoints:
    """Has each checkpoint wait until it is let go, and keeps which began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, CheckpointType]] = []
        self.let_go = asyncio.Event()

    async def process_checkpoint(self, project_id: str, checkpoint_type: CheckpointType) -> None:
        self.began.append((project_id, checkpoint_type))
        await self.let_go.wait()


def with_checkpoints(checkpoints: Checkpoints) -> OrchestratorHooks:
    return OrchestratorHooks(cast("AnyKnowledge", SimpleNamespace(checkpoints=checkpoints)))


async def test_checkpoints_of_one_kind_and_project_that_wait_are_one() -> None:
    checkpoints = Checkpoints()
    async with with_checkpoints(checkpoints) as hooks:
        for _ in range(3):
            await hooks.phase_completed("first")
        await asyncio.sleep(0)
        for project in ("first", "first", "second", "first"):  # the one at work may be past what these are told for
            await hooks.phase_completed(project)
        await hooks.project_completed("first")
        checkpoints.let_go.set()
        await hooks.wait_for_checkpoints()
        phase, end = CheckpointType.PHASE_COMPLETION, CheckpointType.PROJECT_COMPLETION
        assert checkpoints.began == [("first", phase), ("first", phase), ("second", phase), ("first", end)]
        assert hooks.counts["phase_completed"] == 7


async def test_a_checkpoint_that_hangs_is_given_up_and_those_after_it_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call on a dead connection, and no checkpoint of the process was ever made again."""
    monkeypatch.setattr("hardwon.hooks.MAX_CHECKPOINT_DURATION", timedelta(seconds=0.2))
    checkpoints = Checkpoints()
    async with with_checkpoints(checkpoints) as hooks:
        await hooks.phase_completed("first")
        await hooks.phase_completed("second")
        async with asyncio.timeout(10):
            await hooks.wait_for_checkpoints()
        assert [project for project, _ in checkpoints.began] == ["first", "second"]
        assert hooks.counts["phase_completed_degraded"] == 2


async def test_checkpoints_are_counted_and_logged_by_the_names_of_their_hooks(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    embedder.unavailable = "The endpoint is down."
    names = ("phase_completed", "project_completed", "project_cancelled")
    with capture_logs() as logged:
        async with OrchestratorHooks(knowledge) as hooks:
            for name in names:
                await fails(hooks, task_id=name)
                await solves(hooks, task_id=name)
                await getattr(hooks, name)("first")
                await hooks.wait_for_checkpoints()
    assert [hooks.counts[name] for name in names] == [1, 1, 1]
    assert [(line["hook"], type(line["hook"])) for line in logged if line["event"] == "hook_degraded"] == [
        (name, str) for name in names
    ]
    assert [hooks.counts[f"{name}_degraded"] for name in names] == [1, 1, 1]


# what is wrong, what is down


@AT_BOTH_DOORS
@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"failure_description": " "}, "failure_description: "), ({"task_id": "\0"}, "task_id: holds a NUL")],
)
async def test_what_is_wrong_with_an_event_is_said_and_not_raised(
    hooks: OrchestratorHooks, wrong: dict[str, str], said: str
) -> None:
    kept = await fails(hooks, **wrong)
    assert kept.degraded is not None
    assert kept.degraded.startswith(said)
    assert hooks.counts["task_failed_degraded"] == 1
    assert dict((await hooks.knowledge.stats()).entries) == {}
    told: dict[str, Any] = {"project_id": "p", "task_id": "t", "agent_type": "a", "failure_description": "f"}
    with pytest.raises(InvalidInput):
        await hooks.knowledge.events.task_failed(**told | wrong)


@AT_BOTH_DOORS
async def test_of_a_text_that_is_too_long_both_ends_are_kept_and_it_says_so(hooks: OrchestratorHooks) -> None:
    """A log with a NUL in it, and with an address for which a longer word is stored: the failure was lost for it."""
    log = "mail to al@acme.io\0\n" + "INFO   tried again\n" * 5000 + "E   ConnectionError: refused"
    (failed,) = (await fails(hooks, error_message=log)).entry_ids
    assert (await fails(hooks, error_message=log)).entry_ids == (failed,)
    (solved,) = (
        await solves(hooks, solution_steps=SOLUTION + "\nof which this is one" * 5000 + "\nand the last")
    ).entry_ids
    assert solved == failed
    entry = await hooks.knowledge.capture.get(failed)
    for text, begins, ends in (
        (entry.error_message, "mail to ", "\nE   ConnectionError: refused"),
        (entry.solution_steps, SOLUTION, "\nand the last"),
    ):
        assert text is not None
        assert text.startswith(begins)
        assert text.endswith(ends)
        assert "\n[cut: there was more here]\n" in text
        assert 60_000 < len(text.encode()) <= MAX_TEXT_BYTES
    rejected = await hooks.gate_decided(
        project_id="first", gate_type="review", accepted=False, proposal="p" * 99_999, human_feedback="too long " * 9999
    )
    assert rejected.degraded is None


@AT_BOTH_DOORS
async def test_an_event_with_all_the_text_it_may_have_is_kept_whatever_it_is_written_in(
    hooks: OrchestratorHooks,
) -> None:
    """Over HTTP a failure told in two long texts of Cyrillic was too large a request, and lost."""
    text = "\x1b" * 70_000  # JSON writes each as six
    failed = await fails(hooks, failure_description=text, error_message=text, task_description=text)
    assert (failed.degraded, len(failed.entry_ids)) == (None, 1)
    solved = await solves(hooks, solution_steps=text, when_to_try=text)
    assert (solved.degraded, solved.entry_ids) == (None, failed.entry_ids)
    gate: dict[str, Any] = {"project_id": "first", "gate_type": "review", "proposal": text, "task_description": text}
    kept = await hooks.gate_decided(**gate, accepted=True, approach=text, when_to_try=text)
    assert (kept.degraded, len(kept.entry_ids)) == (None, 1)


@AT_BOTH_DOORS
@pytest.mark.long
async def test_a_task_or_a_question_of_any_length_is_asked_for_by_its_ends(hooks: OrchestratorHooks) -> None:
    """Over HTTP a task with a log of megabytes in it got no knowledge, and a question raised."""
    await learned(hooks)
    middle = "\n" + "INFO   повторная попытка\n" * 120_000
    described = FAILURE + middle + FAILURE
    context = await hooks.task_started({"description": described, "type": "bugfix", "technology": "python"}, "backend")
    assert context.degraded is None
    assert context.text.startswith(f"Task: {FAILURE}\n")
    assert f"{FAILURE}\nType: bugfix\n" in context.text, "the end of the task, too"
    queries = hooks.knowledge.queries
    for asked in (
        queries.query_for_task(described, min_relevance=0),
        queries.query_for_failure(described, described, min_relevance=0),
        queries.query_for_failure(FAILURE, "\x1b" * 3_000_000, min_relevance=0),
    ):
        assert [pattern.problem for pattern in await asked] == [FAILURE]
    assert await queries.query_for_gate("review", described, min_relevance=0) == []
    with pytest.raises(InvalidInput, match="task_description: holds a lone surrogate"):
        await queries.query_for_task("\ud800" + middle)


@AT_BOTH_DOORS
@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"solution_steps": SOLUTION, "verified_by": None}, "verified_by"),
        ({"project_id": ""}, "project_id"),
    ],
)
async def test_a_solution_that_nothing_showed_to_work_is_refused_by_name(
    hooks: OrchestratorHooks, told: dict[str, Any], field: str
) -> None:
    (entry_id,) = (await fails(hooks)).entry_ids
    kept = await solves(hooks, **told)
    assert kept.degraded is not None
    assert kept.degraded.startswith(f"{field}: ")
    assert (await hooks.knowledge.capture.get(entry_id)).status is EntryStatus.OPEN


async def test_a_task_without_words_gets_a_context_that_says_so(hooks: OrchestratorHooks) -> None:
    context = await hooks.task_started(SimpleNamespace(), "backend")
    assert (context.text, context.patterns) == ("", ())
    assert context.degraded is not None
    assert hooks.counts["task_started_degraded"] == 1


@AT_BOTH_DOORS
@pytest.mark.parametrize(("told", "kept"), [(17, "17"), (UUID(int=17), str(UUID(int=17)))])
async def test_ids_as_databases_give_them_are_kept_as_texts(
    hooks: OrchestratorHooks, told: int | UUID, kept: str
) -> None:
    """A context is on record by the same ones: what became of its task would else be told of nothing."""
    ids: dict[str, Any] = {"project_id": told, "task_id": told, "run_id": told}
    await learned(hooks)
    context = await hooks.task_started(
        {"description": FAILURE, "type": "bugfix", "technology": "python"} | ids, "backend"
    )
    assert len(context.patterns) == 1
    failed = await fails(hooks, **ids, failure_description="The invoice has no number")
    assert (failed.degraded, failed.outcomes) == (None, 1)
    solved = await solves(hooks, **ids, solution_steps="Number it", tried=[str(context.patterns[0].pattern_id)])
    assert (solved.degraded, solved.entry_ids, solved.outcomes) == (None, failed.entry_ids, 1)
    decided = await decides(hooks, **ids, accepted=True, proposal="Cache the list")
    entry = await hooks.knowledge.capture.get(*decided.entry_ids)
    assert (entry.project_id, entry.task_id, entry.run_id) == (kept, kept, kept)
    await hooks.phase_completed(told)  # type: ignore[arg-type]
    await hooks.wait_for_checkpoints()
    assert (await hooks.knowledge.capture.get(*decided.entry_ids)).status is EntryStatus.EMBEDDED


@pytest.mark.parametrize("refusal", [RejectionOnRecord("once turned down"), NotFound("no such context")])
async def test_an_event_that_is_refused_between_failures_shows_that_the_stores_answer(refusal: Exception) -> None:
    """Three failures among as many answers, and events were not tried for a while, and lost."""
    ends = [StorageUnavailable("gone"), refusal] * 3

    async def ends_so(**_: Any) -> EventResult:
        raise ends.pop(0)

    events = SimpleNamespace(task_failed=ends_so)
    async with OrchestratorHooks(cast("AnyKnowledge", SimpleNamespace(events=events))) as hooks:
        assert [(await fails(hooks)).degraded for _ in range(6)] == ["gone", str(refusal)] * 3


async def everything(hooks: OrchestratorHooks) -> list[str | None]:
    """Tell every event; return what was degraded of those that say it."""
    told = [
        (await hooks.task_started(task(), "backend")).degraded,
        (await fails(hooks)).degraded,
        (await solves(hooks)).degraded,
        (await decides(hooks, accepted=True, proposal="Cache the list")).degraded,
    ]
    await hooks.phase_completed("first")
    await hooks.wait_for_checkpoints()
    return told


@pytest.mark.long
@pytest.mark.parametrize("wire", [Wire.REFUSE, Wire.HANG])
async def test_a_store_that_is_down_stops_no_orchestrator_and_is_used_again_once_it_is_back(
    settings: KnowledgeSettings, postgres_dsn: str, database_url: str, wire: Wire
) -> None:
    with Relay(str(socket_of(postgres_dsn))) as relay:
        address = SecretStr(over_tcp(database_url, relay.port))
        over_wire = settings.model_copy(update={"database_url": address, "query_deadline_ms": 500})
        async with open_knowledge(over_wire, embedder=HashingEmbedder(dims=64)) as knowledge:
            hooks = OrchestratorHooks(knowledge, deadline=timedelta(seconds=0.5))
            hooks._breaker.open_seconds = 0.2
            relay.be(wire)
            began = time.monotonic()
            for _ in range(2):
                told = [
                    (await hooks.task_started(task(), "backend")).degraded,
                    (await fails(hooks)).degraded,
                    (await solves(hooks)).degraded,
                    (await decides(hooks, accepted=True, proposal="Cache the list")).degraded,
                ]
                assert all(told), told
            assert time.monotonic() - began < 6, "none longer than its deadline"
            assert hooks.counts["task_failed_degraded"] == 2
            await hooks.phase_completed("first")
            relay.be(Wire.SOUND)
            for _ in range(40):
                if not any(await everything(hooks)):
                    break
                await asyncio.sleep(0.2)
            else:
                pytest.fail("it is back, and nothing is kept")
            assert (await knowledge.stats()).entries["embedded"] >= 1


async def test_a_hardwon_server_that_is_gone_stops_no_orchestrator(settings: KnowledgeSettings) -> None:
    async with KnowledgeClient("http://127.0.0.1:9", settings=settings) as client, OrchestratorHooks(client) as hooks:
        told = await everything(hooks)
        assert all(reason is not None and "does not answer" in reason for reason in told), told
        assert hooks.counts["phase_completed_degraded"] == 1


# restarts and processes


async def test_what_failed_before_a_restart_is_solved_after_it(opens: Opens) -> None:
    async with opens() as knowledge, OrchestratorHooks(knowledge) as hooks:
        await learned(hooks)
        await started(hooks)
        (entry_id,) = (await fails(hooks, project_id="second", task_id="T-2")).entry_ids
        (rejected,) = (await decides(hooks, accepted=False, human_feedback="No plan")).entry_ids
    async with opens() as knowledge, OrchestratorHooks(knowledge) as hooks:
        assert (await solves(hooks, project_id="second", task_id="T-2", solution_steps=OTHER)).entry_ids == (entry_id,)
        assert (await decides(hooks, accepted=True, proposal="A plan")).entry_ids == (rejected,)
        assert (await hooks.task_solved(project_id="second", task_id="T-1", run_id="1")).outcomes == 1
        await knowledge.checkpoints.process_all()
        found = await knowledge.queries.query_for_failure(FAILURE, min_relevance=0)
        assert sorted((each.solution, each.success_count) for each in found if each.gate_type is None) == [
            (OTHER, 1),
            (SOLUTION, 2),
        ]


@pytest.mark.long
async def test_the_snippet_of_the_docs_runs_as_it_stands(home: Path, database_url: str) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```", DOCS, flags=re.DOTALL | re.MULTILINE)
    with OpenAIServer(dims=64) as endpoint:
        commands = Commands(home, embedding_by(endpoint) | {"HARDWON_DATABASE_URL": database_url})
        ran = commands.python(snippet)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert commands.json("stats")["entries"] == {"embedded": 2}


# what is told beside what is on record


async def test_who_names_what_was_tried_is_believed_whatever_was_told_before(hooks: OrchestratorHooks) -> None:
    """It failed at first and then worked, or the other way round: the last that is told of a run counts."""
    await learned(hooks)
    pattern = await started(hooks)
    told: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1"}
    for failed, expected in ((True, (1, 2, 1)), (False, (2, 2, 2)), (True, (1, 2, 1))):
        for _ in range(2):
            tried = [pattern.pattern_id]
            event = fails(hooks, **told, tried=tried) if failed else hooks.task_solved(**told, tried=tried)
            kept = await event
            assert (kept.outcomes, kept.degraded) == (1, None)
        assert await record(hooks) == expected


async def test_what_was_tried_and_never_handed_out_is_named(hooks: OrchestratorHooks) -> None:
    await learned(hooks)
    pattern = await started(hooks)
    strange = UUID(int=9)
    kept = await hooks.task_solved(
        project_id="second", task_id="T-1", run_id="1", tried=[pattern.pattern_id, PatternId(strange)]
    )
    assert kept.outcomes == 1
    assert kept.degraded == f"tried: ignored patterns that were not handed out for this task and run: {strange}"
    assert hooks.counts["task_solved_degraded"] == 1


async def test_told_again_without_the_run_it_counts_once(hooks: OrchestratorHooks) -> None:
    """Each time it was taken for the next one of the runs that it had been handed out for."""
    await learned(hooks)
    for run in ("1", "2", "3"):
        await started(hooks, run)
    told = [await hooks.task_solved(project_id="second", task_id="T-1") for _ in range(3)]
    assert [kept.outcomes for kept in told] == [1, 0, 0]
    assert await record(hooks) == (2, 2, 2)


async def test_handed_out_without_a_run_it_counts_in_the_first_that_is_told(hooks: OrchestratorHooks) -> None:
    await learned(hooks)
    await started(hooks, run=None)
    told = [await hooks.task_solved(project_id="second", task_id="T-1", run_id=run) for run in ("1", "2", "1", None)]
    assert [kept.outcomes for kept in told] == [1, 0, 0, 0]
    assert await record(hooks) == (2, 2, 2)


async def test_a_solution_that_nothing_waits_for_is_not_dropped_without_a_word(hooks: OrchestratorHooks) -> None:
    await fails(hooks)
    await hooks.project_completed("first")
    await hooks.wait_for_checkpoints()
    kept = await solves(hooks)
    assert kept.entry_ids == ()
    assert "no failure of this task is open: those on record are abandoned" in (kept.degraded or "")
    assert (await solves(hooks, task_id="T-2")).degraded is None, "nothing ever failed there"


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_blank_fields_that_need_not_be_told_tell_nothing(hooks: OrchestratorHooks, blank: str) -> None:
    """An error without a message cost the whole failure, a task without a technology its context."""
    failed = await fails(hooks, error_message=blank, technology=blank, task_type=blank, run_id=blank)
    assert (len(failed.entry_ids), failed.degraded) == (1, None)
    solved = await solves(hooks, when_to_try=blank, run_id=blank)
    assert (solved.entry_ids, solved.degraded) == (failed.entry_ids, None)
    await hooks.phase_completed("first")
    await hooks.wait_for_checkpoints()
    asked = Task(description=FAILURE, type=blank, technology=blank, project_id="second", task_id="T-1", run_id=blank)
    context = await hooks.task_started(asked, "backend")
    assert (len(context.patterns), context.degraded) == (1, None)


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_a_gate_may_be_of_no_task_and_no_agent_but_a_failure_is_of_both(
    hooks: OrchestratorHooks, blank: str
) -> None:
    """A decision on something else than a task cost the lesson where its task was told as a blank."""
    told: dict[str, Any] = {"project_id": "first", "gate_type": "review", "proposal": "Cache the carts in Redis"}
    decided = await hooks.gate_decided(**told, accepted=True, task_id=blank, agent_type=blank, run_id=blank)
    assert (len(decided.entry_ids), decided.degraded) == (1, None)
    for field in ("task_id", "agent_type"):
        failed = await fails(hooks, **{field: blank})
        assert failed.entry_ids == ()
        assert field in (failed.degraded or "")


async def test_a_solution_that_says_not_to_do_what_was_handed_out_is_no_success_of_that(
    hooks: OrchestratorHooks,
) -> None:
    await learned(hooks)
    await started(hooks)
    told: dict[str, Any] = {"project_id": "second", "task_id": "T-1", "run_id": "1", "verified_by": "pytest"}
    against = f"Do not {SOLUTION[0].lower()}{SOLUTION[1:]}; it was the quartz crystal"
    assert (await hooks.task_solved(**told, solution_steps=against)).outcomes == 0
    assert await record(hooks) == (1, 1, 1)
    assert (await hooks.task_solved(**told, solution_steps=f"First {SOLUTION}, then restart")).outcomes == 1
