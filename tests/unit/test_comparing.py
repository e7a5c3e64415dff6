"""Texts compared: what is seen at a glance decides as the whole would."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.minimal_pairs import minimal_pairs
from knowledge.memory import likeness
from knowledge.memory.comparing import Comparing, Verdict
from knowledge.models import TermStatistics
from knowledge.search.lexical import term_counts
from knowledge.search.wording import glance, term_ids
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
    asked = {term for text in texts for term in term_ids(text)}
    counted = [term_counts(text) for text in SITUATIONS]
    return TermStatistics(documents=len(counted), frequencies={t: sum(t in each for each in counted) for t in asked})


def at_a_glance(texts: list[str]) -> Comparing:
    everything = whole(texts)
    glances = {text: glance(text) for text in texts}
    asked = {term for seen in glances.values() for term in seen.opening_terms}
    known = TermStatistics(
        documents=everything.documents, frequencies={term: everything.frequencies[term] for term in asked}
    )
    return Comparing(known, MODEL, glances)


PAIRS = [
    *itertools.combinations(SITUATIONS, 2),
    *((pair.text, pair.changed) for pair in minimal_pairs(SITUATIONS)),
]


@pytest.mark.parametrize("cosine", [0.4, 0.7, 0.95])
def test_what_is_seen_at_a_glance_decides_as_the_whole_texts_do(cosine: float) -> None:
    texts = list(dict.fromkeys(itertools.chain.from_iterable(PAIRS)))
    exact, quick = Comparing(whole(texts), MODEL), at_a_glance(texts)
    for one, other in PAIRS:
        quick.situations(one, other, cosine)
    quick.learn(whole(texts).frequencies)
    for one, other in PAIRS:
        fully, found = exact.situations(one, other, cosine), quick.situations(one, other, cosine)
        assert (found.same, found.likely) == (fully.same, fully.likely)
        assert not found.likely or found == fully
    assert not quick.unread


def test_texts_whose_openings_have_nothing_in_common_need_not_be_read() -> None:
    quick = at_a_glance(SITUATIONS)
    assert not quick.situations(CART, SITUATIONS[3], 0.6).likely
    assert not quick.unread


def test_texts_that_were_not_read_are_named_and_not_judged() -> None:
    quick = at_a_glance(SITUATIONS)
    one, other = SITUATIONS[3], SITUATIONS[4]
    assert not quick.situations(one, other, 0.9).likely
    assert quick.unread == {one, other}
    assert quick.resolutions("Pin shop.", "pin shop.", (None, None)).verdict is Verdict.UNKNOWN
    assert quick.unread == {one, other, "Pin shop.", "pin shop."}


@given(
    figures=st.tuples(*[st.floats(0, 1)] * 6),
    cosine=st.floats(-1, 1),
)
def test_no_text_is_likelier_than_its_opening_allows(figures: tuple[float, ...], cosine: float) -> None:
    shared, contained, opening, names, rarest, named = figures
    features = likeness.Features(
        cosine=cosine,
        shared=shared,
        contained=contained,
        opening=opening,
        names=names,
        rarest=rarest,
        named=named,
        same_words=False,
        traces=False,
        same_place=False,
        same_particulars=False,
        differences=(),
    )
    judged = likeness.judge(features, likeness.BUNDLED)
    assert not judged.likely or likeness.may_be_alike(opening, cosine, likeness.BUNDLED)
    assert math.isfinite(judged.probability)
