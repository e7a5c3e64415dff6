"""A passage cut into what can answer by itself: a piece of it, with what it says nothing without; pure.

A row says little without the names of its columns, a block of code little without the sentence before it, a question
nothing without the sentence after it, and a sentence that leads to a list nothing without the list: each is told as one
with them. A list that only a heading leads to is a unit beside its items. Marks that no reader of the page sees are no
part of an answer.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowledge.documents.segmentation.lists import lists_below_headings, with_list
from knowledge.documents.segmentation.segments import MAX_BLOCK_CHARS, Unit, UnitKind, pieces
from knowledge.text.alignment import Span

_CLOSING = re.compile(r"\s*\n[ \t]*(?:```+|~~~+)(?=[ \t]*(?:\n|$))")
_ASKS = ("?", "\uff1f")
_PROSE: Final = frozenset({UnitKind.SENTENCE, UnitKind.FRAGMENT})


def units(text: str, columns: str = "") -> Iterator[Unit]:
    """Yield what of a text can answer, by where it begins, the longer one first; headings, names of columns never.

    `columns`: the row that names those of a table that the text begins within.
    """
    found = list(pieces(text, columns))
    return heapq.merge(lists_below_headings(text), _join_leads(text, found), key=lambda unit: unit.span.start)


def _join_leads(text: str, found: Sequence[Unit]) -> Iterator[Unit]:
    """Yield units: what asks for or leads to something is told with what comes after it.

    A question is told with the sentence after it, what leads to a list with the list, and what leads to code is one
    with it.
    """
    joined = False
    for at, unit in enumerate(found):
        after = found[at + 1] if at + 1 < len(found) else None
        if joined:
            joined = False
        elif unit.kind in _PROSE and (longer := with_list(text, unit)):
            yield longer
        elif unit.kind not in _PROSE or not unit.told.endswith((*_ASKS, ":", "\uff1a")):
            yield unit
        elif after is None or after.span.end - unit.span.start > MAX_BLOCK_CHARS or after.kind is UnitKind.ROW:
            yield replace(unit, kind=UnitKind.QUESTION) if unit.told.endswith(_ASKS) else unit
        elif after.kind in _PROSE:
            span = Span(unit.span.start, after.span.end)
            yield replace(unit, span=span, told=text[span.start : span.end], kind=UnitKind.SENTENCE)
        elif unit.told.endswith(_ASKS):
            yield replace(unit, kind=UnitKind.QUESTION)
        else:
            joined = True
            span = Span(unit.span.start, _with_closing_fence(text, after.span.end))
            told = text[span.start : span.end]
            yield replace(unit, span=span, told=told, read=told, kind=UnitKind.SENTENCE)


def _with_closing_fence(text: str, end: int) -> int:
    """Return the end of code with the fence that ends it."""
    closing = _CLOSING.match(text, end)
    return closing.end() if closing else end
