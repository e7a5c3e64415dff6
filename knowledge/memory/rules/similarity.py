"""Judges whether two texts describe the same thing, from their profiles and the cosine of their vectors; pure.

*Likeness* is a probability at even odds, fitted on labelled pairs (`benchmarks/fit_merging.py`): it ranks pairs, and
proposes twins to a person. To be *the same*, two texts also need a ground for it and no difference: texts about two
things are often more similar than two descriptions of one. Joining is rare on purpose: a wrong merge gives a pattern
the record of another, and ranking groups records by resolution without it (docs/adr/0033-joining.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hardwon.errors import BUNDLED_MODEL
from knowledge.memory.rules.contradictions import NOT_EVEN_TWINS, Difference, differences
from knowledge.text.profile import TextProfile

MERGE = 0.95
"""Probability from which two texts are the same: there is a ground for it, and no difference. No measured probability:
`GATES` decide whether there is a ground."""

SUGGEST = 0.53
"""Probability from which two texts are likely twins, for a person to judge. Measured in docs/evaluation.md."""


class Ground(StrEnum):
    """Reasons for two texts to be the same."""

    SAME_WORDS = "the same words"
    SAME_PARTICULARS = "the same names, numbers and codes, a rare name among them"


class Overlap(NamedTuple):
    """Overlap of two texts' terms; figures are 0..1, the cosine -1..1; symmetric.

    `shared`, `contained`: the covered share of the less covered text, and of the more covered one, weighted by rarity
    of terms. `opening`: the share of one text's first sentence that occurs in the other, the larger of both.
    """

    cosine: float
    shared: float
    contained: float
    opening: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Features of two texts: their overlap, and further figures of 0..1; symmetric.

    `rarest`: rarity of the rarest common name. `named`: the share of the shorter text that is common names.
    `same_particulars`: outer frames of stack traces do not count.
    """

    cosine: float
    shared: float
    contained: float
    opening: float
    rarest: float
    named: float
    same_words: bool
    traces: bool
    same_particulars: bool
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A logistic model of likeness, for one embedding model."""

    constant: float
    cosine: float
    shared: float
    contained: float
    opening: float


BUNDLED = Weights(constant=-3.62, cosine=1.80, shared=-0.80, contained=0.40, opening=4.25)
"""all-MiniLM-L6-v2, fitted on the dev halves of three sets (docs/evaluation.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Thresholds for two texts with the same particulars to be the same; for any embedding model.

    `rarest`: rarity of the rarest common name. Where there is no stack trace, also `named`: share of the shorter text
    that is common names; and `likeness`: the same particulars count only above it.
    """

    rarest: float = 0.40
    named: float = 0.40
    likeness: float = 0.50


GATES = Gates()
"""Chosen by `benchmarks/fit_merging.py`: the strictest that merge no different pair and cost at most a point of recall.

Of 14,211 near pairs from different groups of four sets none is merged; with each set left out of the fit in turn, the
upper end of the 95 % interval is 0.36 % of the nearest pairs at most (docs/evaluation.md).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The probability that two texts describe the same thing, and the reasons."""

    probability: float
    grounds: tuple[Ground, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """True where the texts are merged."""
        return self.probability >= MERGE

    @property
    def likely(self) -> bool:
        """True where the texts are at least proposed to a person."""
        return self.probability >= SUGGEST


def weights_for(model: str) -> Weights | None:
    """Return the weights fitted for an embedding model, None where it was not measured."""
    return BUNDLED if model == BUNDLED_MODEL else None


def judge(features: Features, weights: Weights | None, gates: Gates = GATES) -> Judgement:
    """Return the judgement on two texts. Without weights only texts in the same words are the same."""
    return Judgement(
        probability=same_probability(features, weights, gates),
        grounds=find_grounds(features, weights, gates),
        differences=features.differences,
    )


def same_probability(features: Features, weights: Weights | None, gates: Gates = GATES) -> float:
    """Return the probability that two texts describe the same thing; at least `MERGE` only with a ground for it."""
    if not NOT_EVEN_TWINS.isdisjoint(features.differences):
        return 0.0
    if weights is None:
        return 1.0 if features.same_words else 0.0
    likely = likeness(features, weights)
    if find_grounds(features, weights, gates) and not features.differences:
        return MERGE + (1 - MERGE) * (1.0 if features.same_words else likely)
    return MERGE * likely


def likeness(overlap: Overlap | Features, weights: Weights) -> float:
    """Return the probability that two texts describe the same thing, at even odds as in the fitted pairs."""
    return 1 / (
        1
        + math.exp(
            -(
                weights.constant
                + weights.cosine * overlap.cosine
                + weights.shared * overlap.shared
                + weights.contained * overlap.contained
                + weights.opening * overlap.opening
            )
        )
    )


class BestCase(StrEnum):
    """The best possible result for two texts."""

    OTHER = "other"
    LIKELY = "likely twins"
    SAME = "the same"


def is_unlike_by_openings(
    one: TextProfile, other: TextProfile, cosine: float, weights: Weights, gates: Gates = GATES
) -> bool:
    """Return whether `best_case` is certain to be `OTHER`, judged by first sentences and term sets alone.

    True for most pairs; the weights of the other terms are not needed.
    """
    opening = max(
        _coverage(one.opening, one.opening_weight, other.reading.term_ids),
        _coverage(other.opening, other.opening_weight, one.reading.term_ids),
    )
    upper_bound = Overlap(
        cosine=cosine, shared=float(weights.shared > 0), contained=float(weights.contained > 0), opening=opening
    )
    unlike = likeness(upper_bound, weights) < min(gates.likeness, SUGGEST / MERGE)
    return unlike and not _may_still_be_same(one, other)


def _may_still_be_same(one: TextProfile, other: TextProfile) -> bool:
    return (one.place is not None and one.place == other.place) or one.reading.same_words(other.reading)


def best_case(
    one: TextProfile, other: TextProfile, overlap: Overlap, weights: Weights, gates: Gates = GATES
) -> BestCase:
    """Return the best possible result for two texts, by upper bounds; it is `OTHER` for most near pairs.

    They can be the same by having the same words; or by their particulars, if both end at the same place in the code,
    or if they have the same words that look like names and common words can weigh as much as common names must.
    """
    if _may_still_be_same(one, other):
        return BestCase.SAME
    likely = likeness(overlap, weights)
    if (
        likely >= gates.likeness
        and one.reading.formal_names == other.reading.formal_names
        and _max_common_weight(one, other) >= gates.named
    ):
        return BestCase.SAME
    return BestCase.LIKELY if likely >= SUGGEST / MERGE else BestCase.OTHER


def _max_common_weight(one: TextProfile, other: TextProfile) -> float:
    """Return an upper bound of the shorter text's share of common names: all common words, as names are words."""
    common = one.words.keys() & other.words.keys()
    weight = math.fsum(max(one.words[word], other.words[word]) for word in common)
    return _ratio(weight, min(one.words_weight, other.words_weight))


def find_grounds(features: Features, weights: Weights | None, gates: Gates = GATES) -> tuple[Ground, ...]:
    """Return the grounds for two texts being the same."""
    grounds = [Ground.SAME_WORDS] if features.same_words else []
    if weights is None:
        return tuple(grounds)
    alike = features.named >= gates.named and likeness(features, weights) >= gates.likeness
    if features.same_particulars and features.rarest >= gates.rarest and (features.traces or alike):
        grounds.append(Ground.SAME_PARTICULARS)
    return tuple(grounds)


def overlap(a: TextProfile, b: TextProfile, cosine: float) -> Overlap:
    """Compare the terms of two texts; symmetric. Both profiles must come from the same term statistics."""
    common = _common(a.terms, b.terms)
    return Overlap(
        cosine=cosine,
        shared=_ratio(common, max(a.terms_weight, b.terms_weight)),
        contained=_ratio(common, min(a.terms_weight, b.terms_weight)),
        opening=max(
            _coverage(a.opening, a.opening_weight, b.terms),
            _coverage(b.opening, b.opening_weight, a.terms),
        ),
    )


def features(a: TextProfile, b: TextProfile, overlap: Overlap, apart: tuple[Difference, ...] | None = None) -> Features:
    """Compare two texts whose overlap is known, and perhaps their differences `apart`; symmetric."""
    names = a.names.keys() & b.names.keys()
    names_weight = math.fsum(a.names[name] for name in names)
    return Features(
        cosine=overlap.cosine,
        shared=overlap.shared,
        contained=overlap.contained,
        opening=overlap.opening,
        rarest=max((a.names[name] for name in names), default=0.0),
        named=_ratio(names_weight, min(a.words_weight, b.words_weight)),
        same_words=a.reading.same_words(b.reading),
        traces=a.place is not None or b.place is not None,
        same_particulars=a.place == b.place and set(a.sequence) == set(b.sequence),
        differences=differences(a, b) if apart is None else apart,
    )


def _coverage(opening: Mapping[int, float], weight: float, terms: Collection[int]) -> float:
    """Return the share of an opening that occurs in another text. `weight`: of the opening."""
    return _ratio(math.fsum(rarity for term, rarity in opening.items() if term in terms), weight)


def _common(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Return the weight of common terms; symmetric."""
    return math.fsum(one[term] for term in one.keys() & other.keys())


def _ratio(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else 0.0
