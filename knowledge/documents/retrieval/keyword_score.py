"""Keyword score of a document for a question, as the strict knowledge base uses it; pure.

Words are words, not parts of words: "ai" is not in "maintain", and in "the API's" there is "API". A phrase that is the
whole question counts once in a content, as the whole question (X-14), so that "github onboarding" scores 4.6 where all
of it matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from knowledge.text.bm25 import chunks, has_unspaced_script, words_and_wholes

_WORD = re.compile(r"\w+(?:['’.:/@-]\w+)*")  # noqa: RUF001
_POSSESSIVE = ("'s", "\u2019s")
_QUESTION_WORDS = frozenset({"please", "tell", "show", "give", "find", "many", "much"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordWeights:
    """Weights of the matches: the numbers of the design."""

    query_in_title: float = 1.5
    query_in_content: float = 1.0
    word_in_title: float = 0.5
    phrase_in_content: float = 0.5
    phrase_in_title: float = 0.8
    word_in_content: float = 0.15
    category: float = 0.3
    tag: float = 0.25


SEEDED = KeywordWeights()


class KeywordQuestion:
    """A question as tokenized for the keyword score."""

    def __init__(self, text: str) -> None:
        self.whole = _words(text)
        kept = set(words_and_wholes(text)[0]) | set(words_and_wholes(text)[1])
        self.keywords = tuple(
            dict.fromkeys(
                word for word in self.whole if word not in _QUESTION_WORDS and (word in kept or _parts_kept(word, kept))
            )
        )
        self.phrases = tuple(
            dict.fromkeys(
                (one, other) for one, other in pairwise(self.whole) if one in self.keywords and other in self.keywords
            )
        )


def _parts_kept(word: str, kept: set[str]) -> bool:
    parts = words_and_wholes(word)[0]
    return bool(parts) and set(parts) <= kept


class KeywordDocument:
    """A document as tokenized for the keyword score: title, content, category and tags."""

    def __init__(self, *, title: str, text: str, category: str | None = None, tags: Sequence[str] = ()) -> None:
        self.title = _Words(title)
        self.content = _Words(text)
        self.category = frozenset(_words(category or ""))
        self.tags = tuple(frozenset(_words(tag)) for tag in tags)


class _Words:
    def __init__(self, text: str) -> None:
        words = _words(text)
        self.all = frozenset(words)
        self.pairs = frozenset(pairwise(words))
        self.joined = f" {' '.join(words)} "

    def has(self, words: Sequence[str]) -> bool:
        return bool(words) and f" {' '.join(words)} " in self.joined


def _words(text: str) -> tuple[str, ...]:
    found = chunks(text) if has_unspaced_script(text) else _WORD.findall(text)
    return tuple(word[:-2] if word.endswith(_POSSESSIVE) else word for word in map(str.lower, found))


def keyword_score(question: KeywordQuestion, document: KeywordDocument, weights: KeywordWeights = SEEDED) -> float:
    """Return the score, 0 where no word matches; without an upper bound."""
    score = 0.0
    if document.title.has(question.whole):
        score += weights.query_in_title
    if document.content.has(question.whole):
        score += weights.query_in_content
    for word in question.keywords:
        score += weights.word_in_title * (word in document.title.all)
        score += weights.word_in_content * (word in document.content.all)
    for phrase in question.phrases:
        score += weights.phrase_in_title * (phrase in document.title.pairs)
        score += weights.phrase_in_content * (phrase in document.content.pairs and phrase != question.whole)
    keywords = set(question.keywords)
    if document.category and keywords & document.category:
        score += weights.category
    score += weights.tag * sum(bool(keywords & tag) for tag in document.tags)
    return round(score, 6)
