"""Truncate a long text in the middle: the error of a log stands at its beginning or its end."""

from __future__ import annotations


def truncate_middle(text: str, max_bytes: int, between: str = "\n") -> str:
    """Return a text, or its beginning, `between` and its end in at most `max_bytes` of UTF-8, no character split.

    Lines are kept whole where that costs less than half of an end.
    """
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    room = max(0, max_bytes - len(between.encode()))
    first = encoded[: room - room // 2].decode(errors="ignore")
    last = encoded[len(encoded) - room // 2 :].decode(errors="ignore")
    return _longer(first.rpartition("\n")[0], first) + between + _longer(last.partition("\n")[2], last)


def _longer(whole_lines: str, cut: str) -> str:
    return whole_lines if len(whole_lines) >= len(cut) // 2 else cut


def escape_unstorable(text: str | bytes) -> str:
    """Return a text that can be stored: bytes that are not UTF-8, lone surrogates and NUL become escapes."""
    if isinstance(text, str) and text.isascii() and "\0" not in text:
        return text
    encoded = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    return encoded.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
