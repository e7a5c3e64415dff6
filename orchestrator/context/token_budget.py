"""Token estimates of texts, and truncation of long ones to a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum, auto
from itertools import accumulate

from knowledge.text.error_summary import error_lines

INDENT = "  "
"""Before each line of a text but the first; it counts towards the budget."""
_CUT_MARK = " ... (cut)"


class Truncation(Enum):
    """The part of a text that survives truncation."""

    BEGINNING = auto()
    ENDS = auto()
    """The beginning and the end: a refused proposal ends with the reason."""
    ERRORS = auto()
    """The beginning, the lines that state the error (anywhere in a log) and the end; at most `_MAX_ERROR_SIZE`."""


def _byte_weights() -> bytes:
    """Return the weight of each byte of UTF-8, in thirds of a token; the first byte of a character tells its script.

    Prose has more letters per token, but digits, capitals, signs and rare scripts have fewer: `cl100k_base` and
    `o200k_base` made up to 2.7 times as many tokens as a third of the bytes (hashes, JSON, Amharic), and at most 1.1
    times as many as this estimate.
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


_WEIGHTS = _byte_weights()
_INDENTED_WEIGHTS = _WEIGHTS[:10] + bytes([_WEIGHTS[10] + len(INDENT)]) + _WEIGHTS[11:]
_TOKEN_WEIGHT = 3
"""Weight of a token."""
_MAX_ERROR_SIZE = 250 * _TOKEN_WEIGHT
"""The most that a failure's text may take, ours: it only has to be recognised, its solution has to be followed."""


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of the number of tokens in a text."""
    return -(-sum(text.encode().translate(_WEIGHTS)) // _TOKEN_WEIGHT)


def fit_texts(texts: Sequence[tuple[str, Truncation]], max_tokens: int) -> list[str] | None:
    """Truncate the longest texts to one length, so that all fit into `max_tokens`; None if too little would be left.

    Room that failures do not use goes to the other texts.
    """
    room = max_tokens * _TOKEN_WEIGHT
    sizes = [_cap(_size(text, room), keep) for text, keep in texts]
    limit = _fair_share(sizes, room)
    if limit < 60 and limit < max(sizes):
        return None
    short = [_truncate(text, _cap(limit, keep), keep) if keep is Truncation.ERRORS else text for text, keep in texts]
    limit = _fair_share([_size(text, room) for text in short], room)
    return [_truncate(text, limit, keep) for text, (_, keep) in zip(short, texts, strict=True)]


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """Return the size to which the longest are truncated, so that all fit into `room` together."""
    left = room
    for position, size in enumerate(sorted(sizes)):
        fair = left // (len(sizes) - position)
        if size > fair:
            return fair
        left -= size
    return max(sizes)


def _cap(size: int, keep: Truncation) -> int:
    """Return a size, limited to `_MAX_ERROR_SIZE` for a failure."""
    return min(size, _MAX_ERROR_SIZE) if keep is Truncation.ERRORS else size


def _truncate(text: str, limit: int, keep: Truncation) -> str:
    """Return the text, truncated to at most `limit`."""
    if _size(text, limit) <= limit:
        return text
    room = max(0, limit - _size(_CUT_MARK))
    if keep is Truncation.BEGINNING:
        return _head(text, room).rstrip() + _CUT_MARK
    if keep is Truncation.ERRORS:
        first = _head(text, room // 3)
        first = first.rpartition("\n")[0] or first
        last = _tail(text, room // 5, whole=True)
        if errors := _error_lines_between(text, first, last, room - _size(first) - _size(last)):
            return first.rstrip() + _CUT_MARK + errors + last
    first, last = _head_and_tail(text, room)
    return first.rstrip() + _CUT_MARK + last


def _head_and_tail(text: str, room: int) -> tuple[str, str]:
    last = _tail(text, room // 2)
    return _head(text, room - _size(last)), last


def _error_lines_between(text: str, first: str, last: str, room: int) -> str:
    """Return the lines between both ends that state the error, followed by the cut mark; empty if there are none."""
    shown = {*first.splitlines(), *last.splitlines()}
    between = text[len(first) : len(text) - len(last)]
    lines = error_lines(between, room - _size(_CUT_MARK), lambda line: _size(f"\n{line}"), shown)
    return "".join(f"\n{line}" for line in lines) + _CUT_MARK if lines else ""


def _size(text: str, limit: int | None = None) -> int:
    """Return the weight of a text, indented; its length in bytes where that alone exceeds `limit`."""
    encoded = text.encode()
    return len(encoded) if limit is not None and len(encoded) > limit else sum(encoded.translate(_INDENTED_WEIGHTS))


def _head(text: str, room: int) -> str:
    encoded = text.encode()[:room]
    sizes = list(accumulate(encoded.translate(_INDENTED_WEIGHTS)))
    return encoded[: bisect_right(sizes, room)].decode(errors="ignore")


def _tail(text: str, room: int, *, whole: bool = False) -> str:
    """Return the end of a text on a new line: its last whole lines if there are any, else what fits unless `whole`."""
    room = max(0, room - _size("\n"))
    reversed_bytes = text.encode()[::-1][:room]
    sizes = list(accumulate(reversed_bytes.translate(_INDENTED_WEIGHTS)))
    end = reversed_bytes[: bisect_right(sizes, room)][::-1].decode(errors="ignore")
    lines = end.partition("\n")[2].strip("\n")
    if whole:
        return f"\n{lines}" if lines else ""
    return "\n" + (lines if len(lines) >= len(end) // 2 else end) if end else ""
