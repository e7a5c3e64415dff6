"""Map cosines to relevance 0..1, on one scale for every embedding model, which all thresholds use.

The scale needs no labels. A passage's own middle sentence stands for a question it answers, other passages for those
it does not; 0 is the median cosine of the latter, 1 what nine in ten of the former reach at most. Measured against
labelled questions that lets through the same share of answerable ones (95 %), and hardly more of the others (71
against 69 %).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from knowledge.models import Vector

MIN_PASSAGES = 30
"""Fewer passages are too few to calibrate a model."""

MAX_PASSAGES = 200
"""More passages change the scale by less than a hundredth."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The cosines of relevance 0 and 1; `measured` on indexed passages, or a default."""

    low: float
    high: float
    measured: bool = False

    def relevance(self, cosine: float) -> float:
        """Return the relevance of a cosine, 0..1."""
        return min(1.0, max(0.0, (cosine - self.low) / (self.high - self.low)))

    def cosine(self, relevance: float) -> float:
        """Return the cosine of a relevance."""
        return self.low + relevance * (self.high - self.low)


def default_scale(model: str) -> Scale:
    """Return the default scale of a model; a strict one for an unknown model, whose cosines may all be high."""
    match model:
        case "all-MiniLM-L6-v2":
            return Scale(low=0.004, high=0.781)
        case "text-embedding-3-small":
            return Scale(low=0.10, high=0.70)
        case _:
            return Scale(low=0.25, high=0.85)


def middle_sentence(text: str) -> str | None:
    """Return the middle sentence of a passage, None if it has fewer than three."""
    sentences = [sentence.strip() for sentence in _SENTENCE.split(text) if len(sentence.split()) >= 4]
    return sentences[len(sentences) // 2] if len(sentences) >= 3 else None


def measure_scale(questions: Vector, passages: Vector) -> Scale | None:
    """Return the scale of passages and their pseudo-questions, row by row, (n, dims) each; None if degenerate."""
    if len(questions) < MIN_PASSAGES:
        return None
    cosines = questions @ passages.T
    right = np.diag(cosines)
    others = cosines[~np.eye(len(cosines), dtype=bool)]
    low, high = float(np.median(others)), float(np.quantile(right, 0.9))
    return Scale(low=low, high=high, measured=True) if high - low > 0.01 else None


def usable_passages(texts: Sequence[str]) -> list[tuple[int, str]]:
    """Return the middle sentence of each text that has one, with the position of the text."""
    return [(position, found) for position, text in enumerate(texts) if (found := middle_sentence(text))]
