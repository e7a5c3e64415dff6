"""Dense and lexical scores to one score."""

from __future__ import annotations

DENSE_WEIGHT = 0.5
"""Equal weights beat both alone, other weights and rank fusion on seven sets of real texts (docs/evaluation.md)."""

SATURATION = 4.0
"""A BM25 score this high counts half of what it covers: one common word of a small store proves nothing. Between 2 and
12 the choice hardly matters on those sets."""


def coverage(bm25: float, query_weight: float) -> float:
    """Return which share of a query's weight a text covers, discounted where that is little in all; ours.

    Zero where no word is shared, about one where every word is; somewhat above it for short texts full of them.
    """
    if bm25 <= 0 or query_weight <= 0:
        return 0.0
    return bm25 / query_weight * bm25 / (bm25 + SATURATION)


def fuse(cosine: float, bm25: float, query_weight: float) -> float:
    """Return the equal-weight convex sum of cosine and lexical coverage."""
    return DENSE_WEIGHT * cosine + (1 - DENSE_WEIGHT) * coverage(bm25, query_weight)
