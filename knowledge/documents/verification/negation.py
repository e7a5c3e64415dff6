"""Negations of a sentence, and claims that drop them; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from knowledge.text.alignment import Span
from knowledge.text.bm25 import stem, words_and_wholes

NEGATIONS: Final = re.compile(r"\b(?:not|no|never|none|nothing|neither|nor|cannot|without)\b|n't\b", re.IGNORECASE)
_LIMITED: Final = re.compile(
    r"\b(?:until|unless|only|(?:more|less|later) than|at least|fewer|except|without|just)\b", re.IGNORECASE
)
"""Limited negations: "not until noon" may rightly become "from noon on"."""
_MIN_SHARE: Final = 0.75
"""Share of the words of a negated sentence or clause from which on a claim repeats it without the negation. On clapnq
0 of 429 human sentences fall by what is here, and 138 of 150 sentences that deny, without their negation."""

_EXCEPTED: Final = re.compile(r"\b(?:unless|except|other than|apart from)\b", re.IGNORECASE)
_IN_PART: Final = re.compile(
    r"\A\s*(?:only|just|merely|always|necessarily|usually|often|all|every\w*|(?:more|less|later|fewer) than|at least)\b"
    r"|\b(?:until|till|only|just|more than|less than|later than|at least|fewer)\b",
    re.IGNORECASE,
)
"""Words after a partial negation: "not only A but B" says both."""
_CLAUSE: Final = re.compile(
    r"[,;:!?()\u2013\u2014]|\.\s|\s-\s|\b(?:but|however|although|though|because|since|so|whereas|and|or|which|who|instead"
    r"|rather|if|when|while|where|then|whether)\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\b(?:if|when|whenever|while|where|during|as long as|in case|on (?:\w+days?|weekends|holidays))\b", re.IGNORECASE
)
_MAX_SENTENCE_CHARS: Final = 2_000
"""Maximum characters of a sentence; a longer line is not checked."""
_NEAR: Final = 200
"""Characters in which the next word is looked for."""
_OF_THINGS: Final = frozenset({"no", "none", "neither", "nor"})
_BESIDE: Final = re.compile(
    r"\s*(?:(?:ever|yet|longer|even|any|be|been|being|have|an?|the|of|to)\b\s*)*(\w+ly\b)?", re.IGNORECASE
)
"""Words allowed between a negation and the negated word; an adverb is negated with it."""


@dataclass(frozen=True, slots=True)
class _NegatedStem:
    """A stem that a sentence has right after a negation and nowhere else.

    `also`: stems of which a claim must have one for the negation to apply; `clause`: stems of which it must have most,
    if the negation has a condition.
    """

    stem: str
    also: frozenset[str]
    clause: frozenset[str]


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence with its span, its stems, and those right after a negation without limits."""

    span: Span
    stems: frozenset[str]
    denied: frozenset[str]
    negated: tuple[_NegatedStem, ...]

    def repeats(self, stems: frozenset[str]) -> bool:
        """Return whether a claim of these stems, a subset of this sentence's, is most of it and has a negated stem."""
        return bool(self.denied & stems) and len(stems) >= _MIN_SHARE * len(self.stems)

    def denies(self, stems: frozenset[str]) -> bool:
        """Return whether a claim of these stems, itself without a negation, says what this sentence negates."""
        return any(
            each.stem in stems
            and (not each.also or bool(each.also & stems))
            and len(each.clause & stems) >= _MIN_SHARE * len(each.clause)
            for each in self.negated
        )

    def overlaps(self, span: Span) -> bool:
        """Return whether a span of the text overlaps this sentence."""
        return self.span.start < span.end and span.start < self.span.end


def parse_sentence(sentence: str, span: Span) -> ParsedSentence:
    """Return a sentence with its negated stems."""
    limited = _LIMITED.search(sentence) is not None
    after = (
        ()
        if limited
        else (stems_of(sentence[found.end() : found.end() + _NEAR])[:1] for found in NEGATIONS.finditer(sentence))
    )
    return ParsedSentence(
        span=span,
        stems=frozenset(stems_of(sentence)),
        denied=frozenset(itertools.chain.from_iterable(after)),
        negated=tuple(_find_negations(sentence)),
    )


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of a text, in order."""
    return [stem(word) for word in words_and_wholes(text)[0]]


def _find_negations(sentence: str) -> Iterator[_NegatedStem]:
    """Yield the stem right after the negation of each clause that has exactly one; two may cancel each other."""
    if len(sentence) > _MAX_SENTENCE_CHARS or not NEGATIONS.search(sentence) or _EXCEPTED.search(sentence):
        return
    denying = [(found, *clause) for clause in _clauses(sentence) if (found := _negation(sentence, *clause))]
    ends = [0, *(at for found, _, end in denying for at in (found.end(), end)), len(sentence)]
    elsewhere = frozenset(
        stems_of(" ".join(sentence[one:other] for one, other in zip(ends[::2], ends[1::2], strict=True)))
    )
    conditional = _CONDITION.search(sentence) is not None
    for found, begin, end in denying:
        scope, word = sentence[found.end() : end], found[0].lower()
        if _IN_PART.search(scope) or (word == "without" and len(NEGATIONS.findall(sentence)) > 1):
            continue
        beside = _BESIDE.match(scope)
        how = frozenset(stems_of(beside[1] or "")) if beside else frozenset[str]()
        first, *others = stems_of(scope[beside.end() :] if beside else scope) or [""]
        if first and first not in elsewhere:
            of = frozenset(others) - {first} if word in _OF_THINGS else frozenset[str]()
            clause = frozenset(stems_of(sentence[begin : found.start()] + scope)) if conditional else frozenset[str]()
            yield _NegatedStem(first, how or of, clause)


def _clauses(sentence: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for found in _CLAUSE.finditer(sentence):
        yield begin, found.start()
        begin = found.end()
    yield begin, len(sentence)


def _negation(sentence: str, begin: int, end: int) -> re.Match[str] | None:
    """Return the only negation of a clause; "neither" and "nor" are one."""
    found = list(NEGATIONS.finditer(sentence, begin, end))
    return found[0] if found and all(each[0].lower() == "nor" for each in found[1:]) else None
