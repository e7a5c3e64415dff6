"""A person joins and splits patterns; what is ruled stands, whatever is repeated, rebuilt or embedded anew."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
import sqlalchemy as sa

from hardwon.errors import InvalidInput, NotFound
from hardwon.models.access import EntryFilter
from knowledge.adapters.embedding.local import LocalEmbedder
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.adapters.postgres.memory.grouping import PostgresGrouping
from knowledge.adapters.postgres.memory_tables import knowledge_staging, links
from knowledge.memory.index import overflow
from knowledge.models import MAX_POINTS, Context, ContextId, Entry, EntryId, LinkKind, Outcome, PatternId, Task
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator import OrchestratorContextBuilder
from tests.acceptance.memory.test_consolidating import pattern_of, told
from tests.conftest import Opens, SetClock
from tests.support.embedders import HashingEmbedder
from tests.support.faults import Trips, wired
from tests.support.processes import Commands, lines
from tests.support.sharing import OF_ONE_LOOP, knowledge, opens, own, shared
from tests.support.stores import numbered

__all__ = ["knowledge", "opens", "own", "shared"]  # fixtures
pytestmark = OF_ONE_LOOP

_E = knowledge_staging.c

ONE = "The nightly export stops with out of memory at the orders table"
OTHER = "Nightly export of the orders table dies: the process runs out of memory"
THIRD = "Login fails for users with an umlaut in their name"


@pytest.fixture
def settings(settings: KnowledgeSettings) -> KnowledgeSettings:
    """No deadline that a busy machine could miss: it is not what is tested."""
    return settings.model_copy(update={"query_deadline_ms": 30_000})


@pytest_asyncio.fixture(loop_scope="session")
async def bundled(opens: Opens) -> AsyncIterator[Knowledge]:
    """The services with the bundled embedding model, whose likeness was measured."""
    async with opens(embedder=LocalEmbedder()) as opened:
        yield opened


async def two(knowledge: Knowledge) -> tuple[EntryId, EntryId]:
    one, other = await told(knowledge, ONE, project="a"), await told(knowledge, OTHER, project="b")
    await told(knowledge, THIRD)
    await knowledge.checkpoints.process_all()
    return one, other


async def patterns_of(knowledge: Knowledge, *entries: EntryId) -> list[PatternId]:
    return [await pattern_of(knowledge, entry_id) for entry_id in entries]


async def sound(knowledge: Knowledge) -> bool:
    report = await knowledge.upkeep.verify()
    return report.sound and report.points > 0


async def test_joined_patterns_are_one_with_the_evidence_of_both(knowledge: Knowledge) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    joined = await knowledge.grouping.join(keep, gone)
    assert (joined.pattern_id, joined.success_count, joined.project_count) == (keep, 2, 2)
    assert await patterns_of(knowledge, one, other) == [keep, keep]
    for text in (ONE, OTHER):
        (found, *_) = await knowledge.queries.query_for_failure(text, min_relevance=0.5)
        assert found.pattern_id == keep
    assert (await knowledge.capture.get(other)).failure_description == OTHER, "no text is changed"
    assert await sound(knowledge)
    assert (await knowledge.queries.get(gone)).pattern_id == keep, "whoever was given it knows no other id"


@pytest.mark.parametrize("by_agent", [0, 1])
async def test_of_what_was_told_of_both_in_one_run_the_trusted_stays(knowledge: Knowledge, by_agent: int) -> None:
    """Joined, the pattern kept the agent's word alone, and lost the success with all that the agent had told."""
    both = await patterns_of(knowledge, *await two(knowledge))
    task = Task(description=ONE, project_id="c", task_id="T-9", run_id="1")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    for pattern_id in both:
        low_trust = pattern_id == both[by_agent]
        told_by = "agent1" if low_trust else "admin1"
        outcome = Outcome(
            context_id=context.context_id, pattern_id=pattern_id, project_id="c", task_id="T-9", run_id="1",
            worked=True, recorded_by=told_by, low_trust=low_trust,
        )  # fmt: skip
        await knowledge.stores.contexts.record_outcomes([outcome], knowledge.stores.clock.now())
    joined = await knowledge.grouping.join(*both)
    assert joined.success_count == 3
    with pytest.raises(NotFound, match="nothing in it was captured with such a key"):
        await knowledge.revocations.revoke(EntryFilter(key_id="agent1"))
    assert (await knowledge.queries.get(joined.pattern_id)).success_count == 3


@pytest.mark.own_stores
@pytest.mark.long
async def test_a_join_survives_a_rebuild_another_model_and_the_day_its_old_points_are_forgotten(
    knowledge: Knowledge, clock: SetClock
) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    await knowledge.grouping.join(keep, gone)
    await knowledge.store_upkeep.rebuild()
    assert await sound(knowledge)
    await knowledge.store_upkeep.reembed(HashingEmbedder(dims=128), force=True)
    assert await sound(knowledge)
    clock.move(timedelta(days=2))
    await knowledge.pruning.prune()
    assert await patterns_of(knowledge, one, other) == [keep, keep]
    repeated = await told(knowledge, OTHER, project="c")
    await knowledge.checkpoints.process_all()
    assert await pattern_of(knowledge, repeated) == keep
    assert await sound(knowledge)


async def test_what_was_split_off_is_a_pattern_of_its_own_and_its_words_stay_there(knowledge: Knowledge) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    await knowledge.grouping.join(keep, gone)
    again = await told(knowledge, OTHER, project="c")
    await knowledge.checkpoints.process_all()

    split = await knowledge.grouping.split([other])
    assert await patterns_of(knowledge, one, other, again) == [keep, split.pattern_id, split.pattern_id]
    assert (split.success_count, (await knowledge.queries.get(keep)).success_count) == (2, 1)
    assert await sound(knowledge)
    repeated = await told(knowledge, OTHER, project="d")
    await knowledge.checkpoints.process_all()
    assert await pattern_of(knowledge, repeated) == split.pattern_id


async def test_ways_that_differ_in_case_alone_can_be_joined_and_split_again(knowledge: Knowledge) -> None:
    """Joined, they are as a store has them that took them for one: each is found by its key or by its words."""
    ways = ["Run git branch -d for each", "Run git branch -D for each"]

    async def again(project: str) -> list[PatternId]:
        entries = [await told(knowledge, ONE, solution=way, project=project) for way in ways]
        await knowledge.checkpoints.process_all()
        return await patterns_of(knowledge, *entries)

    one, other = await again("a")
    assert await again("b") == [one, other]
    await knowledge.grouping.join(other, one)
    assert await again("c") == [other, other]
    (first, *_) = [entry for entry in (await knowledge.grouping.show(other)).entries if entry.solution_steps == ways[0]]
    split = await knowledge.grouping.split([first.entry_id])
    assert await again("d") == [split.pattern_id, other]
    assert split.success_count == 3
    assert await sound(knowledge)


async def test_a_join_while_an_entry_of_either_is_embedded_leaves_nothing_of_the_old_pattern(
    knowledge: Knowledge,
) -> None:
    """G13: the join takes the entry's points from the index before the checkpoint puts them there."""
    keep, gone = await patterns_of(knowledge, *await two(knowledge))
    again = await told(knowledge, OTHER, project="c", task_description="Make the export of orders smaller")

    async def join() -> None:
        await knowledge.grouping.join(keep, gone)

    await wired(knowledge, Trips({"index.upsert:before:1": join})).checkpoints.process_all()
    assert await pattern_of(knowledge, again) == keep
    assert await sound(knowledge)


async def test_what_was_split_off_stays_where_it_is_when_the_rest_is_joined_to_another(knowledge: Knowledge) -> None:
    """The words that founded a pattern went with it, though they had been split off: what repeated them came there."""
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    await knowledge.grouping.join(keep, gone)
    split = await knowledge.grouping.split([one])
    third = await told(knowledge, "The mail server refuses the attachment", project="c")
    await knowledge.checkpoints.process_all()
    await knowledge.grouping.join(await pattern_of(knowledge, third), keep)
    again = await told(knowledge, ONE, project="d"), await told(knowledge, OTHER, project="d")
    await knowledge.checkpoints.process_all()
    assert await patterns_of(knowledge, *again) == [split.pattern_id, await pattern_of(knowledge, third)]


async def test_a_join_and_a_split_whose_answers_were_lost_are_repeated_and_say_the_same(knowledge: Knowledge) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    joined = [await knowledge.grouping.join(keep, gone) for _ in range(2)]
    assert [(each.pattern_id, each.success_count) for each in joined] == [(keep, 2)] * 2
    with pytest.raises(NotFound, match=f"no live pattern {gone}"):
        await knowledge.grouping.join(gone, keep)
    split = [await knowledge.grouping.split([other]) for _ in range(2)]
    assert split[0] == split[1]
    assert await patterns_of(knowledge, one, other) == [keep, split[0].pattern_id]
    decided = [(row.what, json.loads(row.details)["entries"]) for row in await knowledge.audits.list()]
    assert decided == [("pattern split", 0), ("pattern split", 1), ("patterns joined", 0), ("patterns joined", 1)]
    assert await sound(knowledge)


async def handed_out(knowledge: Knowledge, task_id: str, *ids: PatternId) -> ContextId:
    """Hand out a context with these patterns."""
    shown = tuple([await knowledge.queries.get(each) for each in ids])
    context = Context(context_id=ContextId(uuid4()), text="...", patterns=shown)
    await knowledge.contexts.record(context, Task(description="Fix", project_id="z", task_id=task_id), "backend")
    return context.context_id


async def test_a_context_that_held_both_holds_the_joined_pattern_once(knowledge: Knowledge) -> None:
    """Else a pattern would be shown twice as often as it was, and raise an alarm for it."""
    keep, gone = await patterns_of(knowledge, *await two(knowledge))
    context_id = await handed_out(knowledge, "T", keep, gone)
    assert (await knowledge.stores.contexts.get(context_id)).pattern_ids == (keep, gone)
    await knowledge.grouping.join(keep, gone)
    assert (await knowledge.stores.contexts.get(context_id)).pattern_ids == (keep,)


async def test_what_was_joined_since_it_was_handed_out_has_its_outcomes_with_what_it_was_joined_to(
    knowledge: Knowledge,
) -> None:
    """Whoever works with it knows nothing of the joins."""
    last, gone = await patterns_of(knowledge, *await two(knowledge))
    another = await told(knowledge, "Login fails for users with an umlaut", project="d")
    await knowledge.checkpoints.process_all()
    between = await pattern_of(knowledge, another)
    task = Task(description=OTHER, project_id="z", task_id="T")
    context = await OrchestratorContextBuilder(knowledge).build_context_for_task(task, "backend")
    assert gone in [pattern.pattern_id for pattern in context.patterns]
    await knowledge.grouping.join(between, gone)
    await knowledge.grouping.join(last, between)
    await knowledge.outcomes.record_outcome(context.context_id, gone, worked=False, run_id="1")
    solved = await knowledge.events.task_solved(project_id="z", task_id="T", run_id="2", tried=[gone])
    joined = await knowledge.queries.get(last)
    assert (solved.outcomes, joined.success_count, joined.attempt_count) == (1, 4, 5)


async def test_a_split_undoes_a_join_with_what_came_of_either(knowledge: Knowledge) -> None:
    """What had come of the joined pattern stayed with the one that was kept: undone, both had other counts."""
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)

    async def records(*ids: PatternId) -> list[tuple[int, int, int]]:
        found = [await knowledge.queries.get(each) for each in ids]
        return [(each.success_count, each.attempt_count, each.project_count) for each in found]

    of_gone, of_keep, of_both = [
        await handed_out(knowledge, task_id, *ids)
        for task_id, ids in (("1", (gone,)), ("2", (keep,)), ("3", (keep, gone)))
    ]
    await knowledge.outcomes.record_outcome(of_gone, gone, worked=False)
    await knowledge.outcomes.record_outcome(of_keep, keep, worked=True)
    before = await records(keep, gone)
    await knowledge.grouping.join(keep, gone)
    assert await records(keep) == [(3, 4, 3)]
    new = (await knowledge.grouping.split([other])).pattern_id
    assert before == await records(keep, new) == [(2, 2, 2), (1, 2, 1)]
    for pattern_id in (gone, new, gone):
        await knowledge.outcomes.record_outcome(of_gone, pattern_id, worked=False)
    assert before == await records(keep, new), "told again by either id, it is the same"
    await knowledge.outcomes.record_outcome(of_both, keep, worked=False)
    assert await records(keep, new) == [(2, 3, 2), (1, 2, 1)], "where both were shown, nobody knows which it was"
    assert await sound(knowledge)


async def test_what_cannot_be_joined_or_split_is_refused_and_nothing_is_changed(knowledge: Knowledge) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    gate = await knowledge.capture.capture_gate_approval(
        project_id="p", gate_type="design_review", approved_approach="Cache per tenant", proposal="A cache"
    )
    await knowledge.checkpoints.process_all()
    of_gate = await pattern_of(knowledge, gate)
    for refused, reason in (
        (knowledge.grouping.join(keep, keep), "is the pattern to keep"),
        (knowledge.grouping.join(keep, of_gate), "gate_approval"),
        (knowledge.grouping.split([]), "is empty"),
        (knowledge.grouping.split([one]), "all entries of pattern"),
        (knowledge.grouping.split([one, other]), "2 patterns"),
        (knowledge.grouping.suggest(limit=0), "limit"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            await refused
    for missing in (
        knowledge.grouping.join(keep, PatternId(numbered(9))),
        knowledge.grouping.split([EntryId(numbered(9))]),
        knowledge.grouping.show(PatternId(numbered(9))),
    ):
        with pytest.raises(NotFound):
            await missing
    assert await patterns_of(knowledge, one, other) == [keep, gone]


async def test_what_has_expired_is_neither_joined_nor_split_off_and_nothing_is_changed(
    knowledge: Knowledge, clock: SetClock
) -> None:
    """Refused before it is done, and not after: of what came of it nothing could be shown."""
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    clock.move(timedelta(days=200))
    late = await told(knowledge, THIRD, project="c")
    await knowledge.checkpoints.process_all()
    third = await pattern_of(knowledge, late)
    await knowledge.grouping.join(third, keep)
    before = await patterns_of(knowledge, one, other, late)
    clock.move(timedelta(days=200))
    for joining in (knowledge.grouping.join(third, gone), knowledge.grouping.join(gone, third)):
        with pytest.raises(NotFound, match=f"no live pattern {gone}"):
            await joining
    with pytest.raises(InvalidInput, match="entry_ids: are not live"):
        await knowledge.grouping.split([one])
    assert await patterns_of(knowledge, one, other, late) == before == [third, gone, third]


@pytest.mark.own_stores
async def test_likely_twins_are_proposed_until_a_person_says_what_they_are(bundled: Knowledge) -> None:
    one, other = await two(bundled)
    (pair,) = await bundled.grouping.suggest()
    assert pair.kind is LinkKind.TWIN
    assert {pattern.pattern_id for pattern in pair.patterns} == set(await patterns_of(bundled, one, other))
    keep, gone = (pattern.pattern_id for pattern in pair.patterns)
    assert [each.patterns for each in (await bundled.grouping.show(keep)).twins] == [pair.patterns]

    await bundled.grouping.join(keep, gone)
    assert await bundled.grouping.suggest() == []
    details = await bundled.grouping.show(keep)
    assert {entry.entry_id for entry in details.entries} == {one, other}

    await bundled.grouping.split([other])
    assert await bundled.grouping.suggest() == [], "a person took them apart"
    await told(bundled, OTHER, project="c")
    await bundled.checkpoints.process_all()
    assert await bundled.grouping.suggest() == []


async def test_a_join_keeps_apart_what_a_person_keeps_apart_from_either(knowledge: Knowledge) -> None:
    """The pattern that was kept had been found to be a likely twin of the third, and stayed one."""
    keep, other = await patterns_of(knowledge, *await two(knowledge))
    (third,) = [each.pattern_id for each in await knowledge.queries.query_for_failure(THIRD, min_relevance=0.9)]
    now = knowledge.stores.clock.now()
    async with knowledge.grouping.grouping.begin_regrouping() as regrouping:
        await regrouping.keep_apart(other, third, now=now)
    async with transaction(knowledge.engine) as connection:
        pair = {"lower_id": min(keep, third), "upper_id": max(keep, third), "workspace": knowledge.workspace}
        twin = {"kind": LinkKind.TWIN, "probability": 0.7, "why": ["alike"], "found_at": now}
        await connection.execute(sa.insert(links).values(**pair, **twin))
    await knowledge.grouping.join(keep, other)
    assert await knowledge.grouping.suggest() == []
    (apart,) = await knowledge.grouping.grouping.links(LinkKind.APART, of=keep, now=now, limit=9)
    assert {each.pattern_id for each in apart.patterns} == {keep, third}


@pytest.fixture
def beside(settings: KnowledgeSettings) -> Iterator[Commands]:
    """Commands beside a running server, with the bundled embedding model."""
    assert settings.database_url is not None
    slowly = {"HARDWON_QUERY_DEADLINE_MS": "20000"}  # no deadline that a busy machine could miss
    commands = Commands(settings.home, slowly | {"HARDWON_DATABASE_URL": settings.database_url.get_secret_value()})
    with commands.serving():
        yield commands


@pytest.mark.long
async def test_the_commands_show_join_and_split(beside: Commands, tmp_path: Path) -> None:
    commands = beside
    rows = [
        {
            "entry_type": "failure_solution", "project_id": project, "agent_type": "backend", "success_verified": True,
            "failure_description": text, "solution_steps": "Read the table in slices of 1,000 rows",
        }
        for project, text in (("a", ONE), ("b", OTHER), ("c", THIRD))
    ]  # fmt: skip
    file = tmp_path / "entries.jsonl"
    file.write_text(lines(rows))
    commands.json("capture", file)
    commands.json("checkpoint")
    (pair,) = commands.json("patterns", "suggest")["pairs"]
    keep, gone = (pattern["pattern_id"] for pattern in pair["patterns"])
    given = commands.json("context", pair["patterns"][1]["problem"], "--agent-type", "backend")
    assert gone in [pattern["pattern_id"] for pattern in given["patterns"]]
    assert f"hardwon patterns join {keep} {gone}" in commands.run("patterns", "suggest").stdout
    assert commands.json("patterns", "join", keep, gone)["success_count"] == 2
    told = commands.json("outcome", given["context_id"], gone, "--worked", "--project", "d", "--task", "T")
    assert (told["pattern_id"], told["success_count"]) == (keep, 3), "and no error: it was kept"
    shown = commands.json("patterns", "show", keep)
    assert len(shown["entries"]) == 2
    leaving = shown["entries"][1]["entry_id"]
    split = commands.json("patterns", "split", leaving)
    words_shown = [entry_id for pattern in given["patterns"] for entry_id in pattern["entry_ids"]]
    assert split["success_count"] == 1 + (leaving in words_shown), "the outcome goes with the words that were shown"
    assert commands.json("patterns", "show", gone)["pattern"]["pattern_id"] in {keep, split["pattern_id"]}


WORDS = ("cart", "login", "export", "mail", "search", "upload", "printer", "backup", "queue", "invoice")
NIGHTLY = [f"The {word} breaks every night" for word in WORDS]


async def crowded(knowledge: Knowledge, first: Sequence[EntryId], late: Sequence[EntryId]) -> PatternId:
    """Join the patterns of entries, so many that the index has no room for all their texts."""
    keep = await pattern_of(knowledge, first[0])
    for other in (*first[1:], *late):
        await knowledge.grouping.join(keep, await pattern_of(knowledge, other))
    return keep


async def test_an_entry_is_found_that_is_split_off_a_pattern_that_had_no_room_for_it(knowledge: Knowledge) -> None:
    """The same words had stood in the index before, and what was left of them was taken for a point."""
    every = [await told(knowledge, text, project=text) for text in NIGHTLY]
    first, late = every[:MAX_POINTS], every[MAX_POINTS:]
    await knowledge.checkpoints.process_all()
    keep = await crowded(knowledge, first, late)
    await knowledge.capture.delete(first[0])
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    again = await told(knowledge, NIGHTLY[0], project="again")
    await knowledge.checkpoints.process_all()
    assert await pattern_of(knowledge, again) == keep
    split = await knowledge.grouping.split([again])
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    (found, *_) = await knowledge.queries.query_for_failure(NIGHTLY[0], min_relevance=0.5)
    assert found.pattern_id == split.pattern_id
    assert await sound(knowledge)


@pytest.mark.parametrize("how", ["join", "split"])
async def test_what_came_to_a_pattern_since_it_was_read_goes_along(knowledge: Knowledge, how: str) -> None:
    one, other = await two(knowledge)
    keep, gone = await patterns_of(knowledge, one, other)
    if how == "split":
        await knowledge.grouping.join(keep, gone)
    late: list[EntryId] = []

    class Slow(PostgresGrouping):
        async def all_entries(self, pattern_id: PatternId) -> AsyncIterator[list[Entry]]:
            async for some in super().all_entries(pattern_id):
                yield some
            late.append(await told(knowledge, OTHER, project="late"))
            await knowledge.checkpoints.process_all()

    slow = Slow(knowledge.engine, knowledge.stores.workspace)
    grouping = replace(knowledge.grouping, grouping=slow)
    if how == "join":
        to = await grouping.join(keep, gone)
        assert to.success_count == 3
    else:
        to = await grouping.split([other])
        assert to.success_count == 2
    assert await pattern_of(knowledge, late[0]) == to.pattern_id
    assert await sound(knowledge)


@pytest.mark.own_stores
@pytest.mark.long
@pytest.mark.parametrize("how", ["prune", "sweep", "repair"])
async def test_a_pattern_is_found_for_as_long_as_any_of_its_entries_lives(
    knowledge: Knowledge, clock: SetClock, how: str
) -> None:
    """Eight of its texts stand in the index: a year after the first of them nothing found what had come since."""
    first = [await told(knowledge, text, project=text) for text in NIGHTLY[:MAX_POINTS]]
    await knowledge.checkpoints.process_all()
    clock.move(timedelta(days=200))
    late = [await told(knowledge, text, project=text) for text in NIGHTLY[MAX_POINTS:]]
    await knowledge.checkpoints.process_all()
    keep = await crowded(knowledge, first, late)
    if how == "prune":
        clock.move(timedelta(days=200))
        await knowledge.pruning.prune()
    else:
        for entry_id in first:
            await knowledge.capture.delete(entry_id)
    if how == "sweep":
        await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    elif how == "repair":
        await knowledge.upkeep.verify(repair=True)
    for text in NIGHTLY[MAX_POINTS:]:
        (found, *_) = await knowledge.queries.query_for_failure(text, min_relevance=0.5)
        assert (found.pattern_id, found.success_count) == (keep, 2)
    expiry = (await knowledge.stats()).next_expiry_at
    assert expiry == (await knowledge.capture.get(late[0])).expires_at, "they live no longer than before"
    assert await sound(knowledge)


async def left_with_room(knowledge: Knowledge) -> None:
    """Have a pattern of which two texts stand in no index, though there is room by now."""
    every = [await told(knowledge, text, project=text) for text in NIGHTLY]
    await knowledge.checkpoints.process_all()
    await crowded(knowledge, every[:MAX_POINTS], every[MAX_POINTS:])
    for entry_id in every[:MAX_POINTS]:
        await knowledge.capture.delete(entry_id)


@pytest.mark.long
@pytest.mark.own_stores
async def test_a_text_that_is_refused_keeps_no_other_out_of_the_index(
    knowledge: Knowledge, embedder: HashingEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    """Another model may refuse what stands in no index: nothing beside it was reached, hour after hour."""
    await left_with_room(knowledge)
    embedder.refuses = NIGHTLY[-1]
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    assert await in_the_index(knowledge) == 1, "what is not refused"
    assert "entry_not_reached" in caplog.text
    assert NIGHTLY[-1] not in caplog.text, "no log holds what is said of a text"
    embedder.refuses = None
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    assert await in_the_index(knowledge) == 2


async def in_the_index(knowledge: Knowledge) -> int:
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    return len(await knowledge.stores.index.scan(bound.space, knowledge.workspace, after=None, limit=10))


@pytest.mark.own_stores
@pytest.mark.long
async def test_texts_that_are_refused_stand_before_no_other_and_are_not_tried_for_ever(
    knowledge: Knowledge, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are read together, at the front, kept all behind them out, and were embedded hour after hour."""
    await left_with_room(knowledge)
    monkeypatch.setattr(overflow, "_SLICE", 1)
    (first,) = await knowledge.stores.points.entries_without_points(knowledge.stores.clock.now(), 1)
    embedder.refuses = first.failure_description
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    assert await in_the_index(knowledge) == 1
    async with transaction(knowledge.engine) as connection:
        often = {"attempts": overflow.MAX_TRIES - 1}
        await connection.execute(sa.update(knowledge_staging).where(_E.id == first.entry_id).values(often))
    calls = []
    for _ in range(3):
        await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
        calls.append(embedder.calls)
    assert calls[0] == calls[1] == calls[2]
    embedder.refuses = None
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    assert await in_the_index(knowledge) == 1
    await knowledge.upkeep.verify(repair=True)
    assert await in_the_index(knowledge) == 2


@pytest.mark.own_stores
@pytest.mark.long
async def test_what_has_room_and_cannot_be_embedded_now_holds_up_no_repair(
    knowledge: Knowledge, embedder: HashingEmbedder
) -> None:
    """The vectors of the index are kept: where the endpoint was gone, a repair of it ended before it began."""
    await told(knowledge, THIRD)
    await left_with_room(knowledge)
    bound = await knowledge.stores.spaces.bound()
    assert bound is not None
    await knowledge.stores.index.drop(bound.space)
    embedder.unavailable = "no answer"
    report = await knowledge.upkeep.verify(repair=True)
    assert report.repaired >= 1
    assert report.sound


@pytest.mark.long
async def test_what_has_room_in_a_workspace_that_is_local_only_by_now_fails_no_sweep(knowledge: Knowledge) -> None:
    """Its texts may go to no endpoint any more: the job of every hour failed of it, for good."""
    await left_with_room(knowledge)
    await knowledge.upkeep.keep_local(on=True)
    assert await knowledge.checkpoints.sweep(staged_for=timedelta(days=1)) == []
    await knowledge.upkeep.keep_local(on=False)
    await knowledge.checkpoints.sweep(staged_for=timedelta(days=1))
    assert await sound(knowledge)
