"""Do two texts tell of the same thing? Pure: from their profiles and the cosine of their vectors.

Two questions are kept apart. *Likeness* is a probability at even odds, fitted on labelled pairs
(`benchmarks/fit_merging.py`): it orders, and proposes twins to a person. To be *the same*, two texts need a ground
besides, and nothing that tells them apart: texts about two things are often more alike than two tellings of one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from knowledge.errors import BUNDLED_MODEL
from knowledge.memory.differences import NOT_EVEN_TWINS, Difference, differences
from knowledge.search.wording import TextProfile

MERGE = 0.95
"""From here on two texts are the same: there is a ground for it, and nothing tells them apart."""

SUGGEST = 0.53
"""From here on two texts are likely twins, for a person to judge. Measured in docs/evaluation.md."""


class Ground(StrEnum):
    """Why two texts are the same."""

    SAME_WORDS = "the same words"
    SAME_NAMES = "all names of the terser text, a rare one among them, stand in the other"
    SAME_PLACE = "the same exception at the same place in the code, and a rare name in common"


class Overlap(NamedTuple):
    """What two texts share by their terms; every figure is 0..1, the cosine -1..1, the same whichever text is first.

    `shared`, `contained`: how much of the text that is less, and more, covered by the other is covered, by rarity of
    terms. `opening`: how much of the one's first sentence stands in the other, the better of both.
    """

    cosine: float
    shared: float
    contained: float
    opening: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What two texts share: their overlap, and figures of 0..1, the same whichever text is first.

    `names`: as `contained`, of names; `rarest`: rarity of the rarest common name; `named`: how much of the terser text
    is common names.
    """

    cosine: float
    shared: float
    contained: float
    opening: float
    names: float
    rarest: float
    named: float
    same_words: bool
    traces: bool
    same_place: bool
    same_particulars: bool
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A logistic model of likeness, for one embedding model; and the cosine from which its texts are near copies."""

    constant: float
    cosine: float
    shared: float
    contained: float
    opening: float
    near: float


BUNDLED = Weights(constant=-3.62, cosine=1.80, shared=-0.80, contained=0.40, opening=4.25, near=0.90)
"""all-MiniLM-L6-v2, fitted on the dev halves of three sets (docs/evaluation.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """How much two texts must share to be the same; for texts of any embedding model.

    `names`: share of the terser text's names. `rarest`: rarity of the rarest common one; `rare`: of it in near copies
    of a trace. `named`: how much of the terser text is common names. `likeness`: below it, names do not count.
    """

    names: float = 0.95
    rarest: float = 0.40
    rare: float = 0.20
    named: float = 0.40
    likeness: float = 0.30


GATES = Gates()
"""Ours. What they let through, and what others would: docs/evaluation.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How likely two texts tell of the same thing, and why."""

    probability: float
    grounds: tuple[Ground, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def same(self) -> bool:
        """Whether they are merged."""
        return self.probability >= MERGE

    @property
    def likely(self) -> bool:
        """Whether they are at least proposed to a person."""
        return self.probability >= SUGGEST


def weights_for(model: str) -> Weights | None:
    """Return the weights that ship for an embedding model, None where it was not measured."""
    return BUNDLED if model == BUNDLED_MODEL else None


def judge(features: Features, weights: Weights | None, gates: Gates = GATES) -> Judgement:
    """Return whether two texts tell of the same thing. Without weights only the same words do."""
    return Judgement(
        probability=same_probability(features, weights, gates),
        grounds=found_grounds(features, weights, gates),
        differences=features.differences,
    )


def same_probability(features: Features, weights: Weights | None, gates: Gates = GATES) -> float:
    """Return the probability that two texts tell of the same thing: `MERGE` or more only with a ground for it."""
    if not NOT_EVEN_TWINS.isdisjoint(features.differences):
        return 0.0
    if weights is None:
        return 1.0 if features.same_words else 0.0
    likely = likeness(features, weights)
    if found_grounds(features, weights, gates) and not features.differences:
        return MERGE + (1 - MERGE) * (1.0 if features.same_words else likely)
    return MERGE * likely


def likeness(found: Overlap | Features, weights: Weights) -> float:
    """Return how likely two texts tell of the same thing at even odds, as the fitted pairs have it."""
    return 1 / (
        1
        + math.exp(
            -(
                weights.constant
                + weights.cosine * found.cosine
                + weights.shared * found.shared
                + weights.contained * found.contained
                + weights.opening * found.opening
            )
        )
    )


class BestCase(StrEnum):
    """What two texts can be at best."""

    OTHER = "other"
    LIKELY = "likely twins"
    SAME = "the same"


def is_unlike_by_openings(
    one: TextProfile, other: TextProfile, cosine: float, weights: Weights, gates: Gates = GATES
) -> bool:
    """Return whether `at_best` is `OTHER` for certain, whatever the rest of the texts says: for most it is.

    Their first sentences are looked at, and which terms the texts have at all, not what these weigh.
    """
    opening = max(
        _covered(one.opening, one.opening_weight, other.reading.term_ids),
        _covered(other.opening, other.opening_weight, one.reading.term_ids),
    )
    most = Overlap(
        cosine=cosine, shared=float(weights.shared > 0), contained=float(weights.contained > 0), opening=opening
    )
    unlike = likeness(most, weights) < min(gates.likeness, SUGGEST / MERGE)
    return unlike and not _may_be_same_otherwise(one, other)


def _may_be_same_otherwise(one: TextProfile, other: TextProfile) -> bool:
    return (one.place is not None and other.place is not None) or one.reading.same_words(other.reading)


def at_best(one: TextProfile, other: TextProfile, overlap: Overlap, weights: Weights, gates: Gates = GATES) -> BestCase:
    """Return what two texts can be, whatever else they share: most of those that are near are others.

    They can be the same by their names, if words in common can weigh as much as common names must, and hardly a word is
    missing that is a name by its form; by the place in the code, if they hold a stack trace each; or as they are in the
    same words.
    """
    likely = likeness(overlap, weights)
    if likely >= gates.likeness:
        common = one.words.keys() & other.words.keys()
        if _named_at_most(one, other, common) >= gates.named and _names_at_most(one, other, common) >= gates.names:
            return BestCase.SAME
    if _may_be_same_otherwise(one, other):
        return BestCase.SAME
    return BestCase.LIKELY if likely >= SUGGEST / MERGE else BestCase.OTHER


def _named_at_most(one: TextProfile, other: TextProfile, common: Iterable[str]) -> float:
    """Return how much of the terser text common names can be: all words in common, as names are words."""
    weight = math.fsum(max(one.words[word], other.words[word]) for word in common)
    return _ratio(weight, min(one.words_weight, other.words_weight))


def _names_at_most(one: TextProfile, other: TextProfile, common: Iterable[str]) -> float:
    """Return which share of the terser text's names can stand in the other, whichever of them that is.

    Names that the other lacks are missing, and all names together weigh as much as all words at most. Where a word
    weighs more in one spelling than in another one, nothing is said.
    """
    if one.spelt_apart or other.spelt_apart or any(one.words[word] != other.words[word] for word in common):
        return 1.0
    return 1 - min(_lacking(one, other), _lacking(other, one))


def _lacking(one: TextProfile, other: TextProfile) -> float:
    """Return the share of a text's words that are names by their form and do not stand in another text."""
    missing = math.fsum(weight for word, weight in one.named_by_form.items() if word not in other.words)
    return _ratio(missing, one.words_weight)


def found_grounds(features: Features, weights: Weights | None, gates: Gates = GATES) -> tuple[Ground, ...]:
    """Return what speaks for two texts being the same."""
    grounds = [Ground.SAME_WORDS] if features.same_words else []
    if weights is None:
        return tuple(grounds)
    rare = features.rarest >= gates.rarest
    if features.traces:
        near = features.cosine >= weights.near and features.rarest >= gates.rare
        if features.same_place and (rare or near):
            grounds.append(Ground.SAME_PLACE)
        return tuple(grounds)
    named = features.names >= gates.names and features.named >= gates.named
    if rare and named and likeness(features, weights) >= gates.likeness:
        grounds.append(Ground.SAME_NAMES)
    return tuple(grounds)


def overlap(a: TextProfile, b: TextProfile, cosine: float) -> Overlap:
    """Compare the terms of two texts; symmetric. Both profiles must come from the same term statistics."""
    common = _common(a.terms, b.terms)
    return Overlap(
        cosine=cosine,
        shared=_ratio(common, max(a.terms_weight, b.terms_weight)),
        contained=_ratio(common, min(a.terms_weight, b.terms_weight)),
        opening=max(
            _covered(a.opening, a.opening_weight, b.terms),
            _covered(b.opening, b.opening_weight, a.terms),
        ),
    )


def features(a: TextProfile, b: TextProfile, overlap: Overlap, apart: tuple[Difference, ...] | None = None) -> Features:
    """Compare two texts whose overlap is known, and maybe what tells them `apart`; symmetric."""
    names = a.names.keys() & b.names.keys()
    names_weight = math.fsum(a.names[name] for name in names)
    return Features(
        cosine=overlap.cosine,
        shared=overlap.shared,
        contained=overlap.contained,
        opening=overlap.opening,
        names=_ratio(names_weight, min(a.names_weight, b.names_weight)),
        rarest=max((a.names[name] for name in names), default=0.0),
        named=_ratio(names_weight, min(a.words_weight, b.words_weight)),
        same_words=a.reading.same_words(b.reading),
        traces=a.place is not None or b.place is not None,
        same_place=a.place is not None and a.place == b.place and a.exceptions == b.exceptions,
        same_particulars=a.particulars == b.particulars,
        differences=differences(a, b) if apart is None else apart,
    )


def _covered(opening: Mapping[int, float], weight: float, terms: Collection[int]) -> float:
    """Return how much of an opening stands in another text. `weight`: of the opening."""
    return _ratio(math.fsum(rarity for term, rarity in opening.items() if term in terms), weight)


def _common(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Return the weight of common terms, added in one order whichever text is first."""
    return math.fsum(one[term] for term in one.keys() & other.keys())


def _ratio(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else 0.0
