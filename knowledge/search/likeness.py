"""How like a question each of its candidates is: the features of `knowledge.search.reading` weighed into one figure.

The weights are those of a conditional logit (McFadden 1974): the odds of two candidates differ by e to the difference
of their likeness. They were fitted on the bundled model's cosines; those of another one are put on its scale before
(`cosines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.search.reading import Features

SCALE = 12.0
"""Likeness that lies as far apart as 1 of fused score: twice the weight of the cosine, which is half of that score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikenessWeights:
    """What each feature counts."""

    cosine: float
    coverage: float
    shared: float
    telling: float
    phrases: float
    telling_phrases: float
    opening: float
    length: float


BUNDLED = LikenessWeights(
    cosine=6.95,
    coverage=3.75,
    shared=-4.76,
    telling=4.86,
    phrases=-4.03,
    telling_phrases=3.07,
    opening=2.16,
    length=-0.64,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking` on seven sets, which carries over to sets left out.

A shared term or phrase counts by how few of the candidates have it; what all of them share counts against none.
"""


def likeness(features: Features, weights: LikenessWeights) -> float:
    """Return how like its question a candidate is, in nats; only differences between candidates mean anything."""
    return (
        weights.cosine * features.cosine
        + weights.coverage * features.coverage
        + weights.shared * features.shared
        + weights.telling * features.telling
        + weights.phrases * features.phrases
        + weights.telling_phrases * features.telling_phrases
        + weights.opening * features.opening
        + weights.length * features.length
    )


def on_the_fused_scale(likenesses: Sequence[float], fused: Sequence[float]) -> list[float]:
    """Return scores in the order of likeness on the scale of the fused ones, which is calibrated.

    The likeliest gets the highest fused score of all, the others follow at their distance: how relevant the best match
    is stays the matter of the fused score, which one it is that of the likeness.
    """
    if not likenesses:
        return []
    best, highest = max(likenesses), max(fused)
    return [highest - (best - each) / SCALE for each in likenesses]
