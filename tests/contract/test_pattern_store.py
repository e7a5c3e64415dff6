"""The contract of PatternStore; with it, the effect of deleting an entry on its pattern."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from hardwon.errors import NotFound
from hardwon.models.lists import PatternSort
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.retention import add_years
from knowledge.models import (
    MAX_CIRCUMSTANCES,
    MAX_POINTS,
    MAX_RIVALS,
    MAX_SOURCE_ENTRIES,
    AppliesWhen,
    Circumstance,
    Entry,
    EntryId,
    EntryStatus,
    Evidence,
    LeaseToken,
    Link,
    LinkKind,
    NewEntry,
    PatternId,
    PointId,
    PruneReport,
    View,
    pattern_id_of,
)
from knowledge.ports import Claim, PatternQuery, Selection, Stores
from knowledge.retrieval.calibration import default_calibration
from tests.support.cases import over
from tests.support.entries import NOON, approval, failure, rejection, stored
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import (
    EVERYTHING,
    MINUTE,
    OTHER_SPACE,
    SPACE,
    Store,
    claim_all,
    decide,
    decision,
    learn,
    mark,
    numbered,
    situation_point,
    text_point,
)

pytestmark = OF_ONE_LOOP

DAY = timedelta(days=1)
MOMENT = timedelta(milliseconds=40)
A_YEAR_LATER = add_years(NOON, 1)


def told(number: int, **changes: Any) -> Entry:
    """Return an entry of its own task; all share their words unless told otherwise."""
    return stored(failure(**{"task_id": f"T-{number}"} | changes), numbered(number))


async def pattern_with_the_words_of(stores: Stores, entry: Entry) -> PatternId | None:
    key = embedding_text.match_key(entry)
    async with stores.patterns.begin_decisions(LeaseToken(uuid4())) as deciding:
        return (await deciding.patterns_by_key([key])).get(key)


async def status(stores: Stores, entry_id: EntryId) -> EntryStatus:
    return (await stores.entries.get(entry_id)).status


async def only(stores: Stores, point_id: PointId) -> Evidence:
    """Return the evidence behind one point."""
    (evidence,) = (await stores.patterns.evidence([point_id], now=NOON)).values()
    return evidence


def counts(evidence: Evidence) -> tuple[int, int, int]:
    return (evidence.success_count, evidence.attempt_count, evidence.project_count)


# deciding


async def test_what_was_decided_is_there_once_the_block_ended_well(stores: Stores) -> None:
    entry = told(1)
    await stores.entries.add([entry])
    claim = await claim_all(stores)
    point = situation_point(stores, entry)
    async with stores.patterns.begin_decisions(claim.token) as deciding:
        assert await deciding.find_leased([entry.entry_id]) == {entry.entry_id: None}
        made = decision(stores.workspace, entry)
        assert await deciding.write([made], SPACE, embedded_at=NOON, expires_at=A_YEAR_LATER) == {point: False}
        assert await deciding.patterns_by_key([made.match_key, "another"]) == {made.match_key: made.pattern_id}
        assert await stores.points.find_existing([point]) == set(), "nobody else sees it yet"
    assert await stores.points.find_existing([point]) == {point}
    assert await pattern_with_the_words_of(stores, entry) == made.pattern_id
    assert (await stores.entries.get(entry.entry_id)).pattern_id == made.pattern_id


async def test_the_resolutions_of_a_pattern_are_told_once_each(store: Store) -> None:
    stores, solution = store.of("ours"), failure().solution_steps
    pattern = await learn(stores, told(1))
    await learn(stores, told(2))
    approved = await learn(stores, stored(approval(approved_approach="In two steps"), numbered(3)))
    asked = [pattern, approved, PatternId(uuid4())]
    async with stores.patterns.begin_decisions(LeaseToken(uuid4())) as deciding:
        found = await deciding.resolutions(asked)
        assert {pattern_id: list(each) for pattern_id, each in found.items()} == {
            pattern: [solution],
            approved: ["In two steps"],
        }
        assert not await deciding.resolutions([])
    async with store.of("theirs").patterns.begin_decisions(LeaseToken(uuid4())) as deciding:
        assert not await deciding.resolutions(asked)


async def test_the_words_that_joined_a_pattern_founded_with_others_are_bound_to_it(store: Store) -> None:
    stores, first, second = store.of("ours"), told(1), told(2, failure_description="In other words")
    pattern = await learn(stores, first)
    await stores.entries.add([second])
    claim = await claim_all(stores)
    joins = replace(decision("ours", second, pattern), why=("situation: likeness 0.97",))
    async with stores.patterns.begin_decisions(claim.token) as deciding:
        await deciding.find_leased([second.entry_id])
        await deciding.write([joins], SPACE, embedded_at=NOON, expires_at=A_YEAR_LATER)
    assert await stores.patterns.pattern_of_key(joins.match_key) == pattern
    assert await stores.patterns.pattern_of_key(embedding_text.match_key(first)) is None, "it was founded with these"
    assert await store.of("theirs").patterns.pattern_of_key(joins.match_key) is None


async def test_a_block_that_fails_leaves_nothing(stores: Stores) -> None:
    entry = told(1)
    await stores.entries.add([entry])
    claim = await claim_all(stores)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - it is the block that fails
        async with stores.patterns.begin_decisions(claim.token) as deciding:
            await deciding.find_leased([entry.entry_id])
            made = decision(stores.workspace, entry)
            await deciding.write([made], SPACE, embedded_at=NOON, expires_at=A_YEAR_LATER)
            raise ZeroDivisionError
    assert await stores.points.find_existing([situation_point(stores, entry)]) == set()
    assert await pattern_with_the_words_of(stores, entry) is None
    assert (await stores.entries.get(entry.entry_id)).pattern_id is None
    assert await stores.entries.extend(claim, MINUTE) == 1, "it can be decided on again"


async def test_two_checkpoints_that_decide_on_the_same_new_words_make_one_pattern(stores: Stores) -> None:
    """G4."""
    await stores.entries.add([told(1), told(2)])
    claims = [await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE) for _ in range(2)]

    async def found_or_join(claim: Claim) -> PatternId:
        (entry,) = claim.entries
        async with stores.patterns.begin_decisions(claim.token) as deciding:
            there = await deciding.patterns_by_key([embedding_text.match_key(entry)])
            await asyncio.sleep(0.05)  # time for the other one to look, too
            made = decision(stores.workspace, entry, there.get(embedding_text.match_key(entry)))
            await deciding.write([made], SPACE, embedded_at=NOON, expires_at=A_YEAR_LATER)
        return made.pattern_id

    assert len(set(await asyncio.gather(*map(found_or_join, claims)))) == 1
    for claim in claims:
        await mark(stores, claim)
    assert (await stores.checkpoints.stats()).patterns == 1


async def test_another_workspace_does_not_wait_for_a_decision(store: Store) -> None:
    async with store.of("ours").patterns.begin_decisions(LeaseToken(uuid4())), asyncio.timeout(5):
        pattern = await learn(store.of("theirs"), told(1))
    assert counts(await store.of("theirs").patterns.get(pattern, now=NOON)) == (1, 1, 1)


async def test_entries_of_a_pattern_are_deleted_together_and_what_is_left_counts(store: Store) -> None:
    stores, theirs = store.of("ours"), store.of("theirs").entries
    pattern = await learn(stores, told(1))
    await learn(stores, told(2), told(3), told(4), joins=pattern)
    await stores.entries.add([told(5)])
    await decide(stores, await claim_all(stores), joins=pattern)
    assert await stores.entries.ids_of_pattern(pattern, limit=3) == [numbered(1), numbered(2), numbered(3)]
    assert await theirs.ids_of_pattern(pattern, limit=9) == []
    assert await theirs.delete_all([numbered(1)]) == 0
    assert await stores.entries.delete_all([numbered(1), numbered(3), numbered(4), numbered(99)]) == 3
    assert counts(await stores.patterns.get(pattern, now=NOON)) == (1, 1, 1)
    assert await stores.entries.ids_of_pattern(pattern, limit=9) == [numbered(2)], "the last one is not embedded yet"
    assert await stores.entries.delete_all([numbered(1)]) == 0
    assert await stores.entries.delete_all([]) == 0


async def test_a_decision_made_before_stands(stores: Stores) -> None:
    """G2: killed between the decision and the mark."""
    first = told(1)
    await learn(stores, first)
    joined = told(2)
    await stores.entries.add([joined])
    await decide(stores, await claim_all(stores, lease=MOMENT))
    await stores.entries.delete(first.entry_id)
    await asyncio.sleep(2 * MOMENT.total_seconds())
    again = await claim_all(stores)
    async with stores.patterns.begin_decisions(again.token) as deciding:
        held = await deciding.find_leased([joined.entry_id])
    assert held == {joined.entry_id: pattern_id_of("default", first.entry_id)}, "though its founder is gone"


async def test_a_pattern_that_is_only_decided_is_neither_found_nor_counted(stores: Stores) -> None:
    """It has the counts of one embedded entry from the start."""
    entry = told(1)
    await stores.entries.add([entry])
    claim = await claim_all(stores)
    _, kept = await decide(stores, claim)
    assert await stores.patterns.evidence(sorted(kept), now=NOON) == {}
    assert (await stores.checkpoints.stats()).patterns == 0
    await mark(stores, claim)
    assert counts(await only(stores, *kept)) == (1, 1, 1)
    assert (await stores.checkpoints.stats()).patterns == 1


async def test_a_lost_lease_decides_and_marks_nothing(stores: Stores) -> None:
    """G4, D24."""
    entry = told(1)
    await stores.entries.add([entry])
    stale = await claim_all(stores, lease=MOMENT)
    await asyncio.sleep(2 * MOMENT.total_seconds())
    taken = await claim_all(stores)
    async with stores.patterns.begin_decisions(stale.token) as deciding:
        assert await deciding.find_leased([entry.entry_id]) == {}
    await decide(stores, taken)
    assert await mark(stores, stale) == set()
    assert await status(stores, entry.entry_id) is EntryStatus.STAGED
    assert await mark(stores, taken) == {entry.entry_id}


async def test_no_claim_takes_over_what_a_decision_is_being_made_about(stores: Stores) -> None:
    entry = told(1)
    await stores.entries.add([entry])
    claim = await claim_all(stores, lease=MOMENT)
    async with stores.patterns.begin_decisions(claim.token) as deciding:
        await deciding.find_leased([entry.entry_id])
        await asyncio.sleep(2 * MOMENT.total_seconds())
        assert not (await claim_all(stores)).entries
    assert (await claim_all(stores)).entries


async def test_a_pattern_has_at_most_eight_points_and_keeps_the_first_ones(stores: Stores) -> None:
    await stores.entries.add([told(1), told(2), told(3)])
    claims = [await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE) for _ in range(3)]
    pattern = pattern_id_of("default", numbered(1))
    ids = [text_point("default", pattern, f"way {n}").point_id for n in range(MAX_POINTS + 1)]
    _, kept = await decide(stores, claims[0], points=[f"way {n}" for n in range(MAX_POINTS - 1)])
    assert kept == set(ids[: MAX_POINTS - 1])
    _, kept = await decide(
        stores, claims[1], joins=pattern, points=["way 0", *(f"way {n}" for n in range(7, MAX_POINTS + 1))]
    )
    assert kept == {ids[0], ids[MAX_POINTS - 1]}, "one more fits; one there already stays"
    _, kept = await decide(stores, claims[2], joins=pattern, points=[f"way {MAX_POINTS}"])
    assert kept == set()
    assert await stores.points.find_existing(ids) == set(ids[:MAX_POINTS])
    for claim in claims:
        assert len(await mark(stores, claim)) == 1, "evidence without a point of its own is evidence all the same"
    assert (await only(stores, ids[0])).success_count == 3


async def test_the_expiry_of_a_point_never_shrinks(stores: Stores) -> None:
    """D8, G12: a point stands until the last of its entries expires, in whichever order they are embedded."""
    await learn(stores, told(1), at=NOON + 10 * DAY)
    await learn(stores, told(2), at=NOON)
    prunable = stores.patterns.prunable
    assert (await prunable(A_YEAR_LATER, open_before=NOON)).points == 0
    assert (await prunable(A_YEAR_LATER + 10 * DAY, open_before=NOON)).points == 1


# marking and counting


async def test_marked_entries_are_embedded_for_a_year_and_hold_no_lease(stores: Stores) -> None:
    """D23."""
    entry = told(1)
    pattern = await learn(stores, entry)
    found = await stores.entries.get(entry.entry_id)
    assert (found.status, found.pattern_id) == (EntryStatus.EMBEDDED, pattern)
    assert (found.embedded_at, found.expires_at) == (NOON, A_YEAR_LATER)
    assert not (await claim_all(stores)).entries


async def test_nothing_is_marked_that_was_not_decided(stores: Stores) -> None:
    await stores.entries.add([told(1)])
    claim = await claim_all(stores)
    assert await mark(stores, claim) == set()
    assert await stores.entries.extend(claim, MINUTE) == 1


async def test_nothing_is_marked_that_was_embedded_into_a_space_no_longer_in_use(stores: Stores) -> None:
    """G22."""
    await stores.spaces.bind(SPACE, mean_terms=20.0, calibration=default_calibration(SPACE.model))
    await stores.entries.add([told(1), told(2, failure_description="Another")])
    right, wrong = [await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE) for _ in range(2)]
    await decide(stores, right)
    await decide(stores, wrong, space=OTHER_SPACE)
    assert await mark(stores, right) == {numbered(1)}
    assert await mark(stores, wrong, space=OTHER_SPACE) == set()
    assert await status(stores, numbered(2)) is EntryStatus.STAGED


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([failure(task_id="1"), failure(task_id="2")], (2, 2, 1)),
        ([failure(task_id="1"), failure(task_id="1", technology="go")], (2, 2, 1)),
        ([failure(task_id="1", run_id="1"), failure(task_id="1", run_id="2")], (2, 2, 1)),
        ([failure(task_id="1", run_id="1"), failure(task_id="1", run_id="1", technology="go")], (1, 1, 1)),
        ([failure(run_id="1"), failure(run_id="1", technology="go")], (2, 2, 1)),
        ([failure(task_id="1", run_id="1"), failure(task_id="1", run_id="1", project_id="b")], (2, 2, 2)),
        ([failure(project_id=project) for project in "aabc"], (3, 3, 3)),
    ],
    ids=["tasks", "contents-without-run", "runs", "one-event", "no-task", "projects", "replayed"],
)
async def test_a_success_is_a_distinct_project_task_and_run(
    stores: Stores, entries: Sequence[NewEntry], expected: tuple[int, int, int]
) -> None:
    """D32: never raw popularity; the entry stands in for a missing task, its content for a missing run."""
    pattern = await learn(stores, *(stored(entry) for entry in entries))
    assert counts(await stores.patterns.get(pattern, now=NOON)) == expected


async def test_counts_add_up_when_entries_of_one_pattern_are_marked_at_once(stores: Stores) -> None:
    """G4."""
    for attempt in range(4):
        words = {"failure_description": f"Failure {attempt}"}
        await stores.entries.add([told(100 * attempt + n, project_id=f"p{n}", **words) for n in range(8)])
        claims = [await stores.entries.claim(EVERYTHING, limit=1, lease=MINUTE) for _ in range(8)]
        patterns = {(await decide(stores, claim))[0][claim.entries[0].entry_id] for claim in claims}
        await asyncio.gather(*(mark(stores, claim) for claim in claims))
        (pattern,) = patterns
        assert counts(await stores.patterns.get(pattern, now=NOON)) == (8, 8, 8)


@pytest.mark.long
async def test_checkpoints_that_share_many_patterns_do_not_hinder_each_other(stores: Stores) -> None:
    """G4: four at once, in different orders."""
    projects, shared = "abcd", 100
    for turn, project in enumerate(projects):
        order = sorted(range(shared), key=lambda number, turn=turn: number * (7, 93, 31, 57)[turn] % 101)  # type: ignore[misc]
        await stores.entries.add(
            [
                told(1000 * turn + place, project_id=project, failure_description=f"Failure {number}")
                for place, number in enumerate(order)
            ]
        )
    claims = [
        await stores.entries.claim(Selection(project_id=project), limit=shared, lease=MINUTE) for project in projects
    ]
    founded, *_ = [(await decide(stores, claim))[0] for claim in claims]
    await asyncio.gather(*(mark(stores, claim) for claim in claims))
    found = [counts(await stores.patterns.get(pattern, now=NOON)) for pattern in founded.values()]
    assert found == [(4, 4, 4)] * shared


# evidence


async def test_evidence_has_the_words_of_the_most_trusted_then_latest_entry(stores: Stores) -> None:
    """What a human decided, then what names its verifier, then the rest; of equals the latest, then the lower id."""
    pattern = await learn(stores, told(9, verified_by=None), at=NOON)
    steps = [
        (told(8, verified_by=None), NOON + DAY, 8),
        (told(7), NOON - DAY, 7),
        (told(6, verified_by=None), NOON + 2 * DAY, 7),
        (told(5), NOON + 3 * DAY, 5),
        (told(4), NOON + 3 * DAY, 4),
        (stored(rejection(), numbered(3)), NOON - 2 * DAY, 3),
        (stored(approval(), numbered(2)), NOON - 3 * DAY, 3),
        (told(1), NOON + 4 * DAY, 3),
    ]
    for entry, at, shown in steps:
        await learn(stores, entry, joins=pattern, at=at)
        evidence = await stores.patterns.get(pattern, now=NOON)
        assert evidence.words == await stores.entries.get(numbered(shown))
        assert evidence.entry_type is evidence.words.entry_type
    assert evidence.founded_at == NOON


async def test_of_many_rivals_those_with_the_most_evidence_are_told(stores: Stores) -> None:
    """A batch of one situation made 819 of them, and each query of it read them all."""
    first = told(0)
    beside = await learn(stores, first)
    number = MAX_RIVALS + 5
    others = [told(at, solution_steps=f"Way {at}") for at in range(1, 1 + number)]
    await stores.entries.add(others)
    claim = await claim_all(stores)
    link = Link(kind=LinkKind.RIVAL, pattern_id=beside, probability=1.0, why=("another way",))
    decisions = [replace(decision(stores.workspace, entry), links=(link,)) for entry in claim.entries]
    async with stores.patterns.begin_decisions(claim.token) as deciding:
        await deciding.write(decisions, SPACE, embedded_at=NOON, expires_at=A_YEAR_LATER)
    await mark(stores, claim)
    proven = [each.pattern_id for each in decisions[-3:]]
    for at, pattern_id in enumerate(proven):
        again = told(100 + at, solution_steps=f"Way {number - 2 + at}")
        assert await learn(stores, again, joins=pattern_id) == pattern_id
    rivals = (await only(stores, situation_point(stores, first))).rivals
    assert len(rivals) == MAX_RIVALS
    assert set(proven) < set(rivals)
    assert (await only(stores, situation_point(stores, others[0]))).rivals == (beside,)


async def test_evidence_names_its_latest_hundred_entries_the_latest_first(stores: Stores) -> None:
    early = [told(number) for number in range(10, 60)]
    late = [told(number) for number in range(110, 170)]
    await learn(stores, *early)
    pattern = await learn(stores, *late, at=NOON + DAY)
    evidence = await stores.patterns.get(pattern, now=NOON)
    expected = [entry.entry_id for entry in late + early]
    assert list(evidence.entry_ids) == expected[:MAX_SOURCE_ENTRIES]
    assert evidence.success_count == 110


async def test_no_number_of_later_entries_by_agents_silences_the_trusted_ones_of_a_pattern(stores: Stores) -> None:
    """And all of them are counted; a query of patterns with 2,000 entries each took a second, for it read them all."""
    theirs = [told(number, technology="go", when_to_try="Always") for number in (1, 2)]
    await learn(stores, *theirs, at=NOON - DAY)
    of_agents = [
        replace(told(number, technology="cobol", when_to_try="Never"), low_trust=True)
        for number in range(10, 10 + 2 * MAX_SOURCE_ENTRIES)
    ]
    pattern = await learn(stores, *of_agents)
    evidence = await stores.patterns.get(pattern, now=NOON)
    assert evidence.words == await stores.entries.get(numbered(1))
    assert (evidence.when_to_try, evidence.whens) == ("Always", ("Always",))
    assert {entry.entry_id for entry in theirs} < set(evidence.entry_ids)
    assert len(evidence.entry_ids) == MAX_SOURCE_ENTRIES
    found = {each.technology: each.entries for each in evidence.circumstances}
    assert found == {"cobol": MAX_SOURCE_ENTRIES - 2, "go": 2}
    assert evidence.attempt_count == 3, "of what one key told once is counted"


async def test_a_pattern_tells_the_circumstances_of_all_its_live_entries_the_most_frequent_first(
    stores: Stores,
) -> None:
    error = "Traceback\n  pricing.TypeError: price is None"
    same = {"error_message": error, "failure_description": "It breaks"}
    await learn(stores, told(1, **same, technology="go"), at=NOON - DAY)
    pattern = await learn(stores, *(told(number, **same) for number in (2, 3)), told(4, **same, task_type=None))
    facts = {"agent_type": "backend", "task_type": "bugfix", "technology": "python", "error": "TypeError"}
    found = (await stores.patterns.get(pattern, now=NOON)).circumstances
    assert found[0] == Circumstance(entries=2, **facts)
    assert set(found[1:]) == {
        Circumstance(entries=1, **facts | {"technology": "go"}),
        Circumstance(entries=1, **facts | {"task_type": None}),
    }
    a_day_too_late = await stores.patterns.get(pattern, now=A_YEAR_LATER - DAY)
    assert "go" not in {each.technology for each in a_day_too_late.circumstances}


async def test_a_pattern_tells_of_so_many_circumstances_and_no_more(stores: Stores) -> None:
    entries = [told(number, technology=f"t{number}") for number in range(MAX_CIRCUMSTANCES + 5)]
    pattern = await learn(stores, *entries, told(99, technology="t24"))
    found = (await stores.patterns.get(pattern, now=NOON)).circumstances
    assert len(found) == MAX_CIRCUMSTANCES
    assert (found[0].entries, found[0].technology) == (2, "t24")


@over(
    "number, message, failure, error",
    [
        (1, "E   TypeError: price is None", "It breaks", "TypeError"),
        (2, "sqlalchemy.exc.OperationalError: gone", "It breaks", "OperationalError"),
        (3, "x" * 9000 + "\nzipfile.BadZipFileException: no", "It breaks", "BadZipFileException"),
        (4, "x" * 3000 + " KeyError " + "x" * 3000, "It breaks", None),
        (5, "open: ENOENT", "It breaks", "ENOENT"),
        (6, "error[E0308]: mismatched types", "It breaks", "E0308"),
        (7, "ORA-00942: table or view does not exist", "It breaks", "ORA-00942"),
        (8, "ENOENT, then a KeyError", "It breaks", "KeyError"),
        (9, "Error: something, an error", "It breaks", None),
        (10, "no name", "A ValueError where a date is expected", "ValueError"),
        (11, None, "A UserWarning_s and myErrors, none of them a name", None),
        (12, None, "y" * 200 + " KeyError", None),
        (13, None, "E0308 in prose is no code of an error", None),
        (14, "Ünderflow_Error and ÜError", "It breaks", "nderflow_Error"),
    ],
)
async def test_an_error_is_told_by_its_name_else_by_its_code(
    stores: Stores, number: int, message: str | None, failure: str, error: str | None
) -> None:
    pattern = await learn(stores, told(number, error_message=message, failure_description=failure))
    (found,) = (await stores.patterns.get(pattern, now=NOON)).circumstances
    assert found.error == error


async def test_when_to_try_is_that_of_the_most_trusted_then_latest_entry_that_tells_it(stores: Stores) -> None:
    pattern = await learn(stores, told(1, when_to_try="As verified"), at=NOON - 2 * DAY)
    await learn(stores, told(2, when_to_try="As claimed", verified_by=None), at=NOON - DAY)
    await learn(stores, told(3))
    found = await stores.patterns.get(pattern, now=NOON)
    assert (found.words.entry_id, found.when_to_try) == (numbered(3), "As verified")
    later = await stores.patterns.get(pattern, now=A_YEAR_LATER - 2 * DAY)
    assert later.when_to_try == "As claimed"


async def test_a_pattern_has_the_conditions_that_its_live_entries_tell_each_once(stores: Stores) -> None:
    old, new = AppliesWhen(tool="tox"), AppliesWhen(technology="python", version="<3.12")
    await learn(stores, told(1, applies_when=old), at=NOON - DAY)
    pattern = await learn(stores, told(2, applies_when=new), told(3, applies_when=new), told(4))
    assert set((found := await stores.patterns.get(pattern, now=NOON)).conditions) == {old, new}
    assert len(found.conditions) == 2
    assert (await stores.patterns.get(pattern, now=A_YEAR_LATER - DAY)).conditions == (new,)


async def test_conditions_of_low_trust_have_no_say_beside_trusted_evidence(stores: Stores) -> None:
    """One agent's key could hide what everybody else found to work."""
    cobol, go = AppliesWhen(technology="cobol"), AppliesWhen(technology="go")
    agents = [replace(told(n, applies_when=told_of), low_trust=True) for n, told_of in ((1, cobol), (2, go))]
    pattern = await learn(stores, *agents)
    assert set((await stores.patterns.get(pattern, now=NOON)).conditions) == {cobol, go}
    await learn(stores, told(3))
    assert (await stores.patterns.get(pattern, now=NOON)).conditions == ()
    await learn(stores, told(4, applies_when=go))
    assert (await stores.patterns.get(pattern, now=NOON)).conditions == (go,)


async def test_sentences_of_when_to_try_are_heard_as_conditions_are(stores: Stores) -> None:
    """One agent's `Only with python<2` hid what everybody else found to work, and one entry's what others told."""
    agents = [replace(told(n, when_to_try=f"Only with python<{n}"), low_trust=True) for n in (1, 2)]
    pattern = await learn(stores, agents[0])
    assert (await stores.patterns.get(pattern, now=NOON)).whens == ("Only with python<1",)
    await learn(stores, agents[1])
    assert set((await stores.patterns.get(pattern, now=NOON)).whens) == {each.when_to_try for each in agents}
    await learn(stores, told(3))
    assert (await stores.patterns.get(pattern, now=NOON)).whens == ()
    await learn(stores, *(told(n, when_to_try=text) for n, text in ((4, "Late" * 100), (5, "go>2"), (6, "go>2"))))
    assert set((await stores.patterns.get(pattern, now=NOON)).whens) == {"Late" * 75, "go>2"}


async def test_evidence_says_whether_any_of_it_is_of_a_project(stores: Stores) -> None:
    await learn(stores, told(1, project_id="a"), at=NOON - DAY)
    await learn(stores, told(2, project_id="b"))
    point = situation_point(stores, told(1))

    async def of(project_id: str | None, at: datetime = NOON) -> bool | None:
        found = await stores.patterns.evidence([point], now=at, project_id=project_id)
        return found[point].of_project

    assert [await of(each) for each in ("a", "b", "c", None)] == [True, True, False, None]
    assert await of("a", A_YEAR_LATER - DAY) is False, "that of this project is past its year"


async def test_each_point_of_a_pattern_leads_to_it(stores: Stores) -> None:
    entry = told(1, task_description="Sum a cart")
    pattern = await learn(stores, entry, told(2, failure_description="Another"))
    both = [
        text_point("default", pattern_id_of("default", entry.entry_id), text, view).point_id
        for view, text in ((View.SITUATION, embedding_text.situation(entry)), (View.TASK, "Sum a cart"))
    ]
    other = situation_point(stores, told(2, failure_description="Another"))
    found = await stores.patterns.evidence([*both, other, PointId(uuid4())], now=NOON)
    assert {point: evidence.pattern_id for point, evidence in found.items()} == {
        both[0]: pattern_id_of("default", entry.entry_id),
        both[1]: pattern_id_of("default", entry.entry_id),
        other: pattern,
    }
    assert await stores.patterns.evidence([], now=NOON) == {}


async def test_expired_evidence_is_never_shown_though_the_pruner_has_not_run(stores: Stores) -> None:
    """G12, D10."""
    pattern = await learn(stores, told(1), at=NOON)
    await learn(stores, told(2, verified_by=None), at=NOON + 10 * DAY)
    tick = timedelta(microseconds=1)
    point = situation_point(stores, told(1))

    async def shown(moment: Any) -> list[EntryId]:
        found = await stores.patterns.evidence([point], now=moment)
        return [found[point].words.entry_id, *found[point].entry_ids] if found else []

    assert await shown(A_YEAR_LATER - tick) == [numbered(1), numbered(2), numbered(1)]
    assert await shown(A_YEAR_LATER) == [numbered(2), numbered(2)], "less trusted, but alive"
    assert await shown(A_YEAR_LATER + 10 * DAY) == []
    with pytest.raises(NotFound):
        await stores.patterns.get(pattern, now=A_YEAR_LATER + 10 * DAY)


async def test_patterns_and_points_of_another_workspace_are_unknown(store: Store) -> None:
    """D44."""
    ours, theirs = store.of("ours"), store.of("theirs")
    pattern = await learn(ours, told(1))
    point = situation_point(ours, told(1))
    assert await ours.points.find_existing([point, PointId(uuid4())]) == {point}
    assert await theirs.points.find_existing([point]) == set()
    assert await theirs.patterns.evidence([point], now=NOON) == {}
    assert await theirs.entries.sole_points(numbered(1)) == []
    with pytest.raises(NotFound):
        await theirs.patterns.get(pattern, now=NOON)
    assert await pattern_with_the_words_of(theirs, told(1)) is None
    later = A_YEAR_LATER + DAY
    nothing = PruneReport(entries=0, points=0, patterns=0, never_resolved=0)
    assert await theirs.patterns.prune(later, open_before=later, limit=10) == nothing
    assert counts(await ours.patterns.get(pattern, now=NOON)) == (1, 1, 1)


async def test_looking_at_what_it_holds_changes_nothing(stores: Stores) -> None:
    pattern = await learn(stores, told(1))
    await stores.patterns.analyse()
    assert counts(await stores.patterns.get(pattern, now=NOON)) == (1, 1, 1)


# deleting an entry


async def test_a_point_rests_on_an_entry_alone_until_another_shares_it(stores: Stores) -> None:
    first = told(1, task_description="Sum a cart")
    await learn(stores, first)
    task = text_point("default", pattern_id_of("default", first.entry_id), "Sum a cart", View.TASK).point_id
    situation = situation_point(stores, first)
    assert set(await stores.entries.sole_points(first.entry_id)) == {situation, task}
    second = told(2)
    await learn(stores, second)
    assert await stores.entries.sole_points(first.entry_id) == [task]
    assert await stores.entries.sole_points(second.entry_id) == []
    assert await stores.entries.sole_points(EntryId(uuid4())) == []


async def test_deleting_an_entry_takes_its_own_points_and_recounts(stores: Stores) -> None:
    first = told(1, task_description="Sum a cart", project_id="a")
    pattern = await learn(stores, first, told(2, project_id="b"))
    sole = await stores.entries.sole_points(first.entry_id)
    await stores.entries.delete(first.entry_id)
    assert await stores.points.find_existing(sole) == set()
    left = await only(stores, situation_point(stores, first))
    assert counts(left) == (1, 1, 1)
    assert left.entry_ids == (numbered(2),)
    assert left.pattern_id == pattern == pattern_id_of("default", first.entry_id), "it outlives its founder"

    await stores.entries.delete(numbered(2))
    assert await stores.points.find_existing([situation_point(stores, first)]) == set()
    with pytest.raises(NotFound):
        await stores.patterns.get(pattern, now=NOON)
    stats = await stores.checkpoints.stats()
    assert (stats.patterns, stats.entries) == (0, {})


@pytest.mark.parametrize("how", ["delete", "prune"])
async def test_a_pattern_is_not_taken_away_while_an_entry_is_joining_it(stores: Stores, how: str) -> None:
    """G13."""
    first, second = told(1), told(2)
    pattern = await learn(stores, first)
    await stores.entries.add([second])
    claim = await claim_all(stores)

    async def take_away() -> None:
        if how == "delete":
            await stores.entries.delete(first.entry_id)
        else:
            await stores.patterns.prune(A_YEAR_LATER, open_before=NOON, limit=10)

    async with stores.patterns.begin_decisions(claim.token) as deciding:
        await deciding.find_leased([second.entry_id])
        assert (await deciding.patterns_by_key([embedding_text.match_key(second)])).values()
        taking = asyncio.create_task(take_away())
        await asyncio.sleep(0.05)
        joins = decision("default", second, pattern)
        await deciding.write([joins], SPACE, embedded_at=A_YEAR_LATER, expires_at=add_years(NOON, 2))
    await taking
    assert await mark(stores, claim, at=A_YEAR_LATER) == {second.entry_id}
    evidence = await stores.patterns.get(pattern, now=A_YEAR_LATER)
    assert (counts(evidence), evidence.entry_ids) == ((1, 1, 1), (second.entry_id,))
    assert await stores.points.find_existing([situation_point(stores, first)]), "which the second one stands behind"


async def test_deletions_of_one_pattern_at_once_leave_the_right_count(stores: Stores) -> None:
    """G13."""
    pattern = await learn(stores, *(told(number) for number in range(12)))
    await asyncio.gather(*(stores.entries.delete(numbered(number)) for number in range(10)))
    assert counts(await stores.patterns.get(pattern, now=NOON)) == (2, 2, 1)
    await asyncio.gather(*(stores.entries.delete(numbered(number)) for number in (10, 11)))
    assert (await stores.checkpoints.stats()).patterns == 0


# pruning


async def a_store_to_prune(stores: Stores) -> tuple[PatternId, list[Entry]]:
    """Fill a workspace; return a pattern that stays and the entries that do."""
    gone = [
        told(number, failure_description=f"Failure {number % 3}", task_description=f"Task {number}")
        for number in range(1, 9)
    ]
    await learn(stores, *gone, at=NOON)
    half = told(20, failure_description="Half of it")
    await learn(stores, half, at=NOON)
    stays = replace(half, entry_id=numbered(21), task_id="T-21")
    pattern = await learn(stores, stays, at=NOON + DAY)
    await never_resolved(stores)
    recent = replace(told(40, solution_steps=None, success_verified=False), status=EntryStatus.OPEN)
    recent = replace(recent, captured_at=A_YEAR_LATER)
    await stores.entries.add([recent])
    return pattern, [stays, recent]


async def never_resolved(stores: Stores) -> None:
    """Add two open entries, and one of a pattern of its own that was abandoned between its decision and its mark."""
    without = {"solution_steps": None, "success_verified": False}
    opened = [replace(told(number, **without), status=EntryStatus.OPEN) for number in (30, 31)]
    cancelled = told(32, verified_by=None, project_id="cancelled", failure_description="Cancelled")
    await stores.entries.add([*opened, cancelled])
    await decide(stores, await claim_all(stores), at=NOON + 2 * DAY)
    await stores.entries.abandon("cancelled", unvouched=True)


@pytest.mark.parametrize("limit", [1, 2, 1000])
async def test_pruning_slice_by_slice_does_what_prunable_said(stores: Stores, limit: int) -> None:
    """G12, D10."""
    pattern, stays = await a_store_to_prune(stores)
    said = await stores.patterns.prunable(A_YEAR_LATER, open_before=A_YEAR_LATER - DAY)
    assert (said.entries, said.patterns, said.never_resolved, said.dry_run) == (9, 4, 3, True)
    before = (await stores.checkpoints.stats()).entries

    parts: list[PruneReport] = []
    while not parts or parts[-1].entries or parts[-1].points or parts[-1].never_resolved:
        parts.append(await stores.patterns.prune(A_YEAR_LATER, open_before=A_YEAR_LATER - DAY, limit=limit))
        assert max(parts[-1].entries, parts[-1].never_resolved) <= limit
    done = PruneReport(
        entries=sum(part.entries for part in parts),
        points=sum(part.points for part in parts),
        patterns=sum(part.patterns for part in parts),
        never_resolved=sum(part.never_resolved for part in parts),
        dry_run=True,
    )
    assert done == said
    stats = await stores.checkpoints.stats()
    assert sum(before.values()) - sum(stats.entries.values()) == said.entries + said.never_resolved
    assert stats.patterns == 1
    assert [(await stores.entries.get(entry.entry_id)).entry_id for entry in stays] == [numbered(21), numbered(40)]
    assert counts(await stores.patterns.get(pattern, now=A_YEAR_LATER)) == (1, 1, 1)
    nothing = PruneReport(entries=0, points=0, patterns=0, never_resolved=0, dry_run=True)
    assert await stores.patterns.prunable(A_YEAR_LATER, open_before=A_YEAR_LATER - DAY) == nothing


async def test_no_pattern_outlives_its_entries_and_points_whichever_of_them_go_first(stores: Stores) -> None:
    """Entries and points go in slices of their own; and of an entry that was deleted, the points alone are left."""
    told_of = [told(number, failure_description=f"Failure {number}") for number in range(1, 13)]
    await learn(stores, *told_of)
    await stores.entries.delete(numbered(1))
    part = await stores.patterns.prune(A_YEAR_LATER, open_before=NOON, limit=5)
    while part.entries or part.points:
        part = await stores.patterns.prune(A_YEAR_LATER, open_before=NOON, limit=5)
    assert [await pattern_with_the_words_of(stores, entry) for entry in told_of] == [None] * 12


async def test_nothing_goes_before_its_moment(stores: Stores) -> None:
    """G12: a year to the microsecond; what is open, strictly more than its days."""
    await learn(stores, told(1))
    await never_resolved(stores)
    tick = timedelta(microseconds=1)
    early = await stores.patterns.prune(A_YEAR_LATER - tick, open_before=NOON, limit=10)
    assert early == PruneReport(entries=0, points=0, patterns=0, never_resolved=0)
    late = await stores.patterns.prune(A_YEAR_LATER, open_before=NOON + tick, limit=10)
    assert (late.entries, late.never_resolved) == (1, 3)


async def test_staged_entries_are_never_pruned_and_dead_ones_as_what_was_never_resolved(stores: Stores) -> None:
    entries = [told(1), told(2), told(3)]
    await stores.entries.add(entries)
    claim = await claim_all(stores)
    for number in (2, 3):
        await stores.entries.bury(claim.token, numbered(number), "refused")
    captured = entries[0].captured_at
    assert (await stores.patterns.prune(A_YEAR_LATER, open_before=captured, limit=10)).never_resolved == 0
    assert (await stores.checkpoints.stats()).entries == {"staged": 1, "dead": 2}
    later = captured + timedelta(microseconds=1)
    assert (await stores.patterns.prunable(A_YEAR_LATER, open_before=later)).never_resolved == 2
    assert [
        (await stores.patterns.prune(A_YEAR_LATER, open_before=later, limit=1)).never_resolved for _ in range(3)
    ] == [1, 1, 0]
    assert (await stores.checkpoints.stats()).entries == {"staged": 1}


async def test_after_a_pattern_was_pruned_its_words_found_another(stores: Stores) -> None:
    first = await learn(stores, told(1))
    await stores.patterns.prune(A_YEAR_LATER, open_before=NOON, limit=10)
    assert await pattern_with_the_words_of(stores, told(1)) is None
    second = await learn(stores, told(2), at=A_YEAR_LATER)
    assert second != first
    assert counts(await stores.patterns.get(second, now=A_YEAR_LATER)) == (1, 1, 1)


async def test_live_patterns_are_paged_through_by_when_they_were_seen_those_of_the_workspace_alone(
    store: Store,
) -> None:
    stores, theirs = store.of("ours"), store.of("theirs")
    entries = [told(number, failure_description=f"failure number {number}") for number in range(1, 6)]
    founded = [pattern for entry in entries for pattern in [await learn(stores, entry)]]
    await learn(theirs, told(9))

    async def page(after: PatternId | None, limit: int, now: datetime = NOON) -> list[PatternId]:
        found = await stores.lists.patterns(
            PatternQuery(), sort=PatternSort.SEEN, after=after, limit=limit, now=now, with_facets=True
        )
        assert found.total == len(founded)
        return [row.evidence.pattern_id for row in found.rows]

    everything = await page(None, 100)
    assert sorted(everything) == sorted(founded)
    first = await page(None, 2)
    assert [*first, *(await page(first[-1], 100))] == everything
    assert await page(everything[-1], 100) == []
    assert await page(None, 100, A_YEAR_LATER + DAY) == []


# low trust
