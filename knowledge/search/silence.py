"""Confidence that the store has an answer to a query at all; below a threshold no pattern is injected.

A single score cannot tell "known" from "the same area, but unknown" (docs/evaluation.md). Several signals together can
in part: a logistic model of the maxima over the candidates, fitted on queries with and without their right texts in the
store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.search.reading import Features

MIN_CANDIDATES = 4
"""With fewer candidates only relevance decides; our choice. The signals were fitted on sixteen candidates; with four to
fifteen they still discriminate better than relevance (docs/evaluation.md)."""


class Signals(NamedTuple):
    """Maxima of features over the candidates of a query."""

    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceWeights:
    """Weights of the signals; `level` is the minimum confidence for an answer."""

    intercept: float
    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float
    level: float


BUNDLED_CONFIDENCE = SilenceWeights(
    intercept=-7.15,
    fused=2.45,
    likeness=0.173,
    weight=2.96,
    telling=-2.06,
    rarest=4.26,
    level=0.68,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking`; at this level one in ten unanswerable queries passes.

Also valid for rescaled cosines of other models (`cosines`).
"""


def signals(fused: Sequence[float], likenesses: Sequence[float], features: Sequence[Features]) -> Signals:
    """Return the signals of a query's candidates, of which there is at least one."""
    return Signals(
        fused=max(fused),
        likeness=max(likenesses),
        weight=max(each.weight for each in features),
        telling=max(each.telling for each in features),
        rarest=max(each.rarest for each in features),
    )


def confidence(found: Signals, weights: SilenceWeights) -> float:
    """Return the probability that the store has the answer, 0..1, with a prior of one half."""
    logit = (
        weights.intercept
        + weights.fused * found.fused
        + weights.likeness * found.likeness
        + weights.weight * found.weight
        + weights.telling * found.telling
        + weights.rarest * found.rarest
    )
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
