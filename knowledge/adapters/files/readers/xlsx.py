"""Read .xlsx sheet by sheet, each cell as its number format shows it; without what is hidden."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import pairwise
from typing import Final

from lxml import etree

from knowledge.adapters.files.readers.formulas import local_name
from knowledge.adapters.files.readers.markdown import MAX_CELLS, Writer, plain, superscript, without_private, write_grid
from knowledge.adapters.files.readers.number_formats import format_number, format_text
from knowledge.adapters.files.readers.packages import Package

_M: Final = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R_ID: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_ON: Final = frozenset({"1", "true"})
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_SHORT_NUMBER = re.compile(r"-?[1-9]\d{0,8}(?:\.\d{0,2}[1-9])?|0")
"""Numbers that the format General shows as they stand."""
_MAX_MERGES: Final = 20_000
_MAX_MERGED_ROWS: Final = 1000
_MAX_MERGED_COLUMNS: Final = 100
_BUILT_IN: Final[Mapping[int, str]] = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: '#,##0;-#,##0;"-"', 42: '"$"#,##0;-"$"#,##0;"-"',
    43: '#,##0.00;-#,##0.00;"-"', 44: '"$"#,##0.00;-"$"#,##0.00;"-"', 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
    48: "##0.0E+0", 49: "@",
}  # fmt: skip
"""Formats that have a number and no code in a file; those of dates depend on the reader's country: ISO 8601 here."""


def read_xlsx(content: bytes) -> tuple[str, str | None, list[str]]:
    """Return the sheets that are shown as Markdown, the title of the file, and notes on what was not read."""
    package = Package.open(content)
    main = next((target for kind, target in package.relations("").values() if kind == "officeDocument"), "")
    main = main or "xl/workbook.xml"
    root = package.root(main)
    if root is None:
        raise ValueError("it has no workbook in it")
    relations = package.relations(main)
    properties = root.find(f"{_M}workbookPr")
    book = _Book(package, from_1904=properties is not None and properties.get("date1904") in _ON)
    kinds = dict(relations.values())
    book.load(kinds.get("styles"), kinds.get("sharedStrings"))
    writer, hidden = Writer(), 0
    for sheet in root.iter(f"{_M}sheet"):
        kind, target = relations.get(sheet.get(_R_ID) or "", ("", ""))
        if sheet.get("state") in {"hidden", "veryHidden"}:
            hidden += 1
        elif kind == "worksheet" and target in package.names:
            writer.heading(2, sheet.get("name") or "")
            _write_sheet(writer, book.sheet(target))
            book.charts = book.charts or any(each == "drawing" for each, _ in package.relations(target).values())
    core = package.root("docProps/core.xml")
    title = next((each.text for each in core.iter("{*}title") if each.text), None) if core is not None else None
    notes = [f"Hidden sheets that are not read: {hidden}."] if hidden else []
    if book.uncomputed:
        notes.append(f"Formulas without a stored result, which are not read: {book.uncomputed}.")
    if book.charts:
        notes.append("Charts and drawings are not read.")
    return writer.text, title, notes


@dataclass(slots=True)
class _Sheet:
    """The cells that are shown, by row and column, and the ranges that are merged."""

    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    numbers: set[tuple[int, int]] = field(default_factory=set)
    merges: list[tuple[int, int, int, int]] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Book:
    package: Package
    from_1904: bool = False
    formats: list[str] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    uncomputed: int = 0
    charts: bool = False
    left: int = MAX_CELLS * 2

    def load(self, styles: str | None, strings: str | None) -> None:
        root = self.package.root(styles) if styles else None
        if root is not None:
            codes = {_integer(each.get("numFmtId")): each.get("formatCode") or "" for each in root.iter(f"{_M}numFmt")}
            cells = root.find(f"{_M}cellXfs")
            for each in cells if cells is not None else ():
                number = _integer(each.get("numFmtId"))
                self.formats.append(codes.get(number) or _BUILT_IN.get(number, "General"))
        if strings and strings in self.package.names:
            for element in self.elements(strings, "si"):
                self.strings.append(_rich_text(element))

    def elements(self, part: str, *names: str) -> Iterator[etree._Element]:
        """Yield elements of a part one after the other, each forgotten afterwards."""
        source = io.BytesIO(self.package.read(part))
        tags = [f"{_M}{name}" for name in names]
        try:
            for _, element in etree.iterparse(
                source, tag=tags, resolve_entities=False, no_network=True, huge_tree=False
            ):
                yield element
                element.clear()
                while element.getprevious() is not None and element.getparent() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError as error:
            raise ValueError(f"broken XML: {str(error)[:100]}") from None

    def sheet(self, part: str) -> _Sheet:
        sheet = _Sheet()
        hidden: list[tuple[int, int]] = []
        last = 0
        for element in self.elements(part, "col", "row", "mergeCell"):
            name = local_name(element)
            if name == "col":
                if element.get("hidden") in _ON or element.get("width") in {"0", "0.0"}:
                    hidden.append((_integer(element.get("min")), _integer(element.get("max"))))
            elif name == "row":
                last = _integer(element.get("r")) or last + 1
                if element.get("hidden") in _ON or element.get("ht") in {"0", "0.0"}:
                    sheet.skipped.add(last)
                elif cells := self.row(element, last, sheet, hidden):
                    sheet.rows[last] = cells
            elif len(sheet.merges) < _MAX_MERGES and (merged := _range(element.get("ref") or "")):
                sheet.merges.append(merged)
        _fill_merged(sheet)
        return sheet

    def row(self, row: etree._Element, number: int, sheet: _Sheet, hidden: list[tuple[int, int]]) -> dict[int, str]:
        cells: dict[int, str] = {}
        at = 0
        for cell in row.iterchildren(f"{_M}c"):
            found = _REFERENCE.fullmatch(cell.get("r") or "")
            at = _column(found[1]) if found else at + 1
            if any(first <= at <= last for first, last in hidden):
                continue
            text, numeric = self.cell(cell)
            if not text.strip():
                continue
            cells[at] = text
            if numeric:
                sheet.numbers.add((number, at))
            self.left -= 1
            if self.left < 0:
                raise ValueError(f"it has more than {MAX_CELLS * 2:,} cells")
        return cells

    def cell(self, cell: etree._Element) -> tuple[str, bool]:
        """Return the text that a cell shows, and whether it is a number."""
        kind, value, inline, formula = cell.get("t") or "n", "", None, False
        for child in cell:
            name = local_name(child)
            if name == "v":
                value = child.text or ""
            elif name == "is":
                inline = child
            elif name == "f":
                formula = True
        style = cell.get("s")
        at = _integer(style) if style else 0
        code = self.formats[at] if at < len(self.formats) else "General"
        if kind == "inlineStr":
            return (format_text(_rich_text(inline), code), False) if inline is not None else ("", False)
        if not value.strip():
            self.uncomputed += formula
            return "", False
        if kind == "s":
            at = _integer(value)
            text = self.strings[at] if at < len(self.strings) else ""
            return (text if code == "General" else format_text(text, code)), False
        if kind == "b":
            return ("TRUE" if value in _ON else "FALSE"), True
        if kind in {"str", "e", "d"}:
            text = plain(without_private(value))
            return (format_text(text, code) if kind == "str" else text), kind == "d"
        return _shown(value, code, self.from_1904)


@lru_cache(maxsize=100_000)
def _shown(value: str, code: str, from_1904: bool) -> tuple[str, bool]:  # noqa: FBT001 - a key of a cache
    """Return a number as its format shows it, and whether it is one."""
    if code == "General" and _SHORT_NUMBER.fullmatch(value):
        return value, True
    try:
        return format_number(_shortest(value), code, from_1904=from_1904), True
    except InvalidOperation:
        return value, False


def _shortest(value: str) -> Decimal:
    """Return a number of a file, which is written with up to 17 digits, with the 15 that a sheet shows."""
    number = Decimal(value)
    return Decimal(f"{float(number):.15g}") if number.is_finite() and abs(number.adjusted()) < 300 else number


def _rich_text(element: etree._Element) -> str:
    parts = []
    for each in element:
        name = local_name(each)
        if name == "t":
            parts.append(without_private(each.text or ""))
        elif name == "r":
            text = without_private(each.findtext(f"{_M}t") or "")
            properties = each.find(f"{_M}rPr")
            align = properties.find(f"{_M}vertAlign") if properties is not None else None
            struck = properties.find(f"{_M}strike") if properties is not None else None
            if struck is not None and struck.get("val") not in {"0", "false"} and text.strip():
                text = f"~~{text.strip()}~~"
            parts.append(superscript(text) if align is not None and align.get("val") == "superscript" else text)
    return plain("".join(parts))


def _fill_merged(sheet: _Sheet) -> None:
    """Write the text of merged cells into each of them, unless it stands alone in its rows, as a title does."""
    for top, left, bottom, right in sheet.merges:
        text = sheet.rows.get(top, {}).get(left)
        covered = [row for row in range(top, min(bottom, top + _MAX_MERGED_ROWS) + 1) if row in sheet.rows]
        if text is None or all(set(sheet.rows[row]) <= {left} for row in covered):
            continue
        for row in covered:
            for column in range(left, min(right, left + _MAX_MERGED_COLUMNS) + 1):
                sheet.rows[row].setdefault(column, text)
                if (top, left) in sheet.numbers:
                    sheet.numbers.add((row, column))


def _write_sheet(writer: Writer, sheet: _Sheet) -> None:
    """Write the parts of a sheet: tables, and lines of one cell as paragraphs between them."""
    for part in _parts(sheet):
        rows = list(part)
        while rows and len(sheet.rows[rows[0]]) == 1 and len(rows) > 1 and _widest(sheet, rows) > 1:
            writer.paragraph(next(iter(sheet.rows[rows.pop(0)].values())))
        if not rows:
            continue
        used = sorted({column for row in rows for column in sheet.rows[row]})
        if len(used) * len(rows) > MAX_CELLS * 2:
            raise ValueError(f"a sheet has more than {MAX_CELLS * 2:,} cells")
        headers = _header_rows(sheet, rows)
        if len(used) == len(rows) == 1:
            writer.paragraph(sheet.rows[rows[0]][used[0]])
        else:
            writer.add(write_grid([[sheet.rows[row].get(column, "") for column in used] for row in rows], headers))


def _widest(sheet: _Sheet, rows: list[int]) -> int:
    return max(len(sheet.rows[row]) for row in rows)


def _parts(sheet: _Sheet) -> Iterator[list[int]]:
    """Yield the rows of each part: an empty row ends one, unless the rows below go on without a header."""
    numbers = sorted(sheet.rows)
    part = numbers[:1]
    for before, row in pairwise(numbers):
        empty = any(between not in sheet.skipped for between in range(before + 1, min(row, before + 1000)))
        if empty and (len(sheet.rows[row]) == 1 or _is_header(sheet, row)):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def _is_header(sheet: _Sheet, row: int) -> bool:
    """Return whether a row names columns: texts alone, above a row that has a number."""
    columns = sheet.rows[row]
    below = sheet.rows.get(row + 1, {})
    return len(columns) > 1 and not any((row, at) in sheet.numbers for at in columns) and len(below) > 1


def _header_rows(sheet: _Sheet, rows: list[int]) -> int:
    """Return the number of header rows: two if the first has cells that are merged, and the next holds no number."""
    first = rows[0]
    merged = [each for each in sheet.merges if each[0] == first and each[3] > each[1]]
    if not merged or len(rows) < 3 or any((rows[1], at) in sheet.numbers for at in sheet.rows[rows[1]]):
        return 1
    return 2


def _range(reference: str) -> tuple[int, int, int, int] | None:
    first, _, last = reference.partition(":")
    start, end = _REFERENCE.fullmatch(first), _REFERENCE.fullmatch(last)
    return (int(start[2]), _column(start[1]), int(end[2]), _column(end[1])) if start and end else None


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _integer(text: str | None) -> int:
    try:
        return max(0, min(int(text or ""), 10**7))
    except ValueError:
        return 0
