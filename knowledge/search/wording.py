"""What a text says, taken apart once so that it can be compared with many: its terms, and what must not differ.

Particulars are what two texts about different things differ in although their sentences are the same: names, paths,
numbers, versions, codes, signs, words that turn a sentence round, and rare words.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from knowledge.models import TermStatistics
from knowledge.search.lexical import inverse_document_frequency, term_id, terms
from knowledge.search.traces import Frame, Trace, read_trace

_TOKEN = re.compile(
    r"(?=[\w#=!<>+*/%&|^~-])(?:"
    r"(?P<plain>[^\W\d]++(?![\w#'-]))"
    r"|(?P<code>\b(?:[A-Z]{1,6}\d{2,6}|[A-Za-z]{2,12}[-#]\d[\w-]*)\b|(?<!\w)#\d+)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<version>\bv?\d+(?:\.\d+){2,}(?:[\w.+-]*\w)?|\bv\d+(?:\.\d+)*\b)"
    r"|(?P<number>(?<![\w)\]])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*)"
    r"|(?P<word>[^\W\d](?:\w|'(?=t\b))*)"
    r"|(?P<sign>[=!<>+*/%&|^-]?=|[<>]|&&|\|\||(?<=[`\"'\s])[-+*/%&|^~!]{1,2}(?=[`\"'\s])))"
)
"""What a token starts with, and plain words, come first for speed: they take nothing from the others."""
_WORD_KINDS = frozenset({"plain", "word"})
_QUOTED = re.compile(r"(?<!\w)([`\"'])(?=\S)([^`\"'\n]{1,120}?)(?<=\S)\1(?!\w)")
_CODE_LIKE = re.compile(r"[\[\](){}=<>|.:/_]")
_MOST_QUOTED_WORDS = 3
_SPECIAL = re.compile(r"_|\d|[a-z][A-Z]|^[A-Z]{2}")
_EXCEPTION = re.compile(r"^(?:[A-Z]\w+(?:Error|Exception|Warning|Failure|Fault|Interrupt|Exit|Timeout)|SIG[A-Z]{3,5})$")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=[A-Z])")
_OPENING_WORDS = 3
_WORDS = re.compile(r"\w+")
_JOINED = frozenset("./\\:@$-")

_OPPOSITE_PAIRS = (
    "enable/disable enabled/disabled enables/disables enabling/disabling allow/deny allowed/denied allow/forbid"
    " accept/reject accepted/rejected accepts/rejects succeed/fail succeeds/fails succeeded/failed pass/fail"
    " passes/fails passed/failed true/false on/off up/down before/after above/below over/under more/less more/fewer"
    " greater/less higher/lower maximum/minimum max/min first/last left/right upper/lower open/close opens/closes"
    " opened/closed start/stop starts/stops started/stopped add/remove adds/removes added/removed include/exclude"
    " includes/excludes included/excluded increase/decrease increases/decreases increased/decreased always/never"
    " with/without valid/invalid present/missing available/unavailable required/optional read/write reads/writes"
    " encode/decode encrypt/decrypt lock/unlock push/pull upload/download client/server source/target"
    " ascending/descending synchronous/asynchronous public/private input/output request/response local/remote"
    " internal/external primary/secondary parent/child row/column horizontal/vertical import/export send/receive"
    " sends/receives incoming/outgoing begin/end create/delete creates/deletes created/deleted insert/delete"
    " install/uninstall commit/rollback mount/unmount login/logout connect/disconnect attach/detach"
    " subscribe/unsubscribe plaintext/encrypted empty/full static/dynamic global/local"
)
_MEASURES = (
    "one two three four five six seven eight nine ten hundred thousand million half third quarter second seconds minute"
    " minutes hour hours day days week weeks month months year years daily weekly monthly hourly ms bytes kb mb gb tb"
    " kib mib gib monday tuesday wednesday thursday friday saturday sunday january february march april june july"
    " august september october november december"
)
_NEGATIONS = (
    "not no never none nothing neither nor without cannot isn't aren't wasn't weren't don't doesn't didn't can't won't"
    " wouldn't shouldn't couldn't hasn't haven't hadn't mustn't"
)
_SMALL_WORDS = (
    "a an the is are was were be been being has have had do does did of to in on at for by from with and or as that"
    " this these those it its there then so s can could will would may might should"
)
_LITTLE_WORDS = "a an the is are was were be been being"

_OPPOSED = tuple(pair.split("/") for pair in _OPPOSITE_PAIRS.split())
OPPOSITES: Mapping[str, frozenset[str]] = {
    word: frozenset(other for pair in _OPPOSED if word in pair for other in pair) - {word}
    for pair in _OPPOSED
    for word in pair
}
"""For each word that has one, the words that turn its sentence into the opposite; a list of our own."""

TURNS = frozenset(_NEGATIONS.split()) | OPPOSITES.keys()
"""Words that turn a sentence round."""

_COUNTING = TURNS | frozenset(_MEASURES.split())

GLUE = frozenset(_SMALL_WORDS.split())
"""Words that alone tell nothing apart."""

_LITTLE = frozenset(_LITTLE_WORDS.split())
_WRAPPING = ".,;:`\"'"

_RARE = 0.80
"""Share of the highest rarity from which a word is a particular: of 1,000 texts, it stands in two or fewer."""

_NONE: frozenset[str] = frozenset()


class _Token(NamedTuple):
    """A word, without case and as written. `particular`: by its form or its meaning, else maybe by its rarity."""

    kind: str
    word: str
    written: str
    named: bool
    particular: bool
    may_be_rare: bool


class Reading:
    """A text taken apart, each part when it is first asked for, before it is known how rare its words are.

    `words` are as written, `opening` those of its first sentence. `gist` stands for the whole text but for case,
    articles, forms of to be, and what words are wrapped in.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = frozenset(match.group() for match in _TOKEN.finditer(text))
        self.opening = frozenset(_WORDS.findall(_opening(text)))

    @cached_property
    def term_ids(self) -> frozenset[int]:
        """The terms whose statistics the profile of the text asks for."""
        return _terms_of(self.words | self.opening)

    @cached_property
    def trace(self) -> Trace | None:
        """The stack trace in it."""
        return read_trace(self.text)

    @cached_property
    def normalised(self) -> str:
        """The text with runs of white space as one blank and without case."""
        return " ".join(self.text.split()).casefold()

    @cached_property
    def gist(self) -> int:
        """Equal for texts of the same gist."""
        return zlib.crc32(" ".join(_gist(self.text)).encode())

    @cached_property
    def tokens(self) -> list[_Token]:
        """Its tokens in order."""
        return list(_tokens(self.text))

    @cached_property
    def compared(self) -> list[_Token]:
        """Its tokens in order, without the way to where a stack trace ends."""
        return list(_tokens(self.trace.rest)) if self.trace else self.tokens

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How often each token occurs, without case."""
        return Counter([token.word for token in self.tokens])

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
        return frozenset(word.casefold() for word in self.words if _is_named_by_form(word))

    def same_words(self, other: Reading) -> bool:
        """Return whether two texts say the same in the same words."""
        return self.gist == other.gist or self.normalised == other.normalised


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

    def _is_particular(self, token: _Token) -> bool:
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


def _gist(text: str) -> Iterator[str]:
    for chunk in text.casefold().split():
        word = chunk.strip(_WRAPPING)
        if word and word not in _LITTLE:
            yield word


def _opening(text: str) -> str:
    """Return the first sentence or line of a text that has a few words: it says what the text is about."""
    sentences = _SENTENCE_ENDS.split(text)
    return next((each for each in sentences if len(each.split()) >= _OPENING_WORDS), text)


def _tokens(text: str) -> Iterator[_Token]:
    spans = _code_spans(text)
    span = next(spans, None)
    for match in _TOKEN.finditer(text):
        begin, end = match.span()
        while span and span[1] <= begin:
            span = next(spans, None)
        inside = span is not None and span[0] <= begin
        kind, word = match.lastgroup or "", match.group()
        if kind in _WORD_KINDS:
            form = _form(word)
            named = form.named or (inside and not form.glue) or _is_joined(text, begin, end, form)
            yield _Token(form.kind, form.folded, word, named, named or form.counts, not form.glue)
        else:
            particular = kind != "sign" or inside or len(word) > 1
            yield _Token(kind, word.casefold(), word, kind == "code", particular, may_be_rare=False)


class _Form(NamedTuple):
    """What a word is wherever it stands. `named`: it is a name by its form. `counts`: by its meaning, a particular."""

    kind: str
    folded: str
    named: bool
    glue: bool
    counts: bool
    capital: bool


@lru_cache(maxsize=1 << 15)
def _form(word: str) -> _Form:
    folded = word.casefold()
    exception = _EXCEPTION.match(word) is not None
    return _Form(
        kind="exception" if exception else "word",
        folded=folded,
        named=exception or _SPECIAL.search(word) is not None,
        glue=folded in GLUE,
        counts=folded in _COUNTING,
        capital=word[0].isupper(),
    )


def _is_named_by_form(word: str) -> bool:
    """Return whether a token is surely a name: of letters, digits and underlines, and no version."""
    return word.isidentifier() and _form(word).named and not (word[0] == "v" and word[1:].isdigit())


def _is_joined(text: str, begin: int, end: int, form: _Form) -> bool:
    """Return whether a word is a name by what it is joined to: a dotted name, a path, a call, a proper name."""
    before, after = text[max(0, begin - 2) : begin], text[end : end + 2]
    if len(before) == 2 and before[1] in _JOINED and not before[0].isspace():
        return True
    if len(after) == 2 and (after[0] in _JOINED or after[0] == "(") and not after[1].isspace():
        return True
    return form.capital and len(before) == 2 and before[1] == " " and (before[0].isalnum() or before[0] in ",)")


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _QUOTED.finditer(text):
        inner = match.group(2)
        if _CODE_LIKE.search(inner) or len(inner.split()) <= _MOST_QUOTED_WORDS:
            yield match.span()
