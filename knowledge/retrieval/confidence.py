"""Confidence that the store has an answer to a query at all; below a threshold no pattern is injected.

A single score cannot tell "known" from "the same area, but unknown" (docs/evaluation.md). Several signals together can
in part: a logistic model of the maxima over the candidates, fitted on queries with and without their right texts in the
store.

A word is telling because few situations have it. A lesson that was told sixty times makes its own words common, so that
the store would seem to know nothing telling about it: the retellings of the best match count as one document.
An agent's key could make any words common: of its situations only the nearest few are compared with a question while
something trusted was found, and the others do not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.models import TermStatistics
from knowledge.retrieval.features import Features

SCALE = 12.0
"""Likeness per unit of fused score: about twice the weight of the cosine, which makes up half of that score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikenessWeights:
    """Weights of the features."""

    cosine: float
    coverage: float
    shared: float
    telling: float
    phrases: float
    telling_phrases: float
    opening: float
    length: float


BUNDLED_LIKENESS = LikenessWeights(
    cosine=6.90,
    coverage=3.77,
    shared=-4.49,
    telling=4.68,
    phrases=-3.97,
    telling_phrases=3.12,
    opening=2.20,
    length=-0.63,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking` on seven sets; validated on held-out sets.

A shared term or phrase counts by how few of the candidates have it; one that all of them share counts for none.
"""

BUNDLED_BREVITY = LikenessWeights(
    cosine=7.45,
    coverage=-1.28,
    shared=-0.77,
    telling=-2.12,
    phrases=3.80,
    telling_phrases=-1.67,
    opening=-2.20,
    length=1.68,
)
"""Added to the weights in proportion to a query's brevity; fitted on requests besides (`benchmarks.requests`).

Few words tell little by which texts share them: the cosine counts for more.
"""


def likeness(features: Features, weights: LikenessWeights, brevity: LikenessWeights = BUNDLED_BREVITY) -> float:
    """Return the likeness of a candidate to its query, in nats; only differences between candidates are meaningful."""
    return _weighted(features, weights) + features.brevity * _weighted(features, brevity)


def _weighted(features: Features, weights: LikenessWeights) -> float:
    return (
        weights.cosine * features.cosine
        + weights.coverage * features.coverage
        + weights.shared * features.shared
        + weights.telling * features.telling
        + weights.phrases * features.phrases
        + weights.telling_phrases * features.telling_phrases
        + weights.opening * features.opening
        + weights.length * features.length
    )


def to_fused_scale(likenesses: Sequence[float], fused: Sequence[float]) -> list[float]:
    """Return scores ordered by likeness, on the calibrated scale of fused scores.

    The candidate with the highest likeness gets the highest fused score, and the others follow at their distance: the
    likeness decides which candidate is the best, the fused score how relevant it is.
    """
    if not likenesses:
        return []
    best, highest = max(likenesses), max(fused)
    return [highest - (best - each) / SCALE for each in likenesses]


MIN_CANDIDATES = 4
"""With fewer candidates only relevance decides; our choice. The signals were fitted on sixteen candidates; with four to
fifteen they still discriminate better than relevance (docs/evaluation.md)."""


class Signals(NamedTuple):
    """Maxima of features over the candidates of a query."""

    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceWeights:
    """Weights of the signals; `level` is the minimum confidence for an answer."""

    intercept: float
    fused: float
    likeness: float
    weight: float
    telling: float
    rarest: float
    level: float


BUNDLED_CONFIDENCE = SilenceWeights(
    intercept=-7.09,
    fused=2.47,
    likeness=0.163,
    weight=3.21,
    telling=-2.28,
    rarest=4.23,
    level=0.775,
)
"""all-MiniLM-L6-v2, fitted by `python -m benchmarks.fit_ranking`; at this level at most one in ten unanswerable queries
passes in each set that the weights were not fitted on, and one in twenty in the mean.

Also valid for rescaled cosines of other models (`cosines`).
"""


def signals(fused: Sequence[float], likenesses: Sequence[float], features: Sequence[Features]) -> Signals:
    """Return the signals of a query's candidates, of which there is at least one."""
    return Signals(
        fused=max(fused),
        likeness=max(likenesses),
        weight=max(each.weight for each in features),
        telling=max(each.telling for each in features),
        rarest=max(each.rarest for each in features),
    )


def confidence(found: Signals, weights: SilenceWeights) -> float:
    """Return the probability that the store has the answer, 0..1, with a prior of one half."""
    logit = (
        weights.intercept
        + weights.fused * found.fused
        + weights.likeness * found.likeness
        + weights.weight * found.weight
        + weights.telling * found.telling
        + weights.rarest * found.rarest
    )
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


MIN_OVERLAP = 0.6
"""Share of the shorter text's terms from which a candidate is a retelling of the best match; ours."""
MIN_RETELLINGS = 4
"""Retellings from which they are counted once; ours: fewer hardly change how common a word is."""
MAX_COSINE_GAP = 0.15
"""Distance in cosine to the question from which a candidate is not compared with the best match; ours."""


def find_retellings(terms: Sequence[AbstractSet[int]], cosines: Sequence[float], best: int) -> list[int]:
    """Return the places of the candidates that retell the best one, itself included.

    `terms`: the term ids of each candidate's text; empty sets are not compared.
    """
    own = terms[best]
    return [
        place
        for place, other in enumerate(terms)
        if place == best
        or (
            other
            and own
            and cosines[best] - cosines[place] <= MAX_COSINE_GAP
            and len(own & other) >= MIN_OVERLAP * min(len(own), len(other))
        )
    ]


def find_crowd(sources: Sequence[str | None], *, limit: int) -> list[int]:
    """Return the places of the candidates beyond the first `limit` of their agent's key; none without a trusted one.

    `sources`: the key of each candidate, nearest first; None for a trusted one.
    """
    seen: Counter[str] = Counter()
    crowd = []
    for place, source in enumerate(sources):
        if source is not None:
            seen[source] += 1
            if seen[source] > limit:
                crowd.append(place)
    return crowd if None in sources else []


def leave_out(statistics: TermStatistics, left_out: Sequence[AbstractSet[int]]) -> TermStatistics:
    """Return the statistics without some documents, whose term ids these are."""
    counts = Counter(term for terms in left_out for term in terms)
    frequencies = {
        term: max(1, frequency - counts[term]) if frequency else 0 for term, frequency in statistics.frequencies.items()
    }
    return TermStatistics(documents=max(1, statistics.documents - len(left_out)), frequencies=frequencies)


def count_once(
    statistics: TermStatistics, retellings: Sequence[AbstractSet[int]], *, others_seen: bool
) -> TermStatistics:
    """Return the statistics with the retellings of one situation as one document.

    `others_seen`: the search returned other situations too, so that it returned all retellings. Otherwise there may be
    more: as many as the rarest term that all of them share.
    """
    counts: dict[int, int] = {}
    for terms in retellings:
        for term in terms & statistics.frequencies.keys():
            counts[term] = counts.get(term, 0) + 1
    shared = [statistics.frequencies[term] for term, count in counts.items() if count == len(retellings)]
    size = len(retellings) if others_seen or not shared else max(len(retellings), min(shared))
    surplus = (size - 1) / len(retellings)
    frequencies: Mapping[int, int] = {
        term: max(1, round(frequency - surplus * counts.get(term, 0))) if frequency else 0
        for term, frequency in statistics.frequencies.items()
    }
    return TermStatistics(documents=max(1, statistics.documents - (size - 1)), frequencies=frequencies)
