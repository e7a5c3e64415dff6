"""Calibration of fused scores to a relevance of 0..1, one scale for every embedding space.

0 is the median score of unrelated texts, 0.70 the score that 90 % of right hits reach, 0.75 that of 85 %, 1 that of
the same text; linear in between. A right hit is a relevant text among the first ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from knowledge.models import Calibration

BUNDLED = Calibration(unrelated=0.20, right_90=0.42, right_85=0.47, same=1.0, measured=True)
"""all-MiniLM-L6-v2 with our lexical half, pooled evenly over eight sets of real texts (docs/evaluation.md)."""

TEXT_EMBEDDING_3_SMALL = Calibration(unrelated=0.20, right_90=0.42, right_85=0.47, same=1.0, measured=False)
"""OpenAI's text-embedding-3-small: assumed to be like the bundled model; not measured."""

CONSERVATIVE = Calibration(unrelated=0.30, right_90=0.52, right_85=0.57, same=1.0, measured=False)
"""For models that were not measured: high enough that a narrow range of cosines does not look like similarity."""


def default_calibration(model: str) -> Calibration:
    """Return the built-in calibration for a model."""
    match model:
        case "all-MiniLM-L6-v2":
            return BUNDLED
        case "text-embedding-3-small":
            return TEXT_EMBEDDING_3_SMALL
        case _:
            return CONSERVATIVE


def relevance(score: float, calibration: Calibration) -> float:
    """Return the relevance of a fused score, 0..1."""
    marks = (
        (calibration.unrelated, 0.0),
        (calibration.right_90, 0.70),
        (calibration.right_85, 0.75),
        (calibration.same, 1.0),
    )
    if score <= calibration.unrelated:
        return 0.0
    for (low, at_low), (high, at_high) in pairwise(marks):
        if score <= high:
            return at_low + (at_high - at_low) * (score - low) / (high - low)
    return 1.0


def recalibrate(base: Calibration, unrelated_scores: Sequence[float]) -> Calibration:
    """Return `base` raised to the scores of a store's own unrelated texts, never below `base`.

    The marks of right hits keep their relative position between `unrelated` and `same`. (Using a text's own middle part
    as the right hit was tried: its scores begin where those of real right hits end, which cut off more than half of
    them; docs/adr/0006.)
    """
    if not unrelated_scores:
        return base
    unrelated = min(max(base.unrelated, median(unrelated_scores)), 0.9 * base.same)
    span = (base.same - unrelated) / (base.same - base.unrelated)

    def raise_mark(mark: float) -> float:
        return base.same - (base.same - mark) * span

    return Calibration(
        unrelated=unrelated,
        right_90=raise_mark(base.right_90),
        right_85=raise_mark(base.right_85),
        same=base.same,
        measured=base.measured,
    )
