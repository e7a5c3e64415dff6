"""Texts compared within one workspace: each is taken apart once, however many it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from knowledge.memory import likeness
from knowledge.memory.differences import NOT_EVEN_TWINS, Difference, differences, has_number_exchanged
from knowledge.memory.likeness import BestCase, Judgement, Overlap
from knowledge.models import TermStatistics, Vector
from knowledge.search.passing import without_passing
from knowledge.search.wording import Rarity, Reading, TextProfile

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


class TextComparer:
    """Compares texts of one workspace under one embedding model; holds what it took apart. For one thread.

    `statistics` are those of the terms of all texts; or, where `readings` are given, of these texts, and others are
    not judged, but named in `unread`, until `learn` brings the statistics of their terms.
    """

    def __init__(self, statistics: TermStatistics, model: str, readings: Mapping[str, Reading] | None = None) -> None:
        self.weights = likeness.weights_for(model)
        self.unread: dict[str, Reading] = {}
        self._rarity = Rarity(statistics)
        self._readings = dict(readings or {})
        self._glanced_at: dict[str, Reading] = {}
        self._knows_all = readings is None
        self._profiles: dict[str, TextProfile] = {}
        self._overlaps: dict[tuple[str, str, float], Overlap] = {}
        self._at_best: dict[tuple[str, str, float], BestCase] = {}
        self._situations: dict[tuple[str, str, float], Judgement] = {}
        self._without_passing: dict[str, Reading] = {}
        self._exchanged: dict[tuple[str, str], bool] = {}
        self._resolutions: dict[tuple[str, str, float | None], Compared] = {}

    def learn(self, frequencies: Mapping[int, int]) -> None:
        """Take in how common the terms of the unread texts are: from now on these are judged."""
        self._rarity.learn(frequencies)
        self._readings |= self.unread
        self.unread = {}

    def same_but_for_passing(self, situations: tuple[str, str], resolutions: tuple[str, str]) -> bool:
        """Return whether the words are the same, but that the situations were told at other moments, with other ids.

        Only where the resolutions are: one that solved both shows that what differs in them does not matter.
        """
        first, second = map(self._reading, resolutions)
        if not first.same_words(second) or first.put_otherwise(second):
            return False
        one, other = map(self._lasting, situations)
        return one.same_words(other)

    def at_best(self, one: str, other: str, cosine: float) -> BestCase:
        """Return what two situations can be at best: little is to be looked at for that, and it tells most apart."""
        if self._to_be_read(one, other):
            return BestCase.OTHER
        asked = (one, other, cosine)
        found = self._at_best.get(asked)
        if found is None:
            found = self._at_best[asked] = self._looked_over(one, other, cosine)
        return found

    def situations(self, one: str, other: str, cosine: float) -> Judgement:
        """Return whether two situations are the same; asked again, it is not worked out again.

        Where they cannot even be likely twins the probability is 0.
        """
        if self.at_best(one, other, cosine) is BestCase.OTHER:
            return _UNLIKE
        asked = (one, other, cosine)
        found = self._situations.get(asked)
        if found is None:
            found = self._situations[asked] = self._situations_compared(one, other, cosine)
        return found

    def other_resolutions(self, one: str, other: str, vectors: tuple[Vector | None, Vector | None]) -> bool:
        """Return whether `resolutions` would say `OTHER`: most often a number that is exchanged tells them apart."""
        asked = (one, other)
        exchanged = self._exchanged.get(asked)
        if exchanged is None:
            exchanged = self._exchanged[asked] = has_number_exchanged(self._reading(one), self._reading(other))
        return exchanged or self.resolutions(one, other, vectors).verdict is Verdict.OTHER

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

    def _looked_over(self, one: str, other: str, cosine: float) -> BestCase:
        first, second = self._profile(one), self._profile(other)
        if self.weights is None:
            return BestCase.SAME if first.reading.same_words(second.reading) else BestCase.OTHER
        if likeness.is_unlike_by_openings(first, second, cosine, self.weights):
            return BestCase.OTHER
        overlap = self._overlaps[one, other, cosine] = likeness.overlap(first, second, cosine)
        return likeness.at_best(first, second, overlap, self.weights)

    def _situations_compared(self, one: str, other: str, cosine: float) -> Judgement:
        first, second = self._profile(one), self._profile(other)
        overlap = self._overlaps.get((one, other, cosine)) or likeness.overlap(first, second, cosine)
        features = likeness.features(first, second, overlap, apart=())
        judgement = likeness.judge(features, self.weights)
        if not judgement.likely:  # and would be less so by what tells them apart
            return _UNLIKE
        if apart := differences(first, second):
            judgement = likeness.judge(replace(features, differences=apart), self.weights)
        return judgement

    def _resolutions_compared(self, one: str, other: str, cosine: float | None) -> Compared:
        found = self._resolutions_judged(one, other, cosine)
        if found.verdict is Verdict.SAME and self._reading(one).put_otherwise(self._reading(other)):
            return Compared(Verdict.OTHER, Judgement(probability=0.0, differences=(Difference.PUT,)))
        return found

    def _resolutions_judged(self, one: str, other: str, cosine: float | None) -> Compared:
        first, second = self._profile(one), self._profile(other)
        apart = differences(first, second)
        if not first.reading.same_words(second.reading) and (
            self.weights is None or not NOT_EVEN_TWINS.isdisjoint(apart)
        ):
            return Compared(Verdict.OTHER, Judgement(probability=0.0, differences=apart))
        overlap = likeness.overlap(first, second, 0.0 if cosine is None else cosine)
        features = likeness.features(first, second, overlap, apart)
        judgement = likeness.judge(features, self.weights)
        if features.same_words:
            return Compared(Verdict.SAME, judgement)
        if cosine is None:
            return Compared(Verdict.UNKNOWN, judgement)
        reworded = features.same_particulars and not apart and judgement.probability >= SAME_RESOLUTION
        if judgement.same or reworded:
            return Compared(Verdict.SAME, judgement)
        return Compared(Verdict.LIKELY if judgement.likely else Verdict.OTHER, judgement)

    def _profile(self, text: str) -> TextProfile:
        found = self._profiles.get(text)
        if found is None:
            found = self._profiles[text] = TextProfile(self._reading(text), self._rarity)
        return found

    def _reading(self, text: str) -> Reading:
        found = self._readings.get(text) or self._glanced_at.get(text)
        if found is None:
            found = self._glanced_at[text] = Reading(text)
        return found

    def _lasting(self, text: str) -> Reading:
        found = self._without_passing.get(text)
        if found is None:
            found = self._without_passing[text] = Reading(without_passing(text))
        return found

    def _to_be_read(self, *told: str) -> bool:
        """Return whether one of the texts must be read first, and remember it."""
        if self._knows_all:
            return False
        missing = [text for text in told if text not in self._readings]
        for text in missing:
            if text not in self.unread:
                self.unread[text] = self._reading(text)
        return bool(missing)
