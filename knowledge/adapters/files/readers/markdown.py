"""Write Markdown: text with raised and lowered signs, tables with spanning cells, and whole documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

RAISED: Final = ("\ue000", "\ue001")
"""Signs around superscript text, until `plain` writes it as `10^6`."""
LOWERED: Final = ("\ue002", "\ue003")
BREAK: Final = "\ue004"
"""A line break that a reader sees."""
_PRIVATE = dict.fromkeys(range(0xE000, 0xE005))
_RAISED = re.compile("\ue000([^\ue000-\ue003]*)\ue001")
_LOWERED = re.compile("\ue002([^\ue000-\ue003]*)\ue003")
_ORDINALS: Final = frozenset({"st", "nd", "rd", "th", "er", "e", "o", "a", "®", "™", "©"})
_SIMPLE = re.compile(r"[\w.,]+|[-+\u2212]?\d+(?:[.,]\d+)?")
_MATHEMATICAL_MINUS: Final = "\u2212"
_BLOCK_STARTS = re.compile(r"#{1,6}(?:\s|$)|>|`{3}|~{3}|(?:-+|=+)$|</?[A-Za-z!]")
MAX_CELLS: Final = 400_000
"""Maximum cells of a table, those that spanning cells cover included."""
MAX_SPAN: Final = 1000
MAX_HEADER_ROWS: Final = 4
MAX_DEPTH: Final = 6
MAX_LIST_DEPTH: Final = 12


def without_private(text: str) -> str:
    """Return text of a file without the signs that this module uses."""
    return text.translate(_PRIVATE)


def superscript(text: str) -> str:
    """Mark text as superscript."""
    return f"{RAISED[0]}{text}{RAISED[1]}" if text.strip() else text


def subscript(text: str) -> str:
    """Mark text as subscript."""
    return f"{LOWERED[0]}{text}{LOWERED[1]}" if text.strip() else text


def plain(text: str) -> str:
    """Return text with superscripts as `10^6` and subscripts as `x_1`, white space joined; breaks become newlines."""
    for _ in range(8):  # nested ones, inner first
        before = text
        text = _LOWERED.sub(_write_lowered, _RAISED.sub(_write_raised, text))
        if text == before:
            break
    lines = text.translate(dict.fromkeys(range(57344, 57348), " ")).split(BREAK)
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _write_raised(found: re.Match[str]) -> str:
    inner = found[1].strip()
    before = found.string[found.start() - 1 : found.start()]
    if not inner or not before.strip() or inner.lower() in _ORDINALS or inner.startswith(("[", "(")):
        return inner
    inner = inner.replace(_MATHEMATICAL_MINUS, "-")
    return _apart(f"^{inner}" if _SIMPLE.fullmatch(inner) else f"^({inner})", found)


def _write_lowered(found: re.Match[str]) -> str:
    inner = found[1].strip()
    before = found.string[found.start() - 1 : found.start()]
    if not inner or (before.isalpha() and inner.isdigit()):
        return _apart(inner, found)
    return _apart(f"_{inner}" if _SIMPLE.fullmatch(inner) else f"_({inner})", found)


def _apart(text: str, found: re.Match[str]) -> str:
    """Return text, with a space behind it where it would run into a letter or digit that follows on the line."""
    after = found.string[found.end() : found.end() + 1]
    digit = text[-1:].isdigit() and after.isdigit()
    return f"{text} " if digit or (text.startswith("^") and after.isalnum()) else text


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with the number of columns and rows that it spans."""

    text: str
    columns: int = 1
    rows: int = 1
    header: bool = False


def write_table(rows: Sequence[Sequence[Cell]], header_rows: int | None = None) -> str:
    """Return a table as pipe rows: a cell that spans several stands in each, header rows are joined into one.

    Without a number of header rows, the first row is the header, with the rows that its cells reach down to.
    """
    if header_rows is None:
        header_rows = _count_header_rows(rows)
    grid = _expand(rows)
    width = max((len(row) for row in grid), default=0)
    if not width:
        return ""
    grid = [row + [""] * (width - len(row)) for row in grid]
    used = [at for at in range(width) if any(row[at] for row in grid)]
    grid = [[row[at] for at in used] for row in grid]
    if not used:
        return ""
    return grid[0][0] if len(used) == 1 and len(grid) == 1 else write_grid(grid, header_rows)


def write_grid(grid: Sequence[Sequence[str]], header_rows: int) -> str:
    """Return rows of equal length as pipe rows, the header rows joined into one, rows without any text left out."""
    header = grid[:header_rows] or [[""] * len(grid[0])]
    names = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*header, strict=True)]
    body = [pipe_row(row) for row in grid[header_rows:] if any(row)]
    return "\n".join([pipe_row(names), "|" + " --- |" * len(names), *body])


def _count_header_rows(rows: Sequence[Sequence[Cell]]) -> int:
    marked = 0
    while marked < min(len(rows) - 1, MAX_HEADER_ROWS) and rows[marked] and all(cell.header for cell in rows[marked]):
        marked += 1
    first = rows[0] if rows else ()
    groups = any(cell.columns > 1 for cell in first) and len(first) > 1
    deep = max((cell.rows for cell in first), default=1)
    spanned = min(deep, MAX_HEADER_ROWS, max(len(rows) - 1, 1)) if groups else 1
    return max(marked, spanned)


def _expand(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """Return the texts of a grid; a cell alone in its row that spans several columns stands once."""
    grid: list[list[str]] = []
    hanging: dict[int, tuple[str, int]] = {}
    left = MAX_CELLS
    for cells in rows:
        row, hanging = _place(cells, hanging, left)
        left -= len(row)
        if left <= 0:
            raise ValueError(f"a table has more than {MAX_CELLS:,} cells")
        grid.append(row)
    return grid


def _place(
    cells: Sequence[Cell], hanging: dict[int, tuple[str, int]], most: int
) -> tuple[list[str], dict[int, tuple[str, int]]]:
    """Return a row among cells that hang into it from above, by column, and what hangs into the next row."""
    row: list[str] = []
    below: dict[int, tuple[str, int]] = {}

    def put(text: str, rows: int) -> None:
        if rows > 1:
            below[len(row)] = (text, rows - 1)
        row.append(text)

    alone = len(cells) == 1 and cells[0].columns > 1
    for cell in cells:
        while len(row) in hanging:
            put(*hanging[len(row)])
        for n in range(max(1, min(cell.columns, MAX_SPAN, most - len(row)))):
            put("" if alone and n else cell.text, min(cell.rows, MAX_SPAN))
    for at in range(len(row), max(hanging, default=-1) + 1):
        put(*hanging.get(at, ("", 1)))
    return row, below


def pipe_row(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


@dataclass(slots=True)
class Writer:
    """Collects the blocks of a document; items of lists stand on lines next to each other."""

    blocks: list[tuple[bool, str]] = field(default_factory=list)

    def add(self, block: str) -> None:
        """Add a block that is Markdown already."""
        if block.strip():
            self.blocks.append((False, block))

    def heading(self, depth: int, text: str) -> None:
        if words := " ".join(plain(text).split()):
            self.add(f"{'#' * max(1, min(depth, MAX_DEPTH))} {words}")

    def paragraph(self, text: str) -> None:
        """Add a paragraph; what would begin another block at the start of a line is escaped."""
        self.add("\n".join(_escape_start(line) for line in plain(text).split("\n")))

    def item(self, depth: int, marker: str, text: str) -> None:
        """Add an item of a list, nested so deep."""
        indent = "    " * min(depth, MAX_LIST_DEPTH)
        if words := plain(text).replace("\n", "\n" + indent + "    "):
            self.blocks.append((True, f"{indent}{marker} {words}"))

    def code(self, text: str) -> None:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        code = text.strip("\n")
        self.add(f"{fence}\n{code}\n{fence}" if code.strip() else "")

    @property
    def text(self) -> str:
        """The document so far."""
        parts: list[str] = []
        item_before = False
        for item, block in self.blocks:
            parts += ["\n" if item and item_before else "\n\n", block]
            item_before = item
        return "".join(parts[1:])


def _escape_start(line: str) -> str:
    return f"\\{line}" if _BLOCK_STARTS.match(line) else line
