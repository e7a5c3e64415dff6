"""Counts as people read them: "1 entry", "2,000 entries"."""

from __future__ import annotations


def count_of(number: int, word: str) -> str:
    """Return a number and its noun, given in the singular, with thousands separators."""
    return f"{number:,} {pluralize(number, word)}"


def plain_count_of(number: int, word: str) -> str:
    """Return the same without separators, for answers that programs read too."""
    return f"{number} {pluralize(number, word)}"


def pluralize(number: int, word: str) -> str:
    """Return the noun, given in the singular, in the number that it needs."""
    if number == 1:
        return word
    return word.removesuffix("y") + "ies" if word.endswith("y") else word + "s"
