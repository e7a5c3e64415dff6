"""Lists of contexts by what was handed out and what came of it, and silences that explain themselves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from hardwon.errors import InvalidInput
from hardwon.models.choices import ChoiceRecord
from knowledge.models import Context, ContextId, Pattern, Reason, Task
from knowledge.wiring.open import Knowledge
from orchestrator.context.builder import OrchestratorContextBuilder
from tests.conftest import SetClock
from tests.support.clients import client_of, http_of
from tests.support.entries import failure, learn
from tests.support.processes import Commands
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

PRINTER = "Printer jams on labels"


async def _hand_out(
    knowledge: Knowledge, reason: Reason, pattern: Pattern | None = None, *, worked: bool | None = None
) -> ContextId:
    patterns = () if pattern is None else (pattern,)
    context = Context(context_id=ContextId(uuid4()), text="", patterns=patterns, reason=reason)
    task = Task(description="x", project_id="shop", task_id=str(context.context_id))
    await knowledge.contexts.record(context, task, "coder")
    if worked is not None and pattern is not None:
        await knowledge.outcomes.record_outcome(context.context_id, pattern.pattern_id, worked=worked)
    elif worked is not None:
        await knowledge.outcomes.record_unaided(context.context_id, worked=worked)
    return context.context_id


def _ids(found: list[ChoiceRecord]) -> set[ContextId]:
    return {each.context_id for each in found}


@pytest.mark.long
async def test_contexts_are_listed_by_what_was_given_and_what_came_of_it(knowledge: Knowledge, clock: SetClock) -> None:
    await learn(knowledge, failure(failure_description=PRINTER), failure(failure_description="Queue hangs"))
    one, other = await knowledge.lists.patterns()
    old = await _hand_out(knowledge, Reason.SPOKE, one)
    clock.move(timedelta(days=10))
    worked = await _hand_out(knowledge, Reason.SPOKE, one, worked=True)
    failed = await _hand_out(knowledge, Reason.SPOKE, other, worked=False)
    silent = await _hand_out(knowledge, Reason.NOT_SURE, worked=True)
    held = await _hand_out(knowledge, Reason.HELD_OUT, worked=False)
    late = await _hand_out(knowledge, Reason.DEGRADED)

    async def of(**filters: Any) -> set[ContextId]:
        return _ids(await knowledge.contexts.list(**filters))

    assert await of() == {old, worked, failed, silent, held, late}
    assert await of(given="yes") == {old, worked, failed}
    assert await of(given="silent") == {silent}
    assert await of(given="held") == {held}
    assert await of(given="late") == {late}
    assert await of(outcome="worked") == {worked, silent}
    assert await of(outcome="failed") == {failed, held}
    assert await of(outcome="none") == {old, late}
    assert await of(pattern_id=one.pattern_id) == {old, worked}
    assert await of(days=7, given="yes") == {worked, failed}
    assert await of(project_id="shop", pattern_id=other.pattern_id, outcome="failed") == {failed}
    results = {each.context_id: each.worked for each in await knowledge.contexts.list()}
    assert results == {old: None, worked: True, failed: False, silent: True, held: False, late: None}


async def test_doors_take_the_same_filters_and_name_bad_ones(knowledge: Knowledge) -> None:
    context_id = await _hand_out(knowledge, Reason.HELD_OUT)
    with pytest.raises(InvalidInput, match=r"^given: must be one of yes, silent, held, late$"):
        await knowledge.contexts.list(given="no")
    async with client_of(knowledge) as client, http_of(knowledge) as http:
        assert _ids(await client.contexts.list(project_id="shop", given="held", days=1)) == {context_id}
        for name in ("project", "project_id"):
            assert len((await http.get("/v1/contexts", params={name: "shop", "given": "held"})).json()) == 1
            assert (await http.get("/v1/contexts", params={name: "other"})).json() == []
        for name, value in (("given", "no"), ("outcome", "good"), ("pattern", "x"), ("days", "0"), ("workspace", "a")):
            refused = await http.get("/v1/contexts", params={name: value})
            assert (refused.status_code, refused.json()["field"]) == (422, name)


async def test_a_silence_says_what_was_near_how_near_and_why_it_was_withheld(knowledge: Knowledge) -> None:
    await learn(knowledge, failure(failure_description=PRINTER), failure(failure_description="Queue hangs at night"))
    builder = OrchestratorContextBuilder(knowledge)
    task = Task(description="Paint the printer room in green labels", project_id="shop", task_id="T-1")
    context = await builder.build_context_for_task(task, "coder")
    assert context.patterns == ()
    assert context.candidates, "something was near"
    nearest = context.candidates[0]
    assert nearest.withheld is not None
    assert context.reason in {"nothing_near", "not_sure"}
    if context.reason == "nothing_near":
        assert nearest.withheld.startswith(f"too unlike the task: relevance {nearest.relevance:.2f}, and 0.7")
        stored = await knowledge.contexts.show(context.context_id)
        assert stored.record.near == context.candidates, "it is on record"
    async with http_of(knowledge) as http:
        body = {"task": {"description": task.description}, "agent_type": "coder"}
        answer = (await http.post("/v1/contexts", json=body)).json()
        assert [each["withheld"] for each in answer["candidates"]] == [each.withheld for each in context.candidates]
        assert "problem" not in answer["candidates"][0], "an agent is told no text that is withheld from it"


async def test_an_empty_store_has_nothing_near(knowledge: Knowledge) -> None:
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(Task(description="x"), "coder")
    assert (context.reason, context.candidates) == ("nothing_near", ())


@pytest.mark.long
def test_the_command_line_says_why_no_pattern_is_shown_and_what_was_near(of_module: Commands) -> None:
    entry = (
        '{"entry_type": "failure_solution", "project_id": "shop", "agent_type": "coder", "success_verified": true,'
        ' "failure_description": "Printer jams on labels", "solution_steps": "Clean it", "verified_by": "pytest"}'
    )
    of_module.run("capture", "-", told=entry)
    of_module.run("checkpoint", "--all")
    told = of_module.run("context", "Translate the handbook", "--agent-type", "writer")
    assert told.stdout.splitlines() == ["Task: Translate the handbook"]
    assert "no pattern is shown: " in told.stderr
    assert "Printer jams on labels" in told.stderr
    assert "relevance 0." in told.stderr
