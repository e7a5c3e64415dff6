"""The words of a question: how much each says, and those that a text must hold to answer it; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rapidfuzz import fuzz

from knowledge.documents.retrieval.spelling import IsWord
from knowledge.models import TermStatistics
from knowledge.text.bm25 import (
    chunks,
    has_unspaced_script,
    inverse_document_frequency,
    stem,
    term_id,
    words_and_whole,
    words_and_wholes,
)
from knowledge.text.tokens import MEASURES

RARE_SHARE: Final = 0.001
"""A word that at most this share of the passages holds says which of them is asked for."""
ASKING_WEIGHT: Final = 0.25
"""What a word counts that only asks."""
UNKNOWN_WEIGHT: Final = 0.5
"""What a word counts that nothing holds: no text can have it, and many a question is worded otherwise."""
_MIN_PREFIX: Final = 5
MIN_PREFIX_SHARE: Final = 0.6
"""The share of a longer stem that a shorter one is at least which begins it."""
_LONGEST_ACRONYM: Final = 5
_MIN_MISSPELT: Final = 7
MISSPELT: Final = 88
"""The likeness of two long words, of 100, from which on one is the other misspelt."""
_ASKING_WORDS = (
    "about actual actually all allow allowed also always am any anyone anything ask available best between bit both"
    " btw call called case cause certain come comes compare correct current currently describe differ difference"
    " different each either else enough every everything exact exactly example explain far find first full get give go"
    " good happen happens hello help hi huge instead keep kind know let like list little long longer look lot lots"
    " make many maybe mean meaning means much must need needed needs never new often ok okay one only oops other own"
    " per please pls possible purpose quite really reason recommended right run same say says see set several shall"
    " show shows since something sort stand stands start step still sure take tell thank thanks there thing things"
    " time today type under until use used useful user uses using usually value want way ways well what whats whether"
    " whose why without work works yes"
)
_ASKING: Final = frozenset(_ASKING_WORDS.split())
"""Words that only ask, and that a text that answers need not hold."""
_ASKING_STEMS: Final = frozenset(map(stem, _ASKING))
_NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_DIGITS: Final = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split(), 1)}
_DIGITS_WORDS: Final = {number: stem(word) for word, number in _DIGITS.items()}
_YEAR: Final = re.compile(r"(?:19|20)\d\d")
_COMPARED: Final = re.compile(r"\bbetween\s+(.{1,80}?)\s+and\s+(.{1,80}?)\s*(?:[?.]|\Z)", re.IGNORECASE)
_INNER_MARK: Final = re.compile(r"[_/\\:@#.]|(?<=[a-z])(?=[A-Z])")
_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)+(?:\.x)?)", re.IGNORECASE)
_ENDS: Final = (".", "?", "!", ":", "\n")
_OPENING_WORDS = (
    "a an the my our your its their this that these those no any each every in on at of for with from under by via"
    " per during within without into onto after before since until through against between"
)
_OPENS: Final = frozenset(_OPENING_WORDS.split())
"""Determiners and prepositions: the words behind one say which thing, place, time or environment is asked for."""
_YES_NO: Final = re.compile(
    r"\A\W*(?:and |but |so )?(?:is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had)\b",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(r"\b(?:not|no|without)\s+(?:the |an? |any |be )?([a-z]{2,})", re.IGNORECASE)
_COUNTED: Final = re.compile(r"[\s-]+([a-z]{2,})\b")
"""A plural noun or a unit behind a number, which then only counts or measures what is asked for."""
_SINCE: Final = re.compile(r"\bsince (?:when|which|what)\b", re.IGNORECASE)
_DATED: Final = re.compile(r"\b(?:since|until|v?\d+\.\d+|(?:19|20)\d\d)\b", re.IGNORECASE)
_POINTS_BACK: Final = re.compile(
    r"\b(?:it|its|they|them|their|theirs|this|these|those|he|she|him|her|his|then|such|both|same)\b", re.IGNORECASE
)
_MIN_ASKED: Final = 2
"""Words, besides stop words, of a question that can be read without what is told before it."""
_AROUND: Final = "?!.,;:()[]<>{}'\"`*=-#|"
_NAMING_MARKS: Final = ("/", "-", "$", "@", "~", ".")
_ADDRESSES: Final = frozenset({"url", "urls", "uri", "link", "links"})
"""Words for what a text shows without naming it."""
_VERSION_WORDS: Final = r"(?:version|versions|release|v)"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question as it was written, with its stems; `exact`: an identifier, name, number or version."""

    written: str
    stems: tuple[str, ...]
    exact: bool
    restricts: bool = False
    """True behind a determiner or a preposition."""
    behind: str = ""
    """The word before a plain number, of which it may be the version."""


class Held:
    """The words that texts hold."""

    def __init__(self, *texts: str) -> None:
        self.stems: set[str] = set()
        self.wholes: set[str] = set()
        self.text = "\n".join(texts).lower()
        for text in texts:
            stems, wholes = _stems_of(text)
            self.stems |= stems
            self.wholes |= wholes

    def __or__(self, other: Held) -> Held:
        """Return the words of both."""
        both = Held()
        both.stems, both.wholes = self.stems | other.stems, self.wholes | other.wholes
        both.text = f"{self.text}\n{other.text}"
        return both

    def has(self, word: Word) -> bool:
        """Return whether a word is held, in whatever inflected form; of an identifier in parts, all of them."""
        if word.written.lower() in _ADDRESSES and "://" in self.text:
            return True
        if word.written[:1] in _NAMING_MARKS:
            return re.search(rf"(?<![^\W_]){re.escape(word.written.lower())}(?![^\W_])", self.text) is not None
        if word.written.isdigit():
            return self._has_number(word.written) or (word.behind[:1].isupper() and self._has_version(word.written))
        if word.exact and len(word.stems) > 1 and _VERSION.fullmatch(word.written):
            return self._has_version(word.written.lower().removeprefix("v"))
        return all(self.has_stem(each) for each in word.stems) or self._has_initials(word.written)

    def _has_number(self, written: str) -> bool:
        """Return whether a number is held by itself, not as a part of a time or a version; a year also in a date."""
        if _DIGITS_WORDS.get(written) in self.stems:
            return True
        after = r"(?!\w)" if _YEAR.fullmatch(written) else r"(?![\w/-]|[.:,]\d)"
        return re.search(rf"(?<![\w.])(?<!\d[-:/,]){written}{after}", self.text) is not None

    def _has_initials(self, written: str) -> bool:
        """Return whether an acronym is held written out."""
        if not (written.isalpha() and written.isupper() and 1 < len(written) <= _LONGEST_ACRONYM):
            return False
        between = r"\w*[\s.-]+(?:(?:of|and|the|for|in)\s+)?"
        return re.search(rf"\b{between.join(written.lower())}\w*", self.text) is not None

    def has_stem(self, word: str) -> bool:
        """Return whether a stem is held, or one that it begins or that begins it, if long enough."""
        if word in self.stems or word in self.wholes or _DIGITS.get(word, "") in self.stems:
            return True
        if len(word) < _MIN_PREFIX or not word.isalpha():
            return False
        return any(
            len(each) >= _MIN_PREFIX
            and min(len(each), len(word)) >= MIN_PREFIX_SHARE * max(len(each), len(word))
            and (each.startswith(word) or word.startswith(each) or self._is_misspelt(word, each))
            for each in self.stems
            if each[:2] == word[:2]
        )

    @staticmethod
    def _is_misspelt(word: str, told: str) -> bool:
        return len(word) >= _MIN_MISSPELT and fuzz.ratio(word, told) >= MISSPELT

    def _has_version(self, asked: str) -> bool:
        """Return whether a version is held: 2.1 is also each of its parts such as 2.1.4, and the reverse."""
        parts = asked.removesuffix(".x").split(".")
        told = (each.lower().removeprefix("v").removesuffix(".x").split(".") for each in self.wholes)
        return any(
            all(one == other for one, other in zip(parts, each, strict=False)) for each in told if each[0].isdigit()
        )


@lru_cache(maxsize=4_096)
def _stems_of(text: str) -> tuple[frozenset[str], frozenset[str]]:
    stems: set[str] = set()
    wholes: set[str] = set()
    for chunk in chunks(without_accents(text)):
        parts, whole = words_and_whole(chunk)
        stems.update(map(stem, parts))
        if whole is not None:
            wholes.add(whole)
    return frozenset(stems), frozenset(wholes)


def without_accents(text: str) -> str:
    """Return a text without the accents of Latin letters: nobody who asks types all of them."""
    if text.isascii() or has_unspaced_script(text):
        return text
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


class Question:
    """A question as texts are compared with it."""

    def __init__(self, searched: str, statistics: TermStatistics, *, own: str, is_word: IsWord | None = None) -> None:
        """Read `searched`, a question with all that it refers to; `own` are the words that were asked now.

        `is_word`: True for a usual word of the language, in lower case; any other one names something.
        """
        self.is_word = is_word or (lambda _: True)
        self.words = tuple(dict.fromkeys(_words(without_accents(searched))))
        self.text = own
        self._statistics = statistics
        self._stems = frozenset(each for word in self.words for each in word.stems)
        self._denied = _denied_stems(own)
        self.weights = {each: self._weight(each) for each in self.words}
        asked = frozenset(_words(without_accents(_asking_part(own))))
        self.compared = tuple(_compared(without_accents(own)))
        self.required = tuple(
            each for each in self.words if each in asked and (self._is_required(each) or each.stems in self.compared)
        )

    def share(self, held: Held, *, without: Held | None = None) -> float:
        """Return the share of the question's words that are held, each by its rarity; `without` those of another."""
        asked = {each: weight for each, weight in self.weights.items() if without is None or not without.has(each)}
        total = sum(asked.values())
        return sum(weight for each, weight in asked.items() if held.has(each)) / total if total else 0.0

    def missing(self, held: Held, text: str, title: str) -> tuple[Word, ...]:
        """Return the words that a text must hold and does not; `text` with its headings, `title` of its document."""
        found = [each for each in self.required if not held.has(each) or self._is_other_version(each, text, title)]
        if _SINCE.search(self.text) and not _DATED.search(text):
            found.append(Word("since", ("sinc",), exact=True))
        return tuple(found)

    def is_usual(self, word: Word) -> bool:
        """Return whether a word is a usual one of the language, so that another may say the same."""
        return not word.exact and word.written.isalpha() and self.is_word(word.written.lower())

    def names(self, head: str) -> float:
        """Return how surely a question names the head of a block, such as the term that it defines: 0, 0.5 or 1.

        What is no usual word names one thing; usual words may also be of others.
        """
        told = {each.strip(_AROUND) for each in head.lower().partition("(")[0].split()}
        told |= {each.rpartition(".")[2] for each in told}
        asked = {each.strip(_AROUND) for each in self.text.lower().split()}
        if any(not self.is_word(each) or not each.isalpha() for each in told & asked - {""}):
            return 1.0
        return 0.5 if (stems := _stems_of(head)[0]) and stems <= self._stems else 0.0

    def is_shown_by(self, code: str) -> bool:
        """Return whether a text in code shows the question itself, as an example of what may be asked."""
        asked = " ".join(re.findall(r"\w+", self.text.casefold()))
        return " " in asked and asked in " ".join(re.findall(r"\w+", code.casefold()))

    def is_turned_by(self, text: str) -> bool:
        """Return whether a text denies what is asked for, and not what the question denies: no data, but a schema."""
        if not self._denied:
            return False
        denied = _denied_stems(text)
        return bool(denied & (self._stems - self._denied)) and not denied & self._denied

    def repeats(self, held: Held) -> bool:
        """Return whether a text holds nothing but the question's own words, as its answer cannot."""
        if _YES_NO.match(self.text):
            return False
        return all(each in self._stems or each in _ASKING_STEMS for each in held.stems)

    def _is_other_version(self, word: Word, text: str, title: str) -> bool:
        """Return whether a number is the version of what the document is about, and is not told as one."""
        if not word.behind or not (word.behind[:1].isupper() or word.behind.lower() in Held(title).stems):
            return False
        told = rf"\b(?:{re.escape(word.behind)}|{_VERSION_WORDS})[\s.-]*{re.escape(word.written)}\b"
        return re.search(told, f"{title}\n{text}", re.IGNORECASE) is None

    def _frequency(self, word: Word) -> int:
        return min((self._statistics.frequencies.get(term_id(each), 0) for each in word.stems), default=0)

    def _weight(self, word: Word) -> float:
        weight = inverse_document_frequency(self._statistics.documents, self._frequency(word))
        if word.exact:
            return weight
        if word.written.lower() in _ASKING:
            return weight * ASKING_WEIGHT if self._frequency(word) else 0.0
        return weight if self._frequency(word) else weight * UNKNOWN_WEIGHT

    def _is_required(self, word: Word) -> bool:
        written = word.written.lower()
        if written in _ASKING or has_unspaced_script(written):
            return False
        if word.exact and not (word.written.isupper() and word.written.isalpha() and self.is_word(written)):
            return True
        rare = self._frequency(word) <= max(1, RARE_SHARE * self._statistics.documents)
        return rare and (word.restricts or not self.is_word(written))


def _compared(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the stems of the words that tell apart the two things that a question compares."""
    found = _COMPARED.search(text)
    if found:
        one, other = ({each.stems: each for each in _words(part)} for part in found.groups())
        yield from (each for each in one if each not in other)
        yield from (each for each in other if each not in one)


def _denied_stems(text: str) -> frozenset[str]:
    return frozenset(stem(found[1].lower()) for found in _DENIED.finditer(text))


def without_preface(text: str) -> str:
    """Return the sentences of a message that ask; all of it if they point back to others, or say next to nothing."""
    asking = _asking_part(text)
    return text if _POINTS_BACK.search(asking) or len(words_and_wholes(asking)[0]) < _MIN_ASKED else asking


def _asking_part(text: str) -> str:
    """Return the sentences of a message that ask, all of it if none does."""
    asking = [
        each for each in re.findall(r"[^.!?\n]*(?:[.!?](?=\S)[^.!?\n]*)*[.!?]?", text) if each.rstrip().endswith("?")
    ]
    return " ".join(asking).strip() or text


def _words(text: str) -> Iterator[Word]:
    """Yield the words of a question that are more than stop words."""
    at, title, before, restricts = 0, _is_title(text), "", False
    for chunk in chunks(text):
        begin = max(text.find(chunk, at), at)
        if re.search(r"[,;:.?!]\s", text[at:begin]):
            restricts = False
        at = begin + len(chunk)
        parts, whole = words_and_whole(chunk)
        if not parts:
            restricts = chunk.lower() in _OPENS
            before = chunk
            continue
        first = not text[:begin].strip(" \"'`*([") or text[:begin].rstrip(" \"'`*([").endswith(_ENDS)
        name = chunk[:1].isupper() and not first and not title
        marked = any(map(str.isdigit, chunk)) or _INNER_MARK.search(chunk) is not None
        signs = re.search(r"(?<![^\W_])(?:--?|[/$@~.])\Z", text[:begin])
        if signs:
            yield Word(signs[0] + chunk, tuple(map(stem, parts)), exact=True, restricts=restricts)
            before = chunk
            continue
        if chunk.isdigit() and (found := _COUNTED.match(text, at)) and (found[1][-1] == "s" or found[1] in MEASURES):
            continue
        exact = name or marked or (len(chunk) > 1 and chunk.isupper())
        if exact and (whole is None or marked):
            behind = before if chunk.isdigit() and any(map(str.isalpha, before)) and words_and_whole(before)[0] else ""
            yield Word(chunk, tuple(map(stem, parts)), exact, restricts, behind)
        else:
            for part in parts:
                yield Word(part if whole else chunk, (stem(part),), exact, restricts)
        before = chunk


def _is_title(text: str) -> bool:
    """Return whether most words have a capital, as in a title: a capital then names nothing."""
    words = re.findall(r"[^\W\d_]{4,}", text)
    return len(words) > 2 and sum(each[0].isupper() for each in words) > len(words) / 2
