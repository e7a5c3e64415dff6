"""Whether the best match of a question is one at all; where it is not, nothing is injected unasked.

A score of its own cannot tell "known" from "the same area, but not known" (docs/evaluation.md). Several signs together
can, in part: a logistic model of what the best of the candidates reach, fitted on questions asked with and without
their right texts in the store.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.search.reading import Features

FEWEST = 4
"""With fewer candidates than this nothing is silenced but by relevance; ours. The signs were fitted on sixteen; of four
to fifteen they tell more than relevance does (docs/evaluation.md)."""


class Signs(NamedTuple):
    """What the best candidates of a question reach, each sign by whichever candidate has most of it."""

    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceWeights:
    """What each sign counts; `level` is the confidence from which on something is said."""

    intercept: float
    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float
    level: float


BUNDLED = SilenceWeights(
    intercept=-7.15,
    fused=2.45,
    likeness=0.173,
    weight=2.96,
    telling=-2.06,
    rarest=4.26,
    level=0.68,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking`; the level lets one of ten unanswerable through.

They carry over to the cosines of another model that are put on its scale (`cosines`).
"""


def signs(fused: Sequence[float], likenesses: Sequence[float], features: Sequence[Features]) -> Signs:
    """Return the signs of the candidates of one question, at least one."""
    return Signs(
        fused=max(fused),
        likeness=max(likenesses),
        weight=max(each.weight for each in features),
        telling=max(each.telling for each in features),
        rarest=max(each.rarest for each in features),
    )


def confidence(seen: Signs, weights: SilenceWeights) -> float:
    """Return how likely it is that the store holds the answer, 0..1, where half of all questions have one there."""
    logit = (
        weights.intercept
        + weights.fused * seen.fused
        + weights.likeness * seen.likeness
        + weights.weight * seen.weight
        + weights.telling * seen.telling
        + weights.rarest * seen.rarest
    )
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0
