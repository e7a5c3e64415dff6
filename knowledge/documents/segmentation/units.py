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

from knowledge.documents.parsing.headings import headings
from knowledge.documents.segmentation.blocks import HEADING, lines_of
from knowledge.documents.segmentation.markdown import ITEM, indent
from knowledge.documents.segmentation.segments import MAX_BLOCK_CHARS, Unit, UnitKind, pieces
from knowledge.text.alignment import Span

_LEAD_ENDS = (":", "...", "\u2026")
_MORE = "\n\u2026"
_CLOSING = re.compile(r"\s*\n[ \t]*(?:```+|~~~+)(?=[ \t]*(?:\n|$))")
_ASKS = ("?", "\uff1f")
_PROSE: Final = frozenset({UnitKind.SENTENCE, UnitKind.FRAGMENT})


def units(text: str, columns: str = "") -> Iterator[Unit]:
    """Yield what of a text can answer, by where it begins, the longer one first; headings, names of columns never.

    `columns`: the row that names those of a table that the text begins within.
    """
    found = list(pieces(text, columns))
    return heapq.merge(_lists_below_headings(text), _join_leads(text, found), key=lambda unit: unit.span.start)


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
        elif unit.kind in _PROSE and (longer := _with_list(text, unit)):
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


def _with_list(text: str, lead: Unit) -> Unit | None:
    """Return a unit with the list that it leads to, as far as that is not too long; None where there is none."""
    items = _items_of(text, lead)
    end = _end_within(items, lead.span.start)
    if end <= lead.span.start:
        return None
    span = Span(lead.span.start, end)
    more = _MORE if end < items[-1].end else ""
    return replace(lead, span=span, told=text[span.start : span.end] + more, kind=UnitKind.SENTENCE)


def _lists_below_headings(text: str) -> Iterator[Unit]:
    """Yield each list that only a heading leads to, as far as it is not too long: half of it is another answer."""
    for heading in headings(text):
        start = _line_end(text, heading.start)
        while text.startswith("\n", start):
            start += 1
        items = _items_below(text, start, -1)
        end = _end_within(items, start)
        if items and end > items[0].end:
            read = text[start:end]
            more = _MORE if end < items[-1].end else ""
            yield Unit(span=Span(start, end), told=read + more, read=read, kind=UnitKind.FRAGMENT)


def _end_within(items: Sequence[Span], start: int) -> int:
    """Return where what is told from a place on ends, in whole items; that place where no item is short enough."""
    return max((each.end for each in items if each.end - start <= MAX_BLOCK_CHARS), default=start)


def _items_of(text: str, lead: Unit) -> tuple[Span, ...]:
    """Return the items of the list that a unit leads to, none where it leads to none.

    An item of a list around the unit ends it.
    """
    line_end = _line_end(text, lead.span.end)
    if not lead.told.rstrip("*_").endswith(_LEAD_ENDS) or text[lead.span.end : line_end].strip():
        return ()
    around = ITEM.match(text, text.rfind("\n", 0, lead.span.start) + 1)
    return _items_below(text, line_end, indent(around[0]) if around else -1)


def _items_below(text: str, start: int, outer: int) -> tuple[Span, ...]:
    """Return the items of a list that stands further in than `outer`; it reads twice as far as a unit is long."""
    items: list[Span] = []
    parted = False
    for line in lines_of(text[start : start + 2 * MAX_BLOCK_CHARS]):
        told = line.text.rstrip()
        if not told:
            parted = True
            continue
        item = ITEM.match(line.text)
        ended = indent(line.text) <= outer if item else not items or (parted and indent(line.text) <= max(outer, 0))
        if ended or HEADING.match(told):
            break
        begin = start + line.start + len(line.text) - len(line.text.lstrip())
        if not item:
            begin = items.pop().start
        items.append(Span(begin, start + line.start + len(told)))
        parted = False
    return tuple(items)


def _line_end(text: str, at: int) -> int:
    """Return where the line after that of a place begins."""
    return text.find("\n", at) + 1 or len(text)
