"""Comparison of texts within one workspace; each text is parsed once, however often it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from knowledge.memory.rules import similarity
from knowledge.memory.rules.contradictions import NOT_EVEN_TWINS, Difference, differences, has_number_exchanged
from knowledge.memory.rules.similarity import BestCase, Judgement, Overlap
from knowledge.models import TermStatistics, Vector
from knowledge.text.profile import ParsedText, Rarity, TextProfile
from knowledge.text.volatile import mask_volatile

SAME_RESOLUTION = 0.80
"""Likeness from which resolutions with the same particulars are the same if the situations are; ours, no labels exist.
Without equal particulars they need `likeness.MERGE`, like situations."""

MIN_COSINE = 0.40
"""Texts with a lower cosine are not compared. This loses 2 in 100 of the labelled bug report twins that would be
proposed and 4 in 100 alerts; of those that would be merged, none."""


class Verdict(StrEnum):
    """Result of comparing two resolutions. `UNKNOWN`: their vectors are needed to decide."""

    SAME = "same"
    LIKELY = "likely"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A verdict on two resolutions."""

    verdict: Verdict
    judgement: Judgement


_UNLIKE = Judgement(probability=0.0)


class TextComparer:
    """Compares texts of one workspace under one embedding model, with caches of parsed texts. Not thread-safe.

    `statistics`: term statistics of all texts; where `readings` are given, of these only, and other texts are not
    judged but added to `unread` until `learn` provides the statistics of their terms.
    """

    def __init__(
        self, statistics: TermStatistics, model: str, readings: Mapping[str, ParsedText] | None = None
    ) -> None:
        self.weights = similarity.weights_for(model)
        self.unread: dict[str, ParsedText] = {}
        self._rarity = Rarity(statistics)
        self._readings = dict(readings or {})
        self._unjudged: dict[str, ParsedText] = {}
        self._knows_all = readings is None
        self._profiles: dict[str, TextProfile] = {}
        self._overlaps: dict[tuple[str, str, float], Overlap] = {}
        self._best_cases: dict[tuple[str, str, float], BestCase] = {}
        self._situations: dict[tuple[str, str, float], Judgement] = {}
        self._lasting_readings: dict[str, ParsedText] = {}
        self._exchanged: dict[tuple[str, str], bool] = {}
        self._resolutions: dict[tuple[str, str, float | None], Comparison] = {}

    def learn(self, frequencies: Mapping[int, int]) -> None:
        """Add the term frequencies of the unread texts, so that these are judged from now on."""
        self._rarity.learn(frequencies)
        self._readings |= self.unread
        self.unread = {}

    def same_but_for_passing(self, situations: tuple[str, str], resolutions: tuple[str, str]) -> bool:
        """Return whether two situations differ only in times, ids and the like, and the resolutions are the same.

        A resolution that solved both shows that the difference does not matter.
        """
        first, second = map(self._get_reading, resolutions)
        if not first.same_words(second) or first.is_reworded(second):
            return False
        one, other = map(self._get_lasting_reading, situations)
        return one.same_words(other)

    def best_case(self, one: str, other: str, cosine: float) -> BestCase:
        """Return the best case of two situations, from little of their text; it rules out most pairs."""
        if self._note_unread(one, other):
            return BestCase.OTHER
        key = (one, other, cosine)
        case = self._best_cases.get(key)
        if case is None:
            case = self._best_cases[key] = self._compute_best_case(one, other, cosine)
        return case

    def situations(self, one: str, other: str, cosine: float) -> Judgement:
        """Return the cached judgement whether two situations are the same.

        The probability is 0 where they cannot even be likely twins.
        """
        if self.best_case(one, other, cosine) is BestCase.OTHER:
            return _UNLIKE
        key = (one, other, cosine)
        judgement = self._situations.get(key)
        if judgement is None:
            judgement = self._situations[key] = self._compare_situations(one, other, cosine)
        return judgement

    def are_other_resolutions(self, one: str, other: str, vectors: tuple[Vector | None, Vector | None]) -> bool:
        """Return whether `resolutions` would return `OTHER`; checks first for an exchanged number, the usual reason."""
        key = (one, other)
        exchanged = self._exchanged.get(key)
        if exchanged is None:
            exchanged = self._exchanged[key] = has_number_exchanged(self._get_reading(one), self._get_reading(other))
        return exchanged or self.resolutions(one, other, vectors).verdict is Verdict.OTHER

    def resolutions(self, one: str, other: str, vectors: tuple[Vector | None, Vector | None]) -> Comparison:
        """Return the cached comparison of two resolutions whose situations are or may be the same."""
        if self._note_unread(one, other):
            return Comparison(Verdict.UNKNOWN, _UNLIKE)
        first, second = vectors
        cosine = float(first @ second) if first is not None and second is not None else None
        key = (one, other, cosine)
        comparison = self._resolutions.get(key)
        if comparison is None:
            comparison = self._resolutions[key] = self._compare_resolutions(one, other, cosine)
        return comparison

    def _compute_best_case(self, one: str, other: str, cosine: float) -> BestCase:
        first, second = self._profile(one), self._profile(other)
        if self.weights is None:
            return BestCase.SAME if first.reading.same_words(second.reading) else BestCase.OTHER
        if similarity.is_unlike_by_openings(first, second, cosine, self.weights):
            return BestCase.OTHER
        overlap = self._overlaps[one, other, cosine] = similarity.overlap(first, second, cosine)
        return similarity.best_case(first, second, overlap, self.weights)

    def _compare_situations(self, one: str, other: str, cosine: float) -> Judgement:
        first, second = self._profile(one), self._profile(other)
        overlap = self._overlaps.get((one, other, cosine)) or similarity.overlap(first, second, cosine)
        features = similarity.features(first, second, overlap, apart=())
        judgement = similarity.judge(features, self.weights)
        if not judgement.likely:  # differences would only lower it
            return _UNLIKE
        if found_differences := differences(first, second):
            judgement = similarity.judge(replace(features, differences=found_differences), self.weights)
        return judgement

    def _compare_resolutions(self, one: str, other: str, cosine: float | None) -> Comparison:
        comparison = self._judge_resolutions(one, other, cosine)
        if comparison.verdict is Verdict.SAME and self._get_reading(one).is_reworded(self._get_reading(other)):
            return Comparison(Verdict.OTHER, Judgement(probability=0.0, differences=(Difference.PUT,)))
        return comparison

    def _judge_resolutions(self, one: str, other: str, cosine: float | None) -> Comparison:
        first, second = self._profile(one), self._profile(other)
        found_differences = differences(first, second)
        if not first.reading.same_words(second.reading) and (
            self.weights is None or not NOT_EVEN_TWINS.isdisjoint(found_differences)
        ):
            return Comparison(Verdict.OTHER, Judgement(probability=0.0, differences=found_differences))
        overlap = similarity.overlap(first, second, 0.0 if cosine is None else cosine)
        features = similarity.features(first, second, overlap, found_differences)
        judgement = similarity.judge(features, self.weights)
        if features.same_words:
            return Comparison(Verdict.SAME, judgement)
        if cosine is None:
            return Comparison(Verdict.UNKNOWN, judgement)
        reworded = features.same_particulars and not found_differences and judgement.probability >= SAME_RESOLUTION
        if judgement.same or reworded:
            return Comparison(Verdict.SAME, judgement)
        return Comparison(Verdict.LIKELY if judgement.likely else Verdict.OTHER, judgement)

    def _profile(self, text: str) -> TextProfile:
        profile = self._profiles.get(text)
        if profile is None:
            profile = self._profiles[text] = TextProfile(self._get_reading(text), self._rarity)
        return profile

    def _get_reading(self, text: str) -> ParsedText:
        reading = self._readings.get(text) or self._unjudged.get(text)
        if reading is None:
            reading = self._unjudged[text] = ParsedText(text)
        return reading

    def _get_lasting_reading(self, text: str) -> ParsedText:
        reading = self._lasting_readings.get(text)
        if reading is None:
            reading = self._lasting_readings[text] = ParsedText(mask_volatile(text))
        return reading

    def _note_unread(self, *texts: str) -> bool:
        """Return whether one of the texts must be read first; add those to `unread`."""
        if self._knows_all:
            return False
        missing = [text for text in texts if text not in self._readings]
        for text in missing:
            if text not in self.unread:
                self.unread[text] = self._get_reading(text)
        return bool(missing)
