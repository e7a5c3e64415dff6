"""Memory by keywords alone, as a baseline."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping

from knowledge.text.bm25 import inverse_document_frequency, term_counts


class Bm25Memory:
    """Append-only memory that answers with the actions of the best matches by BM25 (k1 1.2, b 0.75)."""

    def __init__(self) -> None:
        self._texts: list[tuple[Counter[int], str]] = []
        self._frequencies: Counter[int] = Counter()
        self._terms = 0

    def add(self, text: str, action: str) -> None:
        """Add a text and the action that it stands for."""
        counts = term_counts(text)
        self._texts.append((counts, action))
        self._frequencies.update(counts.keys())
        self._terms += counts.total()

    def rank(self, text: str, *, limit: int) -> list[str]:
        """Return the actions of the best matches, best first; ties go to the older one."""
        mean = self._terms / max(1, len(self._texts))
        weights = {
            term: times * inverse_document_frequency(len(self._texts), self._frequencies[term])
            for term, times in term_counts(text).items()
            if self._frequencies[term]
        }
        scored = ((self._score(counts, weights, mean), action) for counts, action in self._texts)
        best = heapq.nlargest(limit, scored, key=lambda pair: pair[0])
        return [action for score, action in best if score > 0]

    @staticmethod
    def _score(counts: Counter[int], weights: Mapping[int, float], mean: float) -> float:
        norm = 1.2 * (0.25 + 0.75 * counts.total() / mean)
        return sum(
            weight * counts[term] * 2.2 / (counts[term] + norm) for term, weight in weights.items() if counts[term]
        )
