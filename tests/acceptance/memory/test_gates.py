"""What people decided on proposals like this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from knowledge.access.principals import Principal, Scope, Trust
from knowledge.models import Pattern
from knowledge.wiring.open import Knowledge
from tests.support.entries import approval, failure, learn, rejection
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

PROPOSAL = "Rename the orders table in place"


def solutions(found: Sequence[Pattern]) -> list[str]:
    return [pattern.solution for pattern in found]


async def test_a_gate_is_told_what_was_objected_to_and_what_passed(knowledge: Knowledge) -> None:
    """D15: the highest quality entries do get returned, by gate and proposal."""
    await learn(
        knowledge,
        rejection(),
        approval(project_id="b", proposal=PROPOSAL, approved_approach="Behind a view"),
        failure(failure_description=PROPOSAL, solution_steps="not a decision"),
    )
    found = await knowledge.queries.query_for_gate("design_review", PROPOSAL, min_relevance=0)
    assert sorted((pattern.entry_type.value, pattern.solution) for pattern in found) == [
        ("gate_approval", "Behind a view"),
        ("gate_rejection", "Expand, migrate, contract"),
    ]
    (turned_down,) = [pattern for pattern in found if pattern.entry_type == "gate_rejection"]
    assert turned_down.problem == f"{PROPOSAL}\nThere is no migration plan", "the objection is shown"


async def test_other_gates_come_in_only_where_fewer_than_three_of_this_one_are_left(knowledge: Knowledge) -> None:
    elsewhere = [
        approval(gate_type="security_review", project_id=f"s{n}", proposal=PROPOSAL, approved_approach=f"elsewhere {n}")
        for n in range(2)
    ]
    here = [approval(project_id=f"p{n}", proposal=PROPOSAL, approved_approach=f"here {n}") for n in range(3)]
    await learn(knowledge, *elsewhere, *here[:2])
    found = await knowledge.queries.query_for_gate("design_review", PROPOSAL)
    assert [pattern.gate_type for pattern in found] == ["design_review"] * 2 + ["security_review"] * 2
    enough = await knowledge.queries.query_for_gate("design_review", PROPOSAL, max_results=2)
    assert [pattern.gate_type for pattern in enough] == ["design_review"] * 2

    await learn(knowledge, here[2])
    found = await knowledge.queries.query_for_gate("design_review", PROPOSAL)
    assert [pattern.gate_type for pattern in found] == ["design_review"] * 3


@pytest.mark.long
async def test_many_decisions_of_another_gate_do_not_keep_out_the_few_of_this_one(knowledge: Knowledge) -> None:
    crowd = [
        approval(gate_type="other", project_id=f"p{n}", proposal=f"{PROPOSAL} {n}", approved_approach=f"crowd {n}")
        for n in range(150)
    ]
    await knowledge.capture.capture_all(crowd)
    await learn(knowledge, rejection(proposal="Rename the table of the oldest orders by hand"))
    found = await knowledge.queries.query_for_gate("design_review", PROPOSAL, min_relevance=0)
    assert solutions(found)[0] == "Expand, migrate, contract"
    assert len(found) == 5


async def test_what_was_decided_in_this_project_comes_first(knowledge: Knowledge) -> None:
    ways = {
        project: approval(project_id=project, proposal=PROPOSAL, approved_approach=f"as {project}") for project in "abc"
    }
    await learn(knowledge, *ways.values())
    for project in ways:
        found = await knowledge.queries.query_for_gate("design_review", PROPOSAL, project_id=project)
        assert solutions(found)[0] == f"as {project}"
        assert len(found) == 3


async def test_an_unlike_proposal_is_told_nothing(knowledge: Knowledge) -> None:
    await learn(knowledge, rejection())
    assert await knowledge.queries.query_for_gate("design_review", "A louder doorbell for the northern office") == []


async def test_a_gate_is_told_no_more_by_an_agents_key_than_its_share(knowledge: Knowledge) -> None:
    agent = knowledge.for_principal(Principal(trust=Trust.KEY, scopes=frozenset({Scope.CAPTURE}), key_id="agent1"))
    told = [rejection(project_id=f"p{n}", human_feedback=f"There is no plan {n}") for n in range(5)]
    await agent.capture.capture_all([replace(each, revision_approach=f"revised {n}") for n, each in enumerate(told)])
    await knowledge.checkpoints.process_all()
    found = await knowledge.queries.query_for_gate("design_review", PROPOSAL, min_relevance=0, max_results=5)
    assert len(found) == 1
