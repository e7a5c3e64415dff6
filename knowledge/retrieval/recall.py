"""Recall of an approximate search against an exact one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

RECALL_AT: Final = 10
_ROUNDING: Final = 1e-5


def recall_at_k(exact: Sequence[float], found: Sequence[float]) -> float:
    """Return the share of the best scores that a search found; of points with equal scores, any counts.

    `exact`: the scores of the best `k` points. `found`: those of the search, at most `k`.
    """
    if not exact:
        return 1.0
    worst = min(exact) - _ROUNDING
    return min(1.0, sum(score >= worst for score in found) / len(exact))
