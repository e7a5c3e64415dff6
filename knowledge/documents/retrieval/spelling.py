"""Correct misspelt words of a question that no document has to words of the search results; pure.

Words and names differ by a letter, too: "contract" and "contact", "sharding" and "sharing", `vitest` and `vitess`. So a
word of the language is never read as another one. Any other may be one with two letters in each other's place, or with
one that is doubled or should be: that parts no two names. What differs by a letter otherwise has to be long,
neither a name nor an activity, and is read as a word of the language alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA

from knowledge.text.bm25 import stem
from knowledge.text.names import LETTERS

IsWord = Callable[[str], bool]
"""Predicate of a dictionary: True for a word of the language, in lower case."""

_MIN_LETTERS_ADDED: Final = 6
"""Letters of a word of which one may be missing or too many."""
_MIN_LETTERS_CHANGED: Final = 8
"""Letters of a word of which one may be another one."""
_MAX_READ: Final = 40_000
"""Characters of each result to look at: a whole document may have millions."""
_QUESTION_WORD = re.compile(r"(?<![\w./:@#\\'`\"-])[A-Za-z][a-z]{4,29}(?![\w/:@#\\'`\"-]|\.\w)")
_DOUBLED = re.compile(r"(.)\1")
_WORD_LENGTHS: Final = range(4, 31)
"""Letters of the words of texts that a misspelt word may be read as."""


class SpellingCorrection(NamedTuple):
    """A question with corrected spelling, and each misspelt word with its correction."""

    question: str
    words: tuple[tuple[str, str], ...]


def correctable_words(question: str) -> list[str]:
    """Return the words of a question that are long enough, and not part of a name, an address or a quotation."""
    return list(dict.fromkeys(_QUESTION_WORD.findall(question)))


def correct_spelling(
    question: str, unknown: Iterable[str], texts: Iterable[str], known: IsWord
) -> SpellingCorrection | None:
    """Return a question with unknown words corrected to the only matching word of the texts; None if there is none."""
    doubtful = [word for word in unknown if not known(word.lower())]
    if not doubtful:
        return None
    vocabulary = {
        word.lower() for text in texts for word in LETTERS.findall(text[:_MAX_READ]) if len(word) in _WORD_LENGTHS
    }
    corrections: list[tuple[str, str]] = []
    for word in doubtful:
        meant = {each for each in vocabulary if _is_misspelling_of(word, each, known)}
        if len({stem(each) for each in meant}) == 1:
            corrections.append((word, min(meant, key=lambda each: (len(each), each))))
    for word, correction in corrections:
        question = re.sub(rf"(?<!\w){word}(?!\w)", correction, question)
    return SpellingCorrection(question, tuple(corrections)) if corrections else None


def _is_misspelling_of(word: str, candidate: str, known: IsWord) -> bool:
    lower = word.lower()
    if lower[0] != candidate[0] or abs(len(lower) - len(candidate)) > 1 or lower == candidate:
        return False
    if OSA.distance(lower, candidate) != 1:
        return False
    if sorted(lower) == sorted(candidate) or (_single(lower) == _single(candidate) and len(lower) != len(candidate)):
        return True
    least = _MIN_LETTERS_CHANGED if len(lower) == len(candidate) else _MIN_LETTERS_ADDED
    return word.islower() and not word.endswith("ing") and len(word) >= least and known(candidate)


def _single(word: str) -> str:
    """Return a word with each doubled letter once."""
    return _DOUBLED.sub(r"\1", word)
