"""Texts compared within one workspace: each is taken apart once, however many it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from knowledge.memory import likeness
from knowledge.memory.likeness import Features, Judgement, Weights
from knowledge.models import TermStatistics, Vector
from knowledge.search.wording import Glance, Rarity, TextProfile, glance, profile

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


_UNLIKE = Judgement(probability=0.0)


class Comparing:
    """Compares texts of one workspace under one embedding model; holds what it took apart. For one thread.

    `statistics` are those of all texts; or, where `glances` are given, of their openings only. Then texts that may be
    alike by their openings are not judged, but named in `unread`, until `learn` brings the statistics of all their
    terms. Most texts are never needed whole.
    """

    def __init__(self, statistics: TermStatistics, model: str, glances: Mapping[str, Glance] | None = None) -> None:
        self.weights = likeness.shipped(model)
        self.unread: set[str] = set()
        self._rarity = Rarity(statistics)
        self._glances = dict(glances or {})
        self._whole: set[str] | None = None if glances is None else set()
        self._openings: dict[str, tuple[Mapping[int, float], float]] = {}
        self._profiles: dict[str, TextProfile] = {}
        self._situations: dict[tuple[str, str, float], Judgement] = {}
        self._resolutions: dict[tuple[str, str, float | None], Compared] = {}

    def learn(self, frequencies: Mapping[int, int]) -> None:
        """Take in how common the terms of the unread texts are: from now on these are judged."""
        self._rarity.learn(frequencies)
        if self._whole is not None:
            self._whole |= self.unread
        self.unread = set()

    def situations(self, one: str, other: str, cosine: float) -> Judgement:
        """Return whether two situations are the same; asked again, it is not worked out again.

        Where they cannot even be likely twins the probability is 0.
        """
        asked = (one, other, cosine)
        found = self._situations.get(asked)
        if found is None:
            if self.weights and not self._may_be_alike(one, other, cosine, self.weights):
                found = _UNLIKE
            elif self._to_be_read(one, other):
                return _UNLIKE
            else:
                found = likeness.judge(self.features(one, other, cosine), self.weights)
            self._situations[asked] = found
        return found

    def resolutions(self, one: str, other: str, vectors: tuple[Vector | None, Vector | None]) -> Compared:
        """Return whether two resolutions are the same, given that their situations are or may be; worked out once."""
        if self._to_be_read(one, other):
            return Compared(Verdict.UNKNOWN, _UNLIKE)
        first, second = vectors
        cosine = float(first @ second) if first is not None and second is not None else None
        asked = (one, other, cosine)
        found = self._resolutions.get(asked)
        if found is None:
            found = self._resolutions[asked] = self._resolutions_compared(one, other, cosine)
        return found

    def _resolutions_compared(self, one: str, other: str, cosine: float | None) -> Compared:
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

    def _to_be_read(self, *told: str) -> bool:
        """Return whether one of the texts must be read whole first, and remember it."""
        missing = set() if self._whole is None else set(told) - self._whole
        self.unread |= missing
        return bool(missing)

    def _may_be_alike(self, one: str, other: str, cosine: float, weights: Weights) -> bool:
        """Return whether two situations can be alike, as far as their openings show."""
        first, second = self._glance(one), self._glance(other)
        if first.traced and second.traced:
            return True
        opening = max(
            likeness.covered(*self._opening(one, first), second.terms),
            likeness.covered(*self._opening(other, second), first.terms),
        )
        return likeness.may_be_alike(opening, cosine, weights)

    def _opening(self, text: str, seen: Glance) -> tuple[Mapping[int, float], float]:
        found = self._openings.get(text)
        if found is None:
            weights = self._rarity.weigh(seen.opening)
            found = self._openings[text] = weights, sum(weights.values())
        return found

    def _glance(self, text: str) -> Glance:
        found = self._glances.get(text)
        if found is None:
            found = self._glances[text] = glance(text)
        return found
