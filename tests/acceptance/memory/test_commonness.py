"""How common terms are while a checkpoint runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.engine.database import transaction
from knowledge.adapters.postgres.memory.spaces import PostgresSpaces, add_terms
from knowledge.memory.consolidation import candidates
from knowledge.memory.consolidation.candidates import TermFrequencies
from knowledge.models import LeaseToken, TermStatistics
from tests.support.sharing import OF_ONE_LOOP, emptied_database, empty_engine, shared_engine

__all__ = ["emptied_database", "empty_engine", "shared_engine"]  # fixtures
pytestmark = OF_ONE_LOOP

CART, TOTAL, COUPON = 1, 2, 3
ONE, OTHER = LeaseToken(uuid4()), LeaseToken(uuid4())


class Lexicon(PostgresSpaces):
    """Notes which terms the store is asked for, and counts some as it does."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, "default")
        self.engine = engine
        self.asked: list[Sequence[int]] = []

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        self.asked.append(terms)
        return await super().statistics(terms)

    async def count(self, situations: Sequence[Mapping[int, int]]) -> None:
        frequencies = Counter(term for counts in situations for term in counts)
        async with transaction(self.engine) as connection:
            await add_terms(connection, "default", frequencies, len(situations))


@pytest.fixture
def lexicon(empty_engine: AsyncEngine) -> Lexicon:
    return Lexicon(empty_engine)


@pytest.fixture
def common(lexicon: Lexicon) -> TermFrequencies:
    return TermFrequencies(stores=SimpleNamespace(spaces=lexicon))  # type: ignore[arg-type]


FIRST = [{CART: 2, TOTAL: 1}, {CART: 1}]
SECOND = [{CART: 1, COUPON: 1}]


async def test_what_was_seen_counts_once_before_and_after_the_lexicon_counted_it(
    common: TermFrequencies, lexicon: Lexicon
) -> None:
    await lexicon.count([{CART: 1}] * 5 + [{}] * 5)
    common.add(ONE, FIRST)
    common.add(OTHER, SECOND)
    known = TermStatistics(documents=13, frequencies={CART: 8, TOTAL: 1, COUPON: 1})
    assert await common.of([CART, TOTAL, COUPON]) == known
    async with common.count_in_lexicon([ONE]):
        await lexicon.count(FIRST)
    assert await common.of([CART, TOTAL, COUPON]) == known
    async with common.count_in_lexicon([OTHER]):
        await lexicon.count(SECOND)
    assert await common.of([CART, TOTAL, COUPON]) == known
    assert lexicon.asked == [[CART, TOTAL, COUPON], [], []], "each term is asked for once"


async def test_who_asks_while_the_lexicon_counts_counts_nothing_twice(
    common: TermFrequencies, lexicon: Lexicon
) -> None:
    common.add(ONE, FIRST)
    async with common.count_in_lexicon([ONE]):
        await lexicon.count(FIRST)
        asking = asyncio.create_task(common.of([CART]))
        await asyncio.wait({asking}, timeout=0.2)  # without its turn it would find them in the lexicon, too
    assert (await asking).frequencies == {CART: 2}


async def test_a_count_that_failed_leaves_what_was_seen_as_it_was(common: TermFrequencies) -> None:
    common.add(ONE, FIRST)
    with pytest.raises(OSError, match="gone"):
        async with common.count_in_lexicon([ONE]):
            raise OSError("gone")
    assert (await common.of([CART])).frequencies == {CART: 2}


async def test_a_batch_that_was_given_back_and_comes_again_counts_once(
    common: TermFrequencies, lexicon: Lexicon
) -> None:
    """It stayed at the head of the line: what was counted then was another one, and it counted twice to the end."""
    common.add(ONE, FIRST)
    common.forget(ONE)
    common.add(OTHER, FIRST)
    assert await common.of([CART]) == TermStatistics(documents=2, frequencies={CART: 2})
    async with common.count_in_lexicon([OTHER]):
        await lexicon.count(FIRST)
    assert await common.of([CART]) == TermStatistics(documents=2, frequencies={CART: 2})


async def test_no_more_terms_are_kept_than_memory_allows(
    common: TermFrequencies, lexicon: Lexicon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_MAX_CACHED", 2)
    await common.of([CART, TOTAL, COUPON])
    await common.of([CART])
    assert lexicon.asked == [[CART, TOTAL, COUPON], [CART]]
