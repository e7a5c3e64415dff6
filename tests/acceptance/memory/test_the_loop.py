"""The whole loop on real Postgres and the real engine: capture, checkpoint, query, context, prune."""

from __future__ import annotations

from typing import Any

import pytest

from hardwon.errors import IdempotencyConflict, RejectionOnRecord
from knowledge import EntryType, NewEntry, Task
from knowledge.models import CaptureOutcome, EntryId, EntryStatus
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.conftest import Opens
from tests.support.entries import failure
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

CART = "TypeError in the cart total when a price is None"


async def fail(knowledge: Knowledge, **told: Any) -> EntryId:
    """Capture a verified failure; what is not told has a default."""
    defaults: dict[str, Any] = {
        "project_id": "web-shop",
        "agent_type": "backend",
        "task_type": "bugfix",
        "technology": "python",
        "failure_description": CART,
        "solution_steps": "Treat a missing price as zero",
        "success_verified": True,
        "verified_by": "pytest",
    }
    return await knowledge.capture.capture_failure_solution(**defaults | told)


@pytest.mark.long
async def test_a_failure_solved_in_one_project_reaches_a_task_of_another(knowledge: Knowledge) -> None:
    await fail(knowledge, project_id="first")
    await knowledge.checkpoints.process_checkpoint("first", "phase_completion")

    task = Task(description="TypeError in the cart total, price None", type="bugfix", technology="python")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")

    assert context.degraded is None
    assert "- Solution: Treat a missing price as zero" in context.text
    assert "Pattern 1 (Less Common - 1 success):" in context.text


async def test_a_rejection_reaches_others_with_the_revision_that_was_accepted(knowledge: Knowledge) -> None:
    rejection = await knowledge.capture.capture_gate_rejection(
        project_id="first",
        gate_type="design_review",
        proposal="Rename the orders table in place",
        human_feedback="There is no migration plan for the old table",
    )
    report = await knowledge.checkpoints.process_checkpoint("first", "phase_completion")
    assert report.embedded == 0, "a rejection is knowledge only with the revision that was accepted"

    await knowledge.capture.resolve_gate_rejection(rejection, revision_approach="Expand, migrate, contract")
    report = await knowledge.checkpoints.process_checkpoint("first", "phase_completion")
    assert report.embedded == 1

    found = await knowledge.queries.query_for_task("Rename the orders table, migration plan", "backend", "design", None)
    assert [pattern.solution for pattern in found] == ["Expand, migrate, contract"]


async def test_an_approval_after_a_rejection_is_refused_and_says_what_to_do(knowledge: Knowledge) -> None:
    gate: dict[str, Any] = {"project_id": "first", "gate_type": "design_review", "task_id": "T-1"}
    rejected = await knowledge.capture.capture_gate_rejection(**gate, human_feedback="too risky")
    with pytest.raises(RejectionOnRecord, match=f"resolve that rejection .* instead .entry {rejected}"):
        await knowledge.capture.capture_gate_approval(**gate, approved_approach="smaller steps")
    await knowledge.checkpoints.process_checkpoint("first", "project_completion")
    with pytest.raises(RejectionOnRecord, match="not a first attempt, and the rejection is abandoned already"):
        await knowledge.capture.capture_gate_approval(**gate, approved_approach="smaller steps")
    other = gate | {"task_id": "T-2"}
    accepted = await knowledge.capture.capture_gate_approval(**other, approved_approach="smaller steps")
    assert (await knowledge.capture.get(accepted)).status is EntryStatus.STAGED


async def test_a_first_attempt_told_again_is_the_same_entry_though_the_gate_turned_something_down_since(
    knowledge: Knowledge,
) -> None:
    """G3: whoever did not hear the answer tells it again, alone or with all there is to tell."""
    gate: dict[str, Any] = {"project_id": "first", "gate_type": "design_review"}
    first = gate | {"approved_approach": "smaller steps", "idempotency_key": "first"}
    accepted = await knowledge.capture.capture_gate_approval(**first)
    rejected = await knowledge.capture.capture_gate_rejection(**gate, human_feedback="too risky")
    assert await knowledge.capture.capture_gate_approval(**first) == accepted
    told = [
        NewEntry(entry_type=EntryType.GATE_REJECTION, **gate, human_feedback="too risky"),
        NewEntry(entry_type=EntryType.GATE_APPROVAL, **first),
        NewEntry(entry_type=EntryType.GATE_APPROVAL, **gate, approved_approach="a second attempt"),
    ]
    answers = await knowledge.capture.capture_all(told)
    assert [(answer.outcome, answer.entry_id) for answer in answers] == [
        ("duplicate", rejected),
        ("duplicate", accepted),
        ("refused", None),
    ]
    with pytest.raises(IdempotencyConflict):
        await knowledge.capture.capture_gate_approval(**first | {"approved_approach": "a second attempt"})


@pytest.mark.long
@pytest.mark.parametrize("run", [{"task_id": "T-1", "run_id": "1"}, {}, {"idempotency_key": "k"}])
async def test_ten_thousand_replays_of_one_capture_are_one_success(knowledge: Knowledge, run: dict[str, str]) -> None:
    """D33: of one task's run, of an event that names neither, and of one with a key; before a checkpoint and after."""
    replayed = failure(**run)
    first = await knowledge.capture.capture(replayed)
    for _ in range(2):
        for _ in range(5):
            answers = await knowledge.capture.capture_all([replayed] * 1000)
            assert {(answer.outcome, answer.entry_id) for answer in answers} == {(CaptureOutcome.DUPLICATE, first)}
        await knowledge.checkpoints.process_all()
    (pattern,) = await knowledge.queries.query_for_failure(CART)
    assert (pattern.success_count, pattern.attempt_count, pattern.project_count) == (1, 1, 1)
    assert dict((await knowledge.stats()).entries) == {"embedded": 1}


async def test_what_fails_when_it_is_tried_sinks_below_what_nobody_tried(knowledge: Knowledge) -> None:
    """D33: on record, not by word: the outcome of a context moves it."""
    for way in ("first", "second"):
        await knowledge.capture.capture(failure(solution_steps=f"the {way} way"))
    await knowledge.checkpoints.process_all()
    task = Task(description=CART, project_id="another", task_id="T-9", run_id="1")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    tried, untried = context.patterns
    await knowledge.outcomes.record_outcome(context.context_id, tried.pattern_id, worked=False)
    found = await knowledge.queries.query_for_failure(CART)
    assert [pattern.pattern_id for pattern in found] == [untried.pattern_id, tried.pattern_id]
    assert (found[1].success_count, found[1].attempt_count) == (1, 2)


@pytest.mark.parametrize(
    ("checkpoint_type", "embedded", "abandoned"),
    [
        ("phase_completion", {"vouched", "unvouched", "human"}, set()),
        ("manual", {"vouched", "unvouched", "human"}, set()),
        ("project_completion", {"vouched", "unvouched", "human"}, {"open"}),
        ("cancellation", {"vouched", "human"}, {"open", "unvouched"}),
    ],
)
async def test_each_checkpoint_takes_what_the_table_says(
    knowledge: Knowledge, checkpoint_type: str, embedded: set[str], abandoned: set[str]
) -> None:
    """D48: cancelled work is no success, unless somebody vouches for it."""
    ids = {
        "vouched": await fail(knowledge, failure_description="one", verified_by="pytest"),
        "unvouched": await fail(knowledge, failure_description="two", verified_by=None),
        "human": await knowledge.capture.capture_gate_approval(
            project_id="web-shop", gate_type="review", approved_approach="small steps"
        ),
        "open": await fail(knowledge, failure_description="four", solution_steps=None, success_verified=False),
    }
    other = await fail(knowledge, project_id="another", failure_description="five")
    report = await knowledge.checkpoints.process_checkpoint("web-shop", checkpoint_type)

    status = {name: (await knowledge.capture.get(entry)).status for name, entry in ids.items()}
    assert {name for name, now in status.items() if now is EntryStatus.EMBEDDED} == embedded
    assert {name for name, now in status.items() if now is EntryStatus.ABANDONED} == abandoned
    assert (report.embedded, report.abandoned) == (len(embedded), len(abandoned))
    assert (await knowledge.capture.get(other)).status is EntryStatus.STAGED
    assert await knowledge.checkpoints.get(report.checkpoint_id) == report


async def test_everything_is_still_there_after_the_stores_were_closed(opens: Opens) -> None:
    async with opens() as knowledge:
        await fail(knowledge)
        await knowledge.checkpoints.process_all()
    async with opens() as knowledge:
        assert await knowledge.queries.query_for_failure(CART)
        assert (await knowledge.checkpoints.process_all()).embedded == 0, "D23: nothing is embedded twice"
