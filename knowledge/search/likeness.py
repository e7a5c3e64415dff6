"""Similarity of a query and its candidates: the weighted sum of the features of `knowledge.search.reading`.

The weights are those of a conditional logit (McFadden 1974): the odds ratio of two candidates is e to the difference of
their likeness. They were fitted on the bundled model's cosines; those of other models are rescaled first (`cosines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.search.reading import Features

SCALE = 12.0
"""Likeness per unit of fused score: about twice the weight of the cosine, which makes up half of that score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikenessWeights:
    """Weights of the features."""

    cosine: float
    coverage: float
    shared: float
    telling: float
    phrases: float
    telling_phrases: float
    opening: float
    length: float


BUNDLED_LIKENESS = LikenessWeights(
    cosine=6.95,
    coverage=3.75,
    shared=-4.76,
    telling=4.86,
    phrases=-4.03,
    telling_phrases=3.07,
    opening=2.16,
    length=-0.64,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking` on seven sets; validated on held-out sets.

A shared term or phrase counts by how few of the candidates have it; one that all of them share counts for none.
"""


def likeness(features: Features, weights: LikenessWeights) -> float:
    """Return the likeness of a candidate to its query, in nats; only differences between candidates are meaningful."""
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


def to_fused_scale(likenesses: Sequence[float], fused: Sequence[float]) -> list[float]:
    """Return scores ordered by likeness, on the calibrated scale of fused scores.

    The candidate with the highest likeness gets the highest fused score, and the others follow at their distance: the
    likeness decides which candidate is the best, the fused score how relevant it is.
    """
    if not likenesses:
        return []
    best, highest = max(likenesses), max(fused)
    return [highest - (best - each) / SCALE for each in likenesses]
