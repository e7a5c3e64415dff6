"""`applies_when`: a pattern that is known not to apply is neither returned nor injected; through every door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from hardwon.errors import InvalidInput
from knowledge import AppliesWhen, Task
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.models import EntryStatus, Pattern
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_abstention import FAILURES
from tests.conftest import Opens
from tests.support.cases import over
from tests.support.clients import client_of
from tests.support.entries import CART, failure, learn
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

OLD = AppliesWhen(technology="python", version="<3.12")
NEW = AppliesWhen(technology="python", version=">=3.12", tool="pytest")


def solutions(found: Sequence[Pattern]) -> set[str]:
    return {pattern.solution for pattern in found}


@pytest_asyncio.fixture(loop_scope="session")
async def learned(knowledge: Knowledge) -> Knowledge:
    await learn(
        knowledge,
        failure(solution_steps="for old ones", applies_when=OLD),
        failure(solution_steps="for new ones", applies_when=NEW),
        failure(solution_steps="for this error", applies_when=AppliesWhen(error=r"^TypeError: .*None$")),
        failure(solution_steps="for all"),
    )
    return knowledge


@pytest.mark.long
async def test_what_is_known_not_to_apply_is_left_out_and_the_unknown_stays_in(learned: Knowledge) -> None:
    async def for_task(**facts: str) -> set[str]:
        return solutions(await learned.queries.query_for_task(CART, facts=facts))

    everything = {"for old ones", "for new ones", "for this error", "for all"}
    assert await for_task() == everything
    assert await for_task(technology="python", version="3.11.4") == everything - {"for new ones"}
    assert await for_task(technology="python", version="3.12.1") == everything - {"for old ones"}
    assert await for_task(tool="tox") == everything - {"for new ones"}
    assert await for_task(technology="go") == everything - {"for old ones", "for new ones"}
    assert await for_task(error="KeyError: 'price'") == everything - {"for this error"}


async def test_the_technology_and_the_error_of_a_question_are_facts(learned: Knowledge) -> None:
    asked = learned.queries.query_for_failure
    found = await asked(CART, "TypeError: price is None", max_results=5, min_relevance=0)
    assert "for this error" in solutions(found)
    found = await asked(CART, "KeyError: 'price'", max_results=5, min_relevance=0)
    assert "for this error" not in solutions(found)
    found = await asked(CART, technology="python", facts={"version": "3.9"}, max_results=5)
    assert solutions(found) == {"for old ones", "for this error", "for all"}
    found = await learned.queries.query_for_task(CART, technology="python", facts={"version": "3.9"})
    assert solutions(found) == {"for old ones", "for this error", "for all"}


async def test_what_does_not_apply_is_not_injected(learned: Knowledge) -> None:
    task = Task(description=CART, type="bugfix", technology="python", facts={"version": "3.13", "tool": "tox"})
    builder = OrchestratorContextBuilder(learned)
    context = await builder.build_context_for_task(task, "backend")
    assert solutions(context.patterns) == {"for this error", "for all"}
    assert "for old ones" not in context.text

    await learn(learned, failure(solution_steps="for old ones in words", when_to_try="Only on Python<3.12."))
    for version, shown in (("3.13", False), ("3.x", True), ("3.13.*", False), ("Python 3.11.2", True)):
        found = await learned.queries.query_for_task(CART, technology="python", facts={"version": version})
        assert ("for old ones in words" in solutions(found)) is shown, version

    mistyped = await builder.build_context_for_task(replace(task, facts={"verison": "3.13"}), "backend")
    assert (mistyped.patterns, mistyped.degraded) == (
        (),
        "facts.verison: is not known here: did you mean version?",
    )


@over("facts", ["3.13", ["version"], 3.13])
async def test_facts_of_no_names_are_said_to_be_none(learned: Knowledge, facts: Any) -> None:
    """Else a mistake of the caller's hands out what is for another version, and nobody hears of it."""
    for task in (Task(description=CART, facts=facts), {"description": CART, "facts": facts}):
        context = await OrchestratorContextBuilder(learned).build_context_for_task(task, "backend")
        assert context.patterns == ()
        assert "facts" in (context.degraded or "")


@over("version", [(3, 13), [3, 13]])
async def test_a_version_may_be_told_in_numbers_over_http_too(learned: Knowledge, version: Any) -> None:
    facts = {"technology": "python", "version": version}
    shown = {"for new ones", "for this error", "for all"}
    async with client_of(learned) as client:
        for knowledge in (client, learned):
            assert solutions(await knowledge.queries.query_for_task(CART, facts=facts)) == shown
            task = {"description": CART, "facts": {**facts, "tool": None}}
            context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
            assert solutions(context.patterns) == shown


async def test_another_entry_for_which_it_may_apply_brings_a_pattern_back(learned: Knowledge) -> None:
    facts = {"technology": "python", "version": "3.12"}
    assert "for old ones" not in solutions(await learned.queries.query_for_task(CART, facts=facts))
    await learn(learned, failure(project_id="b", solution_steps="for old ones"))
    assert "for old ones" not in solutions(await learned.queries.query_for_task(CART, facts=facts)), "it says nothing"
    newer = AppliesWhen(technology="python", version="<3.14")
    await learn(learned, failure(project_id="c", solution_steps="for old ones", applies_when=newer))
    assert "for old ones" in solutions(await learned.queries.query_for_task(CART, facts=facts))


async def test_what_was_learned_of_another_error_of_the_same_kind_is_not_handed_out_unasked(
    knowledge: Knowledge,
) -> None:
    """To a model the codes are nearly one word: of an unknown one an agent was given what mends three others."""
    for code, steps in (("TS2322", "Give the prop a default"), ("TS2345", "Narrow it by a guard")):
        said = f"{code}: the type of the cart is not assignable"
        await learn(knowledge, failure(error_message=said, failure_description=CART, solution_steps=steps))
    asked = knowledge.queries.query_for_failure

    async def shown(error: str, *, only_if_sure: bool) -> set[str]:
        found = await asked(CART, error, min_relevance=0, max_results=5, only_if_sure=only_if_sure)
        return solutions(found)

    everything = {"Give the prop a default", "Narrow it by a guard"}
    for code, unasked in (("TS2345", {"Narrow it by a guard"}), ("TS9999", set()), ("E0382", everything)):
        said = f"{code}: the type of the cart is not assignable"
        assert await shown(said, only_if_sure=False) == everything
        assert await shown(said, only_if_sure=True) == unasked
    builder = OrchestratorContextBuilder(knowledge)
    task = Task(description=f"{CART}\nTS9999: the type of the cart is not assignable")
    assert (await builder.build_context_for_task(task, "backend")).patterns == ()


async def test_a_resolution_tells_when_it_applies(knowledge: Knowledge) -> None:
    """What a solution needs is known when there is one; conditions could only be told with the failure."""
    solved: dict[str, Any] = {"solution_steps": "Mend it", "verified_by": "pytest", "applies_when": NEW}
    gate: dict[str, Any] = {"project_id": "p", "gate_type": "design_review", "task_id": "c"}
    unsolved = failure(solution_steps=None, success_verified=False)
    opened, failed, again = [await knowledge.capture.capture(replace(unsolved, task_id=task)) for task in "abd"]
    turned = await knowledge.events.gate_decided(**gate, accepted=False, proposal="Rename", human_feedback="No plan")
    await knowledge.capture.resolve_failure(opened, **solved)
    await knowledge.events.task_solved(project_id=unsolved.project_id, task_id="b", **solved)
    await knowledge.events.gate_decided(**gate, accepted=True, approach="Expand", applies_when=NEW)
    for entry_id in (opened, failed, *turned.entry_ids):
        entry = await knowledge.capture.get(entry_id)
        assert (entry.status, entry.applies_when) == (EntryStatus.STAGED, NEW)
    for wrong, says in (
        (AppliesWhen(version=">=3"), r"^applies_when\.version: "),
        (AppliesWhen(error="(a)\\1"), r"^applies_when\.error: "),
        (AppliesWhen(error="password=hunter2-Zq81xx-hunter"), "secret"),
    ):
        with pytest.raises(InvalidInput, match=says):
            await knowledge.capture.resolve_failure(again, **solved | {"applies_when": wrong})
    assert (await knowledge.capture.get(again)).status is EntryStatus.OPEN


@over("told", ["PostgreSQL", "postgresql", "Postgres"], apart=True)
async def test_a_technology_by_another_of_its_names_is_the_same(knowledge: Knowledge, told: str) -> None:
    """An entry for postgres 14 and later was hidden from whoever called it PostgreSQL."""
    await learn(
        knowledge,
        failure(solution_steps="for late ones", applies_when=AppliesWhen(technology="postgres", version=">=14")),
    )
    for version, expected in (("16.2", {"for late ones"}), ("13.1", set())):
        facts = {"technology": told, "version": version}
        assert solutions(await knowledge.queries.query_for_task(CART, facts=facts)) == expected


@pytest.mark.long
@pytest.mark.own_stores
async def test_another_is_not_sure_because_one_that_does_not_apply_would_have_been(opens: Opens) -> None:
    """Its confidence let an unrelated neighbour into the context, as "most likely"."""
    asked = "Nightly thumbnails of the gallery are rotated wrongly after the camera upgrade"
    facts = {"technology": "python", "version": "3.12"}
    only_old = AppliesWhen(technology="python", version="<3.10")

    async with opens(embedder=LocalEmbedder()) as knowledge:
        told = [
            failure(failure_description=each, error_message=None, solution_steps=f"Mend: {each}")
            for each in FAILURES.values()
        ]
        await learn(knowledge, *told)

        async def shown() -> int:
            where = replace(knowledge.queries, task_relevance=0.0)
            return len(await where.query_for_task(asked, only_if_sure=True, facts=facts))

        assert await shown() == 0
        await learn(knowledge, failure(failure_description=asked, error_message=None, applies_when=only_old))
        assert await shown() == 0
