"""What a figure is worth: the bootstrap on cases whose answer is known beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bm25 import Bm25
from benchmarks.halves import place_of
from benchmarks.resampling import auc, difference, estimate, evenly


def ones_and_zeros(ones: int, zeros: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([1.0] * ones + [0.0] * zeros)


def test_a_figure_that_never_varies_has_no_interval() -> None:
    always = estimate([np.ones(50)])

    assert (always.mean, always.low, always.high) == (1.0, 1.0, 1.0)


def test_the_interval_of_a_share_is_about_two_standard_errors_wide_on_either_side() -> None:
    half = estimate([ones_and_zeros(200, 200)])

    error = (0.5 * 0.5 / 400) ** 0.5
    assert half.mean == 0.5
    assert half.low == pytest.approx(0.5 - 1.96 * error, abs=0.01)
    assert half.high == pytest.approx(0.5 + 1.96 * error, abs=0.01)


def test_every_set_counts_the_same_however_large() -> None:
    assert estimate([np.ones(10), np.zeros(1_000)]).mean == 0.5


def test_the_mean_of_many_sets_is_surer_than_one_of_them() -> None:
    of_one = estimate([ones_and_zeros(30, 30)])
    of_four = estimate([ones_and_zeros(30, 30)] * 4)

    assert of_four.high - of_four.low < 0.6 * (of_one.high - of_one.low)


def test_a_pair_that_wins_a_little_everywhere_is_seen_though_both_vary_much() -> None:
    theirs = np.random.default_rng(7).random(60)

    gain = difference([theirs + 0.01], [theirs])

    assert gain.above_zero
    assert gain.mean == pytest.approx(0.01)


def test_a_loss_that_chance_explains_is_not_called_one() -> None:
    chance = difference([ones_and_zeros(19, 21)], [np.roll(ones_and_zeros(20, 20), 7)])
    certain = difference([np.zeros(40)], [ones_and_zeros(20, 20)])

    assert chance.mean < 0
    assert not chance.below_zero
    assert certain.below_zero


def test_systems_that_were_asked_other_queries_are_not_compared() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        difference([np.ones(3)], [np.ones(4)])
    with pytest.raises(ValueError, match="shorter"):
        difference([np.ones(3), np.ones(3)], [np.ones(3)])


def test_figures_are_the_same_in_each_run() -> None:
    some = np.random.default_rng(3).random(100)

    assert estimate([some]) == estimate([some])


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [([2, 3], [0, 1], 1.0), ([0, 1], [2, 3], 0.0), ([1, 1], [1, 1], 0.5), ([1, 3], [2], 0.5), ([1, 2, 3], [2], 0.5)],
)
def test_the_area_is_how_often_right_lies_above_wrong(right: list[float], wrong: list[float], expected: float) -> None:
    assert auc(right, wrong) == expected


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_the_area_agrees_with_counting_every_pair(right: list[float], wrong: list[float]) -> None:
    pairs = [(r > w) + 0.5 * (r == w) for r in right for w in wrong]

    assert auc(right, wrong) == pytest.approx(sum(pairs) / len(pairs))


def test_a_large_group_is_drawn_from_no_oftener_than_a_small_one() -> None:
    drawn = evenly([np.zeros(5), np.ones(5_000)], 100)

    assert (drawn == 0).sum() == (drawn == 1).sum() == 100


def test_plain_bm25_prefers_the_rare_word_and_the_shorter_text() -> None:
    plain = Bm25(
        [
            "import the module",
            "import ORA-01555 while the module was being read by another session in the night",
            "ORA-01555 import",
        ]
    )

    scores = plain.scores("import fails with ORA-01555")

    assert list(np.argsort(-scores)) == [2, 1, 0]
    assert plain.scores("nothing of it").tolist() == [0.0, 0.0, 0.0]


def test_a_place_counts_from_one_and_ends_at_the_depth() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.5])

    assert place_of(scores, frozenset({1})) == 1
    assert place_of(scores, frozenset({0, 3})) == 3
    assert place_of(scores, frozenset({3}), depth=2) is None
