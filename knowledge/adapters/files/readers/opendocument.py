"""Read .odt, .ods and .odp as LibreOffice shows them; a cell of a sheet says itself what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from knowledge.adapters.files.readers.formulas import local_name
from knowledge.adapters.files.readers.markdown import (
    BREAK,
    MAX_CELLS,
    Cell,
    Writer,
    plain,
    subscript,
    superscript,
    without_private,
    write_table,
)
from knowledge.adapters.files.readers.numbering import as_marker
from knowledge.adapters.files.readers.packages import Package

_STYLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_OFFICE: Final = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_SHOWN: Final = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_SKIPPED: Final = frozenset({
    "tracked-changes", "annotation", "annotation-end", "sequence-decls", "variable-decls", "forms", "hidden-text",
    "user-field-decls", "soft-page-break", "settings", "scripts", "shapes", "object-ole",
})  # fmt: skip
_DURATION = re.compile(r"PT(\d{1,9})H(\d{1,2})M(\d{1,2})(?:[.,]\d+)?S")
_MAX_SPACES: Final = 100
_MAX_STYLES: Final = 20


def read_opendocument(content: bytes) -> tuple[str, str | None, list[str], list[str]]:
    """Return a document as Markdown, its title, notes on what was not read, and the texts of its slides."""
    package = Package.open(content)
    root = package.root("content.xml")
    if root is None:
        raise ValueError("it has no content in it")
    reader = _Reader()
    styles = package.root("styles.xml")
    for each in (styles, root):
        reader.load(each)
    meta = package.root("meta.xml")
    title = next((each.text for each in meta.iter("{*}title") if each.text), None) if meta is not None else None
    body = root.find(f"{_OFFICE}body")
    slides: list[str] = []
    for part in body if body is not None else ():
        if local_name(part) == "presentation":
            slides = list(reader.slides(part))
        else:
            if styles is not None:
                reader.headers(styles, "header")
            reader.block(part)
            reader.end_notes()
            if styles is not None:
                reader.headers(styles, "footer")
    text = "\n\n".join(filter(None, slides)) if slides else reader.writer.text
    unread = (
        ["Charts and embedded objects are not read."]
        if any(each.startswith("Object ") for each in package.names)
        else []
    )
    return text, title, unread, slides


@dataclass(slots=True)
class _Reader:
    writer: Writer = field(default_factory=Writer)
    styles: dict[str, etree._Element] = field(default_factory=dict)
    lists: dict[str, etree._Element] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    last_numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def load(self, root: etree._Element | None) -> None:
        for each in root.iter(f"{_STYLE}style", f"{_TEXT}list-style") if root is not None else ():
            name = each.get(f"{_STYLE}name") or ""
            (self.lists if local_name(each) == "list-style" else self.styles)[name] = each

    def property(self, name: str | None, wanted: str) -> str | None:
        """Return a property of a style, or of the ones that it inherits from."""
        for _ in range(_MAX_STYLES):
            style = self.styles.get(name or "")
            if style is None:
                return None
            for properties in style:
                for key, value in properties.attrib.items():
                    if str(key).rpartition("}")[2] == wanted:
                        return str(value)
            name = style.get(f"{_STYLE}parent-style-name")
        return None

    def is_hidden(self, element: etree._Element) -> bool:
        name = element.get(f"{_TEXT}style-name")
        if local_name(element) == "section" and element.get(f"{_TEXT}display") in {"none", "condition"}:
            return True
        return name is not None and self.property(name, "display") in {"none", "condition"}

    def headers(self, styles: etree._Element, kind: str) -> None:
        """Write the words of headers or footers, each once, but no page number alone."""
        seen = set()
        for each in styles.iter(f"{_STYLE}{kind}"):
            words = "".join(map(str, each.itertext())).strip()
            if words not in seen and any(char.isalpha() for char in words):
                seen.add(words)
                self.block(each)

    def block(self, element: etree._Element) -> None:
        for child in element:
            name = local_name(child)
            if name in _SKIPPED or not name or self.is_hidden(child):
                continue
            if name == "h":
                self.writer.heading(_integer(child.get(f"{_TEXT}outline-level"), 1), self.inner(child))
            elif name == "p":
                self.paragraph(child)
            elif name == "list":
                self.list_items(child, 0, None)
            elif name == "table":
                self.table(child)
            else:
                self.block(child)

    def paragraph(self, paragraph: etree._Element) -> None:
        if paragraph.find(f"{_TEXT}hidden-paragraph") is not None:
            return
        if paragraph.get(f"{_TEXT}style-name") == "Title":
            self.writer.heading(1, self.inner(paragraph))
        else:
            self.writer.paragraph(self.inner(paragraph))
        for frame in paragraph.iter("{*}text-box"):
            if next(frame.iterancestors("{*}text-box"), None) is None:
                self.block(frame)

    def inner(self, element: etree._Element) -> str:
        return "".join(self.inline(element))

    def inline(self, element: etree._Element) -> Iterator[str]:
        yield without_private(" ".join((element.text or "").split("\n")))
        for child in element:
            name = local_name(child)
            if name in _SKIPPED or not name or self.is_hidden(child):
                pass
            elif name == "tab":
                yield " "
            elif name == "s":
                yield " " * min(_integer(child.get(f"{_TEXT}c"), 1), _MAX_SPACES)
            elif name == "line-break":
                yield BREAK
            elif name == "note":
                yield self.note(child)
            elif name == "span":
                yield self.span(child)
            elif name == "a":
                yield _link(child, self.inner(child))
            elif name not in {
                "frame",
                "custom-shape",
                "bookmark-start",
                "bookmark-end",
                "bookmark",
                "conditional-text",
            }:
                yield self.inner(child)
            yield without_private(child.tail or "")

    def span(self, span: etree._Element) -> str:
        text, name = self.inner(span), span.get(f"{_TEXT}style-name")
        position = (self.property(name, "text-position") or "").split(" ")[0]
        if self.property(name, "text-line-through-style") not in {None, "none"} and text.strip():
            text = f"~~{text.strip()}~~"
        if self.property(name, "text-transform") == "uppercase":
            text = text.upper()
        up = position == "super" or (position.endswith("%") and _number(position[:-1]) > 0)
        down = position == "sub" or (position.endswith("%") and _number(position[:-1]) < 0)
        return superscript(text) if up else subscript(text) if down else text

    def note(self, note: etree._Element) -> str:
        body = note.find(f"{_TEXT}note-body")
        self.notes.append(" ".join(self.inner(each) for each in body.iter(f"{_TEXT}p")) if body is not None else "")
        return f"[{len(self.notes)}]"

    def end_notes(self) -> None:
        for number, text in enumerate(self.notes, 1):
            self.writer.paragraph(f"[{number}] {text}")
        self.notes = []

    def list_items(self, element: etree._Element, depth: int, style: str | None) -> None:
        style = element.get(f"{_TEXT}style-name") or style
        level = next(
            (each for each in self.lists.get(style or "", ()) if _integer(each.get(f"{_TEXT}level"), 0) == depth + 1),
            None,
        )
        numbered = level is not None and local_name(level) == "list-level-style-number"
        number = _integer(level.get(f"{_TEXT}start-value"), 1) if numbered and level is not None else 1
        key = (style or "", depth)
        if element.get(f"{_TEXT}continue-numbering") == "true" or element.get(f"{_TEXT}continue-list") is not None:
            number = self.last_numbers.get(key, number - 1) + 1
        for item in element:
            if local_name(item) not in {"list-item", "list-header"}:
                continue
            number = _integer(item.get(f"{_TEXT}start-value"), number)
            marker, lead = _marker(level, number) if numbered and level is not None else ("-", "")
            begun = False
            for child in item:
                name = local_name(child)
                if name in {"p", "h"} and not self.is_hidden(child):
                    text = self.inner(child)
                    self.writer.item(depth, marker, lead + text) if not begun else self.writer.add(
                        "    " * (depth + 1) + plain(text)
                    )
                    begun = begun or bool(plain(text))
                elif name == "list":
                    self.list_items(child, depth + 1, style)
            if local_name(item) == "list-item" and begun:
                self.last_numbers[key] = number
                number += 1

    def table(self, table: etree._Element) -> None:  # noqa: C901 - of rows and columns
        """Write a table; of a sheet, its name as a heading, and nothing of what is hidden."""
        if self.property(table.get(f"{_TABLE}style-name"), "display") == "false":
            return
        sheet = local_name(table.getparent()) == "spreadsheet" if table.getparent() is not None else False
        hidden = set()
        at = 0
        for column in table.iter(f"{_TABLE}table-column"):
            many = min(_integer(column.get(f"{_TABLE}number-columns-repeated"), 1), 20_000)
            if column.get(f"{_TABLE}visibility") in {"collapse", "filter"}:
                hidden |= set(range(at, at + many))
            at += many
        rows: list[list[Cell]] = []
        headers, left = 0, MAX_CELLS
        for row in table.iter(f"{_TABLE}table-row"):
            if next(row.iterancestors(f"{_TABLE}table")) is not table:
                continue
            if row.get(f"{_TABLE}visibility") in {"collapse", "filter"}:
                continue
            cells = self.row(row, hidden)
            while cells and not cells[-1].text and cells[-1].columns == 1 and cells[-1].rows == 1:
                cells.pop()
            many = _integer(row.get(f"{_TABLE}number-rows-repeated"), 1) if cells else 1
            for _ in range(max(1, min(many, left // max(len(cells), 1)))):
                rows.append(cells)
                left -= len(cells) + 1
            if left <= 0:
                raise ValueError(f"a table has more than {MAX_CELLS:,} cells")
            if local_name(row.getparent()) == "table-header-rows" and headers == len(rows) - 1:
                headers += 1
        while sheet and rows and not rows[0]:
            rows.pop(0)
        if sheet:
            self.writer.heading(2, table.get(f"{_TABLE}name") or "")
        self.writer.add(write_table(rows, headers or None))

    def row(self, row: etree._Element, hidden: set[int]) -> list[Cell]:
        cells: list[Cell] = []
        at = 0
        for cell in row:
            many = max(1, min(_integer(cell.get(f"{_TABLE}number-columns-repeated"), 1), 20_000))
            name = local_name(cell)
            if name == "covered-table-cell":
                at += many
                continue
            if name != "table-cell":
                continue
            columns = _integer(cell.get(f"{_TABLE}number-columns-spanned"), 1)
            seen = sum(each not in hidden for each in range(at, at + min(columns, 20_000)))
            text = self.cell(cell)
            if not text and many > 1000:
                break
            for n in range(many):
                if columns > 1 or at + n not in hidden:
                    shown = seen if columns > 1 else 1
                    if shown:
                        cells.append(
                            Cell(text, columns=shown, rows=_integer(cell.get(f"{_TABLE}number-rows-spanned"), 1))
                        )
            at += many
        return cells

    def cell(self, cell: etree._Element) -> str:
        """Return the text that a cell shows; where a program stored none, its value in a common form."""
        texts = [plain(self.inner(each)) for each in cell.iter(f"{_TEXT}p", f"{_TEXT}h") if _in_cell(each, cell)]
        if any(texts):
            return " ".join(filter(None, " ".join(texts).split("\n")))
        value, kind = cell.get(f"{_OFFICE}value") or "", cell.get(f"{_OFFICE}value-type")
        if kind == "time" and (found := _DURATION.fullmatch(cell.get(f"{_OFFICE}time-value") or "")):
            return ":".join(part.zfill(2) for part in found.groups())
        if kind == "percentage" and value:
            return f"{round(_number(value) * 100, 10):g}%"
        if kind == "currency" and value:
            return f"{value} {cell.get(f'{_OFFICE}currency') or ''}".strip()
        if kind == "boolean":
            return (cell.get(f"{_OFFICE}boolean-value") or "").upper()
        return cell.get(f"{_OFFICE}date-value") or cell.get(f"{_OFFICE}string-value") or value

    def slides(self, presentation: etree._Element) -> Iterator[str]:
        """Yield the texts of the slides, without hidden ones, each with its notes."""
        for page in presentation.iter("{*}page"):
            if self.property(page.get(page.tag.rpartition("}")[0] + "}style-name"), "visibility") == "hidden":
                continue
            self.writer = Writer()
            notes = page.find(f"{_SHOWN}notes")
            for frame in page:
                if local_name(frame) != "notes":
                    self.frame(frame)
            if notes is not None:
                inner = _Reader(styles=self.styles, lists=self.lists)
                for box in notes.iter("{*}text-box"):
                    inner.block(box)
                if inner.writer.blocks:
                    self.writer.add(f"Notes: {inner.writer.text}")
            yield self.writer.text

    def frame(self, frame: etree._Element) -> None:
        if frame.get(f"{_SHOWN}class") == "title":
            self.writer.heading(2, " ".join(self.inner(each) for each in frame.iter(f"{_TEXT}p")))
        elif frame.get(f"{_SHOWN}class") not in {"page-number", "date-time"}:
            self.block(frame)


def _in_cell(paragraph: etree._Element, cell: etree._Element) -> bool:
    """Return whether a paragraph is text of a cell, not of a comment or a table in it."""
    for each in paragraph.iterancestors():
        if each is cell:
            return True
        if local_name(each) in {"annotation", "shapes"}:
            return False
    return False


def _marker(level: etree._Element, number: int) -> tuple[str, str]:
    """Return the sign of an item in Markdown, and what stands before its text."""
    shown = as_marker(number, level.get(f"{_STYLE}num-format") or "")
    prefix, ending = level.get(f"{_STYLE}num-prefix") or "", level.get(f"{_STYLE}num-suffix") or ""
    if shown.isdecimal() and not prefix and ending in {".", ")", ""}:
        return f"{shown}{ending or '.'}", ""
    return "-", f"{prefix}{shown}{ending} ".lstrip()


def _link(element: etree._Element, words: str) -> str:
    address, shown = element.get(_LINK) or "", plain(words)
    leads = address.startswith(("https://", "http://", "mailto:")) and " " not in address and len(address) < 1000
    fits = shown and "[" not in shown and "\n" not in shown and shown.rstrip("/") not in address
    return f"[{shown}]({address})" if leads and fits else words


def _integer(text: str | None, otherwise: int) -> int:
    try:
        return max(0, min(int(text or ""), 10**7))
    except ValueError:
        return otherwise


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
