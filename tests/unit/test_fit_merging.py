"""The fit of likeness: its arithmetic, and that no pair is judged by a fit that saw it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fit_merging import FITTED, across_folds, fit, tell
from benchmarks.pairs import FOLDS, PairSet
from knowledge.memory.rules.similarity import Features, likeness

NOTHING = Features(
    cosine=0.0,
    shared=0.0,
    contained=0.0,
    opening=0.0,
    names=0.0,
    rarest=0.0,
    named=0.0,
    same_words=False,
    traces=False,
    same_place=False,
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
    folds = [(at % FOLDS, at % FOLDS) for at in range(pairs)]
    return PairSet(name=name, features=features, same=same, folds=folds, minimal=[], minimal_folds=[], kinds=[])


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


def test_no_pair_is_judged_by_a_fit_that_saw_it() -> None:
    """Answers that are pure chance cannot be told: a fit that saw them would do better than chance."""
    chance = drawn("one", 0.0)
    (outcome,) = across_folds([chance], lambda _: [chance])
    assert outcome.auc < 0.56
    said = np.array([likeness(each, fit([chance])) for each in chance.features])
    assert tell(chance, said, np.zeros(0)).auc > outcome.auc
