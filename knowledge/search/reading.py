"""What the texts of a question's candidates say for and against them that the two halves of the search cannot see.

The engine's scores weigh a word by its rarity in the workspace. Among the few candidates other words tell: those that
few of *them* share, words that follow one another in both texts, and what stands where a text opens. All of it is read
from the candidates' own texts, against the terms of the question; no further question to any store.
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
from knowledge.search.lexical import (
    chunks,
    inverse_document_frequency,
    stem,
    term_id,
    words_and_whole,
    words_and_wholes,
)

MOST_CANDIDATES = 16
"""Candidates whose texts are read, by fused score the best. 8 to 32 rank alike (docs/evaluation.md)."""

MOST_READ = 1_200
"""Characters of a text that are read from its beginning. Time grows with them; more of them changes nothing, 800 cost a
point of hit@1."""

LAST_READ = 600
"""Characters that are read of its end besides: in a log, the error stands there."""

_OPENING = 160
_PREFIX = 3
"""A stem begins as its word does, so a word that begins unlike every term asked for is none of them."""

_FEW = 5
_ONE_LINE = re.compile(r"\S[^\n]*")

Phrase = tuple[str, str]


class Features(NamedTuple):
    """What is known of a question and one candidate; shares are 0..1.

    `cosine`, `coverage`: the halves of the search. `shared`: share of the question's terms in the text; `weight`: the
    same by rarity in the workspace; `telling`: by rarity among the candidates. `rarest`: the rarest shared term, 1 if
    one text alone has it. `phrases`: share of the question's pairs of neighbouring words that the text has, by rarity
    in the workspace; `telling_phrases`: among the candidates. `opening`: share of the question's first line, by rarity,
    in the opening of the text. `length`: logarithm of the text's words over the mean number of terms.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The terms of a question that the workspace knows, each with its rarity; its pairs of neighbours; its opening."""

    rarity: Mapping[str, float]
    phrases: AbstractSet[Phrase]
    first_line: AbstractSet[str]
    documents: int


class Candidate(NamedTuple):
    """A text that was found, with both scores of the search."""

    text: str
    cosine: float
    coverage: float


class _Read(NamedTuple):
    terms: AbstractSet[str]
    phrases: AbstractSet[Phrase]
    opening: AbstractSet[str]
    length: int


def read_question(text: str, statistics: TermStatistics) -> Reading:
    """Return a question as its candidates are read against it."""
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
    return Reading(rarity=rarity, phrases=pairs, first_line=first, documents=statistics.documents)


def features(asked: Reading, candidates: Sequence[Candidate], mean_terms: float) -> list[Features]:
    """Return the features of each candidate, in order. Those among the candidates depend on who the others are."""
    vocabulary = _Vocabulary(asked)
    read = [vocabulary.read(candidate.text) for candidate in candidates]
    weight = _Share(asked.rarity)
    telling = _Share(_rarity_among(told.terms for told in read))
    phrases = _Share({(one, other): asked.rarity[one] + asked.rarity[other] for one, other in asked.phrases})
    telling_phrases = _Share(_rarity_among(told.phrases for told in read))
    first_line = _Share({term: asked.rarity[term] for term in asked.first_line})
    of_one = inverse_document_frequency(asked.documents, 1)
    return [
        Features(
            cosine=candidate.cosine,
            coverage=candidate.coverage,
            shared=len(told.terms) / max(1, len(asked.rarity)),
            weight=weight.of(told.terms),
            telling=telling.of(told.terms),
            rarest=max((asked.rarity[term] for term in told.terms), default=0.0) / of_one,
            phrases=phrases.of(told.phrases),
            telling_phrases=telling_phrases.of(told.phrases),
            opening=first_line.of(told.opening),
            length=math.log((told.length + _FEW) / (mean_terms + _FEW)),
        )
        for candidate, told in zip(candidates, read, strict=True)
    ]


class _Chunks(dict[str, tuple[tuple[str, ...], str | None]]):
    """Terms and whole of a chunk of text; words that cannot be among those of a question stay words, not stemmed."""

    def __init__(self, wanted: AbstractSet[str]) -> None:
        self._prefixes = {term[:_PREFIX] for term in wanted}

    def __missing__(self, chunk: str) -> tuple[tuple[str, ...], str | None]:
        words, whole = words_and_whole(chunk)
        prefixes = self._prefixes
        self[chunk] = found = (tuple([stem(w) if w[:_PREFIX] in prefixes else w for w in words]), whole)
        return found


def _ends(text: str) -> str:
    return text if len(text) <= MOST_READ + LAST_READ else f"{text[:MOST_READ]}\n{text[-LAST_READ:]}"


class _Vocabulary:
    """Reads texts for the terms of one question."""

    def __init__(self, asked: Reading) -> None:
        self._wanted = asked.rarity.keys()
        self._phrases = asked.phrases
        self._chunks = _Chunks(self._wanted)

    def read(self, text: str) -> _Read:
        """Return what a text has of the question."""
        found, terms = self._seen(_ends(text))
        _, opening = self._seen(text[:_OPENING])
        return _Read(terms=terms, phrases=self._phrases & set(pairwise(found)), opening=opening, length=len(found))

    def _seen(self, text: str) -> tuple[list[str], AbstractSet[str]]:
        known = self._chunks
        told = [known[chunk] for chunk in chunks(text)]
        found = [term for terms, _ in told for term in terms]
        return found, self._wanted & {*found, *(whole for _, whole in told if whole)}


_Seen = TypeVar("_Seen", str, Phrase)


class _Share(Generic[_Seen]):
    """Which share of all weights some of the weighed make up."""

    def __init__(self, weights: Mapping[_Seen, float]) -> None:
        self._weights: Mapping[_Seen, float] = weights
        self._total = sum(weights.values()) or 1.0

    def of(self, seen: AbstractSet[_Seen]) -> float:
        """Return the share, 0..1."""
        return float(sum(self._weights.get(each, 0.0) for each in seen)) / self._total


def _rarity_among(seen: Iterable[AbstractSet[_Seen]]) -> dict[_Seen, float]:
    """Return how rare each term is among the candidates that were read."""
    read = list(seen)
    counts = Counter(each for told in read for each in told)
    return {each: inverse_document_frequency(len(read), count) for each, count in counts.items()}
