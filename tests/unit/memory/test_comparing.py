"""Texts compared: what cannot be alike by its terms is not compared further, and nothing is lost by that."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.minimal_pairs import minimal_pairs
from knowledge.memory.consolidation.comparison import TextComparer, Verdict
from knowledge.memory.rules import similarity
from knowledge.memory.rules.contradictions import NOT_EVEN_TWINS, differences, has_number_exchanged
from knowledge.memory.rules.similarity import BestCase
from knowledge.models import TermStatistics
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import ParsedText, Rarity, profile
from tests.support.cases import over
from tests.support.entries import CART

MODEL = "all-MiniLM-L6-v2"
SITUATIONS = [
    CART,
    "TypeError: cart total is wrong when a coupon is applied twice.\nSeen in `shop/cart.py` since 3.7.2.",
    "The total of the cart is wrong when a coupon is used twice, says shop/cart.py",
    "ImportError: cannot import name 'pay' from 'shop' (E501). Nothing else is printed.",
    "Importing `pay` fails. ImportError: cannot import name 'pay' from 'shop' (E501)",
    "Traceback (most recent call last):\n  File \"shop/cart.py\", line 7, in total\n    pay(1)\nKeyError: 'coupon'",
    "It broke again.\n  File \"shop/cart.py\", line 9, in total\n    pay(1)\nKeyError: 'coupon' of basket 3",
]


def whole(texts: list[str]) -> TermStatistics:
    asked = {term for text in texts for term in ParsedText(text).term_ids}
    counted = [term_counts(text) for text in SITUATIONS]
    return TermStatistics(documents=len(counted), frequencies={t: sum(t in each for each in counted) for t in asked})


def that_read(texts: list[str]) -> TextComparer:
    return TextComparer(whole(texts), MODEL, {text: ParsedText(text) for text in texts})


PAIRS = [
    *itertools.combinations(SITUATIONS, 2),
    *((pair.text, pair.changed) for pair in minimal_pairs(SITUATIONS)),
]


@over("cosine", [0.4, 0.7, 0.95])
def test_what_is_not_compared_further_would_neither_be_merged_nor_proposed(cosine: float) -> None:
    texts = list(dict.fromkeys(itertools.chain.from_iterable(PAIRS)))
    rarity = Rarity(whole(texts))
    profiles = {text: profile(text, rarity) for text in texts}
    quick = that_read(texts)
    for one, other in PAIRS:
        first, second = profiles[one], profiles[other]
        fully = similarity.judge(
            similarity.features(first, second, similarity.overlap(first, second, cosine)), similarity.BUNDLED
        )
        found = quick.situations(one, other, cosine)
        assert (found.same, found.likely) == (fully.same, fully.likely)
        assert not found.likely or found == fully


def test_texts_that_were_not_read_are_named_and_not_judged_until_it_is_known_how_rare_their_words_are() -> None:
    one, other, pinned = SITUATIONS[3], SITUATIONS[4], "Pin shop."
    comparing = that_read([one])
    assert not comparing.situations(one, other, 0.9).likely
    assert list(comparing.unread) == [other]
    assert comparing.resolutions(pinned, "pin shop.", (None, None)).verdict is Verdict.UNKNOWN
    assert list(comparing.unread) == [other, pinned, "pin shop."]
    comparing.learn(whole([other, pinned]).frequencies)
    assert not comparing.unread
    assert comparing.situations(one, other, 0.9).likely
    assert comparing.resolutions(pinned, "pin shop.", (None, None)).verdict is Verdict.SAME


WORDS = "cart fails with shop_total shop_total2 getCart getcart GetCart 42 3.7.2 E501 v3 `pay` KeyError: isn't a.b_c"
told = st.one_of(st.lists(st.sampled_from(WORDS.split()), max_size=9).map(" ".join), st.sampled_from(SITUATIONS))


@pytest.mark.long
@settings(max_examples=1500)
@given(one=told, other=told, cosine=st.floats(-1, 1), opening=st.floats(0, 1))
def test_no_text_is_more_alike_than_a_glance_allows(one: str, other: str, cosine: float, opening: float) -> None:
    rarity = Rarity(whole([one, other]))
    first, second = profile(one, rarity), profile(other, rarity)
    overlap = similarity.overlap(first, second, cosine)._replace(opening=opening)
    judged = similarity.judge(similarity.features(first, second, overlap), similarity.BUNDLED)
    at_best = similarity.best_case(first, second, overlap, similarity.BUNDLED)
    assert not judged.likely or at_best is not BestCase.OTHER
    assert not judged.same or at_best is BestCase.SAME


@pytest.mark.long
@settings(max_examples=1500)
@given(one=told, other=told, cosine=st.floats(-1, 1))
def test_texts_told_apart_by_their_openings_are_others_by_all_that_they_share(
    one: str, other: str, cosine: float
) -> None:
    rarity = Rarity(whole([one, other]))
    first, second = profile(one, rarity), profile(other, rarity)
    if similarity.is_unlike_by_openings(first, second, cosine, similarity.BUNDLED):
        overlap = similarity.overlap(first, second, cosine)
        assert similarity.best_case(first, second, overlap, similarity.BUNDLED) is BestCase.OTHER


def test_most_texts_are_told_apart_by_their_openings() -> None:
    rarity = Rarity(whole(SITUATIONS))
    pairs = [(profile(a, rarity), profile(b, rarity)) for a in SITUATIONS for b in SITUATIONS if a != b]
    apart = sum(similarity.is_unlike_by_openings(a, b, 0.5, similarity.BUNDLED) for a, b in pairs)
    assert len(pairs) / 2 < apart < len(pairs)


FIX = "Pin shop to 3 in cart and run 42 again."


@pytest.mark.long
@settings(max_examples=500)
@given(one=told, other=told, at=st.integers(0, 9), number=st.sampled_from(["7", "3.7.2", "0x1f", "42", "\u00b2"]))
def test_what_a_number_tells_apart_at_once_would_be_told_apart_by_all_particulars(
    one: str, other: str, at: int, number: str
) -> None:
    words = one.split()
    for changed in (
        other,
        " ".join([*words[:at], number, *words[at:]]),
        " ".join([*words[:at], number, *words[at + 1 :]]),
    ):
        if has_number_exchanged(ParsedText(one), ParsedText(changed)):
            rarity = Rarity(whole([one, changed]))
            apart = differences(profile(one, rarity), profile(changed, rarity))
            assert not NOT_EVEN_TWINS.isdisjoint(apart)
            fully = TextComparer(whole([one, changed]), MODEL).resolutions(one, changed, (None, None))
            assert fully.verdict is Verdict.OTHER


def test_resolutions_told_apart_by_a_number_need_not_be_read_and_others_do() -> None:
    comparing = that_read([])
    assert comparing.are_other_resolutions(FIX, FIX.replace("42", "43"), (None, None))
    assert not comparing.unread
    assert not comparing.are_other_resolutions(FIX, FIX.replace("shop", "the shop"), (None, None))
    assert not comparing.are_other_resolutions(FIX, FIX.replace("again", "once more"), (None, None))
    assert list(comparing.unread) == [FIX, FIX.replace("shop", "the shop"), FIX.replace("again", "once more")]


def test_a_number_in_another_spelling_is_not_exchanged() -> None:
    assert has_number_exchanged(ParsedText("mask 0x1f"), ParsedText("mask 0x2f"))
    assert not has_number_exchanged(ParsedText("mask 0x1f"), ParsedText("mask 0X1F")), "but for case the same text"


def test_a_name_that_one_text_lacks_and_another_that_the_other_lacks_leave_them_at_best_twins() -> None:
    rarity = Rarity(whole(["cart shop_total", "cart item_total"]))
    first, second = profile("cart shop_total", rarity), profile("cart item_total", rarity)
    overlap = similarity.Overlap(cosine=0.9, shared=0.5, contained=0.5, opening=1.0)
    assert similarity.best_case(first, second, overlap, similarity.BUNDLED) is BestCase.LIKELY
    same = profile("cart shop_total", rarity)
    assert similarity.best_case(first, same, overlap, similarity.BUNDLED) is BestCase.SAME
