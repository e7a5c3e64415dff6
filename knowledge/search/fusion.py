"""Dense and lexical scores to one score."""

from __future__ import annotations

DENSE_WEIGHT = 0.5
"""Equal weights beat both alone, other weights and rank fusion on seven sets of real texts (docs/evaluation.md)."""


def fuse(cosine: float, lexical: float) -> float:
    """Return the equal-weight convex sum of cosine and lexical coverage; ours, after measuring (docs/evaluation.md)."""
    return DENSE_WEIGHT * cosine + (1 - DENSE_WEIGHT) * lexical
