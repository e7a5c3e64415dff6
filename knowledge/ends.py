"""The beginning and the end of a text that is too long: of a log, the error stands in either."""

from __future__ import annotations


def both_ends(text: str, most_bytes: int, between: str = "\n") -> str:
    """Return a text, or its beginning, `between` and its end in at most `most_bytes` of UTF-8, no character torn.

    Lines are kept whole where that costs less than half of an end.
    """
    encoded = text.encode()
    if len(encoded) <= most_bytes:
        return text
    room = max(0, most_bytes - len(between.encode()))
    first = encoded[: room - room // 2].decode(errors="ignore")
    last = encoded[len(encoded) - room // 2 :].decode(errors="ignore")
    return _longer(first.rpartition("\n")[0], first) + between + _longer(last.partition("\n")[2], last)


def _longer(whole_lines: str, kept: str) -> str:
    return whole_lines if len(whole_lines) >= len(kept) // 2 else kept
