"""How many tokens texts take, and how long ones are cut to fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

INDENT = "  "
"""Of each line of a text but the first; it counts."""
_CUT = " ... (cut)"


def _shares() -> bytes:
    """Return what each byte of UTF-8 counts, in thirds of a token: a letter as the first byte of its kind says.

    Prose has more letters to a token, but digits, capitals, signs and rare scripts fewer: of a third of the bytes,
    `cl100k_base` and `o200k_base` made up to 2.7 times as much (hashes, JSON, Amharic), of this 1.1 at most.
    """
    shares = bytearray([1]) * 256
    for sign in range(128):
        char = chr(sign)
        shares[sign] = 3 if char.isdigit() or char.isupper() else 1 if char.islower() or char == " " else 2
    shares[0xD7:0xE0] = b"\x05" * 9  # Hebrew, Arabic and others: a token a byte
    shares[0xE0:0xE2] = b"\x07" * 2  # Indic scripts, Thai, Amharic, Khmer
    shares[0xE2] = 4  # dashes, quotes, arrows
    shares[0xE3:0xEE] = b"\x02" * 11  # Chinese, Japanese, Korean
    shares[0xEE:0xF0] = b"\x07" * 2
    shares[0xF0:] = b"\x09" * 16  # emoji
    return bytes(shares)


_SHARES = _shares()
_SHARES_INDENTED = _SHARES[:10] + bytes([_SHARES[10] + len(INDENT)]) + _SHARES[11:]
_TOKEN = 3
"""Shares to a token."""


def tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens."""
    return -(-sum(text.encode().translate(_SHARES)) // _TOKEN)


def shared(texts: Sequence[str], most_tokens: int) -> list[str] | None:
    """Cut the longest texts to one length, so that all fit into so many tokens; None where that leaves too little.

    Of three texts each the first one, a problem, is cut in its middle.
    """
    room = most_tokens * _TOKEN
    sizes = sorted(_size(text, room) for text in texts)
    limit = sizes[-1]
    left = room
    for position, size in enumerate(sizes):
        fair = left // (len(sizes) - position)
        if size > fair:
            limit = fair
            break
        left -= size
    if limit < 60 and limit < sizes[-1]:
        return None
    return [_cut(text, limit, ends=number % 3 == 0) for number, text in enumerate(texts)]


def _cut(text: str, limit: int, *, ends: bool) -> str:
    """Return a text of at most this size; with `ends` its beginning and its end, else its beginning.

    A problem ends with the error, or with why it was refused.
    """
    if _size(text, limit) <= limit:
        return text
    room = max(0, limit - _size(_CUT))
    last = _last(text, room // 2) if ends else ""
    return _first(text, room - _size(last)).rstrip() + _CUT + last


def _size(text: str, most: int | None = None) -> int:
    """Return the shares of a text, indented; of one that has more than `most` by its length alone, its length."""
    told = text.encode()
    return len(told) if most is not None and len(told) > most else sum(told.translate(_SHARES_INDENTED))


def _first(text: str, room: int) -> str:
    told = text.encode()[:room]
    sizes = list(accumulate(told.translate(_SHARES_INDENTED)))
    return told[: bisect_right(sizes, room)].decode(errors="ignore")


def _last(text: str, room: int) -> str:
    """Return the end of a text, its whole lines where it has one, below the beginning."""
    room = max(0, room - _size("\n"))
    told = text.encode()[::-1][:room]
    sizes = list(accumulate(told.translate(_SHARES_INDENTED)))
    kept = told[: bisect_right(sizes, room)][::-1].decode(errors="ignore")
    whole = kept.partition("\n")[2].strip("\n")
    return "\n" + (whole if len(whole) >= len(kept) // 2 else kept) if kept else ""
