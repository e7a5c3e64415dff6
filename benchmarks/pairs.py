"""Pairs of texts of which somebody knows whether they tell of the same thing, and what is known of them beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.different_pairs import Pair, draw_pairs, read_groups
from benchmarks.halves import embed_all
from benchmarks.minimal_pairs import minimal_pairs
from benchmarks.resampling import Figures
from knowledge.memory.rules.similarity import Features, features, overlap
from knowledge.models import TermStatistics, Vector
from knowledge.ports import Embedder, Progress
from knowledge.text.bm25 import term_counts
from knowledge.text.profile import Rarity, TextProfile, profile
from orchestrator.evaluation.retrieval import read_jsonl

PAIR_SETS = ("gitbugs", "runbooks", "typecheck_reports", "test_failures")
MINIMAL = 500
"""Minimal pairs made of a set's texts, at most."""

_SEED = 20260115


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSet:
    """A set's pairs as features.

    `minimal`, `nearest` and `random` pairs are all different; `kinds` says what was changed in minimal ones. `nearest`
    and `random` are of different groups of the corpus, without those in the same words.
    """

    name: str
    features: Sequence[Features]
    same: Figures
    minimal: Sequence[Features]
    kinds: Sequence[str]
    nearest: Sequence[Features] = ()
    random: Sequence[Features] = ()


def statistics_of(texts: Iterable[str]) -> TermStatistics:
    """Return the term statistics a workspace would have that holds these situations."""
    distinct = list(dict.fromkeys(texts))
    frequencies = Counter(term for text in distinct for term in term_counts(text))
    return TermStatistics(documents=len(distinct), frequencies=frequencies)


async def load_pairs(data: Path, name: str, embedder: Embedder, progress: Progress | None = None) -> PairSet:
    """Read the pairs of a set, make minimal ones, draw different ones, and compare all of them. Raises InvalidInput."""
    rows = list(read_jsonl(data / name / "pairs.jsonl"))
    texts = list(dict.fromkeys(text for row in rows for text in (row["a"], row["b"])))
    made = minimal_pairs(texts)
    chosen = [made[at] for at in np.random.default_rng(_SEED).permutation(len(made))[:MINIMAL]]
    groups = read_groups(data, name)
    corpus = list(groups)
    everything = list(dict.fromkeys([*texts, *(pair.changed for pair in chosen), *corpus]))
    vectors = dict(zip(everything, await embed_all(embedder, everything, progress), strict=True))
    labelled, drawn = _Comparer(texts, vectors), _Comparer(corpus, vectors)
    different = draw_pairs(corpus, list(groups.values()), np.array([vectors[text] for text in corpus]))
    return PairSet(
        name=name,
        features=[labelled.compare(row["a"], row["b"]) for row in rows],
        same=np.array([float(row["same"]) for row in rows]),
        minimal=[labelled.compare(pair.text, pair.changed) for pair in chosen],
        kinds=[pair.kind for pair in chosen],
        nearest=drawn.compare_all(different.nearest),
        random=drawn.compare_all(different.random),
    )


class _Comparer:
    """Compares texts by the term statistics of a store that holds `texts`."""

    def __init__(self, texts: Sequence[str], vectors: Mapping[str, Vector]) -> None:
        self._texts = texts
        self._vectors = vectors
        self._rarity = Rarity(statistics_of(texts))
        self._profiles: dict[str, TextProfile] = {}

    def compare(self, one: str, other: str) -> Features:
        first, second = self._profile(one), self._profile(other)
        cosine = float(self._vectors[one] @ self._vectors[other])
        return features(first, second, overlap(first, second, cosine))

    def compare_all(self, pairs: Iterable[Pair]) -> list[Features]:
        """Compare pairs of positions, and leave out those in the same words."""
        found = [self.compare(self._texts[one], self._texts[other]) for one, other in pairs]
        return [each for each in found if not each.same_words]

    def _profile(self, text: str) -> TextProfile:
        if text not in self._profiles:
            self._profiles[text] = profile(text, self._rarity)
        return self._profiles[text]
