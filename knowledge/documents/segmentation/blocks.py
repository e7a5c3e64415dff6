"""Split a text into blocks of prose, tables and code; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from knowledge.documents.parsing.csv_tables import DELIMITER
from knowledge.documents.segmentation.markdown import Literal, unread

FENCE = re.compile(r"[ \t]{0,3}(?:[-*+>][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})[ \t]*(\S*)")
"""Begins or ends code; its marks, and what stands behind them."""
HEADING = re.compile(r"#{1,6}[ \t]")
BAR = re.compile(r"(?<!\\)\|")
"""Stands between the cells of a row."""
_LEAST_BARS: Final = 2


class BlockKind(Enum):
    """Kind of a block of lines."""

    PROSE = "prose"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a text with what ends it, and where it begins."""

    start: int
    text: str

    @property
    def end(self) -> int:
        """Return where the line after it begins."""
        return self.start + len(self.text)


def lines_of(text: str) -> list[Line]:
    """Return the lines of a text."""
    return [Line(found.start(), found[0]) for found in re.finditer(r"[^\n]*(?:\n|$)", text) if found[0]]


def blocks(lines: Sequence[Line]) -> Iterator[tuple[BlockKind, list[Line]]]:
    """Yield stretches of prose, tables and code; fences, headings with a line below them and marks are in none."""
    held: list[Line] = []
    of = BlockKind.PROSE
    fence = "```" if _begins_in_code(lines) else ""
    rows = _of_tables(lines)
    passed, literal = unread([line.text for line in lines], _fence_lines(lines, fence)), Literal()
    for number, line in enumerate(lines):
        mark = _fence_mark(line, fence)
        if mark or (not fence and number in passed):
            if held:
                yield of, held
            held = []
            if mark:
                fence = "" if fence else mark
            literal.pass_over(line.text)
            continue
        if fence or literal.holds(line.text):
            kind = BlockKind.CODE
        else:
            kind = BlockKind.TABLE if number in rows else BlockKind.PROSE
        if kind is not of and held:
            yield of, held
            held = []
        of = kind
        held.append(line)
    if held:
        yield of, held


def _fence_mark(line: Line, fence: str) -> str:
    """Return the fence of a line that begins code or ends that of `fence`; empty for other lines."""
    mark = FENCE.match(line.text)
    return mark[1] if mark and (not fence or (mark[1].startswith(fence) and not mark[2])) else ""


def _fence_lines(lines: Sequence[Line], fence: str) -> frozenset[int]:
    """Return the indexes of the lines in fences, fences included; `fence`: the one that the first line is in."""
    found = set()
    for number, line in enumerate(lines):
        mark = _fence_mark(line, fence)
        if mark or fence:
            found.add(number)
        if mark:
            fence = "" if fence else mark
    return frozenset(found)


def _begins_in_code(lines: Sequence[Line]) -> bool:
    """Return whether a passage was cut within a block of code: its first fence only ends one."""
    fences = [found for line in lines if (found := FENCE.match(line.text))]
    cut = len(fences) % 2 == 1 and not fences[0][2]
    return cut and not HEADING.match(lines[0].text)


def _of_tables(lines: Sequence[Line]) -> frozenset[int]:
    """Return which lines are of tables: what stands below names and dashes, and what stands between bars.

    A row that a passage was cut in has a bar at one end only; it is of the table, and no unit.
    """
    found: set[int] = set()
    for number, line in enumerate(lines):
        if number in found:
            continue
        if number and is_delimiter(line.text) and "|" in lines[number - 1].text:
            rows = itertools.takewhile(lambda at: "|" in lines[at].text, range(number + 1, len(lines)))
            found |= {number - 1, number, *rows}
        elif is_row(line.text):
            found.add(number)
    if 1 in found and lines[0].text.rstrip().endswith("|"):
        found.add(0)
    if len(lines) - 2 in found and lines[-1].text.lstrip().startswith("|"):
        found.add(len(lines) - 1)
    return frozenset(found)


def is_row(text: str) -> bool:
    """Return whether a line is a row of a table that has bars at both ends."""
    told = text.strip()
    return told.startswith("|") and told.endswith("|") and len(BAR.findall(told)) > _LEAST_BARS


def is_delimiter(text: str) -> bool:
    """Return whether a line is the dashes between the names of columns and the rows."""
    return "|" in text and DELIMITER.fullmatch(text.strip(" \t\n")) is not None
