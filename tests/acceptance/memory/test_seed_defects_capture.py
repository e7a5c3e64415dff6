"""The design's defects at capture and in its schema, each proven absent on the real stores."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from hardwon.errors import InvalidInput, NotFound, NotOpen, RejectionOnRecord
from hardwon.validation import MAX_TEXT_BYTES
from knowledge.adapters.postgres.memory.entry_rows import to_row
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.models import EntryStatus, NewEntry
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.entries import CART, approval, capture, failure, learn, rejection, stored
from tests.support.sharing import OF_ONE_LOOP, knowledge, own, shared

__all__ = ["knowledge", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP


async def rows(knowledge: Knowledge, query: str, **values: object) -> list[Any]:
    """Return what Postgres answers, past all services."""
    async with knowledge.engine.connect() as connection:
        return list(await connection.execute(sa.text(query), values))


async def test_a_gate_decision_needs_no_agent_type_and_a_failure_does(knowledge: Knowledge) -> None:
    """D12: the design's gate captures left out a column that its schema does not let be empty."""
    for entry in (rejection(), approval(project_id="another")):
        (entry_id,) = await capture(knowledge, entry)
        assert (await knowledge.capture.get(entry_id)).agent_type is None
    with pytest.raises(InvalidInput, match="agent_type: is required"):
        await knowledge.capture.capture(failure(agent_type=None))


async def test_a_gate_decision_is_stored_with_its_project(knowledge: Knowledge) -> None:
    """D13: so a checkpoint of that project takes it."""
    rejected = await knowledge.capture.capture_gate_rejection(
        project_id="first", gate_type="review", human_feedback="too risky", revision_approach="smaller steps"
    )
    approved = await knowledge.capture.capture_gate_approval(
        project_id="second", gate_type="review", approved_approach="an ETag"
    )
    assert (await knowledge.capture.get(rejected)).project_id == "first"
    assert (await knowledge.capture.get(approved)).project_id == "second"
    assert (await knowledge.checkpoints.process_checkpoint("first", "phase_completion")).embedded == 1
    assert (await knowledge.capture.get(approved)).status is EntryStatus.STAGED


@pytest.mark.own_stores
async def test_all_that_is_told_of_a_failure_is_stored(knowledge: Knowledge) -> None:
    """D14: the design dropped the task type, the technology and the error."""
    told = failure(
        error_message="TypeError: unsupported operand",
        task_description="Show the total of a cart",
        when_to_try="Before a release",
        task_id="T-17",
        run_id="3",
        idempotency_key="k",
        workspace="default",
    )
    (entry_id,) = await capture(knowledge, told)
    entry = await knowledge.capture.get(entry_id)
    assert NewEntry(**{field.name: getattr(entry, field.name) for field in fields(NewEntry)}) == told


async def test_a_failure_is_found_by_its_error_message_alone(knowledge: Knowledge) -> None:
    """D14: stored and embedded."""
    await learn(knowledge, failure(failure_description="It broke", error_message="ORA-01555 snapshot too old"))
    (found,) = await knowledge.queries.query_for_failure("ORA-01555 snapshot too old", min_relevance=0.5)
    assert found.problem == "It broke\nORA-01555 snapshot too old"


@pytest.mark.own_stores
async def test_a_project_is_any_key_and_appears_with_its_first_entry(knowledge: Knowledge) -> None:
    """D18: the design's capture failed unless a row of a table it never fills was there."""
    keys = ["web-shop", "4711", "ünï/漢字 #1 \U0001f6d2", "x" * 200, "'; drop table projects; --"]
    ids = await learn(knowledge, *(failure(project_id=key) for key in keys))
    assert [(await knowledge.capture.get(entry_id)).project_id for entry_id in ids] == keys
    there = await rows(knowledge, "SELECT workspace, project_id FROM projects")
    assert {tuple(row) for row in there} == {("default", key) for key in keys}


@pytest.mark.own_stores
async def test_deleting_every_entry_of_a_project_leaves_nothing_of_it_in_either_store(knowledge: Knowledge) -> None:
    """D19."""
    mine = await learn(
        knowledge,
        failure(project_id="secret", task_description="A secret task"),
        failure(project_id="secret", solution_steps="Another way"),
        rejection(project_id="secret"),
    )
    (shared,) = await learn(knowledge, failure(project_id="open"))
    for entry_id in mine:
        await knowledge.capture.delete(entry_id)
    (left,) = await knowledge.queries.query_for_task(CART, min_relevance=0)
    assert (left.entry_ids, left.success_count, left.project_count) == ((shared,), 1, 1)
    stats = await knowledge.stats()
    assert (stats.entries, stats.patterns) == ({"embedded": 1}, 1)
    assert stats.points == len(await rows(knowledge, "SELECT id FROM points WHERE look_at IS NULL")) == 1


@pytest.mark.own_stores
async def test_a_project_whose_row_is_deleted_takes_its_entries_and_its_knowledge_along(knowledge: Knowledge) -> None:
    """D19: the design's foreign key has no ON DELETE, so the row could not be deleted at all."""
    (gone,) = await learn(knowledge, failure(project_id="secret"))
    await learn(knowledge, failure(project_id="open", solution_steps="Another way"))
    async with knowledge.engine.begin() as connection:
        await connection.execute(sa.text("DELETE FROM projects WHERE project_id = 'secret'"))
    with pytest.raises(NotFound):
        await knowledge.capture.get(gone)
    found = await knowledge.queries.query_for_failure(CART, min_relevance=0)
    assert [pattern.solution for pattern in found] == ["Another way"]


BLANK = " \n\t"
UNSOUND = [
    (failure(failure_description=BLANK), "situation"),
    (failure(failure_description=None), "situation"),
    (failure(agent_type=BLANK), "situation"),
    (failure(solution_steps=BLANK), "resolution"),
    (failure(solution_steps=None), "resolution"),
    (failure(success_verified=False), "resolution"),
    (rejection(human_feedback=None), "situation"),
    (rejection(human_feedback=""), "situation"),
    (rejection(gate_type=BLANK), "situation"),
    (rejection(revision_approach=None), "resolution"),
    (rejection(revision_approach="\u3000"), "resolution"),
    (approval(approved_approach=None), "situation"),
    (approval(approved_approach=""), "situation"),
    (approval(gate_type=None), "situation"),
]


@pytest.mark.own_stores
async def test_the_schema_itself_refuses_what_is_staged_without_its_words(knowledge: Knowledge) -> None:
    """D20: the design's CHECK let empty failures, missing solutions and missing feedback pass."""
    await capture(knowledge, failure())  # the project is there
    for entry, constraint in UNSOUND:
        row = to_row(stored(entry)) | {"workspace": "default"}
        with pytest.raises(IntegrityError, match=f"knowledge_staging_{constraint}_check"):
            async with knowledge.engine.begin() as connection:
                await connection.execute(sa.insert(knowledge_staging).values(row))


@pytest.mark.own_stores
async def test_an_unsound_entry_is_refused_by_name_and_leaves_nothing_behind(knowledge: Knowledge) -> None:
    """D20."""
    for entry, field in (
        (failure(failure_description=BLANK), "failure_description"),
        (failure(solution_steps=""), "solution_steps"),
        (rejection(human_feedback=None), "human_feedback"),
    ):
        with pytest.raises(InvalidInput, match=f"^{field}: "):
            await knowledge.capture.capture(entry)
    assert await rows(knowledge, "SELECT project_id FROM projects") == []


async def test_a_rejection_is_open_until_it_has_the_revision_that_was_accepted(knowledge: Knowledge) -> None:
    """D21."""
    (entry_id,) = await learn(knowledge, rejection(revision_approach=None))
    assert (await knowledge.capture.get(entry_id)).status is EntryStatus.OPEN
    with pytest.raises(InvalidInput, match="revision_approach"):
        await knowledge.capture.resolve_gate_rejection(entry_id, revision_approach=BLANK)
    await knowledge.capture.resolve_gate_rejection(entry_id, revision_approach="Expand, migrate, contract")
    assert (await knowledge.capture.get(entry_id)).status is EntryStatus.STAGED
    with pytest.raises(NotOpen):
        await knowledge.capture.resolve_gate_rejection(entry_id, revision_approach="Something else")
    assert (await knowledge.checkpoints.process_all()).embedded == 1


async def test_what_was_turned_down_before_is_no_first_attempt_however_its_type_is_written(
    knowledge: Knowledge,
) -> None:
    """D21: one by one, in one batch, and with the type as a plain text."""
    gate = {"gate_type": "design_review", "task_id": "T-1"}
    await capture(knowledge, rejection(**gate))
    plain: Any = "gate_approval"
    for entry in (approval(**gate), replace(approval(**gate), entry_type=plain)):
        with pytest.raises(RejectionOnRecord):
            await knowledge.capture.capture(entry)
    other = gate | {"task_id": "T-2"}
    answers = await knowledge.capture.capture_all([rejection(**other), approval(**other), approval(task_id="T-3")])
    assert [answer.outcome for answer in answers] == ["accepted", "refused", "accepted"]


async def test_a_failure_is_no_success_until_somebody_says_who_verified_it(knowledge: Knowledge) -> None:
    """D22: the design wrote `success_verified=True` for every caller."""
    entry_id = await knowledge.capture.capture_failure_solution(
        project_id="web-shop", agent_type="backend", failure_description=CART, solution_steps="Perhaps so"
    )
    assert (await knowledge.checkpoints.process_all()).embedded == 0
    with pytest.raises(InvalidInput, match="verified_by"):
        await knowledge.capture.resolve_failure(entry_id, solution_steps="So", verified_by=" ")
    await knowledge.capture.resolve_failure(entry_id, solution_steps="So", verified_by="pytest")
    entry = await knowledge.capture.get(entry_id)
    assert (entry.status, entry.success_verified, entry.verified_by) == (EntryStatus.STAGED, True, "pytest")


async def test_a_pattern_speaks_in_the_words_of_its_most_trusted_evidence(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """D22: whoever names no verifier adds evidence, but does not get the word."""
    await learn(knowledge, failure(when_to_try="As verified"))
    clock.move(timedelta(days=1))
    await learn(knowledge, failure(when_to_try="As claimed", verified_by=None, project_id="another"))
    (found,) = await knowledge.queries.query_for_failure(CART)
    assert (found.when_to_try, found.success_count) == ("As verified", 2)
    clock.move(timedelta(days=1))
    await learn(knowledge, failure(when_to_try="As verified again", project_id="third"))
    (found,) = await knowledge.queries.query_for_failure(CART)
    assert (found.when_to_try, found.success_count) == ("As verified again", 3)


@pytest.mark.parametrize("bad", ["a\0b", "half \ud83d", "x" * (MAX_TEXT_BYTES + 1)])
async def test_a_text_postgres_cannot_take_is_a_validation_error_everywhere(knowledge: Knowledge, bad: str) -> None:
    """D46: the design answered a NUL byte with a server error."""
    (open_failure, open_rejection) = await capture(
        knowledge, failure(solution_steps=None), rejection(revision_approach=None)
    )
    calls = {
        "failure_description": knowledge.capture.capture(failure(failure_description=bad)),
        "project_id": knowledge.capture.capture(failure(project_id=bad)),
        "solution_steps": knowledge.capture.resolve_failure(open_failure, solution_steps=bad, verified_by="pytest"),
        "verified_by": knowledge.capture.resolve_failure(open_failure, solution_steps="so", verified_by=bad),
        "revision_approach": knowledge.capture.resolve_gate_rejection(open_rejection, revision_approach=bad),
        "when_to_try": knowledge.capture.resolve_gate_rejection(
            open_rejection, revision_approach="so", when_to_try=bad
        ),
    }
    for field, call in calls.items():
        with pytest.raises(InvalidInput) as refused:
            await call
        assert refused.value.field == field
    for entry_id in (open_failure, open_rejection):
        assert (await knowledge.capture.get(entry_id)).status is EntryStatus.OPEN


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec=None, categories=None), min_size=1))
async def test_every_text_comes_back_as_it_was_told_or_is_refused_by_name(knowledge: Knowledge, text: str) -> None:
    """D46: no character in between reaches Postgres and fails there."""
    (answer,) = await knowledge.capture.capture_all([failure(failure_description=text, solution_steps=f"{text}.")])
    if answer.entry_id is None:
        assert answer.field == "failure_description"
        assert "\0" in text or not text.strip() or any("\ud800" <= letter <= "\udfff" for letter in text)
    else:
        entry = await knowledge.capture.get(answer.entry_id)
        assert (entry.failure_description, entry.solution_steps) == (text, f"{text}.")


async def test_every_time_in_the_schema_has_a_zone_and_what_is_pending_an_index_of_its_own(
    knowledge: Knowledge,
) -> None:
    """D47: times without a zone, and an index over a boolean that is true nearly everywhere."""
    columns = await rows(
        knowledge,
        "SELECT data_type FROM information_schema.columns WHERE table_schema = 'public' AND data_type ~ '^(time|date)'",
    )
    assert {row.data_type for row in columns} == {"timestamp with time zone"}
    indexes = await rows(knowledge, "SELECT indexdef FROM pg_indexes WHERE tablename = 'knowledge_staging'")
    pending = [row.indexdef for row in indexes if "WHERE ((status)::text = 'staged'::text)" in row.indexdef]
    assert len(pending) == 2, "one over all projects, one by project"
    assert not [row.indexdef for row in indexes if "(embedded)" in row.indexdef]
