"""What a text says, taken apart once so that it can be compared with many: its terms, and what must not differ.

Particulars are what two texts about different things differ in although their sentences are the same: names, paths,
numbers, versions, codes, signs, words that turn a sentence round, and rare words.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from knowledge.models import TermStatistics
from knowledge.search.lexical import inverse_document_frequency, term_id, terms
from knowledge.search.tokens import GLUE, TURNS, Token, is_named_by_form, tokens, written_words
from knowledge.search.traces import Frame, Trace, read_trace

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
_KEPT = "\1"
"""Stands behind an end that is no sentence's."""
_CODE_WITH_END = re.compile(r"`([^`\s]+[.:!?])`")
_PLACES = frozenset({".", ".."})
_PROSE = re.compile(r"[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_]))*")
"""A word of prose: its capital may be that of a sentence, its dash a matter of spelling."""
_AROUND = "\"'()[]{}<>,;"
_NO_WORD = re.compile(r"[\W_]+")

_RARE = 0.80
"""Share of the highest rarity from which a word is a particular: of 1,000 texts, it stands in two or fewer."""

_NONE: frozenset[str] = frozenset()


class Reading:
    """A text taken apart, each part when it is first asked for, before it is known how rare its words are.

    `gist` stands for the whole text but for case, articles, forms of to be, and what words are wrapped in.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> frozenset[str]:
        """Its tokens as written."""
        return frozenset(written_words(self.text))

    @cached_property
    def opening(self) -> frozenset[str]:
        """The words of its first sentence."""
        return frozenset(_WORDS.findall(_opening(self.text)))

    @cached_property
    def term_ids(self) -> frozenset[int]:
        """The terms whose statistics the profile of the text asks for."""
        return _terms_of(self.words | self.opening)

    @cached_property
    def trace(self) -> Trace | None:
        """The stack trace in it."""
        return read_trace(self.text)

    @cached_property
    def gist(self) -> int:
        """Equal for texts of the same gist."""
        return _gist(self.text)

    @cached_property
    def trace_gist(self) -> int | None:
        """Equal for stack traces of the same gist, wherever the code stands in its files."""
        return _gist(self.trace.told) if self.trace else None

    @cached_property
    def as_written(self) -> tuple[str, ...]:
        """Its words with all that may matter in what is to be done."""
        return as_written(self.text)

    def put_otherwise(self, other: Reading) -> bool:
        """Return whether two texts have words in common that a program would take for others.

        They are the same words in another order, case, quotes or brackets (`-d` and `-D`, `3.10` and `'3.10'`), or,
        where one says more besides, some are code in another case or with other signs. How prose is set does not count:
        the capitals and the ends of sentences, code marks, kinds of quotes, marks of lists, white space.
        """
        ones, others = self.as_written, other.as_written
        if self.text.isupper() or other.text.isupper():  # no case was told
            ones, others = tuple(map(str.casefold, ones)), tuple(map(str.casefold, others))
        if self.counts == other.counts:
            return _closed_up(ones) != _closed_up(others)
        (code, prose), (other_code, other_prose) = _apart(ones, others), _apart(others, ones)
        return not code.isdisjoint(other_code | other_prose) or not prose.isdisjoint(other_code)

    @cached_property
    def tokens(self) -> list[Token]:
        """Its tokens in order."""
        return list(tokens(self.text))

    @cached_property
    def compared(self) -> list[Token]:
        """Its tokens in order, without the way to where a stack trace ends."""
        return list(tokens(self.trace.rest)) if self.trace else self.tokens

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How often each token occurs, without case."""
        return Counter(map(str.casefold, written_words(self.text)))

    @cached_property
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """The tokens of each kind, without case."""
        found: dict[str, set[str]] = {}
        for token in self.tokens:
            found.setdefault(token.kind, set()).add(token.word)
        return {kind: frozenset(words) for kind, words in found.items()}

    @cached_property
    def named_by_form(self) -> frozenset[str]:
        """Words without case that are names wherever they stand; some such are left out."""
        return frozenset(word.casefold() for word in self.words if is_named_by_form(word))

    def same_words(self, other: Reading) -> bool:
        """Return whether two texts say the same in the same words; in stack traces lines may have moved."""
        return self.gist == other.gist or (self.trace_gist is not None and self.trace_gist == other.trace_gist)


class Rarity:
    """How rare a term is among a workspace's situations: 0 in every one, 1 never seen."""

    def __init__(self, statistics: TermStatistics) -> None:
        self._documents = statistics.documents
        self._frequencies = dict(statistics.frequencies)
        self._most = inverse_document_frequency(statistics.documents, 0)
        self._known: dict[int, float] = {}
        self._words: dict[str, float] = {}
        self._weighed: dict[str, dict[int, float]] = {}

    def learn(self, frequencies: Mapping[int, int]) -> None:
        """Take in how often further terms occur, none of which was asked for before."""
        self._frequencies |= frequencies

    def of(self, term: int) -> float:
        """Return the rarity of a term id."""
        found = self._known.get(term)
        if found is None:
            frequency = self._frequencies.get(term, 0)
            found = inverse_document_frequency(self._documents, frequency) / self._most
            self._known[term] = found
        return found

    def of_word(self, word: str) -> float:
        """Return the rarity of a word: as a whole where it is known as one, else as rare as its parts together."""
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
        """Return the terms of some words with their rarity."""
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
    """A text taken apart among the texts of a workspace, each part when it is first asked for.

    Weights are rarity, 0 (in every text) to 1 (never seen).
    """

    def __init__(self, reading: Reading, rarity: Rarity) -> None:
        self.reading = reading
        self._rarity = rarity
        self._of_word = rarity.of_word

    @cached_property
    def terms(self) -> Mapping[int, float]:
        """The terms of all words."""
        return self._rarity.weigh(self.reading.words)

    @cached_property
    def terms_weight(self) -> float:
        """The weights of the terms together."""
        return sum(self.terms.values())

    @cached_property
    def opening(self) -> Mapping[int, float]:
        """The terms of the first sentence."""
        return self._rarity.weigh(self.reading.opening)

    @cached_property
    def opening_weight(self) -> float:
        """The weights of the first sentence's terms together."""
        return sum(self.opening.values())

    @cached_property
    def words(self) -> Mapping[str, float]:
        """All words without case; one that is written in two ways weighs what the rarer of them does."""
        weights: dict[str, float] = {}
        for written in self.reading.words:
            weight, word = self._of_word(written), written.casefold()
            if weight >= weights.get(word, 0.0):
                weights[word] = weight
        return weights

    @cached_property
    def spelt_apart(self) -> bool:
        """Whether a word stands in it in two spellings, one of which weighs more."""
        words = self.words
        return any(self._of_word(written) != words[written.casefold()] for written in self.reading.words)

    @cached_property
    def named_by_form(self) -> Mapping[str, float]:
        """Words that are names wherever they stand, not all of them."""
        return {word: self.words[word] for word in self.reading.named_by_form}

    @cached_property
    def words_weight(self) -> float:
        """The weights of all words together."""
        return math.fsum(self.words.values())

    @cached_property
    def names(self) -> Mapping[str, float]:
        """What is a name by its form or by where it stands; the parts of dotted names and paths one by one."""
        return {token.word: self._of_word(token.written) for token in self.reading.tokens if token.named}

    @cached_property
    def names_weight(self) -> float:
        """The weights of the names together."""
        return sum(self.names.values())

    @cached_property
    def particulars(self) -> frozenset[str]:
        """What must not differ where two texts are to say the same."""
        return frozenset(token.word for token in self.reading.tokens if self._is_particular(token))

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The particulars in order, without the way to where a stack trace ends."""
        return tuple(token.word for token in self.reading.compared if self._is_particular(token))

    @cached_property
    def template(self) -> int:
        """Equal for texts with the same words between their particulars."""
        words = ("\1" if self._is_particular(token) else token.word for token in self.reading.compared)
        return zlib.crc32("\0".join(words).encode())

    @property
    def tokens(self) -> Mapping[str, int]:
        """How often each word occurs."""
        return self.reading.counts

    @cached_property
    def turns(self) -> frozenset[str]:
        """Words that turn its sentences round."""
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
        """Where a stack trace in it ends."""
        return self.reading.trace.innermost if self.reading.trace else None

    def _of_kind(self, kind: str) -> frozenset[str]:
        return self.reading.kinds.get(kind, _NONE)

    def _is_particular(self, token: Token) -> bool:
        return token.particular or (token.may_be_rare and self._of_word(token.written) >= _RARE)


def profile(text: str, rarity: Rarity) -> TextProfile:
    """Take a text apart."""
    return TextProfile(Reading(text), rarity)


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
    """Return the terms of a word, and of it as a whole where it has parts; kept, as stemming costs most of all."""
    found = terms(word)
    whole = found.pop() if len(found) > 1 and found[-1] == word.lower() else None
    return tuple(map(term_id, found)), None if whole is None else term_id(whole)


def _gist(text: str) -> int:
    words = (chunk.lstrip(_IN_FRONT).rstrip(_WRAPPING) for chunk in text.casefold().split())
    return zlib.crc32(" ".join(word for word in words if word and word not in _LITTLE).encode())


def without_list_marks(text: str) -> str:
    """Return a text without the marks and numbers of its lists, which tell nothing."""
    return _LIST_MARK.sub("", text)


def as_written(text: str) -> tuple[str, ...]:
    """Return the words of a text with their case and signs, but for how prose is set."""
    told = _CODE_WITH_END.sub(rf"\1{_KEPT}", without_list_marks(text))
    told = _BOLD.sub(r"\1", told).translate(_STRAIGHT).strip()
    for mark in "\"'":
        if told.count(mark) == 2 and told[0] == mark and told.rstrip(_ENDS)[-1] == mark:
            told = told.replace(mark, "")
    words = (_without_end(chunk) for chunk in told.split())
    return tuple(_without_capital(word) for word in words if word)


def _without_end(chunk: str) -> str:
    """Return a word without what ends a sentence behind it; what is code by its first sign keeps what is of it."""
    if chunk in _PLACES or (len(chunk) > 1 and not chunk.strip(":")):
        return chunk
    return chunk.rstrip(".,;:" if chunk[0] in _OPENS_CODE and chunk.rstrip(_ENDS) else _ENDS).rstrip(_KEPT)


def _without_capital(word: str) -> str:
    """Return a word as it stands within a sentence: `DO NOT` is `do not`, but `NAME` is not `name`."""
    folded = word.casefold()
    capital = len(word) > 1 and word[1:].islower() and _PROSE.fullmatch(word)
    return folded if capital or folded in GLUE or folded in TURNS else word


def _closed_up(words: Iterable[str]) -> str:
    return _CLOSED_UP.sub(r"\1", " ".join(words).replace(",", " ").replace(";", " "))


def _apart(ones: Iterable[str], others: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the words of a text that another one lacks, bare of signs and case: those of code, those of prose."""
    told = {word.strip(_AROUND) for word in ones} - {word.strip(_AROUND) for word in others}
    prose = {word for word in told if _PROSE.fullmatch(word)}
    bare = [{_NO_WORD.sub("", word).casefold() for word in some} - {""} for some in (told - prose, prose)]
    return bare[0], bare[1]


def _opening(text: str) -> str:
    """Return the first sentence or line of a text that has a few words: it says what the text is about."""
    begin = 0
    for end in _SENTENCE_ENDS.finditer(text):
        sentence = text[begin : end.start()]
        if len(sentence.split()) >= _OPENING_WORDS:
            return sentence
        begin = end.end()
    return last if len((last := text[begin:]).split()) >= _OPENING_WORDS else text
