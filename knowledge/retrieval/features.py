"""Ranking features from the texts of a query's candidates, beyond the dense and lexical scores of the search.

The search weighs a word by its rarity in the workspace. Among the few candidates other words matter: those that few of
*them* share, words that are adjacent in both texts, and the beginning of a text. All features are computed from the
candidates' texts and the terms of the query, without further access to a store.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from knowledge.models import TermStatistics
from knowledge.retrieval.term_profile import PREFIX, TextTerms
from knowledge.text.bm25 import inverse_document_frequency, stem, term_id, words_and_wholes

MAX_CANDIDATES = 16
"""Candidates that are re-ranked, those with the best fused scores. 8 to 32 perform alike (docs/evaluation.md)."""

_BRIEF_TERMS = 6
_BRIEF_SPREAD = 4
"""Known terms of a query that is half brief, and the scale of the change: requests have 2 to 8, failures more."""

_FEW = 5
_ONE_LINE = re.compile(r"\S[^\n]*")

Phrase = tuple[str, str]


class Features(NamedTuple):
    """Features of a query and one candidate; shares are 0..1.

    `cosine`, `coverage`: the dense and lexical scores of the search. `shared`: share of the query's terms in the text;
    `weight`: the same, weighted by rarity in the workspace; `telling`: by rarity among the candidates. `rarest`: rarity
    of the rarest shared term, 1 if only one text has it. `phrases`: share of the query's word pairs in the text, by
    rarity in the workspace; `telling_phrases`: by rarity among the candidates. `opening`: share of the query's first
    line, by rarity, in the start of the text. `length`: logarithm of the text's words over the mean number of terms.
    `brevity`: near 1 for a query of few known terms, near 0 for a long one.
    """

    cosine: float
    coverage: float
    shared: float
    weight: float
    telling: float
    rarest: float
    phrases: float
    telling_phrases: float
    opening: float
    length: float
    brevity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerms:
    """The terms of a query that occur in the workspace, with their rarity; its word pairs; its first line."""

    rarity: Mapping[str, float]
    phrases: AbstractSet[Phrase]
    first_line: AbstractSet[str]
    documents: int


class Candidate(NamedTuple):
    """The terms of a text found by the search, with its dense and lexical scores."""

    terms: TextTerms
    cosine: float
    coverage: float


class _CandidateTerms(NamedTuple):
    terms: AbstractSet[str]
    phrases: AbstractSet[Phrase]
    opening: AbstractSet[str]
    length: int


def read_query(text: str, statistics: TermStatistics) -> QueryTerms:
    """Return the terms of a query that its candidates are compared with."""
    words, wholes = words_and_wholes(text)
    stems = [stem(word) for word in words]
    rarity = {
        term: inverse_document_frequency(statistics.documents, frequency)
        for term in dict.fromkeys([*stems, *wholes])
        if (frequency := statistics.frequencies.get(term_id(term), 0))
    }
    line = _ONE_LINE.search(text)
    first_words, first_wholes = words_and_wholes(line.group() if line else "")
    first = {*(stem(word) for word in first_words), *first_wholes} & rarity.keys()
    pairs = {pair for pair in pairwise(stems) if pair[0] in rarity and pair[1] in rarity}
    return QueryTerms(rarity=rarity, phrases=pairs, first_line=first, documents=statistics.documents)


def features(query: QueryTerms, candidates: Sequence[Candidate], mean_terms: float) -> list[Features]:
    """Return the features of each candidate, in order. Some of them depend on the other candidates."""
    vocabulary = _Vocabulary(query)
    read = [vocabulary.read(candidate.terms) for candidate in candidates]
    weight = _Share(query.rarity)
    telling = _Share(_rarity_among(extracted.terms for extracted in read))
    phrases = _Share({(one, other): query.rarity[one] + query.rarity[other] for one, other in query.phrases})
    telling_phrases = _Share(_rarity_among(extracted.phrases for extracted in read))
    first_line = _Share({term: query.rarity[term] for term in query.first_line})
    of_one = inverse_document_frequency(query.documents, 1)
    brevity = (1 - math.tanh((len(query.rarity) - _BRIEF_TERMS) / _BRIEF_SPREAD)) / 2
    return [
        Features(
            cosine=candidate.cosine,
            coverage=candidate.coverage,
            shared=len(extracted.terms) / max(1, len(query.rarity)),
            weight=weight.of(extracted.terms),
            telling=telling.of(extracted.terms),
            rarest=max((query.rarity[term] for term in extracted.terms), default=0.0) / of_one,
            phrases=phrases.of(extracted.phrases),
            telling_phrases=telling_phrases.of(extracted.phrases),
            opening=first_line.of(extracted.opening),
            length=math.log((extracted.length + _FEW) / (mean_terms + _FEW)),
            brevity=brevity,
        )
        for candidate, extracted in zip(candidates, read, strict=True)
    ]


class _Vocabulary:
    """Finds the terms of one query among those of texts."""

    def __init__(self, query: QueryTerms) -> None:
        self._wanted = frozenset(query.rarity)
        self._phrases = frozenset(query.phrases)
        self._prefixes = {term[:PREFIX] for term in query.rarity}

    def read(self, text: TextTerms) -> _CandidateTerms:
        """Return the terms, phrases and opening terms of the query that a text has."""
        words, wanted, phrases = text.words_for(self._prefixes), self._wanted, self._phrases
        terms = wanted.intersection(words)
        if wholes := text.wholes:
            terms |= wanted.intersection(wholes)
        return _CandidateTerms(
            terms=terms,
            phrases=phrases.intersection(pairwise(words)) if phrases else phrases,
            opening=wanted.intersection(text.opening_for(self._prefixes)),
            length=len(words),
        )


_Term = TypeVar("_Term", str, Phrase)


class _Share(Generic[_Term]):
    """Computes the share of the total weight that some items have."""

    def __init__(self, weights: Mapping[_Term, float]) -> None:
        self._weights: Mapping[_Term, float] = weights
        self._total = math.fsum(weights.values()) or 1.0

    def of(self, items: AbstractSet[_Term]) -> float:
        """Return the share of the given items, 0..1."""
        if not items:
            return 0.0
        return math.fsum([self._weights.get(each, 0.0) for each in items]) / self._total  # exact in any order of a set


def _rarity_among(candidates: Iterable[AbstractSet[_Term]]) -> dict[_Term, float]:
    """Return the rarity of each term among the candidates."""
    read = list(candidates)
    counts = Counter(term for terms in read for term in terms)
    return {term: inverse_document_frequency(len(read), count) for term, count in counts.items()}
