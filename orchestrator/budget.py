"""How many tokens texts take, and how long ones are cut to fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum, auto
from itertools import accumulate

from knowledge.search.gist import error_lines

INDENT = "  "
"""Of each line of a text but the first; it counts."""
_CUT = " ... (cut)"


class Keep(Enum):
    """What of a text that is too long is kept."""

    BEGINNING = auto()
    ENDS = auto()
    """The beginning and the end: a refused proposal ends with why."""
    ERRORS = auto()
    """The beginning, the lines that say what went wrong (in a log they stand anywhere) and the end; never much."""


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
_MOST_OF_ERRORS = 250 * _TOKEN
"""What a failure may take whatever room there is, ours: it is to be recognised, and what solved it is to be done."""


def tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens."""
    return -(-sum(text.encode().translate(_SHARES)) // _TOKEN)


def shared(texts: Sequence[tuple[str, Keep]], most_tokens: int) -> list[str] | None:
    """Cut the longest texts to one length, so that all fit into so many tokens; None where that leaves too little.

    What failures leave of theirs is for the others.
    """
    room = most_tokens * _TOKEN
    sizes = [_capped(_size(text, room), keep) for text, keep in texts]
    limit = _fair(sizes, room)
    if limit < 60 and limit < max(sizes):
        return None
    short = [_cut(text, _capped(limit, keep), keep) if keep is Keep.ERRORS else text for text, keep in texts]
    limit = _fair([_size(text, room) for text in short], room)
    return [_cut(text, limit, keep) for text, (_, keep) in zip(short, texts, strict=True)]


def _fair(sizes: Sequence[int], room: int) -> int:
    """Return to which size the longest are to be cut, so that all have room together."""
    left = room
    for position, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - position)
        if size > fair:
            return fair
        left -= size
    return max(sizes)


def _capped(size: int, keep: Keep) -> int:
    """Return a size, or of a failure the most it may have."""
    return min(size, _MOST_OF_ERRORS) if keep is Keep.ERRORS else size


def _cut(text: str, limit: int, keep: Keep) -> str:
    """Return a text of at most this size."""
    if _size(text, limit) <= limit:
        return text
    room = max(0, limit - _size(_CUT))
    if keep is Keep.BEGINNING:
        return _first(text, room).rstrip() + _CUT
    if keep is Keep.ERRORS:
        first = _first(text, room // 3)
        first = first.rpartition("\n")[0] or first
        last = _last(text, room // 5, whole=True)
        if said := _said_between(text, first, last, room - _size(first) - _size(last)):
            return first.rstrip() + _CUT + said + last
    first, last = _ends(text, room)
    return first.rstrip() + _CUT + last


def _ends(text: str, room: int) -> tuple[str, str]:
    last = _last(text, room // 2)
    return _first(text, room - _size(last)), last


def _said_between(text: str, first: str, last: str, room: int) -> str:
    """Return the lines between both ends that say what went wrong, and that more is cut behind them."""
    shown = {*first.splitlines(), *last.splitlines()}
    between = text[len(first) : len(text) - len(last)]
    lines = error_lines(between, room - _size(_CUT), lambda line: _size(f"\n{line}"), shown)
    return "".join(f"\n{line}" for line in lines) + _CUT if lines else ""


def _size(text: str, most: int | None = None) -> int:
    """Return the shares of a text, indented; of one that has more than `most` by its length alone, its length."""
    told = text.encode()
    return len(told) if most is not None and len(told) > most else sum(told.translate(_SHARES_INDENTED))


def _first(text: str, room: int) -> str:
    told = text.encode()[:room]
    sizes = list(accumulate(told.translate(_SHARES_INDENTED)))
    return told[: bisect_right(sizes, room)].decode(errors="ignore")


def _last(text: str, room: int, *, whole: bool = False) -> str:
    """Return the end of a text below the beginning: its whole lines where it has one, else what fits unless `whole`."""
    room = max(0, room - _size("\n"))
    told = text.encode()[::-1][:room]
    sizes = list(accumulate(told.translate(_SHARES_INDENTED)))
    kept = told[: bisect_right(sizes, room)][::-1].decode(errors="ignore")
    lines = kept.partition("\n")[2].strip("\n")
    if whole:
        return f"\n{lines}" if lines else ""
    return "\n" + (lines if len(lines) >= len(kept) // 2 else kept) if kept else ""
