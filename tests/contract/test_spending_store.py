"""The contract of SpendingStore: tokens are counted by the day, up to a budget."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.support.entries import NOON
from tests.support.sharing import OF_ONE_LOOP
from tests.support.stores import Store

pytestmark = OF_ONE_LOOP

TODAY = NOON.date()
TOMORROW = TODAY + timedelta(days=1)


async def test_what_a_workspace_spends_is_counted_by_the_day(store: Store) -> None:
    ours, theirs = store.of("ours").spending, store.of("theirs").spending
    assert ours.budget is None
    assert await ours.tokens_used(TODAY) == 0
    assert [await ours.reserve(TODAY, 70), await ours.reserve(TODAY, 50), await ours.reserve(TOMORROW, 1)] == [True] * 3
    assert [await ours.tokens_used(TODAY), await ours.tokens_used(TOMORROW), await theirs.tokens_used(TODAY)] == [
        120,
        1,
        0,
    ]


async def test_a_count_is_corrected_to_none_at_least(store: Store) -> None:
    ours = store.of("ours").spending
    await ours.correct(TODAY, 5)
    assert await ours.tokens_used(TODAY) == 0, "of a day on which nothing was sent there is nothing to correct"
    await ours.reserve(TODAY, 100)
    await ours.correct(TODAY, 11)
    assert await ours.tokens_used(TODAY) == 111
    await ours.correct(TODAY, -500)
    assert await ours.tokens_used(TODAY) == 0


async def test_t12_the_last_call_may_go_beyond_the_budget_and_none_after_it(store: Store) -> None:
    ours, theirs = store.of("ours", 100).spending, store.of("theirs", 100).spending
    assert ours.budget == 100
    assert await ours.reserve(TODAY, 99)
    assert await ours.reserve(TODAY, 1000)
    assert not await ours.reserve(TODAY, 1)
    assert await ours.tokens_used(TODAY) == 1099, "what was refused is not counted"
    assert await theirs.reserve(TODAY, 1)
    assert await ours.reserve(TOMORROW, 1)
    await ours.correct(TODAY, -1000)
    assert await ours.reserve(TODAY, 1), "it cost less than was thought"


async def test_t12_of_many_calls_at_once_one_goes_beyond_the_budget(store: Store) -> None:
    several = [store.of("ours", 100).spending for _ in range(4)]
    done = await asyncio.gather(*(each.reserve(TODAY, 30) for each in several * 10))
    assert sum(done) == 4
    assert await several[0].tokens_used(TODAY) == 120
