"""The fit of likeness and of the gates: its arithmetic, and that no set is judged by a fit that saw it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.different_pairs import AT_LEAST, draw_pairs
from benchmarks.fit_merging import FITTED, PRICE, SHIPPED, choose, count_wrong, fit, fit_without, judge_all
from benchmarks.pairs import PairSet
from benchmarks.resampling import exact_upper
from knowledge.memory.rules.similarity import BUNDLED, Features, likeness

NOTHING = Features(
    cosine=0.0,
    shared=0.0,
    contained=0.0,
    opening=0.0,
    rarest=0.0,
    named=0.0,
    same_words=False,
    traces=False,
    same_particulars=False,
    differences=(),
)


def told(cosine: float, shared: float, contained: float, opening: float) -> Features:
    return replace(NOTHING, cosine=cosine, shared=shared, contained=contained, opening=opening)


def drawn(name: str, slope: float, pairs: int = 400) -> PairSet:
    """Pairs whose answer follows their cosine; the other figures are noise."""
    rng = np.random.default_rng(1)
    rows = rng.random((pairs, len(FITTED)))
    same = (rng.random(pairs) < 1 / (1 + np.exp(-slope * (rows[:, 0] - 0.5)))).astype(float)
    features = [told(*map(float, row)) for row in rows]
    return PairSet(name=name, features=features, same=same, minimal=[], kinds=[])


def test_the_fit_finds_what_the_answers_follow() -> None:
    weights = fit([drawn("one", 8.0)])
    assert weights.cosine > 3
    assert max(abs(weights.shared), abs(weights.contained), abs(weights.opening)) < 1
    assert likeness(told(0.1, 0.5, 0.5, 0.5), weights) < 0.2
    assert likeness(told(0.9, 0.5, 0.5, 0.5), weights) > 0.8


def test_every_set_weighs_the_same_however_large() -> None:
    """A small set that says the opposite cancels a large one."""
    against = drawn("two", 8.0, 100)
    against = replace(against, same=1 - against.same)
    assert fit([drawn("one", 8.0), against]).cosine == pytest.approx(0, abs=0.8)


def test_pairs_with_a_stack_trace_are_left_out_of_the_fit() -> None:
    pairs = drawn("one", 8.0)
    traced = drawn("two", -8.0)
    traced = replace(traced, features=[replace(each, traces=True) for each in traced.features])
    assert fit([pairs, traced]) == fit([pairs])


def test_a_set_left_out_is_judged_by_a_fit_that_did_not_see_it() -> None:
    """The set says the opposite of the others: a fit that saw it would follow it."""
    others = [drawn("one", 8.0), drawn("two", 8.0)]
    own = drawn("three", 8.0)
    own = replace(own, same=1 - own.same)
    point = fit_without([*others, own], own)
    assert list(point.fitted_on) == others
    assert judge_all(own, point).auc < 0.3


def with_particulars(rarest: float, named: float, opening: float = 1.0) -> Features:
    return replace(told(0.9, 0.5, 0.8, opening), rarest=rarest, named=named, same_particulars=True)


def labelled(same: list[Features], nearest: list[Features]) -> PairSet:
    return PairSet(name="one", features=same, same=np.ones(len(same)), minimal=[], kinds=[], nearest=nearest)


def test_gates_are_above_every_different_pair_and_as_strict_as_the_price_allows() -> None:
    same = [with_particulars(0.45, 0.55)] * 100 + [with_particulars(0.25, 0.55)] * 100
    assert choose([labelled(same, [])], BUNDLED).rarest == 0.2, "stricter would cost half of the recall"
    gates = choose([labelled(same, [with_particulars(0.35, 0.55)])], BUNDLED)
    assert (gates.rarest, gates.named) == (0.4, 0.5)
    few = [with_particulars(0.15, 0.55)] * round(200 * PRICE / 2)
    assert choose([labelled(same + few, [])], BUNDLED).rarest == 0.2, "a few are the price of the margin"


def test_wrong_merges_are_counted_with_the_exact_interval() -> None:
    """Ends by Clopper and Pearson as R's `binom.test` prints them."""
    merged, apart = with_particulars(0.9, 0.9), replace(with_particulars(0.9, 0.9), same_particulars=False)
    wrong = count_wrong(labelled([merged, apart], [merged, apart, apart]), SHIPPED)
    assert (wrong.nearest_merged, wrong.nearest, wrong.recall) == (1, 3, 0.5)
    assert wrong.nearest_upper == pytest.approx(0.9057, abs=1e-4)
    assert exact_upper(0, 1000) == pytest.approx(0.003682, abs=1e-5)
    assert exact_upper(4, 1000) == pytest.approx(0.010210, abs=1e-5)


def test_different_pairs_are_of_two_groups_and_the_nearest_are_among_them() -> None:
    texts = [f"{word} fails in shop_{number}" for word in ("cart", "login", "export") for number in range(20)]
    groups = [text.split()[0] for text in texts]
    vectors = np.array([[np.cos(at), np.sin(at)] for at in range(len(texts))], dtype=np.float32)
    pairs = draw_pairs(texts, groups, vectors)
    assert pairs == draw_pairs(texts, groups, vectors)
    assert len(pairs.nearest) >= AT_LEAST
    assert len(pairs.random) == AT_LEAST
    assert all(groups[one] != groups[other] for one, other in (*pairs.nearest, *pairs.random))
    assert (0, 20) in pairs.nearest, "cart and login in shop_0: the words but one"
