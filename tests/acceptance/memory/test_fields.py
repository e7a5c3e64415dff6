"""Agent type, task type and technology put patterns in order; they hide none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from knowledge import Task
from knowledge.adapters.qdrant.edge import QdrantEdgeIndex
from knowledge.models import EmbeddingSpace, Hit, PointFilter, SparseVector, Vector
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.support.entries import CART, approval, capture, failure, learn, rejection
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP


def solutions(found: Sequence[object]) -> list[str]:
    return [pattern.solution for pattern in found]  # type: ignore[attr-defined]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[PointFilter]:
    """What the index was asked for."""
    asked: list[PointFilter] = []
    search = QdrantEdgeIndex.search

    async def noting(
        self: QdrantEdgeIndex,
        space: EmbeddingSpace,
        dense: Vector,
        lexical: SparseVector,
        where: PointFilter,
        *,
        limit: int,
    ) -> list[Hit]:
        asked.append(where)
        return await search(self, space, dense, lexical, where, limit=limit)

    monkeypatch.setattr(QdrantEdgeIndex, "search", noting)
    return asked


async def test_gate_decisions_which_know_no_agent_are_returned_to_an_agent(knowledge: Knowledge) -> None:
    """D15: the design filtered by agent and task, which no gate decision has: the most trusted ones never came back."""
    await learn(
        knowledge,
        rejection(proposal=CART, revision_approach="as a human wanted it"),
        approval(project_id="b", proposal=CART, approved_approach="as a human liked it"),
        *(failure(solution_steps=f"way {number}") for number in range(3)),
    )
    found = await knowledge.queries.query_for_task(CART, "backend", "bugfix", "python")
    kinds = [pattern.entry_type.value for pattern in found]
    assert sorted(kinds) == ["failure_solution"] * 3 + ["gate_approval", "gate_rejection"]


async def test_the_technology_asked_for_comes_first_then_the_untold_then_another(knowledge: Knowledge) -> None:
    """D16: the design took a technology and ignored it."""
    for asked in ("python", "go"):
        await learn(knowledge, failure(solution_steps=f"in {asked}", technology=asked))
    await learn(knowledge, failure(solution_steps="anywhere", technology=None))
    for asked, other in (("python", "go"), ("go", "python")):
        expected = [f"in {asked}", "anywhere", f"in {other}"]
        found = await knowledge.queries.query_for_task(CART, technology=asked)
        assert solutions(found) == expected
        assert solutions(await knowledge.queries.query_for_failure(CART, technology=asked)) == expected
        assert len({pattern.relevance for pattern in found}) == 1, "relevance stays what it is: the order tells"


async def test_nothing_of_the_fields_asked_for_is_no_reason_for_silence(knowledge: Knowledge) -> None:
    """D15, D16."""
    await learn(knowledge, *(failure(solution_steps=f"way {number}") for number in range(3)))
    found = await knowledge.queries.query_for_task(CART, "nobody", "nothing", "nowhere")
    assert len(found) == 3
    task = Task(description=CART, type="nothing", technology="nowhere")
    built = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "nobody")
    assert len(built.patterns) == 3


async def test_a_crowd_of_another_technology_does_not_keep_out_the_few_that_fit(
    knowledge: Knowledge, searches: list[PointFilter]
) -> None:
    """D16: where the nearest hundred are all of another technology, the index is asked once more."""
    crowd = [failure(failure_description=f"{CART} {n}", technology="go", solution_steps=f"go {n}") for n in range(150)]
    few = [
        failure(failure_description=f"{CART} in the old shop of {name}", solution_steps=f"python {name}")
        for name in ("Anna", "Berta")
    ]
    await capture(knowledge, *few)
    await knowledge.capture.capture_all(crowd)
    await knowledge.checkpoints.process_all()
    searches.clear()

    found = await knowledge.queries.query_for_task(CART, technology="python", min_relevance=0)
    assert {"python Anna", "python Berta"} < set(solutions(found))
    assert len(found) == 5
    assert [where.technology for where in searches] == [None, "python"]


@pytest.mark.long
@pytest.mark.own_stores
async def test_one_search_does_where_enough_of_what_it_found_fits(
    knowledge: Knowledge, searches: list[PointFilter]
) -> None:
    crowd = [
        failure(failure_description=f"{CART} {n}", technology=("go", "python")[n % 2], solution_steps=f"way {n}")
        for n in range(300)
    ]
    await knowledge.capture.capture_all(crowd)
    await knowledge.checkpoints.process_all()
    searches.clear()

    found = await knowledge.queries.query_for_task(CART, technology="python", min_relevance=0)
    assert [pattern.technology for pattern in found].count("python") >= 3
    assert [where.technology for where in searches] == [None]
