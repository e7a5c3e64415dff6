"""A block of a document, and what all cutters share; pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from knowledge.documents.parsing.sentences import trim_span
from knowledge.text.alignment import Span

BUDGET: Final = 1_800
"""Characters up to which a block is quoted whole: a page of a procedure, or a screen of code."""
MAX_LABEL_CHARS: Final = 120


class BlockKind(StrEnum):
    """Kind of a block."""

    PARAGRAPH = "paragraph"
    ITEM = "item"
    LIST = "list"
    STEPS = "steps"
    DEFINITION = "definition"
    ROW = "row"
    TABLE = "table"
    CODE = "code"
    SETTING = "setting"
    SECTION = "section"
    LINE = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a document that can be read by itself: the text at `span`, below the headings of `path`.

    `lead` is the sentence that introduces it from farther above, such as one that ends at a colon before headings.
    `told` says the same readably where the text itself is not, as a row without the names of its columns.
    """

    kind: BlockKind
    span: Span
    path: tuple[str, ...] = ()
    lead: Span | None = None
    told: str = ""


class Lines:
    """The lines of a text with their offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all = text.split("\n")
        starts, at = [], 0
        for line in self.all:
            starts.append(at)
            at += len(line) + 1
        self.starts = starts

    def span(self, first: int, end: int) -> Span:
        """Return the span of lines `first` to `end`, exclusive, without white space around them."""
        begin = self.starts[min(first, len(self.starts) - 1)]
        over = self.starts[end] - 1 if end < len(self.starts) else len(self.text)
        return trim_span(self.text, begin, max(begin, over))

    def line_at(self, offset: int) -> int:
        """Return the line that has an offset."""
        return bisect_right(self.starts, offset) - 1


def is_lead(text: str) -> bool:
    """Return whether a text ends at its colon: it introduces what follows."""
    return text.rstrip(" \t*_`").endswith((":", "::", "\uff1a"))


def as_label(text: str) -> str:
    """Return the words of a heading, term or label without markup, cut short."""
    words = " ".join(text.split()).lstrip(" >*_`#+=-").rstrip(" *_`")
    return words[:MAX_LABEL_CHARS].rstrip(":").strip()


def split_long(text: str, block: Block, pieces: Sequence[Span]) -> Iterator[Block]:
    """Yield a block, or where it is longer than the budget its pieces, joined as far as they fit."""
    if block.span.end - block.span.start <= BUDGET:
        yield block
        return
    start = end = block.span.start
    for piece in pieces:
        if piece.end - start > BUDGET // 2 and end > start:
            yield _cut(text, block, start, end)
            start = piece.start
        end = piece.end
    if end > start:
        yield _cut(text, block, start, end)


def _cut(text: str, block: Block, start: int, end: int) -> Block:
    return Block(
        kind=block.kind,
        span=trim_span(text, start, min(end, start + BUDGET)),
        path=block.path,
        lead=block.lead,
    )
