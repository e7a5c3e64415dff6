"""Separated values as the rows of a table, and the names of the columns that each stretch of a table has; pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from knowledge.documents.headings import text_lines

_DELIMITER = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?")
_SEPARATORS: Final[dict[str, str]] = {".csv": ",;\t|", ".tsv": "\t"}
_LOOKED_AT: Final = 8_192
_ALIKE: Final = 0.9
"""Share of rows that have as many cells as the first one, in what is a table."""
_NO_ROW: Final = "|"
"""A line within a table that holds none of its rows: empty, or a further one of a cell."""

SEPARATED: Final = frozenset(_SEPARATORS)


class Table(NamedTuple):
    """Where a table stands, the row that names its columns, and whether it is known for that by no line below it."""

    start: int
    end: int
    columns: str
    bare: bool


def as_rows(ending: str, text: str) -> str | None:
    """Return separated values as rows between bars, each on the line where it was; None where they are no table.

    No line marks the first row as the names of columns: it would move all others.
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
    """Return the rows of a table; nothing where it is none."""
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
    """Yield the tables whose columns are named: by the row above dashes, or by the first one where a text begins so."""
    found: Table | None = None
    above = ""
    for at, line in text_lines(text):
        told = line.strip()
        if not told.startswith("|"):
            if found and found.columns:
                yield found
            found = None
            continue
        if found is None:
            found = Table(at, at, "" if at else told, bare=not at)
        elif _DELIMITER.fullmatch(told):
            found = found._replace(columns=above, bare=False)
        above, found = told, found._replace(end=at + len(line))
    if found and found.columns:
        yield found
