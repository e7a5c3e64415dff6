"""Plain BM25, as the yardstick: Robertson and Zaragoza 2009, k1 1.2, b 0.75, over our terms, by the whole matrix.

Written apart from `knowledge.text.bm25.document_vector` on purpose: the two check each other. Terms are the same,
so that the difference between the columns is the fusion's and not the tokenizer's.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from knowledge.text.bm25 import terms

K1 = 1.2
B = 0.75

Scores = npt.NDArray[np.float64]


class Bm25:
    """An inverted list of a few thousand documents."""

    def __init__(self, documents: Sequence[str]) -> None:
        counted = [Counter(terms(text)) for text in documents]
        lengths = [counts.total() for counts in counted]
        mean_length = sum(lengths) / len(lengths)
        postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for at, (counts, length) in enumerate(zip(counted, lengths, strict=True)):
            norm = K1 * (1 - B + B * length / mean_length)
            for term, count in counts.items():
                postings[term].append((at, count * (K1 + 1) / (count + norm)))
        self._documents = len(documents)
        self._postings = {
            term: (np.array([at for at, _ in found]), np.array([weight for _, weight in found]))
            for term, found in postings.items()
        }

    def scores(self, query: str) -> Scores:
        """Return the score of each document, in order."""
        total = np.zeros(self._documents)
        for term, count in Counter(terms(query)).items():
            if term in self._postings:
                places, weights = self._postings[term]
                rarity = math.log(1 + (self._documents - len(places) + 0.5) / (len(places) + 0.5))
                total[places] += count * rarity * weights
        return total
