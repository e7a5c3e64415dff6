"""Cosines of any embedding model on the scale of the bundled one, by which all constants of a search were fitted.

Models differ in how alike they find texts that have nothing to do with each other: the bundled one gives such texts a
cosine of 0.07, E5 one of 0.8. The same text has 1 for all of them. So distances from there are stretched until
unrelated texts lie where the bundled model has them; for two other models it was measured (docs/evaluation.md).
"""

from __future__ import annotations

from knowledge.errors import BUNDLED_MODEL
from knowledge.models import BoundSpace

UNRELATED = 0.067
"""Of the bundled model: the mean of the three texts by which models are recognised, no two of which are alike."""

CROWDED = 0.95
"""A model that finds any two texts so alike tells nothing apart: no stretching makes sense of it."""


def stretch(bound: BoundSpace) -> float | None:
    """Return by how much a space's distances from cosine 1 are to be longer, to lie as the bundled model's.

    None where nobody knows how alike its model finds unrelated texts: its cosines are taken as they are, and what was
    fitted on the bundled model's is left out of it.
    """
    if bound.space.model == BUNDLED_MODEL:
        return 1.0
    if bound.unrelated_cosine is None or bound.unrelated_cosine > CROWDED:
        return None
    return (1 - UNRELATED) / (1 - bound.unrelated_cosine)


def stretched(cosine: float, by: float | None) -> float:
    """Return a cosine of a space as the bundled model's would be."""
    return cosine if by is None else 1 - (1 - cosine) * by
