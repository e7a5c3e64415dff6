"""What a figure is worth: intervals by resampling queries (Efron and Tibshirani 1993, Introduction to the Bootstrap).

Figures are given per query (hit 0 or 1, reciprocal rank), so two systems asked the same queries are compared in pairs.
Over several sets each is resampled on its own and the means are averaged: every set counts the same, however large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 5_000
_SEED = 20260115
_SLICE = 250
_TAIL = 0.025
_EXACT = 1e-6

Figures = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval (percentiles of the resampled means)."""

    mean: float
    low: float
    high: float

    @property
    def below_zero(self) -> bool:
        """Whether the whole interval lies below zero: a difference that is significantly one for the worse."""
        return self.high < 0

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low > 0


def estimate(sets: Sequence[Figures], *, resamples: int = RESAMPLES) -> Estimate:
    """Return the mean over the sets of the mean over each set's queries, with its interval."""
    rng = np.random.default_rng(_SEED)
    drawn = np.mean([_means(figures, rng, resamples) for figures in sets], axis=0)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Estimate(float(np.mean([figures.mean() for figures in sets])), float(low), float(high))


def difference(ours: Sequence[Figures], theirs: Sequence[Figures], *, resamples: int = RESAMPLES) -> Estimate:
    """Return how much better we are, query by query. Raises ValueError where the queries are not the same ones."""
    pairs = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    return estimate(pairs, resamples=resamples)


def _means(figures: Figures, rng: np.random.Generator, resamples: int) -> Figures:
    """Return the mean of each resample, some at a time: all at once would take gigabytes for large sets."""
    slices = [
        figures[rng.integers(len(figures), size=(min(_SLICE, resamples - begun), len(figures)))].mean(axis=1)
        for begun in range(0, resamples, _SLICE)
    ]
    return np.concatenate(slices)


def auc(right: Figures | Sequence[float], wrong: Figures | Sequence[float]) -> float:
    """Return how often a right score is above a wrong one, ties counting half (the area under the ROC curve)."""
    ordered = np.sort(np.asarray(wrong, dtype=np.float64))
    below = np.searchsorted(ordered, right, side="left")
    up_to = np.searchsorted(ordered, right, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))


def evenly(groups: Sequence[Figures], each: int) -> Figures:
    """Return `each` draws from every group, so that a large group counts no more than a small one."""
    rng = np.random.default_rng(_SEED)
    return np.concatenate([rng.choice(group, each) for group in groups if len(group)])


def exact_upper(part: int, whole: int) -> float:
    """Return the upper end of the exact 95 % interval of a share (Clopper and Pearson 1934)."""
    low, high = part / whole, 1.0
    while high - low > _EXACT:
        middle = (low + high) / 2
        if _at_most(part, whole, middle) > _TAIL:
            low = middle
        else:
            high = middle
    return high


def _at_most(part: int, whole: int, share: float) -> float:
    """Return the binomial probability of at most `part` of `whole`."""
    if share >= 1:
        return float(part >= whole)
    odds, none = math.log(share) - math.log1p(-share), whole * math.log1p(-share)
    return math.fsum(math.exp(math.log(math.comb(whole, each)) + each * odds + none) for each in range(part + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One measure of one set, or of the mean over the sets, by system; `gain` is ours less BM25, query by query."""

    measure: str
    systems: Mapping[str, Estimate]
    gain: Estimate
    reported_bm25: float | None
