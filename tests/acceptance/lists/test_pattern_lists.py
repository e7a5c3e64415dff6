"""Lists of patterns: sorts, filters, facets, last attempts, and pages of each order."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.lists import ListedPattern, PatternSort
from knowledge.adapters.postgres.engine.database import autocommit
from knowledge.adapters.postgres.memory_tables import patterns
from knowledge.models import Context, ContextId, Pattern, PatternId, Task
from knowledge.wiring.open import Knowledge
from tests.conftest import SetClock
from tests.support.clients import client_of, http_of
from tests.support.entries import failure, learn, rejection
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP
revision = importlib.import_module("migrations.versions.0041_problem_starts")

ZEBRA, ACID, MOOSE = "Zebra printer jams on labels", "Acid test of the queue hangs", "Moose crosses the parser"


async def _learn_three(knowledge: Knowledge, clock: SetClock) -> dict[str, Pattern]:
    """Learn three patterns: the first with most successes, the second in most projects, the third seen last."""
    await learn(
        knowledge,
        *(failure(failure_description=ZEBRA, task_id=f"T-{n}", technology="cups") for n in range(4)),
        *(failure(failure_description=ACID, project_id=name, agent_type="tester") for name in ("a", "b", "c")),
    )
    clock.move(timedelta(days=1))
    await learn(knowledge, rejection(proposal=MOOSE, human_feedback="The parser is not tested"))
    listed = await knowledge.lists.patterns()
    assert len(listed) == 3
    return {name: next(each for each in listed if name in each.problem) for name in (ZEBRA, ACID, MOOSE)}


async def _report(knowledge: Knowledge, pattern: Pattern, clock: SetClock, results: str) -> None:
    for number, letter in enumerate(results):
        clock.move(timedelta(minutes=1))
        context = Context(context_id=ContextId(uuid4()), text="", patterns=(pattern,))
        task = Task(description="x", project_id="p", task_id=f"later-{number}")
        await knowledge.contexts.record(context, task, "coder")
        await knowledge.outcomes.record_outcome(
            context.context_id, pattern.pattern_id, worked=letter == "w", project_id="p", task_id=f"later-{number}"
        )


@pytest.mark.long
async def test_each_order_puts_first_what_it_names_and_pages_through_all(knowledge: Knowledge, clock: SetClock) -> None:
    await _learn_three(knowledge, clock)
    firsts = {}
    for sort in PatternSort:
        whole = [each.pattern_id for each in await knowledge.lists.patterns(sort=sort)]
        paged: list[PatternId] = []
        while page := await knowledge.lists.patterns(sort=sort, limit=1, after=paged[-1] if paged else None):
            paged += [each.pattern_id for each in page]
        assert paged == whole, sort
        firsts[sort] = (await knowledge.lists.patterns(sort=sort, limit=1))[0].problem.splitlines()[0]
    assert ACID in firsts[PatternSort.PROBLEM]
    assert ACID in firsts[PatternSort.PROJECTS]
    assert ZEBRA in firsts[PatternSort.EVIDENCE]
    assert MOOSE in firsts[PatternSort.SEEN]


async def test_filters_leave_what_they_name_and_facets_count_it(knowledge: Knowledge, clock: SetClock) -> None:
    known = await _learn_three(knowledge, clock)
    lists = knowledge.lists

    async def names(**filters: Any) -> list[str]:
        found = await lists.patterns(**filters, facets=True)
        assert found.total == len(found)
        return [name for name in known if known[name].pattern_id in {each.pattern_id for each in found}]

    assert await names(technology="cups") == [ZEBRA]
    assert await names(agent_type="tester") == [ACID]
    assert await names(project_id="b") == [ACID]
    assert await names(entry_type="gate_rejection") == [MOOSE]
    assert await names(q="PARSER tested") == [MOOSE]
    assert await names(q="price queue") == [ACID], "words of the solution, too"
    assert await names(trust="low_trust") == []
    assert await names(trust="trusted") == [ZEBRA, ACID, MOOSE]
    found = await lists.patterns(limit=1, facets=True)
    assert (len(found), found.total, found.is_capped) == (1, 3, False)
    assert found.facets is not None
    assert found.facets.kind == {"failure_solution": 2, "gate_rejection": 1}
    assert found.facets.technology == {"cups": 1, "python": 1}
    assert found.facets.agent == {"backend": 1, "tester": 1}
    assert found.facets.project == {"web-shop": 2, "a": 1, "b": 1, "c": 1}
    assert found.facets.trust == {"trusted": 3}


@pytest.mark.long
async def test_attempts_are_shown_in_their_order_and_the_last_one_is_when_it_was_seen(
    knowledge: Knowledge, clock: SetClock
) -> None:
    known = await _learn_three(knowledge, clock)
    assert (await _listed(knowledge, known[ZEBRA])).outcomes == "wwww"
    await _report(knowledge, known[ZEBRA], clock, "fwf")
    seen = await _listed(knowledge, known[ZEBRA])
    assert (seen.outcomes, seen.last_seen_at) == ("wwwwfwf", clock.now())
    await _report(knowledge, known[ZEBRA], clock, "f" * 40)
    assert (await _listed(knowledge, known[ZEBRA])).outcomes == "f" * 30
    assert (await knowledge.lists.patterns())[0].pattern_id == known[ZEBRA].pattern_id


async def _listed(knowledge: Knowledge, pattern: Pattern) -> ListedPattern:
    return next(each for each in await knowledge.lists.patterns() if each.pattern_id == pattern.pattern_id)


async def test_a_pattern_of_agents_keys_alone_is_of_low_trust_until_a_trusted_entry_joins(
    knowledge: Knowledge,
) -> None:
    agent = knowledge.report_as("agent")
    await agent.capture.capture(failure(failure_description=ZEBRA))
    await knowledge.checkpoints.process_all()
    assert [each.trusted for each in await knowledge.lists.patterns(trust="low_trust")] == [False]
    await learn(knowledge, failure(failure_description=ZEBRA, project_id="mine"))
    (pattern,) = await knowledge.lists.patterns()
    assert pattern.trusted
    await knowledge.capture.delete_project("mine")
    assert [each.trusted for each in await knowledge.lists.patterns()] == [False], "and falls with it"


async def test_an_expired_pattern_makes_no_page_short(knowledge: Knowledge, clock: SetClock) -> None:
    await learn(knowledge, failure(failure_description=ZEBRA))
    clock.move(timedelta(days=300))
    await learn(knowledge, failure(failure_description=ACID), failure(failure_description=MOOSE))
    clock.move(timedelta(days=70))
    found = await knowledge.lists.patterns(sort="problem", limit=2)
    assert [each.problem for each in found] == [ACID, MOOSE]


async def test_what_a_founder_has_needs_no_second_write(knowledge: Knowledge) -> None:
    """What a checkpoint founds has the facets of its founder at once, and recounting it changes nothing."""
    await learn(knowledge, failure(failure_description=ZEBRA))
    async with autocommit(knowledge.stores.entries._engine) as connection:  # type: ignore[attr-defined]
        row = (await connection.execute(sa.select(patterns, sa.literal_column("xmax::text = '0'").label("new")))).one()
    assert (row.technologies, row.agents, row.projects, row.trusted) == (["python"], ["backend"], ["web-shop"], True)
    assert row.last_seen_at == row.founded_at
    assert row.problem_start == ZEBRA.lower()


async def test_a_corrected_problem_takes_its_place_in_the_order(knowledge: Knowledge, clock: SetClock) -> None:
    known = await _learn_three(knowledge, clock)
    (entry_id,) = known[MOOSE].entry_ids
    await knowledge.corrections.correct(entry_id, proposal="A moose crosses the parser")
    found = await knowledge.lists.patterns(sort="problem")
    assert [each.problem.split("\n")[0] for each in found] == ["A moose crosses the parser", ACID, ZEBRA]


async def test_the_migration_sorts_stored_patterns_as_a_recount_does(knowledge: Knowledge, clock: SetClock) -> None:
    await _learn_three(knowledge, clock)
    read = sa.select(patterns.c.id, patterns.c.problem_start).where(patterns.c.workspace == knowledge.workspace)
    async with autocommit(knowledge.engine) as connection:
        before = set(map(tuple, await connection.execute(read)))
        await connection.execute(sa.update(patterns).values(problem_start=""))
        await connection.execute(sa.text(revision._STATEMENTS[1]))
        assert set(map(tuple, await connection.execute(read))) == before
    assert len({start for _, start in before}) == 3


async def test_bad_values_are_named_and_the_client_gets_the_same_page(knowledge: Knowledge, clock: SetClock) -> None:
    known = await _learn_three(knowledge, clock)
    with pytest.raises(InvalidInput, match=r"^sort: must be one of seen, evidence, projects, problem$"):
        await knowledge.lists.patterns(sort="best")
    with pytest.raises(NotFound, match="begin with the first page"):
        await knowledge.lists.patterns(after=PatternId(UUID(int=9)))
    async with client_of(knowledge) as client, http_of(knowledge) as http:
        found = await client.lists.patterns(technology="cups", sort="evidence", facets=True)
        assert found == await knowledge.lists.patterns(technology="cups", sort="evidence")
        assert (found.total, found[0].pattern_id) == (1, known[ZEBRA].pattern_id)
        for name in ("sort", "kind", "trust", "lang"):
            refused = await http.get("/v1/patterns", params={name: "none"})
            assert (refused.status_code, refused.json()["field"]) == (422, name)
        page = await http.get("/v1/patterns", params={"limit": 2, "sort": "projects", "facets": "true", "_": "1"})
        last = await http.get(page.links["next"]["url"])
        assert {each["pattern_id"] for each in (*page.json()["patterns"], *last.json()["patterns"])} == {
            str(each.pattern_id) for each in known.values()
        }
        assert last.json()["total"] == 3
