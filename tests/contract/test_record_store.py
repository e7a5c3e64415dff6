"""The contract of RecordStore: the records of trials, and what a workspace's hints came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from hardwon.errors import NotFound
from knowledge.adapters.postgres.engine.database import transaction
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import arm_key, situation_key
from knowledge.models import (
    MIN_OUTCOMES,
    PRIOR_WEIGHTS,
    SILENCE,
    Choice,
    Context,
    ContextId,
    Entry,
    Experience,
    LiftCounts,
    NewEntry,
    Outcome,
    PatternId,
    PointId,
    Provenance,
    Task,
    TrialRecord,
)
from knowledge.ports import ContextQuery, Stores
from knowledge.retrieval.calibration import default_calibration
from tests.support.entries import NOON, choice_of, failure, pattern, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import SPACE, Store, learn, numbered, situation_point

pytestmark = OF_ONE_LOOP

HOUR = timedelta(hours=1)
TRUSTED = Provenance(key_id="k-ops")
AN_AGENT = Provenance(key_id="k-rotated", first_key="agent", low_trust=True)
CART, LOGIN = failure(failure_description="The cart fell"), failure(failure_description="The login fell")


def entry(number: int, words: NewEntry = CART, **told: Any) -> Entry:
    """Return an entry of that number, and of a task of that number."""
    return stored(replace(words, task_id=f"T-{number}", **told), numbered(number))


def arm_of(words: NewEntry) -> str:
    return arm_key(embedding_text.resolution(words), embedding_text.situation(words))


def key_of(words: NewEntry) -> str:
    return situation_key(embedding_text.situation(words))


async def hand_out(
    stores: Stores,
    number: int,
    patterns: Sequence[PatternId],
    choice: Choice | None = None,
    *,
    reason: str = "spoke",
    agent_type: str = "backend",
    at: datetime = NOON,
    project_id: str | None = "web-shop",
) -> ContextId:
    """Record the context of that number, for a task of that number."""
    shown = tuple(pattern(pattern_id=each) for each in patterns)
    context = Context(context_id=ContextId(numbered(number)), text="[...]", patterns=shown, reason=reason)
    task = Task(description="Fix", project_id=project_id, task_id=f"T-{number}")
    await stores.contexts.record(context, task, agent_type, at, choice)
    return context.context_id


async def report(
    stores: Stores,
    context_id: ContextId,
    pattern_id: PatternId,
    *,
    worked: bool = True,
    at: datetime = NOON + HOUR,
    by: Provenance = TRUSTED,
    run_id: str = "",
) -> None:
    """Record an outcome as the services do, with the arms of its context."""
    outcome = Outcome(
        context_id=context_id,
        pattern_id=pattern_id,
        project_id="web-shop",
        task_id=f"T-{context_id.int}",
        run_id=run_id,
        worked=worked,
        recorded_by=by.source or by.key_id,
        low_trust=by.low_trust,
    )
    arms = await stores.records.arms_of(context_id)
    await stores.contexts.record_outcomes([outcome], at, arms=arms)


async def tell_unaided(
    stores: Stores, context_id: ContextId, *, worked: bool, by: Provenance = TRUSTED, at: datetime = NOON + HOUR
) -> None:
    await stores.records.record_unaided(context_id, worked=worked, by=by, now=at)


async def near(stores: Stores, *points: PointId, before: datetime | None = None) -> list[TrialRecord]:
    """Return the records near points, the oldest first."""
    found = await stores.records.near(points, before=before)
    return sorted(found, key=lambda each: (each.recorded_at, each.arm, str(each.event)))


async def experience(stores: Stores, agent_type: str | None) -> Experience:
    """Return the experience that a search begins with, in a store with a space."""
    if await stores.spaces.bound() is None:
        await stores.spaces.bind(SPACE, mean_terms=20.0, calibration=default_calibration(SPACE.model))
    start = await stores.records.begin_search([], key_of(CART), unasked=True, agent_type=agent_type)
    assert start is not None
    return start.experience


# records of entries


async def test_each_embedded_entry_is_a_record_of_its_own_situation_and_resolution(stores: Stores) -> None:
    pattern_id = await learn(stores, entry(1, run_id="3"))
    point = situation_point(stores, entry(1), pattern_id)
    assert await near(stores, point) == [
        TrialRecord(
            arm=arm_of(CART),
            point_id=point,
            pattern_id=pattern_id,
            situation=key_of(CART),
            is_exact=True,
            worked=True,
            low_trust=False,
            reporter=None,
            event=("web-shop", "T-1", "3"),
            recorded_at=NOON,
        )
    ]
    assert await stores.records.near([]) == []
    assert await near(stores, PointId(uuid4())) == []


async def test_near_are_the_records_at_all_points_of_the_patterns_found(stores: Stores) -> None:
    """One pattern may stand for several situations: what worked in one of them is a record of its arm."""
    first = await learn(stores, entry(1))
    await learn(stores, entry(2, LOGIN), joins=first)
    alone = await learn(stores, entry(3, failure(failure_description="Another")))
    found = await near(stores, situation_point(stores, entry(1), first))
    assert {each.event for each in found} == {("web-shop", "T-1", ""), ("web-shop", "T-2", "")}
    assert {each.point_id for each in found} == {
        situation_point(stores, each, first) for each in (entry(1), entry(2, LOGIN))
    }
    assert {each.pattern_id for each in found} == {first} != {alone}
    point = situation_point(stores, entry(1), first)
    for asked, further in (([point], []), ([], [point])):
        evidence, together = await stores.patterns.evidence_with_records(asked, further, now=NOON + HOUR)
        assert sorted(together, key=str) == sorted(found, key=str)
        assert evidence == await stores.patterns.evidence(asked, now=NOON + HOUR)
        assert list(evidence) == asked


async def test_near_may_be_asked_as_of_a_time(stores: Stores) -> None:
    pattern_id = await learn(stores, entry(1))
    point = situation_point(stores, entry(1), pattern_id)
    context_id = await hand_out(stores, 11, [pattern_id], choice_of((pattern_id, "a", 0.0)))
    await stores.contexts.record(
        Context(context_id=ContextId(numbered(12)), text="[...]", reason="not_sure"),
        Task(description="Fix", project_id="web-shop", task_id="T-12"),
        "backend",
        NOON,
        with_point(choice_of((pattern_id, "a", 0.0)), point),
    )
    await tell_unaided(stores, ContextId(numbered(12)), worked=False, at=NOON + 2 * HOUR)
    assert len(await near(stores, point)) == 2
    assert len(await near(stores, point, before=NOON + HOUR)) == 1
    assert len(await near(stores, point, before=NOON - HOUR)) == 0
    assert context_id is not None


def with_point(choice: Choice, point: PointId, **told: Any) -> Choice:
    """Return a choice whose first candidate is the one nearest to the question, at a point."""
    first, *others = choice.candidates
    nearest = replace(first, point_id=point, likeness=9.0)
    return replace(choice, candidates=(nearest, *others), **told)


# records of outcomes


async def test_an_outcome_is_a_record_in_the_situation_of_the_task_that_asked(stores: Stores) -> None:
    """Not in the situation where the pattern was captured: what works for carts may not for logins."""
    cart = await learn(stores, entry(1))
    login = await learn(stores, entry(2, failure(failure_description="Another", solution_steps="Wait")))
    asked = situation_point(stores, entry(2, failure(failure_description="Another")), login)
    choice = with_point(choice_of((login, arm_of(LOGIN), 0.0), (cart, arm_of(CART), 1.0)), asked)
    context_id = await hand_out(stores, 11, [cart, login], choice)
    await report(stores, context_id, cart, worked=False)
    *_, told = await near(stores, asked)
    assert told == TrialRecord(
        arm=arm_of(CART),
        point_id=asked,
        pattern_id=login,
        situation="key",
        is_exact=False,
        worked=False,
        low_trust=False,
        reporter="k-ops",
        event=("web-shop", "T-11", ""),
        recorded_at=NOON + HOUR,
    )
    await report(stores, context_id, cart, worked=True, at=NOON + 2 * HOUR)
    *_, again = await near(stores, asked)
    assert (again.worked, again.recorded_at) == (True, NOON + 2 * HOUR)
    assert len(await near(stores, asked)) == 2, "a run counts once"


async def test_an_outcome_moves_to_its_very_situation_once_that_is_learned(stores: Stores) -> None:
    known = await learn(stores, entry(1))
    choice = with_point(
        choice_of((known, arm_of(CART), 0.0)), situation_point(stores, entry(1), known), situation=key_of(LOGIN)
    )
    before = await hand_out(stores, 11, [known], choice)
    await report(stores, before, known, worked=False)
    learned = await learn(stores, entry(2, replace(LOGIN, solution_steps="Wait")))
    point = situation_point(stores, entry(2, LOGIN), learned)
    after = await hand_out(stores, 12, [known], choice)
    await report(stores, after, known)
    told = {each.event: each for each in await near(stores, point)}
    assert set(told) == {("web-shop", f"T-{number}", "") for number in (2, 11, 12)}
    assert all(each.is_exact and each.point_id == point for each in told.values())
    assert [each.event for each in await near(stores, situation_point(stores, entry(1), known))] == [
        ("web-shop", "T-1", "")
    ]


# tasks without a hint


async def test_the_result_of_a_task_without_a_hint_is_a_record_of_silence(stores: Stores) -> None:
    known = await learn(stores, entry(1))
    point = situation_point(stores, entry(1), known)
    context_id = await hand_out(stores, 11, [], with_point(choice_of((known, "a", 0.0)), point), reason="not_sure")
    await tell_unaided(stores, context_id, worked=True)
    _, told = await near(stores, point)
    assert (told.arm, told.worked, told.is_exact, told.situation) == (SILENCE, True, False, "key")
    assert (told.reporter, told.event) == ("k-ops", ("web-shop", "T-11", ""))


async def test_the_first_result_of_a_task_stands_unless_an_agents_key_reported_it(stores: Stores) -> None:
    known = await learn(stores, entry(1))
    point = situation_point(stores, entry(1), known)
    context_id = await hand_out(stores, 11, [], with_point(choice_of((known, "a", 0.0)), point), reason="not_sure")

    async def result() -> tuple[bool, bool, str | None]:
        (told,) = [each for each in await near(stores, point) if each.arm == SILENCE]
        return told.worked, told.low_trust, told.reporter

    await tell_unaided(stores, context_id, worked=True, by=AN_AGENT)
    assert await result() == (True, True, "agent")
    await tell_unaided(stores, context_id, worked=False, by=AN_AGENT)
    assert await result() == (True, True, "agent"), "the first of a key's"
    await tell_unaided(stores, context_id, worked=False)
    assert await result() == (False, False, "k-ops"), "a trusted one overrules it"
    for by in (TRUSTED, AN_AGENT):
        await tell_unaided(stores, context_id, worked=True, by=by)
        assert await result() == (False, False, "k-ops")


async def test_a_context_that_found_nothing_has_a_result_too(stores: Stores) -> None:
    context_id = await hand_out(stores, 11, [], reason="nothing_near", project_id=None)
    await tell_unaided(stores, context_id, worked=True)
    assert (await experience(stores, None)).unaided_worked == 1


async def test_a_result_of_a_context_that_is_not_there_is_refused(store: Store) -> None:
    ours, theirs = store.of("ours"), store.of("theirs")
    context_id = await hand_out(theirs, 11, [], reason="not_sure")
    for unknown in (ContextId(uuid4()), context_id):
        with pytest.raises(NotFound):
            await tell_unaided(ours, unknown, worked=True)
        with pytest.raises(NotFound):
            await ours.records.choice(unknown)
        assert await ours.records.arms_of(unknown) == {}


# experience


async def test_experience_counts_trusted_outcomes_up_to_the_few_that_matter(stores: Stores) -> None:
    assert await experience(stores, "backend") == Experience()
    known = await learn(stores, *(entry(number) for number in range(1, 4)))
    assert await experience(stores, "backend") == Experience(), "captures are no outcomes"
    for number in range(11, 13):
        context_id = await hand_out(stores, number, [known], choice_of((known, "a", 0.0)))
        await report(stores, context_id, known)
    for number in range(21, 23):
        await tell_unaided(stores, await hand_out(stores, number, [], reason="not_sure"), worked=number == 21)
    found = await experience(stores, "backend")
    assert found == Experience(outcomes=4, unaided=2, unaided_worked=1)
    for number in range(31, 41):
        await tell_unaided(stores, await hand_out(stores, number, [], reason="not_sure"), worked=True, by=AN_AGENT)
    assert await experience(stores, "backend") == found, "what agents' keys report decides nothing"
    for number in range(41, 51):
        await tell_unaided(stores, await hand_out(stores, number, [], reason="not_sure"), worked=True)
    assert await experience(stores, "backend") == Experience(outcomes=MIN_OUTCOMES, unaided=12, unaided_worked=11)


async def test_unaided_tasks_are_those_of_the_type_of_agent(stores: Stores) -> None:
    for number, agent_type in ((11, "backend"), (12, "backend"), (13, "frontend")):
        context_id = await hand_out(stores, number, [], reason="not_sure", agent_type=agent_type)
        await tell_unaided(stores, context_id, worked=agent_type == "frontend")
    for asked_type, (unaided, worked) in {"backend": (2, 0), "frontend": (1, 1), "other": (0, 0), None: (3, 1)}.items():
        found = await experience(stores, asked_type)
        assert (found.unaided, found.unaided_worked, found.outcomes) == (unaided, worked, 3)


async def test_weights_are_kept_for_each_workspace(store: Store) -> None:
    ours, theirs = store.of("ours"), store.of("theirs")
    for weights in ((0.1, 0.2, 0.3, 0.4), (1.0, -2.0, 1e-9, 0.5)):
        await ours.records.save_weights(weights)
        assert (await experience(ours, "backend")).weights == weights
    assert (await experience(theirs, "backend")).weights == PRIOR_WEIGHTS
    await theirs.records.forget_weights()
    assert (await experience(ours, "backend")).weights == weights
    await ours.records.forget_weights()
    assert (await experience(ours, "backend")).weights == PRIOR_WEIGHTS


# choices


async def test_a_choice_comes_back_as_it_was_made(stores: Stores) -> None:
    known = PatternId(uuid4())
    choice = choice_of((known, "a", -0.1234567891), (PatternId(uuid4()), SILENCE, 1e-12), near_unaided=(0.25, 1e-7))
    context_id = await hand_out(stores, 11, [known], choice)
    found = await stores.records.choice(context_id)
    assert found.choice == choice, "to the last bit: it can be made again"
    assert (found.context_id, found.shown, found.reason) == (context_id, (known,), "spoke")
    assert (found.project_id, found.task_id, found.run_id, found.agent_type) == ("web-shop", "T-11", None, "backend")
    assert (found.created_at, found.confidence) == (NOON, choice.right)
    assert await stores.records.arms_of(context_id) == {each.pattern_id: each.arm for each in choice.candidates}
    without = await stores.records.choice(await hand_out(stores, 12, [], reason="nothing_near"))
    assert (without.choice, without.confidence, without.reason) == (None, None, "nothing_near")
    assert await stores.records.arms_of(without.context_id) == {}


async def test_choices_are_listed_the_latest_first_by_project_reason_and_page(store: Store) -> None:
    ours = store.of("ours")
    await hand_out(store.of("theirs"), 99, [], at=NOON + 9 * HOUR)
    for number, reason in ((11, "spoke"), (12, "not_sure"), (13, "spoke"), (14, "held_out")):
        at = NOON if number < 13 else NOON + number * HOUR
        project_id = "blog" if number == 13 else "web-shop"
        choice = choice_of((PatternId(uuid4()), "a", 0.0), right=number / 100)
        await hand_out(ours, number, [], choice, reason=reason, at=at, project_id=project_id)

    async def listed(**told: Any) -> list[int]:
        page = {name: told.pop(name, usual) for name, usual in (("after", None), ("limit", 9))}
        found = await ours.records.choices(ContextQuery(**told), **page)
        assert all(each.choice is None and each.confidence == each.context_id.int / 100 for each in found)
        return [each.context_id.int for each in found]

    assert await listed() == [14, 13, 11, 12], "of one moment by their ids"
    assert await listed(limit=2) == [14, 13]
    assert await listed(after=ContextId(numbered(13))) == [11, 12]
    assert await listed(after=ContextId(numbered(11))) == [12]
    assert await listed(after=ContextId(numbered(12))) == []
    assert await listed(project_id="blog") == [13]
    assert await listed(reason="spoke") == [13, 11]
    assert await listed(reason="agent_knows") == []


# hints and lift


async def test_hints_are_the_features_of_contexts_and_what_came_of_their_first_pattern(store: Store) -> None:
    ours = store.of("ours")
    first, second = [
        await learn(ours, entry(number, failure(failure_description=text, solution_steps=text)))
        for number, text in ((1, "a"), (2, "b"))
    ]

    async def hint(number: int, tried: PatternId, *, worked: bool, by: Provenance = TRUSTED) -> None:
        choice = choice_of((first, "a", 1.0), (second, "b", 0.0), features=(1.0, float(number), 0.0, 0.5))
        context_id = await hand_out(ours, number, [first, second], choice)
        await report(ours, context_id, tried, worked=worked, by=by, at=NOON + number * HOUR)

    await hint(11, first, worked=True)
    await hint(12, second, worked=False)
    await hint(13, first, worked=False)
    await hint(14, first, worked=True, by=AN_AGENT)
    await report(ours, await hand_out(ours, 15, [first]), first)
    told = [((1.0, 13.0, 0.0, 0.5), False), ((1.0, 11.0, 0.0, 0.5), True)]
    assert await ours.records.hints(9) == told
    assert await ours.records.hints(1) == told[:1]
    assert await store.of("theirs").records.hints(9) == []


async def test_lift_counts_tasks_with_a_hint_and_those_held_out_that_were_reported(store: Store) -> None:
    ours = store.of("ours")
    assert await ours.records.lift() == LiftCounts()
    one, two = [
        await learn(ours, entry(number, failure(failure_description=text, solution_steps=text)))
        for number, text in ((1, "a"), (2, "b"))
    ]
    for number, results in {11: [True], 12: [False], 13: [False, True], 14: []}.items():
        context_id = await hand_out(ours, number, [one, two])
        for pattern_id, worked in zip((one, two), results, strict=False):
            await report(ours, context_id, pattern_id, worked=worked)
    for number, solved in ((21, True), (22, False), (23, None)):
        context_id = await hand_out(ours, number, [], reason="held_out")
        if solved is not None:
            await tell_unaided(ours, context_id, worked=solved)
    await tell_unaided(ours, await hand_out(ours, 31, [], reason="not_sure"), worked=True)
    assert await ours.records.lift() == LiftCounts(hinted=3, hinted_solved=2, held_out=2, held_out_solved=1)
    assert await store.of("theirs").records.lift() == LiftCounts()


# arms that are not computed yet


async def test_records_without_an_arm_come_with_their_texts_and_are_near_nothing_until_named(store: Store) -> None:
    ours = store.of("ours")
    known = await learn(ours, entry(1))
    await learn(ours, entry(2, failure(solution_steps="Wait", verified_by=None)), joins=known)
    asked = with_point(choice_of((known, arm_of(CART), 0.0)), situation_point(ours, entry(1), known))
    context_id = await hand_out(ours, 11, [known], asked)
    await report(ours, context_id, known)
    assert await ours.records.without_arm(9) == {}
    async with transaction(store.engine) as connection:
        await connection.execute(sa.text("UPDATE records SET arm_key = NULL"))
    assert await near(ours, situation_point(ours, entry(1), known)) == []
    waiting = await ours.records.without_arm(9)
    (outcome,) = waiting.keys() - {numbered(1), numbered(2)}
    texts = {record: embedding_text.resolution(words) for record, words in waiting.items()}
    assert texts[numbered(2)] == "Wait"
    assert texts[numbered(1)] == texts[outcome] == CART.solution_steps, "of the pattern's most trusted entry"
    assert len(await ours.records.without_arm(2)) == 2
    assert await store.of("theirs").records.without_arm(9) == {}
    await store.of("theirs").records.name_arms(dict.fromkeys(waiting, "theirs"))
    assert (await ours.records.without_arm(9)).keys() == waiting.keys()
    await ours.records.name_arms({record: arm_key(text, "") for record, text in texts.items()})
    assert await ours.records.without_arm(9) == {}
    assert {each.arm for each in await near(ours, situation_point(ours, entry(1), known))} == {
        arm_key(text, "") for text in texts.values()
    }


# what belongs to others, and what goes


async def test_records_of_another_workspace_are_never_near(store: Store) -> None:
    """D44: even where its point is asked for."""
    theirs = store.of("theirs")
    known = await learn(theirs, entry(1))
    point = situation_point(theirs, entry(1), known)
    assert len(await near(theirs, point)) == 1
    assert await near(store.of("ours"), point) == []


async def records_of(store: Store) -> set[UUID]:
    async with transaction(store.engine) as connection:
        return set((await connection.execute(sa.text("SELECT id FROM records"))).scalars())


async def test_records_go_with_what_they_are_records_of(store: Store) -> None:
    """Nothing is learned from what was deleted or taken back."""
    ours = store.of("ours")
    known = await learn(ours, entry(1), entry(2))
    hinted = await hand_out(ours, 11, [known], at=NOON - 2 * HOUR)
    await report(ours, hinted, known)
    silent = await hand_out(ours, 12, [], reason="not_sure", at=NOON - HOUR)
    await tell_unaided(ours, silent, worked=True)
    everything = await records_of(store)
    assert len(everything) == 4
    assert everything > {numbered(1), numbered(2), silent}
    (outcome,) = everything - {numbered(1), numbered(2), silent}
    assert await ours.contexts.prune(NOON - HOUR, limit=9) == 1
    assert await records_of(store) == everything - {outcome}
    await ours.entries.delete(numbered(1))
    assert await records_of(store) == {numbered(2), silent}
    assert await ours.contexts.prune(NOON, limit=9) == 1
    assert await records_of(store) == {numbered(2)}
    await ours.entries.delete(numbered(2))
    assert await records_of(store) == set()


async def test_deleting_the_last_entry_of_a_pattern_takes_its_outcomes_along(store: Store) -> None:
    ours = store.of("ours")
    known = await learn(ours, entry(1))
    await report(ours, await hand_out(ours, 11, [known]), known)
    assert len(await records_of(store)) == 2
    await ours.entries.delete(numbered(1))
    assert await records_of(store) == set()
