"""The lists of a text: each told as one with what leads to it, or whole where only a heading does; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from knowledge.documents.parsing.headings import headings
from knowledge.documents.segmentation.blocks import HEADING, lines_of
from knowledge.documents.segmentation.markdown import ITEM, indent
from knowledge.documents.segmentation.segments import MAX_BLOCK_CHARS, Unit, UnitKind
from knowledge.text.alignment import Span

_LEAD_ENDS = (":", "...", "\u2026")
_MORE = "\n\u2026"


def with_list(text: str, lead: Unit) -> Unit | None:
    """Return a unit with the list that it leads to, as far as that is not too long; None where there is none."""
    items = _items_of(text, lead)
    end = _end_within(items, lead.span.start)
    if end <= lead.span.start:
        return None
    span = Span(lead.span.start, end)
    more = _MORE if end < items[-1].end else ""
    return replace(lead, span=span, told=text[span.start : span.end] + more, kind=UnitKind.SENTENCE)


def lists_below_headings(text: str) -> Iterator[Unit]:
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
