"""Texts compared within one workspace: each is taken apart once, however many it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from knowledge.memory import likeness
from knowledge.memory.likeness import Features, Judgement
from knowledge.models import TermStatistics, Vector
from knowledge.search.wording import Rarity, TextProfile, profile

SAME_RESOLUTION = 0.80
"""From here on resolutions with the same particulars are the same, where the situation is: ours, no labels exist.
Without equal particulars they need what situations need (`likeness.MERGE`)."""

NEAR_ENOUGH = 0.40
"""Texts of a lower cosine are not compared. Of the labelled twins that would be proposed, it loses 2 in 100 bug reports
and 4 in 100 alerts; of those that would be merged, one in all."""


class Verdict(StrEnum):
    """What comparing two resolutions says. `UNKNOWN`: their vectors are needed to tell."""

    SAME = "same"
    LIKELY = "likely"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Compared:
    """A verdict on two resolutions."""

    verdict: Verdict
    judgement: Judgement


class Comparing:
    """Compares texts of one workspace under one embedding model; holds what it took apart. For one thread."""

    def __init__(self, statistics: TermStatistics, model: str) -> None:
        self.weights = likeness.shipped(model)
        self._rarity = Rarity(statistics)
        self._profiles: dict[str, TextProfile] = {}
        self._situations: dict[tuple[str, str, float], Judgement] = {}

    def situations(self, one: str, other: str, cosine: float) -> Judgement:
        """Return whether two situations are the same; asked again, it is not worked out again."""
        asked = (one, other, cosine)
        found = self._situations.get(asked)
        if found is None:
            found = self._situations[asked] = likeness.judge(self.features(one, other, cosine), self.weights)
        return found

    def resolutions(self, one: str, other: str, vectors: tuple[Vector | None, Vector | None]) -> Compared:
        """Return whether two resolutions are the same, given that their situations are or may be."""
        first, second = vectors
        cosine = float(first @ second) if first is not None and second is not None else None
        features = self.features(one, other, 0.0 if cosine is None else cosine)
        judgement = likeness.judge(features, self.weights)
        if features.same_words:
            return Compared(Verdict.SAME, judgement)
        if self.weights is None or not likeness.NOT_EVEN_TWINS.isdisjoint(features.differences):
            return Compared(Verdict.OTHER, judgement)
        if cosine is None:
            return Compared(Verdict.UNKNOWN, judgement)
        reworded = features.same_particulars and not features.differences and judgement.probability >= SAME_RESOLUTION
        if judgement.same or reworded:
            return Compared(Verdict.SAME, judgement)
        return Compared(Verdict.LIKELY if judgement.likely else Verdict.OTHER, judgement)

    def features(self, one: str, other: str, cosine: float) -> Features:
        """Return what two texts share."""
        return likeness.features(self._profile(one), self._profile(other), cosine)

    def _profile(self, text: str) -> TextProfile:
        found = self._profiles.get(text)
        if found is None:
            found = self._profiles[text] = profile(text, self._rarity)
        return found
