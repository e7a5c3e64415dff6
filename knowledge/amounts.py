"""How many of something, in words: "1 entry", "2,000 entries"."""

from __future__ import annotations


def amount(number: int, what: str) -> str:
    """Return a number with what it counts, which is given in the singular, as people read it."""
    return f"{number:,} {noun(number, what)}"


def plain_amount(number: int, what: str) -> str:
    """Return the same without separators, as answers tell it: programs read them, too."""
    return f"{number} {noun(number, what)}"


def noun(number: int, what: str) -> str:
    """Return the word for so many of something, given in the singular."""
    if number == 1:
        return what
    return what.removesuffix("y") + "ies" if what.endswith("y") else what + "s"
