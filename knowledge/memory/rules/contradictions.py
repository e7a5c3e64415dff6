"""Differences between two similar texts: a name, number or sign exchanged, a statement denied; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from knowledge.text.profile import ParsedText, TextProfile
from knowledge.text.tokens import GLUE, NEGATIONS, OPPOSITES, TURNS

_MAX_EXCHANGED_WORDS: Final = 4
"""Maximum number of words of an exchanged name: a dotted name, a path."""


class Difference(StrEnum):
    """Differences that outweigh the similarity of two texts."""

    ONE_EXCHANGED = "a single name, number or sign is exchanged or added"
    ONE_WORD = "a single word is exchanged or added"
    PARTICULARS = "the same sentences with other names or numbers, or with the same ones in other places"
    TURNED = "one denies what the other says"
    OPPOSITES = "opposite words"
    NUMBERS = "other numbers"
    VERSIONS = "other versions"
    CODES = "other error codes"
    EXCEPTIONS = "other exception types"
    PLACES = "other places in the code"
    PUT = "the same words in another order, case, quotes or brackets"


NOT_EVEN_TWINS = frozenset(
    {
        Difference.ONE_EXCHANGED,
        Difference.PARTICULARS,
        Difference.TURNED,
        Difference.EXCEPTIONS,
        Difference.PLACES,
    }
)
"""With one of these the pair is not proposed to a person; with others it may still describe one thing."""


def differences(a: TextProfile, b: TextProfile) -> tuple[Difference, ...]:
    """Return the differences between two texts."""
    if a.reading.same_words(b.reading):
        return ()
    of_a, of_b = _surplus_words(a.tokens, b.tokens), _surplus_words(b.tokens, a.tokens)
    surplus = of_a | of_b
    both_trace = a.place is not None and b.place is not None
    checks = {
        Difference.ONE_EXCHANGED: _is_single_exchange(of_a, of_b)
        and not (a.particulars | b.particulars).isdisjoint(surplus),
        Difference.ONE_WORD: max(len(of_a), len(of_b)) == 1 and not surplus <= GLUE,
        Difference.PARTICULARS: (a.template == b.template or not surplus) and a.sequence != b.sequence,
        Difference.TURNED: _is_denial(surplus),
        Difference.OPPOSITES: _has_opposites(a.turns - b.turns, b.turns - a.turns),
        Difference.NUMBERS: not both_trace and _are_in_conflict(a.numbers, b.numbers),
        Difference.VERSIONS: _are_in_conflict(a.versions, b.versions),
        Difference.CODES: _are_in_conflict(a.codes, b.codes),
        Difference.EXCEPTIONS: _are_in_conflict(a.exceptions, b.exceptions),
        Difference.PLACES: both_trace and a.place != b.place,
    }
    return tuple(difference for difference, is_there in checks.items() if is_there)


def has_number_exchanged(a: ParsedText, b: ParsedText) -> bool:
    """Return whether a single number is exchanged between two texts, which excludes twins.

    Judged by the words alone, whatever other words are particulars.
    """
    of_a, of_b = _surplus_words(a.counts, b.counts), _surplus_words(b.counts, a.counts)
    return (
        _is_single_exchange(of_a, of_b)
        and any(word[0].isdecimal() for word in of_a | of_b)  # only numbers begin with a digit
        and not a.same_words(b)
    )


def says_otherwise(a: ParsedText, b: ParsedText) -> bool:
    """Return whether two texts in nearly the same words differ in meaning.

    One denies the other, or has another name, number or sign in the place of one, or the same ones in another order.
    Additional statements in one of them do not count.
    """
    of_a, of_b = _surplus_words(a.counts, b.counts), _surplus_words(b.counts, a.counts)
    if not of_a and not of_b:
        return _particulars(a) != _particulars(b)
    if not NEGATIONS.isdisjoint(of_a | of_b) or _has_opposites(frozenset(of_a), frozenset(of_b)):
        return True
    ones, others = (
        {kind for kind, word in _particulars(each) if word in left} for each, left in ((a, of_a), (b, of_b))
    )
    return not ones.isdisjoint(others)


def _particulars(text: ParsedText) -> list[tuple[str, str]]:
    """Return a text's names, numbers and signs in order, with their kinds; codes and exceptions are names."""
    kinds = dict.fromkeys(("number", "version", "hex"), "number") | {"sign": "sign"}
    return [
        (kinds.get(token.kind, "name"), token.word) for token in text.tokens if token.particular or token.kind == "sign"
    ]


def _surplus_words(a: Mapping[str, int], b: Mapping[str, int]) -> set[str]:
    """Return the words that occur more often in `a` than in `b`."""
    return {word for word, count in a.items() if count > b.get(word, 0)}


def _is_single_exchange(of_a: set[str], of_b: set[str]) -> bool:
    """Return whether the surplus words can be a single name exchanged or added."""
    fewer, more = sorted((len(of_a), len(of_b)))
    return fewer <= 1 and more <= (_MAX_EXCHANGED_WORDS if fewer else 1)


def _is_denial(surplus: set[str]) -> bool:
    return surplus <= (GLUE | TURNS) and not surplus.isdisjoint(TURNS)


def _has_opposites(of_a: frozenset[str], of_b: frozenset[str]) -> bool:
    return any(not OPPOSITES.get(word, frozenset()).isdisjoint(of_b) for word in of_a)


def _are_in_conflict(of_a: frozenset[str], of_b: frozenset[str]) -> bool:
    """Return whether both sets have elements and neither contains the other."""
    return bool(of_a and of_b) and not (of_a <= of_b or of_b <= of_a)
