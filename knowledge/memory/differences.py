"""What tells two texts apart, however alike they are: a name, number or sign exchanged, a word denied; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from knowledge.search.tokens import GLUE, NEGATIONS, OPPOSITES, TURNS
from knowledge.search.wording import Reading, TextProfile

_MOST_EXCHANGED: Final = 4
"""A particular exchanged for another one is at most this many words: a dotted name, a path."""


class Difference(StrEnum):
    """What tells two texts apart, however alike they are."""

    ONE_EXCHANGED = "a single name, number or sign is exchanged or added"
    ONE_WORD = "a single word is exchanged or added"
    PARTICULARS = "the same sentences about other names or numbers, or about the same in other places"
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
"""With one of these a person is not asked either; the others may be two tellings of one thing."""


def differences(a: TextProfile, b: TextProfile) -> tuple[Difference, ...]:
    """Return what tells two texts apart, however alike they are otherwise."""
    if a.reading.same_words(b.reading):
        return ()
    of_a, of_b = _left_over(a.tokens, b.tokens), _left_over(b.tokens, a.tokens)
    either = of_a | of_b
    both_trace = a.place is not None and b.place is not None
    there = {
        Difference.ONE_EXCHANGED: _few_apart(of_a, of_b) and not (a.particulars | b.particulars).isdisjoint(either),
        Difference.ONE_WORD: max(len(of_a), len(of_b)) == 1 and not either <= GLUE,
        Difference.PARTICULARS: (a.template == b.template or not either) and a.sequence != b.sequence,
        Difference.TURNED: _turned(either),
        Difference.OPPOSITES: _opposed(a.turns - b.turns, b.turns - a.turns),
        Difference.NUMBERS: not both_trace and _apart(a.numbers, b.numbers),
        Difference.VERSIONS: _apart(a.versions, b.versions),
        Difference.CODES: _apart(a.codes, b.codes),
        Difference.EXCEPTIONS: _apart(a.exceptions, b.exceptions),
        Difference.PLACES: both_trace and a.place != b.place,
    }
    return tuple(difference for difference, is_there in there.items() if is_there)


def has_number_exchanged(a: Reading, b: Reading) -> bool:
    """Return whether a number is exchanged between two texts: they are not even twins then.

    Seen by the words alone, whatever others may be particulars as well.
    """
    of_a, of_b = _left_over(a.counts, b.counts), _left_over(b.counts, a.counts)
    return (
        _few_apart(of_a, of_b)
        and any(word[0].isdecimal() for word in of_a | of_b)  # the tokens of no other kind begin so
        and not a.same_words(b)
    )


def says_otherwise(a: Reading, b: Reading) -> bool:
    """Return whether two texts in nearly the same words tell two things.

    One denies what the other says, or has another name, number or sign in the place of one, or the same in another
    order. What one of them says besides does not count.
    """
    of_a, of_b = _left_over(a.counts, b.counts), _left_over(b.counts, a.counts)
    if not of_a and not of_b:
        return _told_particulars(a) != _told_particulars(b)
    if not NEGATIONS.isdisjoint(of_a | of_b) or _opposed(frozenset(of_a), frozenset(of_b)):
        return True
    ones, others = (
        {kind for kind, word in _told_particulars(each) if word in left} for each, left in ((a, of_a), (b, of_b))
    )
    return not ones.isdisjoint(others)


def _told_particulars(text: Reading) -> list[tuple[str, str]]:
    """Return the names, numbers and signs of a text in order, each with its kind; codes and exceptions are names."""
    kinds = dict.fromkeys(("number", "version", "hex"), "number") | {"sign": "sign"}
    return [
        (kinds.get(token.kind, "name"), token.word) for token in text.tokens if token.particular or token.kind == "sign"
    ]


def _left_over(a: Mapping[str, int], b: Mapping[str, int]) -> set[str]:
    """Return the words that occur more often in `a` than in `b`."""
    return {word for word, count in a.items() if count > b.get(word, 0)}


def _few_apart(of_a: set[str], of_b: set[str]) -> bool:
    """Return whether a single name can have been exchanged or added."""
    fewer, more = sorted((len(of_a), len(of_b)))
    return fewer <= 1 and more <= (_MOST_EXCHANGED if fewer else 1)


def _turned(apart: set[str]) -> bool:
    return apart <= (GLUE | TURNS) and not apart.isdisjoint(TURNS)


def _opposed(of_a: frozenset[str], of_b: frozenset[str]) -> bool:
    return any(not OPPOSITES.get(word, frozenset()).isdisjoint(of_b) for word in of_a)


def _apart(of_a: frozenset[str], of_b: frozenset[str]) -> bool:
    """Return whether both hold something and neither holds all that the other does."""
    return bool(of_a and of_b) and not (of_a <= of_b or of_b <= of_a)
