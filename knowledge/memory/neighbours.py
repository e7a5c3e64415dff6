"""Comparison of two embedding models by the nearest neighbours of the same texts, from vectors alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge.models import Vector

MAX_COMPARED = 100
"""Texts per workspace and kind whose nearest neighbour is compared in both spaces before a switch."""

MAX_SAMPLE = 400
"""Texts per workspace and kind that are read from both spaces for that: the compared ones and possible neighbours."""

MIN_TEXTS = 12
"""Minimum texts per workspace and kind to judge a model; with fewer, chance alone keeps too many neighbours."""

MIN_KEPT = 0.5
"""Share of nearest neighbours that must stay near, or a switch is refused: the new model finds other texts similar.

Measured on 20 to 400 texts of the sets of docs/evaluation.md (failures, runbooks, passages), against the bundled
model: multilingual-e5-small in four bits keeps 0.77 to 1.00, the bundled one by its first token instead of the mean
0.70 to 0.95, with 32 of its 256 tokens 0.66 to 0.87, with noise as long as its vectors 0.81 to 0.91; random vectors
0.03 to 0.08 of 180 texts and more, 0.20 of 20. Of 15 texts, drawn 300 times, E5 keeps 0.68 to 0.93 on average, random
vectors 0.22, and as much as 0.53 once in a hundred draws.
"""

_MAX_NEAR = 10
_SAME_COSINE = 0.999
"""Cosine of practically identical texts, which are near each other for any model; ours."""


@dataclass(frozen=True, slots=True)
class NeighbourCount:
    """Number of compared texts, and of those whose nearest neighbour stayed near."""

    compared: int = 0
    kept: int = 0

    def __add__(self, other: NeighbourCount) -> NeighbourCount:
        """Return the sum of both."""
        return NeighbourCount(self.compared + other.compared, self.kept + other.kept)

    @property
    def share(self) -> float:
        """The share that stayed near, 1 where nothing was compared."""
        return self.kept / self.compared if self.compared else 1.0


def count_kept_neighbours(before: Vector, after: Vector) -> NeighbourCount:
    """Count the texts whose nearest neighbour in one space is near in the other; vectors: (n, dims), of length 1.

    Near means among the ten nearest, of fewer than 50 texts among the nearest fifth; a tie counts as farther.
    Practically identical texts are ignored.
    """
    texts = len(before)
    if texts < MIN_TEXTS:
        return NeighbourCount()
    near = min(_MAX_NEAR, texts // 5)
    compared = min(texts, MAX_COMPARED)
    cosines_before, cosines_after = before[:compared] @ before.T, after[:compared] @ after.T
    ignored = cosines_before > _SAME_COSINE
    ignored[np.arange(compared), np.arange(compared)] = True
    cosines_before[ignored] = cosines_after[ignored] = -np.inf
    rows = np.flatnonzero(~ignored.all(axis=1))
    nearest = cosines_before[rows].argmax(axis=1)
    places = (cosines_after[rows] >= cosines_after[rows, nearest][:, np.newaxis]).sum(axis=1)
    return NeighbourCount(len(rows), int((places <= near).sum()))
