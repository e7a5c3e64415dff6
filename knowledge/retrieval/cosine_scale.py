"""Rescale cosines of any embedding model to those of the bundled one, which all search constants were fitted on.

Models differ in the cosine of unrelated texts: 0.07 for the bundled one, 0.8 for E5; identical texts have 1 under all
of them. So distances from 1 are stretched until unrelated texts get the bundled model's cosine; verified by
measurement for two other models (docs/evaluation.md).
"""

from __future__ import annotations

from hardwon.errors import BUNDLED_MODEL
from knowledge.models import BoundSpace

UNRELATED = 0.067
"""The bundled model's mean cosine of the three unrelated test texts by which models are identified."""

CROWDED = 0.95
"""A model with such a high cosine for unrelated texts discriminates too little to be rescaled."""


def stretch_factor(bound: BoundSpace) -> float | None:
    """Return the factor that scales a space's distances from cosine 1 to those of the bundled model.

    None where the cosine of unrelated texts under its model is unknown or too high: its cosines are used unchanged, and
    features fitted on the bundled model's cosines are disabled.
    """
    if bound.space.model == BUNDLED_MODEL:
        return 1.0
    if bound.unrelated_cosine is None or bound.unrelated_cosine > CROWDED:
        return None
    return (1 - UNRELATED) / (1 - bound.unrelated_cosine)


def rescale_cosine(cosine: float, factor: float | None) -> float:
    """Return a cosine on the scale of the bundled model."""
    return cosine if factor is None else 1 - (1 - cosine) * factor
