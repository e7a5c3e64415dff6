"""Write HTML tables in Markdown as pipe rows, on the lines where they stand. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final

_TABLE = re.compile(r"^[ \t]*<table\b[^<>\n]{0,300}>", re.IGNORECASE | re.MULTILINE)
_END = re.compile(r"</table>[ \t]*", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})", re.MULTILINE)
_MAX_SPAN: Final = 100
_MAX_CELLS: Final = 20_000
_MAX_TABLE: Final = 500_000


def with_pipe_tables(text: str) -> str:
    """Return Markdown whose HTML tables outside code are pipe tables, with the same number of lines."""
    if "<table" not in text.lower():
        return text
    fences = [found.start() for found in _FENCE.finditer(text)]
    parts, done, end = [], 0, -1
    for found in _TABLE.finditer(text):
        if found.start() < done:
            continue
        if end < found.start():
            closing = _END.search(text, found.end())
            if closing is None:
                break
            end = closing.end()
        inside = (bisect_left(fences, found.start())) % 2
        if not inside and end - found.start() <= _MAX_TABLE and text[end : end + 1] in {"\n", ""}:
            parts += [text[done : found.start()], _write(text[found.start() : end])]
            done = end
    return "".join([*parts, text[done:]])


def _write(table: str) -> str:
    """Return a table as pipe rows on as many lines, unchanged if it has too few lines or one table in another."""
    reader = _Reader()
    reader.feed(table)
    rows = _grid(reader.rows)
    count = table.count("\n") + 1
    if not rows or reader.nested or len(rows) + 1 > count:
        return table
    headers = reader.headers or 1
    names = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows[:headers], strict=True)]
    lines = [""] * count
    starts = [line for line, _ in reader.rows]
    body = list(zip(starts[headers:], rows[headers:], strict=False))
    begin = min(body[0][0] - 2, starts[headers - 1]) if body else starts[0]
    lines[max(begin, 0)], lines[max(begin, 0) + 1] = _row(names), "|" + " --- |" * len(names)
    at = max(begin, 0) + 1
    for _, cells in body:
        at += 1  # without a gap: an empty line would end the table
        if at >= count:
            return table
        lines[at] = _row(cells)
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class _Reader(HTMLParser):
    """Collects the rows of a table with the lines that they begin on."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[tuple[int, list[tuple[str, int, int]]]] = []
        self.headers = 0
        self.nested = False
        self._open = 0
        self._in_head = False
        self._cell: list[str] | None = None
        self._span = (1, 1)
        self._marks = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._open += 1
            self.nested = self.nested or self._open > 1
        elif tag == "thead":
            self._in_head = True
        elif tag == "tr":
            self._end_cell()
            self.rows.append((self.getpos()[0] - 1, []))
            self._marks = ""
        elif tag in {"td", "th"}:
            self._end_cell()
            given = dict(attrs)
            self._cell, self._span = [], (_span(given.get("colspan")), _span(given.get("rowspan")))
            self._marks += tag
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")
        elif tag == "sup" and self._cell is not None:
            self._cell.append("^")
        elif tag == "code" and self._cell is not None:
            self._cell.append("`")

    def handle_endtag(self, tag: str) -> None:
        if tag == "code" and self._cell is not None:
            self._cell.append("`")
        elif tag in {"td", "th"}:
            self._end_cell()
        elif tag == "tr":
            self._end_cell()
            if self.rows and self.headers == len(self.rows) - 1 and (self._in_head or "td" not in self._marks):
                self.headers += 1
        elif tag == "thead":
            self._in_head = False

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None and self.rows:
            self.rows[-1][1].append((" ".join("".join(self._cell).split()), *self._span))
        self._cell = None


def _span(text: str | None) -> int:
    return min(int(text), _MAX_SPAN) if text and text.isdecimal() and int(text) > 0 else 1


def _grid(rows: list[tuple[int, list[tuple[str, int, int]]]]) -> list[list[str]]:
    """Return the cells of rows of one length; a cell that spans several stands in each."""
    filled: dict[tuple[int, int], str] = {}
    for at, (_, cells) in enumerate(rows):
        column = 0
        for text, columns, lines in cells:
            while (at, column) in filled:
                column += 1
            for place in _places(at, column, columns, min(lines, len(rows) - at)):
                filled[place] = text
            column += columns
            if len(filled) > _MAX_CELLS:
                return []
    width = max((column for _, column in filled), default=-1) + 1
    return [[filled.get((at, column), "") for column in range(width)] for at in range(len(rows))] if width else []


def _places(row: int, column: int, columns: int, rows: int) -> Iterator[tuple[int, int]]:
    return ((row + down, column + right) for down in range(rows) for right in range(columns))
