"""Groups of a map: k-means on the places, each named by the words that set it apart (class-based tf-idf)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from knowledge.memory.map.projection import Floats
from knowledge.text.bm25 import stem, words_and_wholes

MAX_GROUPS: Final = 20
"""Ours: as many names as a picture has room for."""
MIN_GROUP: Final = 4
"""Patterns in a group on average, at least; ours."""
TERMS: Final = 3
_MIN_LIFT: Final = 1.5
"""A word names a group if it is that many times as frequent there as on the whole map; ours."""
_MIN_CHARS: Final = 3
_MAX_CHARS: Final = 24
_STEPS: Final = 40


def group_places(places: Floats) -> npt.NDArray[np.int64]:
    """Return the number of each place's group, from 0; the largest group is the first."""
    count = len(places)
    wanted = max(1, min(MAX_GROUPS, round(math.sqrt(count / MIN_GROUP)), count))
    centres = _spread_centres(places, wanted)
    for _ in range(_STEPS):
        nearest = _nearest(places, centres)
        moved = np.stack(
            [
                places[nearest == number].mean(axis=0) if (nearest == number).any() else centres[number]
                for number in range(wanted)
            ]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    nearest = _nearest(places, centres)
    sizes = np.bincount(nearest, minlength=wanted)
    rank = np.empty(wanted, np.int64)
    rank[np.lexsort((np.arange(wanted), -sizes))] = np.arange(wanted)
    return rank[nearest]


def _spread_centres(places: Floats, wanted: int) -> Floats:
    """Return places far from each other, the first nearest to the middle: k-means++ without chance."""
    chosen = [int(((places - places.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    distances = ((places - places[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < wanted:
        chosen.append(int(distances.argmax()))
        distances = np.minimum(distances, ((places - places[chosen[-1]]) ** 2).sum(axis=1))
    return places[chosen]


def _nearest(places: Floats, centres: Floats) -> npt.NDArray[np.int64]:
    nearest: npt.NDArray[np.int64] = ((places[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return nearest


def name_groups(texts: Sequence[str], groups: npt.NDArray[np.int64]) -> list[tuple[str, ...]]:
    """Return up to three words for each group, those first that set it apart most.

    Class-based tf-idf (Grootendorst, "BERTopic", 2022) over the patterns that have a word, not its repetitions:
    share in the group * log(1 + mean of a group / patterns with the word). No word names two groups unless both lack
    others.
    """
    number = int(groups.max()) + 1 if len(groups) else 0
    within: list[Counter[str]] = [Counter() for _ in range(number)]
    written: dict[str, Counter[str]] = {}
    for text, group in zip(texts, groups, strict=True):
        forms: dict[str, str] = {}
        for word in words_and_wholes(text)[0]:
            if _MIN_CHARS <= len(word) <= _MAX_CHARS or not word.isascii():
                forms.setdefault(stem(word), word)
        within[group].update(forms.keys())
        for term, form in forms.items():
            written.setdefault(term, Counter())[form] += 1
    everywhere: Counter[str] = Counter()
    for counts in within:
        everywhere.update(counts)
    sizes = np.bincount(groups, minlength=number)
    scores = [
        _score(counts, int(size), everywhere, len(texts), number) for counts, size in zip(within, sizes, strict=True)
    ]
    return [tuple(_frequent_form(written[term]) for term in terms) for terms in _choose(scores)]


def _score(counts: Counter[str], size: int, everywhere: Mapping[str, int], total: int, groups: int) -> dict[str, float]:
    least = 2 if size >= MIN_GROUP else 1
    lift = _MIN_LIFT if groups > 1 else 0
    return {
        term: count / size * math.log(1 + total / groups / everywhere[term])
        for term, count in counts.items()
        if count >= least and count / size >= lift * everywhere[term] / total and not term.isdigit()
    }


def _choose(scores: Sequence[Mapping[str, float]]) -> list[list[str]]:
    """Return the terms of each group, each term for the group in which its score is highest."""
    best: dict[str, float] = {}
    for of_group in scores:
        for term, score in of_group.items():
            best[term] = max(score, best.get(term, 0.0))
    chosen = []
    for of_group in scores:
        ranked = sorted(of_group, key=lambda term: (-of_group[term], term))
        own = [term for term in ranked if of_group[term] >= best[term]]
        chosen.append((own or ranked)[:TERMS])
    return chosen


def _frequent_form(forms: Counter[str]) -> str:
    return min(forms, key=lambda form: (-forms[form], form))
