"""A passage cut into what can answer by itself: sentences, rows of tables, blocks of code; pure.

A row says little without the names of its columns, a block of code little without the sentence before it, a question
nothing without the paragraph after it, a term of a manual nothing without what it means, and a sentence that leads to a
list nothing without the list: each is told as one with them. A list that only a heading leads to is a unit beside its
items, and so is any numbered one. Marks that no reader of the page sees are no part of an answer.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from knowledge.documents.aligning import FULL_STOPS, Span
from knowledge.documents.headings import headings
from knowledge.documents.marks import ITEM, Literal, indent, unread
from knowledge.documents.sentences import sentences
from knowledge.documents.steps import MOST_OF_STEPS, Listed, numbered_lists

MOST_OF_A_BLOCK: Final = 700
"""Characters of a block of code that is read whole; a longer one is read by its paragraphs. So many of a list are told
with what leads to it, in whole items."""

_FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)")
_CLOSING = re.compile(r"\s*\n[ \t]*(?:```+|~~~+)(?=[ \t]*(?:\n|$))")
_DELIMITER = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?")
_BAR = re.compile(r"(?<!\\)\|")
_PROMPT = re.compile(r"[ \t]*[$>%][ \t]+\S")
_LEAST_BARS = 2
_LEAST_OF_A_TERM = 2
"""Lines of a term and of what it means."""
_HEADING = re.compile(r"#{1,6}[ \t]")
_LEADS = re.compile(r"(?::|\.\.\.|\u2026)[*_]*$")
_MORE = "\n\u2026"
_ASKS = ("?", "\uff1f")
_ENDED = re.compile(rf"[.!?:;\u2026{FULL_STOPS}][\"')\]\u201d\u2019*_`]*$")


class UnitKind(StrEnum):
    """What a unit is. A fragment is prose that does not end as a sentence does, a question one that nothing follows.

    Steps are a numbered list: nothing by itself, and told in place of one of its items.
    """

    SENTENCE = "sentence"
    FRAGMENT = "fragment"
    QUESTION = "question"
    ROW = "row"
    CODE = "code"
    STEPS = "steps"


_PROSE: Final = frozenset({UnitKind.SENTENCE, UnitKind.FRAGMENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A piece of a text that can answer. `told` is how it is shown: a row with the names of its columns.

    `read` is what is compared with what is asked: of a question that is answered after it the question alone. `key` is
    what a row is about: its first cell. `listed` are the items of a list that it tells.
    """

    span: Span
    told: str
    read: str
    kind: UnitKind
    key: str = ""
    listed: Listed | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def units(text: str, columns: str = "") -> Iterator[Unit]:
    """Yield what of a text can answer, by where it begins, the longer one first; headings, names of columns never.

    `columns`: the row that names those of a table that the text begins within.
    """
    found: list[Unit] = []
    for kind, lines in _blocks(_lines(text)):
        match kind:
            case UnitKind.CODE:
                found += _code(text, lines)
            case UnitKind.ROW:
                found += _rows(lines, columns)
            case _:
                columns = columns if all(line.text.lstrip().startswith("|") for line in lines) else ""
                found += _prose(text, lines[0].start, lines[-1].end)
    steps = list(numbered_lists(text))
    told = list(heapq.merge(_lists(text, steps), _led_in(text, found, steps), key=lambda unit: unit.span.start))
    led = {unit.listed.items[0].start for unit in told if unit.listed}
    others = (each for each in steps if each.items[0].start not in led)
    return heapq.merge(_steps(text, others), told, key=lambda unit: unit.span.start)


def _lines(text: str) -> list[_Line]:
    return [_Line(found.start(), found[0]) for found in re.finditer(r"[^\n]*(?:\n|$)", text) if found[0]]


def _bound(line: _Line, fence: str) -> str:
    """Return the marks of a line that begins code, or ends that of `fence`; empty where it does neither."""
    mark = _FENCE.match(line.text)
    return mark[1] if mark and (not fence or (mark[1].startswith(fence) and not mark[2])) else ""


def _fenced(lines: Sequence[_Line], fence: str) -> frozenset[int]:
    """Return the numbers of the lines in fences, with the fences; `fence`: in which the first of them stands."""
    found = set()
    for number, line in enumerate(lines):
        mark = _bound(line, fence)
        if mark or fence:
            found.add(number)
        if mark:
            fence = "" if fence else mark
    return frozenset(found)


def _blocks(lines: Sequence[_Line]) -> Iterator[tuple[UnitKind, list[_Line]]]:
    """Yield stretches of prose, tables and code; fences, headings with a line below them and marks are in none."""
    held: list[_Line] = []
    of = UnitKind.SENTENCE
    fence = "```" if _begins_in_code(lines) else ""
    rows = _of_tables(lines)
    passed, literal = unread([line.text for line in lines], _fenced(lines, fence)), Literal()
    for number, line in enumerate(lines):
        mark = _bound(line, fence)
        if mark or (not fence and number in passed):
            if held:
                yield of, held
            held = []
            if mark:
                fence = "" if fence else mark
            literal.pass_over(line.text)
            continue
        if fence or literal.holds(line.text):
            kind = UnitKind.CODE
        else:
            kind = UnitKind.ROW if number in rows else UnitKind.SENTENCE
        if kind is not of and held:
            yield of, held
            held = []
        of = kind
        held.append(line)
    if held:
        yield of, held


def _begins_in_code(lines: Sequence[_Line]) -> bool:
    """Return whether a passage was cut within a block of code: its first fence only ends one."""
    fences = [found for line in lines if (found := _FENCE.match(line.text))]
    cut = len(fences) % 2 == 1 and not fences[0][2]
    return cut and not _HEADING.match(lines[0].text)


def _of_tables(lines: Sequence[_Line]) -> frozenset[int]:
    """Return which lines are of tables: what stands below names and dashes, and what stands between bars.

    A row that a passage was cut in has a bar at one end only; it is of the table, and no unit.
    """
    found: set[int] = set()
    for number, line in enumerate(lines):
        if number in found:
            continue
        if number and _is_delimiter(line.text) and "|" in lines[number - 1].text:
            rows = itertools.takewhile(lambda at: "|" in lines[at].text, range(number + 1, len(lines)))
            found |= {number - 1, number, *rows}
        elif _is_row(line.text):
            found.add(number)
    if 1 in found and lines[0].text.rstrip().endswith("|"):
        found.add(0)
    if len(lines) - 2 in found and lines[-1].text.lstrip().startswith("|"):
        found.add(len(lines) - 1)
    return frozenset(found)


def _is_row(text: str) -> bool:
    told = text.strip()
    return told.startswith("|") and told.endswith("|") and len(_BAR.findall(told)) > _LEAST_BARS


def _rows(lines: Sequence[_Line], columns: str) -> Iterator[Unit]:
    """Yield the rows of a table, each with the names of its columns, where they are known."""
    ruled = next((number for number, line in enumerate(lines) if _is_delimiter(line.text)), None)
    above = lines[ruled - 1].text if ruled else columns
    names = _cells(above) if above and ruled != 0 else []
    for line in lines[0 if ruled is None else ruled + 1 :]:
        if ruled is None and (not _is_row(line.text) or (columns and line.text.startswith(columns))):
            continue
        cells = _cells(line.text)
        told = [f"{name}: {cell}" if name else cell for name, cell in itertools.zip_longest(names, cells) if cell]
        if len(told) > 1:
            start = line.start + len(line.text) - len(line.text.lstrip())
            span = Span(start, start + len(line.text.strip()))
            row = "; ".join(told)
            yield Unit(span=span, told=row, read=row, kind=UnitKind.ROW, key=cells[0])


def _is_delimiter(text: str) -> bool:
    return "|" in text and _DELIMITER.fullmatch(text.strip(" \t\n")) is not None


def _cells(row: str) -> list[str]:
    told = row.strip().removeprefix("|")
    told = told[:-1] if told.endswith("|") and not told.endswith("\\|") else told
    return [cell.strip() for cell in _BAR.split(told)]


def _code(text: str, lines: Sequence[_Line]) -> Iterator[Unit]:
    """Yield commands with what they print, or else a block whole, as far as it is not too long."""
    if any(_PROMPT.match(line.text) for line in lines):
        starts = [number for number, line in enumerate(lines) if _PROMPT.match(line.text)]
        pieces = [lines[one:two] for one, two in zip(starts, [*starts[1:], len(lines)], strict=True)]
    elif lines[-1].end - lines[0].start <= MOST_OF_A_BLOCK:
        pieces = [lines]
    else:
        pieces = list(_paragraphs(lines))
    for piece in pieces:
        whole = piece if piece[-1].end - piece[0].start <= MOST_OF_A_BLOCK else piece[:1]
        span = _trimmed(text, whole[0].start, whole[-1].end)
        if span.start < span.end:
            block = text[span.start : span.end]
            yield Unit(span=span, told=block, read=block, kind=UnitKind.CODE)


def _paragraphs(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    held: list[_Line] = []
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
        if _HEADING.match(told):  # and no more than its line: what follows need not be parted from it
            span = _trimmed(text, span.start + len(told.partition("\n")[0]), span.end)
            told = text[span.start : span.end]
        if told:
            kind = UnitKind.SENTENCE if _ENDED.search(told) else UnitKind.FRAGMENT
            yield Unit(span=span, told=told, read=told, kind=kind)


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return Span(start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip()))


def _led_in(text: str, found: Sequence[Unit], steps: Sequence[Listed]) -> Iterator[Unit]:
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
            longer := _with_list(text, unit, steps) or _with_rest(text, unit) or _defined(text, unit)
        ):
            yield longer
        elif unit.kind not in _PROSE or not unit.told.endswith((*_ASKS, ":", "\uff1a")):
            yield unit
        elif after is None or after.span.end - unit.span.start > MOST_OF_A_BLOCK or after.kind is UnitKind.ROW:
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
            read = text[unit.span.start : _closed(text, after.span.end)]
            span = Span(unit.span.start, _closed(text, _end_of_code(text, unit, found[at + 1 : at + MOST_OF_A_BLOCK])))
            yield replace(unit, span=span, told=text[span.start : span.end], read=read, kind=UnitKind.SENTENCE)


def _end_of_answer(text: str, question: Unit, after: Sequence[Unit]) -> int:
    """Return where the paragraph ends that answers a question, in whole sentences, as far as it is not too long."""
    end = after[0].span.end
    for one, two in itertools.pairwise(after):
        parted = "\n\n" in text[one.span.end : two.span.start] or two.kind not in _PROSE or two.told.endswith("?")
        if parted or two.span.end - question.span.start > MOST_OF_A_BLOCK:
            break
        end = two.span.end
    return end


def _closed(text: str, end: int) -> int:
    """Return the end of code with the fence that ends it."""
    closing = _CLOSING.match(text, end)
    return closing.end() if closing else end


def _end_of_code(text: str, lead: Unit, code: Sequence[Unit]) -> int:
    """Return where the commands of a block end that go with what leads to them, as far as they are not too long."""
    end = code[0].span.end
    for one, two in itertools.pairwise(code):
        apart = text[one.span.end : two.span.start].strip()
        if two.kind is not UnitKind.CODE or apart or two.span.end - lead.span.start > MOST_OF_A_BLOCK:
            break
        end = two.span.end
    return end


def _with_list(text: str, lead: Unit, steps: Sequence[Listed]) -> Unit | None:
    """Return a unit told with the list that it leads to, as far as that is not too long; None where there is none."""
    items = _items_of(text, lead)
    if not items:
        return None
    listed, most = _as_steps(items, steps)
    told = listed.told_end(lead.span.start, most)
    if told <= lead.span.start:
        return None
    span = Span(lead.span.start, told)
    more = _MORE if told < listed.items[-1].end else ""
    return replace(
        lead, span=span, told=text[span.start : span.end] + more, kind=UnitKind.SENTENCE, listed=_several(listed)
    )


def _as_steps(items: tuple[Span, ...], steps: Sequence[Listed]) -> tuple[Listed, int]:
    """Return a list, with all its numbers where it is a numbered one, and how much of it may be told."""
    for each in steps:
        if each.items[0].start == items[0].start:
            return each, MOST_OF_STEPS
    return Listed(items=items), MOST_OF_A_BLOCK


def _several(listed: Listed) -> Listed | None:
    return listed if len(listed.items) > 1 or listed.numbered else None


def _items_of(text: str, lead: Unit) -> tuple[Span, ...]:
    """Return the items of the list that a unit leads to, none where it leads to none.

    An item of a list around the unit ends it.
    """
    line_end = _line_end(text, lead.span.end)
    if not _LEADS.search(lead.told) or text[lead.span.end : line_end].strip():
        return ()
    around = ITEM.match(text, text.rfind("\n", 0, lead.span.start) + 1)
    return _items_below(text, line_end, indent(around[0]) if around else -1)


def _items_below(text: str, start: int, outer: int) -> tuple[Span, ...]:
    """Return the items of a list that stands further in than `outer`; looked at is twice what is told."""
    items: list[Span] = []
    parted = False
    for line in _lines(text[start : start + 2 * MOST_OF_A_BLOCK]):
        told = line.text.rstrip()
        if not told:
            parted = True
            continue
        item = ITEM.match(line.text)
        ended = indent(line.text) <= outer if item else not items or (parted and indent(line.text) <= max(outer, 0))
        if ended or _HEADING.match(told):
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


def _lists(text: str, steps: Sequence[Listed]) -> Iterator[Unit]:
    """Yield each list that only a heading leads to, as far as it is not too long: half of it is another answer."""
    for heading in headings(text):
        start = _line_end(text, heading.start)
        while text.startswith("\n", start):
            start += 1
        items = _items_below(text, start, -1)
        if not items:
            continue
        listed, most = _as_steps(items, steps)
        if listed.told_end(start, most) > listed.items[0].end:
            yield _whole(text, start, listed, most, UnitKind.FRAGMENT)


def _steps(text: str, steps: Iterable[Listed]) -> Iterator[Unit]:
    """Yield the numbered lists that nothing is told with, as far as they are not too long."""
    for listed in steps:
        start = listed.items[0].start
        if listed.told_end(start, MOST_OF_STEPS) > start:
            yield _whole(text, start, listed, MOST_OF_STEPS, UnitKind.STEPS)


def _whole(text: str, start: int, listed: Listed, most: int, kind: UnitKind) -> Unit:
    """Return a list as a unit, with a sign where there are items before or after those that are told."""
    span = Span(start, listed.told_end(start, most))
    read = text[span.start : span.end]
    before = _MORE[::-1] if (listed.first or 0) > 1 else ""
    more = _MORE if span.end < listed.items[-1].end else ""
    return Unit(span=span, told=before + read + more, read=read, kind=kind, listed=_several(listed))


def _with_rest(text: str, first: Unit) -> Unit | None:
    """Return the first sentence of an item of a list told with the others of it, None where it is not."""
    item = ITEM.match(text, text.rfind("\n", 0, first.span.start) + 1)
    if item is None or first.span.start >= item.end() or not _ENDED.search(first.told):
        return None
    end = first.span.end
    for number, line in enumerate(_lines(text[end : end + MOST_OF_A_BLOCK])):
        told = line.text.rstrip()
        other = not told or ITEM.match(told) or _FENCE.match(told) or _HEADING.match(told) or _is_row(told)
        ended = indent(line.text) <= indent(item[0]) and _ENDED.search(text[first.span.start : end])
        if number and (other or ended):
            break
        end = first.span.end + line.start + len(told)
    span = Span(first.span.start, end)
    told = text[span.start : span.end].rstrip()
    if end <= first.span.end or len(told) > MOST_OF_A_BLOCK or told.endswith(":"):
        return None
    return replace(first, span=span, told=told)


def _defined(text: str, first: Unit) -> Unit | None:
    """Return the first sentence of what a term means, as pages of manuals have it, with the paragraph it begins.

    The term stands on a line of its own, and further in what it means; None where it is not so.
    """
    begin = text.rfind("\n", 0, first.span.start) + 1
    if "\n" not in first.told or text[begin : first.span.start].strip():  # a look at the lines takes longer
        return None
    lines = _lines(text[begin : begin + 2 * MOST_OF_A_BLOCK])
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
    ends = [each.end for each in sentences(paragraph) if each.end <= MOST_OF_A_BLOCK]
    end = first.span.start + max(ends, default=0)
    if end <= first.span.end:
        return None
    span = Span(first.span.start, end)
    return replace(first, span=span, told=text[span.start : span.end], kind=UnitKind.SENTENCE)


def _indent_of_a_page(line: str) -> int:
    """Return how far in a line of a printed page stands, whose tabs are of eight blanks."""
    spread = line.expandtabs(8)
    return len(spread) - len(spread.lstrip())
