"""Blocks of patterns in the texts that agents read: from the first line of a context to its last."""

from __future__ import annotations

from hardwon.models.ids import CONTEXT_CLOSING, CONTEXT_OPENING


def find_block(text: str) -> str | None:
    """Return the block of patterns in a context, from its first marker to its last; None where it has none."""
    start, end = text.find(CONTEXT_OPENING), text.rfind(CONTEXT_CLOSING)
    return None if start < 0 or end < start else text[start : end + len(CONTEXT_CLOSING)]


def remove_blocks(text: str) -> str:
    """Return a text without blocks; one that has no end goes on to the end of the text."""
    while CONTEXT_OPENING in text:
        before, _, rest = text.partition(CONTEXT_OPENING)
        text = before + rest.partition(CONTEXT_CLOSING)[2]
    return text
