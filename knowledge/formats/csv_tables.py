"""CSV as Markdown table rows, and the column names of the tables in a text; pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from knowledge.formats.headings import text_lines

_SEPARATORS: Final[dict[str, str]] = {".csv": ",;\t|", ".tsv": "\t"}
_LOOKED_AT: Final = 8_192
_ALIKE: Final = 0.9
"""Minimum share of rows of a table with as many cells as the first one."""
_NO_ROW: Final = "|"
"""Line within a table that is not a row: empty, or the continuation of a cell."""
SEPARATED: Final = frozenset(_SEPARATORS)


class Table(NamedTuple):
    """A table: its span, the row with the column names, and `bare` if no delimiter line follows that row."""

    start: int
    end: int
    columns: str
    bare: bool


def as_rows(ending: str, text: str) -> str | None:
    """Return separated values as rows between bars, each on its original line; None if they are not a table.

    There is no delimiter line after the first row: it would move all others.
    """
    head = text[: text.rfind("\n", 0, _LOOKED_AT) + 1] if len(text) > _LOOKED_AT else text
    fitting = [each for each in _SEPARATORS[ending] if _read(head, each)]
    rows = _read(text, max(fitting, key=lambda each: len(_read(head, each)[0].cells))) if fitting else []
    if not rows:
        return None
    lines = [_NO_ROW] * text.count("\n") + ["" if text.endswith("\n") else _NO_ROW]
    for row in rows:
        cells = (" ".join(cell.split()).replace("|", "\\|") for cell in row.cells)
        lines[row.line] = f"| {' | '.join(cells)} |"
    return "\n".join(lines)


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _read(text: str, separator: str) -> list[_Row]:
    """Return the rows of a table; empty if the text is not a table."""
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    rows: list[_Row] = []
    line = 0
    try:
        for cells in reader:
            if cells:
                rows.append(_Row(line, cells))
            line = reader.line_num
    except csv.Error:
        return []
    several = len(rows) > 1 and len(rows[0].cells) > 1
    alike = several and sum(len(row.cells) == len(rows[0].cells) for row in rows) >= _ALIKE * len(rows)
    return rows if alike else []


def tables(text: str) -> Iterator[Table]:
    """Yield the tables with column names: the row above dashes, or the first row if the text begins with it."""
    found: Table | None = None
    above = ""
    for at, line in text_lines(text):
        stripped = line.strip()
        if not stripped.startswith("|"):
            if found and found.columns:
                yield found
            found = None
            continue
        if found is None:
            found = Table(at, at, "" if at else stripped, bare=not at)
        elif "|" in stripped.strip("|") and DELIMITER.fullmatch(stripped):
            found = found._replace(columns=above, bare=False)
        above, found = stripped, found._replace(end=at + len(line))
    if found and found.columns:
        yield found


DELIMITER = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?")
