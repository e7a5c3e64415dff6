"""The design's defects at capture and in its schema, each proven absent on the real stores."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardwon.errors import InvalidInput
from knowledge.models import EntryStatus
from knowledge.wiring.open import Knowledge
from tests.support.entries import CART, failure, learn, rejection
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP


async def rows(knowledge: Knowledge, query: str, **values: object) -> list[Any]:
    """Return what Postgres answers, past all services."""
    async with knowledge.engine.connect() as connection:
        return list(await connection.execute(sa.text(query), values))


@pytest.mark.long
async def test_a_failure_is_found_by_its_error_message_alone(knowledge: Knowledge) -> None:
    """D14: stored and embedded."""
    await learn(knowledge, failure(failure_description="It broke", error_message="ORA-01555 snapshot too old"))
    (found,) = await knowledge.queries.query_for_failure("ORA-01555 snapshot too old", min_relevance=0.5)
    assert found.problem == "It broke\nORA-01555 snapshot too old"


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_project_is_any_key_and_appears_with_its_first_entry(knowledge: Knowledge) -> None:
    """D18: the design's capture failed unless a row of a table it never fills was there."""
    keys = ["web-shop", "4711", "ünï/漢字 #1 \U0001f6d2", "x" * 200, "'; drop table projects; --"]
    ids = await learn(knowledge, *(failure(project_id=key) for key in keys))
    assert [(await knowledge.capture.get(entry_id)).project_id for entry_id in ids] == keys
    there = await rows(knowledge, "SELECT workspace, project_id FROM projects")
    assert {tuple(row) for row in there} == {("default", key) for key in keys}


@pytest.mark.long
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
