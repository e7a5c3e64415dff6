"""How common terms are while a checkpoint runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import uuid4

import pytest

from knowledge.memory import commonness
from knowledge.memory.commonness import Commonness
from knowledge.models import LeaseToken, TermStatistics

CART, TOTAL, COUPON = 1, 2, 3
ONE, OTHER = LeaseToken(uuid4()), LeaseToken(uuid4())


class Lexicon:
    """The two calls of a store that count."""

    def __init__(self) -> None:
        self.documents = 0
        self.frequencies: Counter[int] = Counter()
        self.asked: list[Sequence[int]] = []

    async def statistics(self, terms: Sequence[int]) -> TermStatistics:
        self.asked.append(terms)
        return TermStatistics(
            documents=self.documents, frequencies={t: self.frequencies[t] for t in terms if t in self.frequencies}
        )

    async def count(self, situations: Sequence[Mapping[int, int]]) -> None:
        await asyncio.sleep(0)
        self.documents += len(situations)
        self.frequencies.update(term for counts in situations for term in counts)


class Only:
    def __init__(self, spaces: Lexicon) -> None:
        self.spaces = spaces


FIRST = [{CART: 2, TOTAL: 1}, {CART: 1}]
SECOND = [{CART: 1, COUPON: 1}]


async def test_what_was_seen_counts_once_before_and_after_the_lexicon_counted_it() -> None:
    lexicon = Lexicon()
    lexicon.documents, lexicon.frequencies = 10, Counter({CART: 5})
    common = Commonness(stores=Only(lexicon))  # type: ignore[arg-type]
    common.saw(ONE, FIRST)
    common.saw(OTHER, SECOND)
    known = TermStatistics(documents=13, frequencies={CART: 8, TOTAL: 1, COUPON: 1})
    assert await common.of([CART, TOTAL, COUPON]) == known
    async with common.counting([ONE]):
        await lexicon.count(FIRST)
    assert await common.of([CART, TOTAL, COUPON]) == known
    async with common.counting([OTHER]):
        await lexicon.count(SECOND)
    assert await common.of([CART, TOTAL, COUPON]) == known
    assert lexicon.asked == [[CART, TOTAL, COUPON], [], []], "each term is asked for once"


async def test_who_asks_while_the_lexicon_counts_counts_nothing_twice() -> None:
    lexicon = Lexicon()
    common = Commonness(stores=Only(lexicon))  # type: ignore[arg-type]
    common.saw(ONE, FIRST)
    async with common.counting([ONE]):
        asking = asyncio.create_task(common.of([CART]))
        await lexicon.count(FIRST)
        await asyncio.sleep(0)
    assert (await asking).frequencies == {CART: 2}


async def test_a_count_that_failed_leaves_what_was_seen_as_it_was() -> None:
    lexicon = Lexicon()
    common = Commonness(stores=Only(lexicon))  # type: ignore[arg-type]
    common.saw(ONE, FIRST)
    with pytest.raises(OSError, match="gone"):
        async with common.counting([ONE]):
            raise OSError("gone")
    assert (await common.of([CART])).frequencies == {CART: 2}


async def test_a_batch_that_was_given_back_and_comes_again_counts_once() -> None:
    """It stayed at the head of the line: what was counted then was another one, and it counted twice to the end."""
    lexicon = Lexicon()
    common = Commonness(stores=Only(lexicon))  # type: ignore[arg-type]
    common.saw(ONE, FIRST)
    common.forget(ONE)
    common.saw(OTHER, FIRST)
    assert await common.of([CART]) == TermStatistics(documents=2, frequencies={CART: 2})
    async with common.counting([OTHER]):
        await lexicon.count(FIRST)
    assert await common.of([CART]) == TermStatistics(documents=2, frequencies={CART: 2})


async def test_no_more_terms_are_kept_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commonness, "_MOST_KEPT", 2)
    lexicon = Lexicon()
    common = Commonness(stores=Only(lexicon))  # type: ignore[arg-type]
    await common.of([CART, TOTAL, COUPON])
    await common.of([CART])
    assert lexicon.asked == [[CART, TOTAL, COUPON], [CART]]
