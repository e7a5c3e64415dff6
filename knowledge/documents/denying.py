"""What a sentence denies, and whether a claim says it undenied; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from knowledge.documents.aligning import Span
from knowledge.search.lexical import stem, words_and_wholes

NEGATIONS: Final = re.compile(r"\b(?:not|no|never|none|nothing|neither|nor|cannot|without)\b|n't\b", re.IGNORECASE)
_LIMITED: Final = re.compile(
    r"\b(?:until|unless|only|(?:more|less|later) than|at least|fewer|except|without|just)\b", re.IGNORECASE
)
"""Denied but for something: "not until noon" may rightly be told as "from noon on"."""
_MOST_OF_IT: Final = 0.75
"""Share of the words of a sentence or a clause that denies from which on a claim says just that, undenied. On clapnq
0 of 429 human sentences fall by what is here, and 138 of 150 sentences that deny, without their negation."""

_EXCEPTED: Final = re.compile(r"\b(?:unless|except|other than|apart from)\b", re.IGNORECASE)
_IN_PART: Final = re.compile(
    r"\A\s*(?:only|just|merely|always|necessarily|usually|often|all|every\w*|(?:more|less|later|fewer) than|at least)\b"
    r"|\b(?:until|till|only|just|more than|less than|later than|at least|fewer)\b",
    re.IGNORECASE,
)
"""What follows a negation that denies in part: "not only A but B" says both."""
_CLAUSE: Final = re.compile(
    r"[,;:!?()\u2013\u2014]|\.\s|\s-\s|\b(?:but|however|although|though|because|since|so|whereas|and|or|which|who|instead"
    r"|rather|if|when|while|where|then|whether)\b",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(
    r"\b(?:if|when|whenever|while|where|during|as long as|in case|on (?:\w+days?|weekends|holidays))\b", re.IGNORECASE
)
_LONGEST: Final = 2_000
"""Characters of a sentence; a line of more is none."""
_NEAR: Final = 200
"""Characters within which the next word stands."""
_OF_THINGS: Final = frozenset({"no", "none", "neither", "nor"})
_BESIDE: Final = re.compile(
    r"\s*(?:(?:ever|yet|longer|even|any|be|been|being|have|an?|the|of|to)\b\s*)*(\w+ly\b)?", re.IGNORECASE
)
"""What may stand between a negation and what it denies; the adverb is denied with it."""


@dataclass(frozen=True, slots=True)
class _Denied:
    """A stem that a sentence has right behind a negation and nowhere else.

    `also`: what a claim has to say of it for the same to be denied; `clause`: what it has to be most of, where it is
    denied under a condition.
    """

    stem: str
    also: frozenset[str]
    clause: frozenset[str]


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: where it stands, its stems, and those that a negation stands right before, without limits."""

    span: Span
    stems: frozenset[str]
    denied: frozenset[str]
    governed: tuple[_Denied, ...]

    def repeats(self, stems: frozenset[str]) -> bool:
        """Return whether a claim of these stems, all of them of this sentence, is most of it, and what it denies."""
        return bool(self.denied & stems) and len(stems) >= _MOST_OF_IT * len(self.stems)

    def denies(self, stems: frozenset[str]) -> bool:
        """Return whether a claim of these stems, itself without a negation, says what is denied here."""
        return any(
            each.stem in stems
            and (not each.also or bool(each.also & stems))
            and len(each.clause & stems) >= _MOST_OF_IT * len(each.clause)
            for each in self.governed
        )

    def holds(self, span: Span) -> bool:
        """Return whether some of a span of the text is of this sentence."""
        return self.span.start < span.end and span.start < self.span.end


def said(sentence: str, span: Span) -> Said:
    """Return a sentence with what it denies."""
    limited = _LIMITED.search(sentence) is not None
    after = (
        ()
        if limited
        else (stems_of(sentence[found.end() : found.end() + _NEAR])[:1] for found in NEGATIONS.finditer(sentence))
    )
    return Said(
        span=span,
        stems=frozenset(stems_of(sentence)),
        denied=frozenset(itertools.chain.from_iterable(after)),
        governed=tuple(_governed(sentence)),
    )


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of a text, in order."""
    return [stem(word) for word in words_and_wholes(text)[0]]


def _governed(sentence: str) -> Iterator[_Denied]:
    """Yield what a negation stands right before, of each clause that has one; two of them may deny each other."""
    if len(sentence) > _LONGEST or not NEGATIONS.search(sentence) or _EXCEPTED.search(sentence):
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
            yield _Denied(first, how or of, clause)


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
