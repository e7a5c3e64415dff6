"""The signs of numbered lists: 3, c, iii."""

from __future__ import annotations

from typing import Final

_ROMAN: Final = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_LETTERS: Final = 26
_MAX_ROMAN: Final = 4000


def as_marker(number: int, kind: str) -> str:
    """Return a number as Word or OpenDocument writes it; `kind` is the name or the sign of a format."""
    if kind in {"lowerLetter", "a"} and 0 < number <= _LETTERS * 20:
        return chr(ord("a") + (number - 1) % _LETTERS) * (1 + (number - 1) // _LETTERS)
    if kind in {"upperLetter", "A"}:
        return as_marker(number, "a").upper()
    if kind in {"lowerRoman", "i"} and 0 < number < _MAX_ROMAN:
        return _roman(number)
    if kind in {"upperRoman", "I"}:
        return as_marker(number, "i").upper()
    if kind == "decimalZero":
        return f"{number:02}"
    return "" if kind == "none" else str(number)


def _roman(number: int) -> str:
    signs = ""
    for value, sign in _ROMAN:
        signs += sign * (number // value)
        number %= value
    return signs
