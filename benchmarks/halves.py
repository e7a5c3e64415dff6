"""Both halves of the search over a whole set at once, by the functions production uses and without a store.

What the services do with a candidate list, this does exactly: every document gets its cosine and its lexical score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.bm25 import Scores
from benchmarks.sets import LabelledSet
from knowledge.models import TermStatistics, Vector
from knowledge.ports import Embedder, Progress
from knowledge.retrieval.fusion import fuse
from knowledge.text.bm25 import document_vector, mean_terms, query_vector, term_counts

DEPTH = 10
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """For one query: cosine and BM25 of every document, and the weight of the query's words."""

    cosine: Scores
    bm25: Scores
    weight: float

    def fused(self) -> Scores:
        """Return the fused score of every document."""
        pairs = zip(self.cosine, self.bm25, strict=True)
        return np.array([fuse(float(cosine), float(bm25), self.weight) for cosine, bm25 in pairs])

    def by_rank(self, k: int, depth: int = 100) -> Scores:
        """Return the sum of 1 / (k + rank) over both lists (Cormack et al. 2009, reciprocal rank fusion)."""
        total = np.zeros(len(self.cosine))
        for scores in (self.cosine, self.bm25):
            best = np.argsort(-scores, kind="stable")[:depth]
            total[best] += 1 / (k + np.arange(1, len(best) + 1))
        return total


class Searched:
    """A labelled set with the vectors of its documents and queries."""

    def __init__(self, labelled: LabelledSet, documents: Vector, queries: Vector) -> None:
        self.labelled = labelled
        self.documents = documents
        self.queries = queries
        counted = [term_counts(text) for text in labelled.documents]
        self.mean_terms = mean_terms(counted)
        self.statistics = TermStatistics(
            documents=len(counted), frequencies=Counter(term for counts in counted for term in counts)
        )
        self._postings = _postings(counted, self.mean_terms)

    def halves(self, query: str, vector: Vector) -> Halves:
        """Return both scores of every document for any text."""
        lexical, weight = query_vector(term_counts(query), self.statistics)
        bm25 = np.zeros(len(self.labelled.documents))
        for term, rarity in zip(lexical.indices, lexical.values, strict=True):
            places, weights = self._postings[term]
            bm25[places] += rarity * weights
        return Halves(cosine=(self.documents @ vector).astype(np.float64), bm25=bm25, weight=weight)

    def asked(self) -> Iterator[tuple[Halves, frozenset[int]]]:
        """Yield both halves and the relevant documents of each query, in order."""
        for at, query in enumerate(self.labelled.queries):
            yield self.halves(query, self.queries[at]), self.labelled.relevant[at]


def _postings(counted: Sequence[Mapping[int, int]], length: float) -> dict[int, tuple[Scores, Scores]]:
    found: dict[int, list[tuple[int, float]]] = {}
    for at, counts in enumerate(counted):
        stored = document_vector(counts, length)
        for term, weight in zip(stored.indices, stored.values, strict=True):
            found.setdefault(term, []).append((at, weight))
    return {
        term: (np.array([at for at, _ in pairs], dtype=np.intp), np.array([weight for _, weight in pairs]))
        for term, pairs in found.items()
    }


async def embed_all(embedder: Embedder, texts: Sequence[str], progress: Progress | None = None) -> Vector:
    """Return the vectors of texts as documents (queries embed alike: the bundled model has no prefixes)."""
    rows = []
    for start in range(0, len(texts), _CHUNK):
        rows.append((await embedder.embed(texts[start : start + _CHUNK], "document")).vectors)
        if progress:
            progress(min(start + _CHUNK, len(texts)), len(texts))
    return np.concatenate(rows)


async def search_through(embedder: Embedder, labelled: LabelledSet, progress: Progress | None = None) -> Searched:
    """Embed a set."""
    vectors = await embed_all(embedder, [*labelled.documents, *labelled.queries], progress)
    count = len(labelled.documents)
    return Searched(labelled, vectors[:count], vectors[count:])


def place_of(scores: Scores, relevant: frozenset[int], depth: int = DEPTH) -> int | None:
    """Return the place (1..depth) of the best relevant document; ties go to the earlier document."""
    best = np.argsort(-scores, kind="stable")[:depth]
    return next((at for at, document in enumerate(best, 1) if int(document) in relevant), None)
