"""A passage cut into what can answer by itself: a piece of it, with what it says nothing without; pure.

A row says little without the names of its columns, a block of code little without the sentence before it, a question
nothing without the paragraph after it, a term of a manual nothing without what it means, and a sentence that leads to a
list nothing without the list: each is told as one with them. A list that only a heading leads to is a unit beside its
items. Marks that no reader of the page sees are no part of an answer.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from knowledge.documents.parsing.sentences import sentences
from knowledge.documents.segmentation.blocks import lines_of
from knowledge.documents.segmentation.lists import lists_below_headings, with_list, with_rest
from knowledge.documents.segmentation.segments import MAX_BLOCK_CHARS, Unit, UnitKind, pieces
from knowledge.text.alignment import Span

_CLOSING = re.compile(r"\s*\n[ \t]*(?:```+|~~~+)(?=[ \t]*(?:\n|$))")
_LEAST_OF_A_TERM = 2
"""Lines of a term and of what it means."""
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
        elif unit.kind in _PROSE and (
            longer := with_list(text, unit) or with_rest(text, unit) or _definition(text, unit)
        ):
            yield longer
        elif unit.kind not in _PROSE or not unit.told.endswith((*_ASKS, ":", "\uff1a")):
            yield unit
        elif after is None or after.span.end - unit.span.start > MAX_BLOCK_CHARS or after.kind is UnitKind.ROW:
            yield replace(unit, kind=UnitKind.QUESTION) if unit.told.endswith(_ASKS) else unit
        elif after.kind in _PROSE:
            end = after.span.end
            if unit.told.endswith("?"):
                end = _end_of_answer(text, unit, found[at + 1 :])
            span = Span(unit.span.start, end)
            yield replace(unit, span=span, told=text[span.start : span.end], kind=UnitKind.SENTENCE)
        elif unit.told.endswith(_ASKS):
            yield replace(unit, kind=UnitKind.QUESTION)
        else:
            joined = True
            read = text[unit.span.start : _with_closing_fence(text, after.span.end)]
            span = Span(
                unit.span.start,
                _with_closing_fence(text, _end_of_code(text, unit, found[at + 1 : at + MAX_BLOCK_CHARS])),
            )
            yield replace(unit, span=span, told=text[span.start : span.end], read=read, kind=UnitKind.SENTENCE)


def _end_of_answer(text: str, question: Unit, after: Sequence[Unit]) -> int:
    """Return where the paragraph ends that answers a question, in whole sentences, as far as it is not too long."""
    end = after[0].span.end
    for one, two in itertools.pairwise(after):
        parted = "\n\n" in text[one.span.end : two.span.start] or two.kind not in _PROSE or two.told.endswith("?")
        if parted or two.span.end - question.span.start > MAX_BLOCK_CHARS:
            break
        end = two.span.end
    return end


def _with_closing_fence(text: str, end: int) -> int:
    """Return the end of code with the fence that ends it."""
    closing = _CLOSING.match(text, end)
    return closing.end() if closing else end


def _end_of_code(text: str, lead: Unit, code: Sequence[Unit]) -> int:
    """Return where the commands of a block end that go with what leads to them, as far as they are not too long."""
    end = code[0].span.end
    for one, two in itertools.pairwise(code):
        apart = text[one.span.end : two.span.start].strip()
        if two.kind is not UnitKind.CODE or apart or two.span.end - lead.span.start > MAX_BLOCK_CHARS:
            break
        end = two.span.end
    return end


def _definition(text: str, first: Unit) -> Unit | None:
    """Return the first sentence of what a term means, as pages of manuals have it, with the paragraph it begins.

    The term stands on a line of its own, and further in what it means; None where it is not so.
    """
    begin = text.rfind("\n", 0, first.span.start) + 1
    if "\n" not in first.told or text[begin : first.span.start].strip():  # a look at the lines takes longer
        return None
    lines = lines_of(text[begin : begin + 2 * MAX_BLOCK_CHARS])
    above = text[text.rfind("\n", 0, max(begin - 1, 0)) + 1 : begin]
    outer = _indent_of_a_page(lines[0].text)
    begins = not above.strip() or _indent_of_a_page(above) < outer
    if len(lines) < _LEAST_OF_A_TERM or not begins:
        return None
    within = list(
        itertools.takewhile(lambda line: _indent_of_a_page(line.text) > outer and line.text.strip(), lines[1:])
    )
    if not within:
        return None
    paragraph = text[first.span.start : begin + within[-1].end].rstrip()
    ends = [each.end for each in sentences(paragraph) if each.end <= MAX_BLOCK_CHARS]
    end = first.span.start + max(ends, default=0)
    if end <= first.span.end:
        return None
    span = Span(first.span.start, end)
    return replace(first, span=span, told=text[span.start : span.end], kind=UnitKind.SENTENCE)


def _indent_of_a_page(line: str) -> int:
    """Return how far in a line of a printed page stands, whose tabs are of eight blanks."""
    spread = line.expandtabs(8)
    return len(spread) - len(spread.lstrip())
