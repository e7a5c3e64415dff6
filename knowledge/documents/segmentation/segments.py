"""The pieces of a text that can answer, each by itself: sentences, rows of tables, blocks of code; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from knowledge.documents.parsing.sentences import sentences
from knowledge.documents.segmentation.blocks import (
    BAR,
    HEADING,
    BlockKind,
    Line,
    blocks,
    is_delimiter,
    is_row,
    lines_of,
)
from knowledge.text.alignment import FULL_STOPS, Span

MAX_BLOCK_CHARS: Final = 700
"""Characters of a block of code that is read whole; a longer one is read by its paragraphs. So many of a list are told
with what leads to it, in whole items."""
_PROMPT = re.compile(r"[ \t]*[$>%][ \t]+\S")
ENDED = re.compile(rf"[.!?:;\u2026{FULL_STOPS}][\"')\]\u201d\u2019*_`]*$")
"""Ends a sentence, or leads to what follows."""


class UnitKind(StrEnum):
    """Kind of a unit. A fragment is prose without the end of a sentence, a question one that nothing follows."""

    SENTENCE = "sentence"
    FRAGMENT = "fragment"
    QUESTION = "question"
    ROW = "row"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of a text that can answer. `told` is how it is shown: a row with the names of its columns.

    `read` is what is compared with what is asked: of a question that is answered after it the question alone. `key` is
    what a row is about: its first cell.
    """

    span: Span
    told: str
    read: str
    kind: UnitKind
    key: str = ""


def pieces(text: str, columns: str = "") -> Iterator[Unit]:
    """Yield the sentences, rows and blocks of code of a text, in order; headings and names of columns are none.

    `columns`: the row that names those of a table that the text begins within.
    """
    for kind, lines in blocks(lines_of(text)):
        match kind:
            case BlockKind.CODE:
                yield from _code(text, lines)
            case BlockKind.TABLE:
                yield from _rows(lines, columns)
            case BlockKind.PROSE:
                columns = columns if all(line.text.lstrip().startswith("|") for line in lines) else ""
                yield from _prose(text, lines[0].start, lines[-1].end)


def _rows(lines: Sequence[Line], columns: str) -> Iterator[Unit]:
    """Yield the rows of a table, each with the names of its columns, where they are known."""
    ruled = next((number for number, line in enumerate(lines) if is_delimiter(line.text)), None)
    above = lines[ruled - 1].text if ruled else columns
    names = _cells(above) if above and ruled != 0 else []
    for line in lines[0 if ruled is None else ruled + 1 :]:
        if ruled is None and (not is_row(line.text) or (columns and line.text.startswith(columns))):
            continue
        cells = _cells(line.text)
        told = [f"{name}: {cell}" if name else cell for name, cell in itertools.zip_longest(names, cells) if cell]
        if len(told) > 1:
            start = line.start + len(line.text) - len(line.text.lstrip())
            span = Span(start, start + len(line.text.strip()))
            row = "; ".join(told)
            yield Unit(span=span, told=row, read=row, kind=UnitKind.ROW, key=cells[0])


def _cells(row: str) -> list[str]:
    told = row.strip().removeprefix("|")
    told = told[:-1] if told.endswith("|") and not told.endswith("\\|") else told
    return [cell.strip() for cell in BAR.split(told)]


def _code(text: str, lines: Sequence[Line]) -> Iterator[Unit]:
    """Yield commands with what they print, or else a block whole, as far as it is not too long."""
    if any(_PROMPT.match(line.text) for line in lines):
        starts = [number for number, line in enumerate(lines) if _PROMPT.match(line.text)]
        pieces = [lines[one:two] for one, two in zip(starts, [*starts[1:], len(lines)], strict=True)]
    elif lines[-1].end - lines[0].start <= MAX_BLOCK_CHARS:
        pieces = [lines]
    else:
        pieces = list(_paragraphs(lines))
    for piece in pieces:
        whole = piece if piece[-1].end - piece[0].start <= MAX_BLOCK_CHARS else piece[:1]
        span = trim_span(text, whole[0].start, whole[-1].end)
        if span.start < span.end:
            block = text[span.start : span.end]
            yield Unit(span=span, told=block, read=block, kind=UnitKind.CODE)


def _paragraphs(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    held: list[Line] = []
    for line in lines:
        if line.text.strip():
            held.append(line)
        elif held:
            yield held
            held = []
    if held:
        yield held


def _prose(text: str, start: int, end: int) -> Iterator[Unit]:
    for found in sentences(text[start:end]):
        span = Span(start + found.start, start + found.end)
        told = text[span.start : span.end]
        if HEADING.match(told):  # and no more than its line: what follows need not be parted from it
            span = trim_span(text, span.start + len(told.partition("\n")[0]), span.end)
            told = text[span.start : span.end]
        if told:
            kind = UnitKind.SENTENCE if ENDED.search(told) else UnitKind.FRAGMENT
            yield Unit(span=span, told=told, read=told, kind=kind)


def trim_span(text: str, start: int, end: int) -> Span:
    """Return a span without the white space at its ends."""
    piece = text[start:end]
    return Span(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))
