"""Analysis of a text for comparison with many others: its terms and its particulars.

Particulars are the tokens in which two texts about different things differ although their sentences are the same:
names, paths, numbers, versions, codes, operators, words that reverse the meaning, and rare words.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from knowledge.models import TermStatistics
from knowledge.text.bm25 import inverse_document_frequency, term_id, terms
from knowledge.text.stack_traces import Frame, Trace, read_trace
from knowledge.text.tokens import GLUE, TURNS, Token, is_named_by_form, token_texts, tokens

_SENTENCE_ENDS = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=[A-Z])")
_OPENING_WORDS = 3
_WORDS = re.compile(r"\w+")
_LITTLE = frozenset(["a", "an", "the", "is", "are", "was", "were", "be", "been", "being"])
_WRAPPING = ".,;:`\"'"
_IN_FRONT = ",;:`\"'"
_LIST_MARK = re.compile(r"(?m)^[ \t]*(?:[-+*]|\d{1,3}[.)])[ \t]+")
_BOLD = re.compile(r"(?<![^\s(])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?!\w)")
_STRAIGHT = str.maketrans("\u2018\u2019\u201a\u201c\u201d\u201e", "'''\"\"\"", "`")
_CLOSED_UP = re.compile(r" ?([=+<>|&(){}]) ?")
_ENDS = ".,;:!?"
_OPENS_CODE = ":$%@^-"
_NO_END = "\1"
"""Marks punctuation that does not end a sentence."""
_CODE_WITH_END = re.compile(r"`([^`\s]+[.:!?])`")
_PLACES = frozenset({".", ".."})
_PROSE = re.compile(r"[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_]))*")
"""A word of prose; its capital may begin a sentence, and its dash is a matter of spelling."""
_AROUND = "\"'()[]{}<>,;"
_NO_WORD = re.compile(r"[\W_]+")

_RARE = 0.80
"""Minimum rarity of a word that counts as a particular: in at most two of 1,000 texts."""

_NONE: frozenset[str] = frozenset()


class ParsedText:
    """A text with lazily computed parts that do not depend on the rarity of its words.

    `gist` identifies the text regardless of case, articles, forms of "to be", and punctuation around words.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> frozenset[str]:
        """Its distinct tokens as written."""
        return frozenset(token_texts(self.text))

    @cached_property
    def opening(self) -> frozenset[str]:
        """The words of its first sentence."""
        return frozenset(_WORDS.findall(_first_sentence(self.text)))

    @cached_property
    def term_ids(self) -> frozenset[int]:
        """The terms whose statistics a profile of the text needs."""
        return _terms_of(self.words | self.opening)

    @cached_property
    def trace(self) -> Trace | None:
        """Its stack trace, None if it has none."""
        return read_trace(self.text)

    @cached_property
    def gist(self) -> int:
        """Equal for texts of the same gist."""
        return _gist(self.text)

    @cached_property
    def trace_gist(self) -> int | None:
        """Equal for stack traces of the same gist, regardless of line numbers."""
        return _gist(self.trace.full) if self.trace else None

    @cached_property
    def as_written(self) -> tuple[str, ...]:
        """Its words with the case and signs that may matter in instructions."""
        return as_written(self.text)

    def is_reworded(self, other: ParsedText) -> bool:
        """Return whether two texts have the same words, but written so differently that a program would notice.

        Either all words are the same, but in another order, case, quotes or brackets (`-d` and `-D`, `3.10` and
        `'3.10'`), or, if the words differ, some code has another case or other signs. The typography of prose does not
        count: capitals and punctuation of sentences, code marks, kinds of quotes, list marks, white space.
        """
        ones, others = self.as_written, other.as_written
        if self.text.isupper() or other.text.isupper():  # the case is unknown
            ones, others = tuple(map(str.casefold, ones)), tuple(map(str.casefold, others))
        if self.counts == other.counts:
            return _join_without_operator_spaces(ones) != _join_without_operator_spaces(others)
        (code, prose), (other_code, other_prose) = _difference(ones, others), _difference(others, ones)
        return not code.isdisjoint(other_code | other_prose) or not prose.isdisjoint(other_code)

    @cached_property
    def tokens(self) -> list[Token]:
        """Its tokens in order."""
        return list(tokens(self.text))

    @cached_property
    def tokens_to_compare(self) -> list[Token]:
        """Its tokens in order, without the outer frames of a stack trace."""
        return list(tokens(self.trace.rest)) if self.trace else self.tokens

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Frequencies of its tokens, case-folded."""
        return Counter(map(str.casefold, token_texts(self.text)))

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """Its tokens by kind, case-folded."""
        found: dict[str, set[str]] = {}
        for token in self.tokens:
            found.setdefault(token.kind, set()).add(token.word)
        return {kind: frozenset(words) for kind, words in found.items()}

    @cached_property
    def formal_names(self) -> frozenset[str]:
        """Case-folded words that are certainly names by their form; not complete."""
        return frozenset(word.casefold() for word in self.words if is_named_by_form(word))

    def same_words(self, other: ParsedText) -> bool:
        """Return whether two texts have the same gist; line numbers in stack traces may differ."""
        return self.gist == other.gist or (self.trace_gist is not None and self.trace_gist == other.trace_gist)


class Rarity:
    """Rarity of terms among a workspace's situations, 0 (in every one) to 1 (in none)."""

    def __init__(self, statistics: TermStatistics) -> None:
        self._documents = statistics.documents
        self._frequencies = dict(statistics.frequencies)
        self._max = inverse_document_frequency(statistics.documents, 0)
        self._by_term: dict[int, float] = {}
        self._words: dict[str, float] = {}
        self._weighed: dict[str, dict[int, float]] = {}

    def learn(self, frequencies: Mapping[int, int]) -> None:
        """Add the frequencies of further terms, none of which was requested before."""
        self._frequencies |= frequencies

    def of(self, term: int) -> float:
        """Return the rarity of a term id."""
        found = self._by_term.get(term)
        if found is None:
            frequency = self._frequencies.get(term, 0)
            found = inverse_document_frequency(self._documents, frequency) / self._max
            self._by_term[term] = found
        return found

    def of_word(self, word: str) -> float:
        """Return the rarity of a word: of the whole if it is a known term, else the sum of its parts, at most 1."""
        found = self._words.get(word)
        if found is None:
            parts, whole = _parts(word)
            if whole is not None and self._frequencies.get(whole):
                found = self.of(whole)
            else:
                found = min(1.0, sum(map(self.of, parts)))
            self._words[word] = found
        return found

    def weigh(self, words: Iterable[str]) -> dict[int, float]:
        """Return the terms of words with their rarity."""
        weights: dict[int, float] = {}
        for word in words:
            found = self._weighed.get(word)
            if found is None:
                parts, whole = _parts(word)
                found = {part: self.of(part) for part in parts}
                if whole is not None:
                    found[whole] = self.of_word(word)
                self._weighed[word] = found
            weights.update(found)
        return weights


class TextProfile:
    """A text with lazily computed parts that depend on the rarity of words in a workspace.

    Weights are rarity, 0 (in every text) to 1 (in none).
    """

    def __init__(self, reading: ParsedText, rarity: Rarity) -> None:
        self.reading = reading
        self._rarity = rarity
        self._of_word = rarity.of_word

    @cached_property
    def terms(self) -> Mapping[int, float]:
        """The terms of all words."""
        return self._rarity.weigh(self.reading.words)

    @cached_property
    def terms_weight(self) -> float:
        """The sum of the weights of the terms."""
        return sum(self.terms.values())

    @cached_property
    def opening(self) -> Mapping[int, float]:
        """The terms of the first sentence."""
        return self._rarity.weigh(self.reading.opening)

    @cached_property
    def opening_weight(self) -> float:
        """The sum of the weights of the first sentence's terms."""
        return sum(self.opening.values())

    @cached_property
    def words(self) -> Mapping[str, float]:
        """All words, case-folded; a word with several spellings has the weight of the rarest one."""
        weights: dict[str, float] = {}
        for written in self.reading.words:
            weight, word = self._of_word(written), written.casefold()
            if weight >= weights.get(word, 0.0):
                weights[word] = weight
        return weights

    @cached_property
    def words_weight(self) -> float:
        """The sum of the weights of all words."""
        return math.fsum(self.words.values())

    @cached_property
    def names(self) -> Mapping[str, float]:
        """Names by form or context; the parts of dotted names and paths separately."""
        return {token.word: self._of_word(token.written) for token in self.reading.tokens if token.named}

    @cached_property
    def particulars(self) -> frozenset[str]:
        """Tokens that must not differ between two texts of the same meaning."""
        return frozenset(token.word for token in self.reading.tokens if self._is_particular(token))

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The particulars in order, without the outer frames of a stack trace."""
        return tuple(token.word for token in self.reading.tokens_to_compare if self._is_particular(token))

    @cached_property
    def template(self) -> int:
        """Equal for texts with the same words between their particulars."""
        words = ("\1" if self._is_particular(token) else token.word for token in self.reading.tokens_to_compare)
        return zlib.crc32("\0".join(words).encode())

    @property
    def tokens(self) -> Mapping[str, int]:
        """Frequencies of its words."""
        return self.reading.counts

    @cached_property
    def turns(self) -> frozenset[str]:
        """Its words that reverse the meaning of a sentence."""
        return frozenset(self.reading.counts.keys() & TURNS)

    @property
    def numbers(self) -> frozenset[str]:
        """The numbers in it."""
        return self._of_kind("number")

    @property
    def versions(self) -> frozenset[str]:
        """The versions it names."""
        return self._of_kind("version")

    @property
    def codes(self) -> frozenset[str]:
        """The error codes it names."""
        return self._of_kind("code")

    @property
    def exceptions(self) -> frozenset[str]:
        """The exception types it names."""
        return self._of_kind("exception")

    @property
    def place(self) -> Frame | None:
        """The innermost frame of its stack trace."""
        return self.reading.trace.innermost if self.reading.trace else None

    def _of_kind(self, kind: str) -> frozenset[str]:
        return self.reading.kinds.get(kind, _NONE)

    def _is_particular(self, token: Token) -> bool:
        return token.particular or (token.may_be_rare and self._of_word(token.written) >= _RARE)


def profile(text: str, rarity: Rarity) -> TextProfile:
    """Return the profile of a text."""
    return TextProfile(ParsedText(text), rarity)


def _terms_of(words: Iterable[str]) -> frozenset[int]:
    found: set[int] = set()
    for word in words:
        parts, whole = _parts(word)
        found.update(parts)
        if whole is not None:
            found.add(whole)
    return frozenset(found)


@lru_cache(maxsize=100_000)
def _parts(word: str) -> tuple[tuple[int, ...], int | None]:
    """Return the terms of a word's parts, and of the whole if it has several; cached, since stemming is expensive."""
    found = terms(word)
    whole = found.pop() if len(found) > 1 and found[-1] == word.lower() else None
    return tuple(map(term_id, found)), None if whole is None else term_id(whole)


def _gist(text: str) -> int:
    words = (chunk.lstrip(_IN_FRONT).rstrip(_WRAPPING) for chunk in text.casefold().split())
    return zlib.crc32(" ".join(word for word in words if word and word not in _LITTLE).encode())


def without_list_marks(text: str) -> str:
    """Return a text without list marks and numbers, which carry no meaning."""
    return _LIST_MARK.sub("", text)


def as_written(text: str) -> tuple[str, ...]:
    """Return the words of a text with case and signs, but without the typography of prose."""
    text = _CODE_WITH_END.sub(rf"\1{_NO_END}", without_list_marks(text))
    text = _BOLD.sub(r"\1", text).translate(_STRAIGHT).strip()
    for mark in "\"'":
        if text.count(mark) == 2 and text[0] == mark and text.rstrip(_ENDS)[-1] == mark:
            text = text.replace(mark, "")
    words = (_without_end(chunk) for chunk in text.split())
    return tuple(_without_capital(word) for word in words if word)


def _without_end(chunk: str) -> str:
    """Return a word without trailing punctuation; code, recognised by its first character, keeps its own."""
    if chunk in _PLACES or (len(chunk) > 1 and not chunk.strip(":")):
        return chunk
    return chunk.rstrip(".,;:" if chunk[0] in _OPENS_CODE and chunk.rstrip(_ENDS) else _ENDS).rstrip(_NO_END)


def _without_capital(word: str) -> str:
    """Return a word as written within a sentence: `DO NOT` becomes `do not`, but `NAME` stays."""
    folded = word.casefold()
    capital = len(word) > 1 and word[1:].islower() and _PROSE.fullmatch(word)
    return folded if capital or folded in GLUE or folded in TURNS else word


def _join_without_operator_spaces(words: Iterable[str]) -> str:
    return _CLOSED_UP.sub(r"\1", " ".join(words).replace(",", " ").replace(";", " "))


def _difference(ones: Iterable[str], others: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the words that only the first text has, without signs and case: those of code, those of prose."""
    missing = {word.strip(_AROUND) for word in ones} - {word.strip(_AROUND) for word in others}
    prose = {word for word in missing if _PROSE.fullmatch(word)}
    bare = [{_NO_WORD.sub("", word).casefold() for word in some} - {""} for some in (missing - prose, prose)]
    return bare[0], bare[1]


def _first_sentence(text: str) -> str:
    """Return the first sentence or line with several words, which says what the text is about."""
    begin = 0
    for end in _SENTENCE_ENDS.finditer(text):
        sentence = text[begin : end.start()]
        if len(sentence.split()) >= _OPENING_WORDS:
            return sentence
        begin = end.end()
    return last if len((last := text[begin:]).split()) >= _OPENING_WORDS else text
