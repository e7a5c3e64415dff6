"""The contract of PointStore: notes of where the index may differ, settled alone; words counted once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from hardwon.errors import NotFound, SpaceSwitched
from knowledge.memory.rules import embedding_text
from knowledge.models import MAX_POINTS, Entry, PatternId, PointId, TermStatistics, TextPoint
from knowledge.ports import DirtyPoints, Stores
from tests.contract.test_pattern_store import A_YEAR_LATER, DAY, told
from tests.support.entries import NOON
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import (
    OTHER_SPACE,
    SPACE,
    Store,
    claim_all,
    decide,
    learn,
    mark,
    numbered,
    situation_point,
    text_point,
)

pytestmark = OF_ONE_LOOP

HOUR = timedelta(hours=1)
LATER = NOON + DAY


async def settled(
    stores: Stores, *, at: datetime = NOON, also: tuple[PointId, ...] = (), limit: int = 100
) -> DirtyPoints:
    """Settle what is noted down, as if the index had taken it; return what was to be done."""
    async with stores.points.begin_reconciliation(now=at, again_at=LATER, limit=limit, also=also) as unsettled:
        return unsettled


async def learned(stores: Stores, entry: Entry) -> tuple[PointId, PatternId]:
    pattern = await learn(stores, entry)
    return situation_point(stores, entry, pattern), pattern


async def test_what_a_checkpoint_wrote_is_not_noted_down(stores: Stores) -> None:
    await learned(stores, told(1))
    assert await settled(stores) == DirtyPoints()


async def test_points_of_a_deleted_entry_are_gone_twice_and_then_forgotten(stores: Stores) -> None:
    """G13: a checkpoint that died before it took its point back wrote it after the first look."""
    point, pattern = await learned(stores, told(1))
    await stores.entries.delete(numbered(1))
    assert await settled(stores) == DirtyPoints(gone=(point,))
    assert await settled(stores) == DirtyPoints(), "until a day later"
    assert await settled(stores, at=LATER) == DirtyPoints(gone=(point,))
    assert await settled(stores, at=A_YEAR_LATER) == DirtyPoints()
    with pytest.raises(NotFound):
        await stores.patterns.get(pattern, now=NOON)
    assert (await stores.checkpoints.stats()).vector_bytes == 0


async def test_a_point_that_goes_has_no_vector_any_more_and_can_come_back(stores: Stores) -> None:
    point, pattern = await learned(stores, told(1))
    await stores.entries.delete(numbered(1))
    await settled(stores)
    assert (await stores.checkpoints.stats()).vector_bytes == 0
    again, same = await learned(stores, told(2))
    assert (again, same) == (point, pattern), "the words are the same, and so is the pattern"
    assert await settled(stores, at=LATER) == DirtyPoints(), "it is no longer about to go"
    assert (await stores.checkpoints.stats()).vector_bytes == 2 * SPACE.dims


async def test_a_point_that_lost_the_later_of_its_entries_goes_back_to_the_times_of_the_other(stores: Stores) -> None:
    """G12: else it would outlive its evidence in the index."""
    point, pattern = await learned(stores, told(1))
    await stores.entries.add([told(2)])
    claim = await claim_all(stores)
    await decide(stores, claim, joins=pattern, at=LATER)
    await mark(stores, claim, at=LATER)
    await stores.entries.delete(numbered(2))
    (stored,) = (await settled(stores)).stored
    assert (stored.point_id, stored.embedded_at, stored.expires_at) == (point, NOON, A_YEAR_LATER)
    assert stored.entry.entry_id == numbered(1)
    assert stored.vector is not None
    assert await settled(stores) == DirtyPoints()


async def test_a_point_that_a_checkpoint_is_about_to_write_is_left_to_it(stores: Stores) -> None:
    point, pattern = await learned(stores, told(1))
    await stores.entries.add([told(2)])
    claim = await claim_all(stores)
    await decide(stores, claim, joins=pattern, at=LATER)
    await stores.entries.delete(numbered(1))
    assert await settled(stores) == DirtyPoints()
    assert await settled(stores, also=(point,)) == DirtyPoints()
    await mark(stores, claim, at=LATER)
    assert [stored.point_id for stored in (await settled(stores)).stored] == [point], "the note is still there"


@pytest.mark.parametrize("how", ["abandoned", "dead"])
async def test_points_of_entries_that_will_not_be_embedded_are_noted_down(stores: Stores, how: str) -> None:
    """G2: a checkpoint died between its upsert and its mark."""
    entry = told(1, verified_by=None)
    await stores.entries.add([entry])
    claim = await claim_all(stores)
    await decide(stores, claim)
    if how == "dead":
        await stores.entries.bury(claim.token, entry.entry_id, "refused")
    else:
        await stores.entries.abandon(entry.project_id, unvouched=True)
    assert await settled(stores) == DirtyPoints(gone=(situation_point(stores, entry),))


async def test_a_later_decision_is_noted_down_as_having_overtaken(stores: Stores) -> None:
    """G4: whoever upserts last may not be who decided last."""
    point, pattern = await learned(stores, told(1))
    assert await stores.points.mark_overtaken([point], NOON) == 0
    await stores.entries.add([told(2)])
    claim = await claim_all(stores)
    await decide(stores, claim, joins=pattern, at=LATER)
    await mark(stores, claim, at=LATER)
    assert await stores.points.mark_overtaken([point], NOON) == 1
    assert [stored.embedded_at for stored in (await settled(stores)).stored] == [LATER]


async def test_what_went_from_the_index_since_it_was_decided_about_is_noted_down(stores: Stores) -> None:
    """G13: whoever decided writes it once more, and nobody looked at it again for a day."""
    point, _ = await learned(stores, told(1))
    await stores.entries.delete(numbered(1))
    await settled(stores)
    assert await stores.points.mark_overtaken([point], NOON) == 1
    assert await settled(stores) == DirtyPoints(gone=(point,))


async def test_the_index_must_hold_what_is_live_and_marked_and_not_noted_down(stores: Stores) -> None:
    async def fewest(at: datetime = NOON) -> tuple[int, int]:
        points = stores.points
        exactly = await points.min_count(SPACE, at, roughly=False)
        assert sum((await points.index_membership(SPACE, at, after=None, limit=10)).values()) == exactly
        return await points.min_count(SPACE, at, roughly=True), exactly

    assert await fewest() == (0, 0)
    point, _ = await learned(stores, told(1))
    await learned(stores, told(2, failure_description="another"))
    assert await fewest() == (2, 2)
    assert await fewest(A_YEAR_LATER) == (2, 0), "the counter counts expired ones, too"
    assert await stores.points.min_count(OTHER_SPACE, NOON, roughly=False) == 0, "it has no vector there"
    await stores.points.mark_dirty([point])
    assert await fewest() == (1, 1)
    await stores.entries.add([told(3, failure_description="a third")])
    claim = await claim_all(stores)
    await decide(stores, claim)
    assert await fewest() == (2, 1), "a checkpoint is about to write the third"
    await mark(stores, claim)
    assert await fewest() == (2, 2)


async def test_points_are_named_in_the_order_of_their_ids_with_whether_the_index_must_hold_them(stores: Stores) -> None:
    ids = sorted([(await learned(stores, told(n, failure_description=f"the {n}th")))[0] for n in range(1, 6)])
    await stores.points.mark_dirty([ids[3]])
    every = {each: each != ids[3] for each in ids}
    assert await stores.points.index_membership(SPACE, NOON, after=None, limit=10) == every
    first = await stores.points.index_membership(SPACE, NOON, after=None, limit=2)
    assert [*first] == ids[:2]
    assert [*await stores.points.index_membership(SPACE, NOON, after=ids[1], limit=10)] == ids[2:]
    assert not any((await stores.points.index_membership(OTHER_SPACE, NOON, after=None, limit=10)).values())


async def test_a_point_that_waits_for_its_second_deletion_must_not_be_in_the_index(stores: Stores) -> None:
    """G24: a node that hung may write it late."""
    point, _ = await learned(stores, told(1))
    kept, _ = await learned(stores, told(2, failure_description="another"))
    assert await stores.points.expiries([point, kept]) == {point: A_YEAR_LATER, kept: A_YEAR_LATER}
    await stores.entries.delete(numbered(1))
    assert await stores.points.index_membership(SPACE, NOON, after=None, limit=10) == {point: False, kept: True}
    assert await stores.points.expiries([point, kept]) == {kept: A_YEAR_LATER}
    await settled(stores)
    assert await stores.points.index_membership(SPACE, NOON, after=None, limit=10) == {kept: True}


async def test_the_index_must_hold_something_while_an_embedded_entry_lives(stores: Stores) -> None:
    assert not await stores.points.has_any(NOON)
    await stores.entries.add([told(1)])
    claim = await claim_all(stores)
    await decide(stores, claim)
    assert not await stores.points.has_any(NOON), "a checkpoint is about to write it"
    await mark(stores, claim)
    assert await stores.points.has_any(NOON)
    assert not await stores.points.has_any(A_YEAR_LATER)
    await stores.points.mark_all_dirty()
    assert await stores.points.has_any(NOON)
    await stores.entries.delete(numbered(1))
    assert not await stores.points.has_any(NOON)


async def test_all_that_is_noted_down_since_the_index_was_dropped_comes_after_what_else_is(stores: Stores) -> None:
    first, _ = await learned(stores, told(1))
    second, _ = await learned(stores, told(2, failure_description="another"))
    assert await stores.points.mark_all_dirty() == 2
    assert await stores.points.mark_all_dirty() == 0
    later = max(first, second)
    await stores.points.mark_dirty([later])
    assert [stored.point_id for stored in (await settled(stores, limit=1)).stored] == [later]
    assert [stored.point_id for stored in (await settled(stores)).stored] == [min(first, second)]
    assert await settled(stores) == DirtyPoints()


async def test_what_fails_to_be_settled_stays_noted_down(stores: Stores) -> None:
    """G10."""
    point, _ = await learned(stores, told(1))
    await stores.entries.delete(numbered(1))
    with pytest.raises(ZeroDivisionError):
        async with stores.points.begin_reconciliation(now=NOON, again_at=LATER, limit=10):
            raise ZeroDivisionError
    assert await settled(stores) == DirtyPoints(gone=(point,))


async def test_no_entry_joins_while_points_are_settled(stores: Stores) -> None:
    """G13: a point is not taken from the index after an entry that joined it wrote it."""
    point, pattern = await learned(stores, told(1))
    await stores.entries.add([told(2)])
    claim = await claim_all(stores)
    await stores.entries.delete(numbered(1))
    async with stores.points.begin_reconciliation(now=NOON, again_at=LATER, limit=10) as unsettled:
        joining = asyncio.create_task(decide(stores, claim, joins=pattern, at=LATER))
        await asyncio.sleep(0.05)
        assert unsettled.gone == (point,)
        assert not joining.done()
    await joining
    await mark(stores, claim, at=LATER)
    assert await settled(stores, at=A_YEAR_LATER) == DirtyPoints()
    assert await stores.points.find_existing([point]) == {point}


async def test_only_so_many_points_are_settled_at_a_time(stores: Stores) -> None:
    entries = [told(number, failure_description=f"Case {number}") for number in range(5)]
    await learn(stores, *entries)
    for entry in entries:
        await stores.entries.delete(entry.entry_id)
    sizes = [len((await settled(stores, limit=2)).gone) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_points_of_another_workspace_are_not_settled(store: Store) -> None:
    """D44."""
    ours, theirs = store.of("ours"), store.of("theirs")
    point, _ = await learned(ours, told(1))
    await ours.entries.delete(numbered(1))
    await theirs.points.mark_dirty([point])
    assert await settled(theirs) == DirtyPoints()
    assert await settled(ours) == DirtyPoints(gone=(point,))


# words


async def test_words_are_counted_once_whoever_comes_first(stores: Stores) -> None:
    """G4."""
    point, pattern = await learned(stores, told(1))
    words = {point: {1, 2, 2**32 - 1}}
    assert [stored.point_id for stored in await stores.points.find_uncounted(SPACE, 10)] == [point]
    await asyncio.gather(*(stores.points.count_words(words) for _ in range(5)))
    assert await stores.spaces.statistics([1, 2, 2**32 - 1, 9]) == TermStatistics(
        documents=1, frequencies={1: 1, 2: 1, 2**32 - 1: 1}
    )
    assert await stores.points.find_uncounted(SPACE, 10) == []
    await stores.entries.add([told(2)])
    _, kept = await decide(stores, await claim_all(stores), joins=pattern)
    assert kept == {point}
    assert await stores.points.find_uncounted(SPACE, 10) == [], "a text that is known stays counted"


async def test_words_of_what_is_not_embedded_yet_are_not_missing(stores: Stores) -> None:
    await stores.entries.add([told(1)])
    await decide(stores, await claim_all(stores))
    assert await stores.points.find_uncounted(SPACE, 10) == []


async def test_words_are_counted_in_each_workspace_apart(store: Store) -> None:
    """D44."""
    ours, theirs = store.of("ours"), store.of("theirs")
    point, _ = await learned(ours, told(1))
    await theirs.points.count_words({point: {1}})
    assert await theirs.spaces.statistics([1]) == TermStatistics(documents=0, frequencies={})
    assert await theirs.points.find_uncounted(SPACE, 10) == []
    await ours.points.count_words({point: {1}})
    assert await theirs.spaces.statistics([1]) == TermStatistics(documents=0, frequencies={})


async def test_checkpoints_that_count_the_same_words_at_once_lose_nothing(stores: Stores) -> None:
    """G4: the same words, told in different orders."""
    entries = [told(number, failure_description=f"Case {number}") for number in range(20)]
    await learn(stores, *entries)
    points = [situation_point(stores, entry) for entry in entries]
    words = list(range(200))

    async def count(point: PointId, order: list[int]) -> None:
        await stores.points.count_words({point: order})

    orders = (words, words[::-1])
    await asyncio.gather(*(count(point, orders[number % 2]) for number, point in enumerate(points)))
    assert await stores.spaces.statistics(words) == TermStatistics(documents=20, frequencies=dict.fromkeys(words, 20))


async def crowded(stores: Stores) -> tuple[PatternId, list[Entry]]:
    """Have a pattern that is full, and three entries beside it, each an hour later than the one before."""
    pattern = await learn(stores, told(1), points=[f"way {n}" for n in range(MAX_POINTS)])
    late = [told(number, failure_description=f"Case {number}") for number in (2, 3, 4)]
    for hours, entry in enumerate(late, 1):
        assert await learn(stores, entry, joins=pattern, at=NOON + hours * HOUR) == pattern
    return pattern, late


async def with_room(stores: Stores) -> tuple[PatternId, list[Entry]]:
    """Have such a pattern, the points of which went with the entry that had them."""
    pattern, late = await crowded(stores)
    await stores.entries.delete(numbered(1))
    await settled(stores)
    return pattern, late


async def given(stores: Stores, *entries: Entry) -> list[tuple[Entry, list[TextPoint]]]:
    """Return entries as they are stored now, with a point each of their patterns."""
    now = [await stores.entries.get(entry.entry_id) for entry in entries]
    return [
        (each, [text_point("default", each.pattern_id, embedding_text.situation(each))])
        for each in now
        if each.pattern_id
    ]


async def test_entries_beside_a_full_pattern_are_reached_once_it_has_room_the_latest_first(stores: Stores) -> None:
    _, late = await crowded(stores)
    assert await stores.points.entries_without_points(NOON, 10) == []
    assert await stores.points.attach(await given(stores, late[0]), SPACE) == 0
    await stores.entries.delete(numbered(1))
    await settled(stores)
    found = await stores.points.entries_without_points(NOON, 10)
    assert [entry.entry_id for entry in found] == [entry.entry_id for entry in reversed(late)]
    assert await stores.points.entries_without_points(A_YEAR_LATER + 2 * HOUR, 10) == found[:1], (
        "the others have expired"
    )
    wanted = await given(stores, *found)
    assert await stores.points.attach(wanted, SPACE) == 3
    assert await stores.points.attach(wanted, SPACE) == 0, "they have points by now"
    assert await stores.points.entries_without_points(NOON, 10) == []
    noted = (await settled(stores)).stored
    assert {each.point_id: each.entry.entry_id for each in noted} == {
        points[0].point_id: entry.entry_id for entry, points in wanted
    }
    assert all(each.vector is not None and each.expires_at == each.entry.expires_at for each in noted)
    assert {each.point_id for each in await stores.points.find_uncounted(SPACE, 10)} == {
        each.point_id for each in noted
    }


async def test_what_was_refused_makes_room_for_what_stands_behind_it(stores: Stores) -> None:
    pattern, late = await with_room(stores)
    await learn(stores, told(5), joins=pattern, points=[f"other way {n}" for n in range(MAX_POINTS - 1)])
    (front,) = await stores.points.entries_without_points(NOON, 10)
    (behind,) = await stores.points.entries_without_points(NOON, 10, without=[front.entry_id])
    assert [front.entry_id, behind.entry_id] == [late[2].entry_id, late[1].entry_id]
    tries = front.attempts + 1
    await stores.points.count_attempt([front.entry_id, numbered(5)])
    assert (await stores.entries.get(numbered(5))).attempts == 1, "a point stands for it"
    assert await stores.points.entries_without_points(NOON, 10, tries=tries) == [behind]
    assert await stores.points.entries_without_points(NOON, 10, tries=tries + 1) == [replace(front, attempts=tries)]


async def test_no_more_entries_are_reached_than_a_pattern_has_room_for(stores: Stores) -> None:
    pattern, late = await with_room(stores)
    await learn(stores, told(5), joins=pattern, points=[f"other way {n}" for n in range(MAX_POINTS - 1)])
    (found,) = await stores.points.entries_without_points(NOON, 10)
    assert found.entry_id == late[-1].entry_id
    assert await stores.points.attach(await given(stores, *late), SPACE) == 1


async def test_an_entry_that_came_to_another_pattern_meanwhile_is_passed_over(stores: Stores) -> None:
    """G13: a point of the pattern it was of would stand for an entry of another."""
    _, late = await with_room(stores)
    before = [
        (replace(entry, pattern_id=PatternId(numbered(9))), points) for entry, points in await given(stores, *late)
    ]
    assert await stores.points.attach(before, SPACE) == 0
    assert len(await stores.points.entries_without_points(NOON, 10)) == 3


async def test_nothing_is_reached_in_a_space_that_is_not_in_use(stores: Stores) -> None:
    """G22."""
    _, late = await with_room(stores)
    with pytest.raises(SpaceSwitched):
        await stores.points.attach(await given(stores, late[0]), OTHER_SPACE)
    assert len(await stores.points.entries_without_points(NOON, 10)) == 3


async def test_what_went_from_the_index_takes_no_place_in_its_pattern(stores: Stores) -> None:
    """It is remembered for a day, and whoever told the same in that time got no point for good."""
    pattern, _ = await with_room(stores)
    new = told(5, failure_description="Another case")
    await learn(stores, new, joins=pattern)
    assert await stores.points.find_existing([situation_point(stores, new, pattern)])
