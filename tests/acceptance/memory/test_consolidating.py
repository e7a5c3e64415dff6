"""Consolidation at checkpoints: tellings of one thing become one pattern, two things never; likely ones are linked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.postgres.memory_tables import links, match_keys
from knowledge.models import EntryId, PatternId, Task
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from orchestrator.context.rendering import render
from tests.acceptance.memory.test_merging import NAMES, in_two_wordings
from tests.acceptance.memory.test_the_loop import fail
from tests.conftest import Opens, SetClock
from tests.support.cases import case_by_case


@pytest.fixture
async def bundled(opens: Opens) -> AsyncIterator[Knowledge]:
    """The services with the bundled embedding model, whose likeness was measured."""
    async with opens(embedder=LocalEmbedder()) as opened:
        yield opened


SOLUTION = "Export the name from shop/_pricing.py again"
OTHER_SOLUTION = "Import the name from shop.money, where it lives since release 4"


async def told(
    knowledge: Knowledge,
    text: str,
    *,
    solution: str = SOLUTION,
    project: str = "p",
    task_description: str | None = None,
) -> EntryId:
    return await fail(
        knowledge,
        project_id=project,
        task_description=task_description,
        failure_description=text,
        error_message=None,
        solution_steps=solution,
    )


async def pattern_of(knowledge: Knowledge, entry_id: EntryId) -> PatternId:
    entry = await knowledge.stores.entries.get(entry_id)
    assert entry.pattern_id is not None
    return entry.pattern_id


async def kinds(knowledge: Knowledge) -> dict[frozenset[PatternId], str]:
    async with knowledge.engine.connect() as connection:
        rows = await connection.execute(sa.select(links.c.lower_id, links.c.upper_id, links.c.kind))
        return {frozenset({row.lower_id, row.upper_id}): row.kind for row in rows}


@pytest.mark.long
async def test_two_wordings_of_one_defect_are_one_pattern_in_one_checkpoint(bundled: Knowledge) -> None:
    entries = [[await told(bundled, text) for text in in_two_wordings(name)] for name in NAMES]
    report = await bundled.checkpoints.process_all()
    patterns = [[await pattern_of(bundled, entry_id) for entry_id in of_name] for of_name in entries]
    assert [len(set(of_name)) for of_name in patterns] == [1] * len(NAMES)
    assert len({pattern for of_name in patterns for pattern in of_name}) == len(NAMES)
    assert (report.founded, report.joined) == (len(NAMES), len(NAMES))


@pytest.mark.long
async def test_and_over_two_checkpoints(bundled: Knowledge) -> None:
    wordings = [in_two_wordings(name) for name in NAMES]
    first = [await told(bundled, one) for one, _ in wordings]
    await bundled.checkpoints.process_all()
    second = [await told(bundled, other, project="q") for _, other in wordings]
    await bundled.checkpoints.process_all()
    for one, other in zip(first, second, strict=True):
        assert await pattern_of(bundled, one) == await pattern_of(bundled, other)
    (found, *_) = await bundled.queries.query_for_failure(wordings[0][0])
    assert (found.success_count, found.project_count) == (2, 2)


@pytest.mark.long
async def test_one_repeated_in_its_own_words_comes_to_the_pattern_that_it_joined(bundled: Knowledge) -> None:
    """The decision is kept by its text: however common its words are later, a repetition is decided the same."""
    wordings = [in_two_wordings(name) for name in NAMES]
    first = [await told(bundled, one) for one, _ in wordings]
    await bundled.checkpoints.process_all()
    joined = await told(bundled, wordings[0][1])
    await bundled.checkpoints.process_all()
    async with bundled.engine.connect() as connection:
        (kept,) = (await connection.execute(sa.select(match_keys))).all()
    assert kept.pattern_id == await pattern_of(bundled, first[0])
    assert any(why.startswith("situation: ") for why in kept.why)
    await bundled.capture.delete(first[0])  # whose words it was compared with
    for number in range(40):  # from now on the name is a common word
        await told(bundled, f"{NAMES[0]} failed for the {number}th time")
    repeated = await told(bundled, wordings[0][1], project="q")
    await bundled.checkpoints.process_all()
    assert await pattern_of(bundled, repeated) == await pattern_of(bundled, joined) == kept.pattern_id


async def test_the_same_situation_with_another_resolution_is_a_rival(bundled: Knowledge) -> None:
    text = in_two_wordings(NAMES[0])[0]
    first = await told(bundled, text)
    second = await told(bundled, text, solution=OTHER_SOLUTION)
    await bundled.checkpoints.process_all()
    patterns = {await pattern_of(bundled, first), await pattern_of(bundled, second)}
    assert len(patterns) == 2
    assert await kinds(bundled) == {frozenset(patterns): "rival"}


WAYS = ("Run git branch -d for every merged branch", "Run git branch -D for every merged branch")


@pytest.mark.long
@pytest.mark.parametrize("checkpoints", [1, 2])
async def test_code_that_is_put_otherwise_is_a_rival_and_stays_so_when_it_is_told_again(
    bundled: Knowledge, checkpoints: int
) -> None:
    """Both have one match key: the second was taken for a repetition of what it had put right."""
    found = []
    for number, ways in enumerate((WAYS, WAYS[::-1], (f"{WAYS[0]}.", f"- {WAYS[1]}"))):
        entries = {}
        for way in ways:
            entries["-D" in way] = await told(bundled, "Branches are left", solution=way, project=f"p{number}")
            if checkpoints > 1:
                await bundled.checkpoints.process_all()
        await bundled.checkpoints.process_all()
        found.append([await pattern_of(bundled, entries[force]) for force in (False, True)])
    one, other = found[0]
    assert one != other
    assert found == [[one, other]] * 3
    assert await kinds(bundled) == {frozenset({one, other}): "rival"}


TRACEBACK = """Export fails
Traceback (most recent call last):
  File "/app/ship/label.py", line {}, in make
    return zpl(order.address.zip)
AttributeError: 'NoneType' object has no attribute '{}'"""


@pytest.mark.long
async def test_a_failure_whose_code_moved_since_comes_to_its_pattern(bundled: Knowledge) -> None:
    """It founded another one at each line, so that eight projects with one fix were eight of one success each."""
    first = await told(bundled, TRACEBACK.format(41, "zip"))
    await bundled.checkpoints.process_all()
    moved = await told(bundled, TRACEBACK.format(47, "zip"), project="q")
    another = await told(bundled, TRACEBACK.format(41, "code"), project="r")
    await bundled.checkpoints.process_all()
    assert await pattern_of(bundled, moved) == await pattern_of(bundled, first) != await pattern_of(bundled, another)


TIMED_OUT = "{} [error] upstream timed out (110: Connection timed out), host: {}, pid {}"


@pytest.mark.long
async def test_one_fix_of_eight_projects_is_one_pattern_whenever_it_happened(bundled: Knowledge) -> None:
    """They were eight of one success each, behind any other that was told twice."""
    entries = []
    for number in range(8):
        text = TIMED_OUT.format(f"2026-11-{10 + number}T0{number}:12:3{number}.120Z", "track", 4000 + number)
        entries.append(await told(bundled, text, project=f"p{number}"))
        if number % 3 == 0:
            await bundled.checkpoints.process_all()
    others = [
        await told(bundled, TIMED_OUT.format("2026-11-10T00:12:30.120Z", "mail", 4000), project="q"),
        await told(bundled, TIMED_OUT.format("2026-11-10T00:12:30.120Z", "track", 4009), solution=OTHER_SOLUTION),
        await told(bundled, TIMED_OUT.format("2026-11-10T00:12:30.120Z", "track", 4009).replace("110", "111")),
    ]
    await bundled.checkpoints.process_all()
    (pattern,) = {await pattern_of(bundled, entry_id) for entry_id in entries}
    found = await bundled.queries.get(pattern)
    assert (found.success_count, found.project_count) == (8, 8)
    assert pattern not in [await pattern_of(bundled, entry_id) for entry_id in others]


@pytest.mark.long
@case_by_case
async def test_solutions_that_deny_each_other_are_rivals_in_other_languages_too(
    bundled: Knowledge, others: str, situation: str, solution: str, contrary: str
) -> None:
    """They were one pattern, with the words of the last and the successes of both."""
    for number in range(30):
        await told(bundled, others.format(number), solution=f"Mend case {number}")
    entries = [await told(bundled, situation, solution=each) for each in (solution, contrary)]
    await bundled.checkpoints.process_all()
    patterns = {await pattern_of(bundled, entry_id) for entry_id in entries}
    assert len(patterns) == 2
    assert (await kinds(bundled))[frozenset(patterns)] == "rival"


async def test_two_defects_that_a_name_tells_apart_are_two_patterns_and_no_twins(bundled: Knowledge) -> None:
    entries = [await told(bundled, in_two_wordings(name)[0]) for name in NAMES]
    await bundled.checkpoints.process_all()
    assert len({await pattern_of(bundled, entry_id) for entry_id in entries}) == len(NAMES)
    assert await kinds(bundled) == {}


@pytest.mark.long
async def test_a_model_that_nobody_measured_merges_only_equal_texts(knowledge: Knowledge) -> None:
    entries = [await told(knowledge, text) for text in in_two_wordings(NAMES[0])]
    await knowledge.checkpoints.process_all()
    assert len({await pattern_of(knowledge, entry_id) for entry_id in entries}) == 2
    assert await kinds(knowledge) == {}


@pytest.mark.long
async def test_of_rivals_shown_for_a_task_only_the_one_named_or_repeated_or_the_first_is_told_of(
    opens: Opens, clock: SetClock
) -> None:
    """Each was a success whichever had worked, so that their records never told them apart."""
    text = in_two_wordings(NAMES[0])[0]
    run: dict[str, Any] = {"project_id": "r", "task_id": "T", "run_id": "1"}
    async with opens(embedder=LocalEmbedder(), query_deadline_ms=30_000) as bundled:
        for way in (SOLUTION, OTHER_SOLUTION):
            await told(bundled, text, solution=way)
        await bundled.checkpoints.process_all()

        async def given() -> dict[str, PatternId]:
            """Hand both out; return their ways, in order."""
            clock.move(timedelta(minutes=1))
            task = Task(description=text, **run)
            context = await OrchestratorContextBuilder(bundled).build_context_for_task(task, "backend")
            clock.move(timedelta(minutes=1))
            of = {pattern.solution: pattern.pattern_id for pattern in context.patterns}
            assert of.keys() == {SOLUTION, OTHER_SOLUTION}
            return of

        async def records() -> list[tuple[int, int]]:
            found = await bundled.queries.query_for_failure(text, min_relevance=0)
            of = {pattern.solution: (pattern.success_count, pattern.attempt_count) for pattern in found}
            return [of[way] for way in ways]

        failed = {**run, "agent_type": "backend", "failure_description": text}
        ways = list(await given())
        assert (await bundled.events.task_failed(**failed)).outcomes == 1
        assert await records() == [(1, 2), (1, 1)], "the first was tried; the other one keeps its record"
        assert (await bundled.events.task_solved(**run)).outcomes == 0, "the first failed; what worked is not known"
        again = await given()
        assert list(again) == ways[::-1], "what failed for this task comes last"
        assert (await bundled.events.task_failed(**failed, tried=[again[ways[0]]])).outcomes == 1
        assert await records() == [(1, 2), (1, 1)], "the one that is named, not the first"
        await bundled.events.task_solved(**run, solution_steps=ways[1], verified_by="pytest")
        assert await records() == [(1, 2), (2, 2)], "the echo was tried"
        run["run_id"] = "2"
        await given()
        for outcomes in (1, 0):
            kept = await bundled.events.task_solved(**run, solution_steps=ways[1], verified_by="pytest")
            assert (kept.outcomes, await records()) == (outcomes, [(1, 2), (3, 3)]), "nothing failed; told again"
        run["run_id"] = "3"
        third = await given()
        assert list(third) == ways[::-1], "what worked more often comes first"
        failing = third[ways[0]]
        await bundled.events.task_failed(**run, agent_type="backend", failure_description=text, tried=[failing])
        assert (await bundled.events.task_solved(**run)).outcomes == 1
        assert await records() == [(1, 3), (4, 4)], "the first of the block"


@pytest.mark.long
async def test_rivals_are_shown_side_by_side_with_their_records(bundled: Knowledge) -> None:
    """Whoever is told one way out is told the other, and how often each worked."""
    text, other = in_two_wordings(NAMES[0])[0], "The import of `sum_of_prices` from `shop.basket` fails at start"
    for run in "123":
        await told(bundled, text, project=f"p{run}")
    rival = await told(bundled, text, solution=OTHER_SOLUTION, project="q")
    await told(bundled, other, solution="Start the basket after the prices")
    await bundled.checkpoints.process_all()
    found = await bundled.queries.query_for_failure(text, min_relevance=0)
    assert [pattern.success_count for pattern in found[:2]] == [3, 1]
    assert found[0].rivals == (found[1].pattern_id,)
    assert (found[1].pattern_id, found[1].rivals) == (await pattern_of(bundled, rival), (found[0].pattern_id,))
    block, _ = render(found, max_tokens=1500)
    first, second = block.split("Pattern 2 ")[0], block.split("Pattern 2 ")[1]
    assert "- Record: 3 of 3 attempts, 3 projects\n" in first
    assert "Alternative to" not in first
    assert "- Record: 1 of 1 attempts, 1 project\n- Verify: pytest\n- Alternative to: Pattern 1\n" in second
