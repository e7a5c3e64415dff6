"""Fusion of dense and lexical scores."""

from __future__ import annotations

DENSE_WEIGHT = 0.5
"""Equal weights beat both alone, other weights and rank fusion on seven sets of real texts (docs/evaluation.md)."""

SATURATION = 4.0
"""BM25 score at which coverage counts half, since one shared common word of a small store proves nothing. Values from 2
to 12 hardly differ on those sets."""


def coverage(bm25: float, query_weight: float) -> float:
    """Return the share of a query's weight that a text covers, discounted where the score is low; our own formula.

    0 without a shared word, about 1 if all words are shared; slightly above 1 for short texts full of them.
    """
    if bm25 <= 0 or query_weight <= 0:
        return 0.0
    return bm25 / query_weight * bm25 / (bm25 + SATURATION)


def fuse(cosine: float, bm25: float, query_weight: float) -> float:
    """Return the equal-weight convex sum of cosine and lexical coverage."""
    return DENSE_WEIGHT * cosine + (1 - DENSE_WEIGHT) * coverage(bm25, query_weight)
