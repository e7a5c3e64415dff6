"""Does another model find the same texts near each other? By vectors alone, which are all that a switch exchanges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knowledge.models import Vector

COMPARED = 100
"""Texts of a workspace, of each kind, whose nearest neighbour is looked up in both spaces before a switch."""

AMONG = 400
"""Texts of a workspace, of each kind, that are read for that from both spaces: those, and what may be near them."""

ENOUGH = 12
"""Texts of a workspace, of each kind, that a model can be judged by; of fewer, chance alone keeps too many."""

LEAST_KEPT = 0.5
"""Below this share of nearest neighbours that stay near, a switch is refused: the new model sees other likenesses.

Measured on 20 to 400 texts of the sets of docs/evaluation.md (failures, runbooks, passages), against the bundled
model: multilingual-e5-small in four bits keeps 0.77 to 1.00, the bundled one by its first token instead of the mean
0.70 to 0.95, with 32 of its 256 tokens 0.66 to 0.87, with noise as long as its vectors 0.81 to 0.91; random vectors
0.03 to 0.08 of 180 texts and more, 0.20 of 20. Of 15 texts, drawn 300 times, E5 keeps 0.68 to 0.93 on average, random
vectors 0.22, and as much as 0.53 once in a hundred draws.
"""

_NEAR = 10
_SAME = 0.999
"""Cosine of texts that are as good as one, and near each other for any model; ours."""


@dataclass(frozen=True, slots=True)
class NeighbourCount:
    """How many texts were asked for, and how many of their nearest neighbours stayed near."""

    asked: int = 0
    kept: int = 0

    def __add__(self, other: NeighbourCount) -> NeighbourCount:
        """Return both together."""
        return NeighbourCount(self.asked + other.asked, self.kept + other.kept)

    @property
    def share(self) -> float:
        """The share that stayed near, 1 where nothing was asked."""
        return self.kept / self.asked if self.asked else 1.0


def count_kept_neighbours(before: Vector, after: Vector) -> NeighbourCount:
    """Return for how many of the same texts in two spaces the nearest other one stayed near; (n, dims), of length 1.

    Near is among the ten nearest, of fewer than 50 texts among the nearest fifth; a tie counts as farther. Texts that
    were as good as the same say nothing.
    """
    texts = len(before)
    if texts < ENOUGH:
        return NeighbourCount()
    near = min(_NEAR, texts // 5)
    asked = min(texts, COMPARED)
    was, now = before[:asked] @ before.T, after[:asked] @ after.T
    silent = was > _SAME
    silent[np.arange(asked), np.arange(asked)] = True
    was[silent] = now[silent] = -np.inf
    rows = np.flatnonzero(~silent.all(axis=1))
    nearest = was[rows].argmax(axis=1)
    places = (now[rows] >= now[rows, nearest][:, np.newaxis]).sum(axis=1)
    return NeighbourCount(len(rows), int((places <= near).sum()))
