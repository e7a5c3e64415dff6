"""The two fits behind likeness and silence, on cases whose weights are known beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fit_ranking import (
    MEAN_FALSE_INJECTIONS,
    WORST_FALSE_INJECTIONS,
    Confidences,
    let_through,
    level,
    worst_level,
)
from benchmarks.logits import choice_weights, yes_weights


def test_choices_made_by_known_weights_give_those_weights_back() -> None:
    rng = np.random.default_rng(5)
    true = np.array([2.0, -1.0, 0.0])
    tables = [rng.normal(size=(6, 3)) for _ in range(3_000)]
    chosen = [int(np.argmax(table @ true + rng.gumbel(size=6))) for table in tables]
    right = [np.eye(6)[at] for at in chosen]

    found = choice_weights(tables, right, np.full(len(tables), 1 / len(tables)), ridge=1e-6)

    assert found == pytest.approx(true, abs=0.1)


def test_answers_given_by_known_weights_give_those_weights_back() -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(3.0, 2.0, size=(20_000, 2))
    yes = (rng.random(len(rows)) < 1 / (1 + np.exp(-(rows @ [1.0, -0.5] - 1.0)))).astype(np.float64)

    found = yes_weights(rows, yes, np.full(len(rows), 1 / len(rows)), ridge=1e-6)

    assert found == pytest.approx(np.array([1.0, -0.5, -1.0]), abs=0.1)


def test_a_small_set_counts_as_much_as_a_large_one() -> None:
    one, other = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    choices, right = [one] + [other] * 100, [np.array([1.0, 0.0])] * 101
    evenly = np.array([1.0, *[1 / 100] * 100])

    assert choice_weights(choices, right, evenly, ridge=1e-3) == pytest.approx(0.0, abs=1e-6)


def test_a_level_lets_through_at_most_what_it_may_and_no_less_than_it_can() -> None:
    figures = np.arange(100.0)
    signal = {"set": Confidences(whole=figures + 50, without=figures)}

    at = level(signal, 0.10)

    assert let_through(signal, at) == pytest.approx((0.10, 0.60))
    assert let_through(signal, np.nextafter(90.0, 0))[0] == pytest.approx(0.10)


def test_the_level_of_silence_is_that_of_the_worst_set_and_no_higher() -> None:
    calm, loud = np.arange(1000.0), np.arange(1000.0) + 400
    signal = {name: Confidences(whole=each, without=each) for name, each in (("calm", calm), ("loud", loud))}

    at = worst_level(signal)

    assert let_through({"loud": signal["loud"]}, at)[0] == pytest.approx(WORST_FALSE_INJECTIONS)
    assert let_through(signal, at)[0] <= MEAN_FALSE_INJECTIONS
