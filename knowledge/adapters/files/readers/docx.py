"""Read .docx as Word shows it: numbered steps, symbols, raised signs; without hidden or deleted text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from knowledge.adapters.files.readers.formulas import formula, local_name
from knowledge.adapters.files.readers.markdown import (
    BREAK,
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

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R_ID: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_OFF: Final = frozenset({"0", "false", "off", "none"})
_SYMBOLS: Final = (
    " !∀#∃%&∍()*+,-./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}~"
    + "\0" * 33
    + "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\0〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"  # noqa: RUF001
)
"""Characters of the font Symbol from 0x20 on, as Adobe encodes it."""
_WINGDINGS: Final = {0xFC: "✓", 0xFB: "✗", 0xFE: "☑", 0xFD: "☒", 0xA8: "☐", 0xE0: "→", 0xDF: "←", 0xE8: "→", 0xA7: "▪"}
_UNKNOWN_SYMBOL: Final = "\ufffd"
_SKIPPED: Final = frozenset({
    "del", "moveFrom", "instrText", "delText", "pPr", "rPr", "Fallback", "annotationRef", "proofErr", "softHyphen",
    "tblPr", "tblGrid", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr", "pict",
})  # fmt: skip
_MAX_STYLES: Final = 20


def symbol(font: str, code: int) -> str:
    """Return the character of a font of symbols, U+FFFD for one that is not known."""
    low = code & 0xFF
    if font.lower().startswith("symbol") and 0x20 <= low < 0x20 + len(_SYMBOLS):
        shown = _SYMBOLS[low - 0x20]
        return _UNKNOWN_SYMBOL if shown == "\0" else shown
    if font.lower().startswith("wingdings"):
        return _WINGDINGS.get(low, _UNKNOWN_SYMBOL)
    return _UNKNOWN_SYMBOL if 0xF000 <= code <= 0xF0FF or code < 0x20 else chr(min(code, 0x10FFFF))


def read_docx(content: bytes) -> tuple[str, str | None, list[str]]:
    """Return a document as Markdown, its title, and notes on what was not read."""
    package = Package.open(content)
    main = next((target for kind, target in package.relations("").values() if kind == "officeDocument"), None)
    main = main or "word/document.xml"
    root = package.root(main)
    if root is None:
        raise ValueError("it has no document in it")
    reader = _Reader(package, package.relations(main))
    reader.load()
    for part in reader.parts("header"):
        reader.block(part)
    body = root.find(f"{_W}body")
    reader.block(body if body is not None else root)
    reader.notes()
    for part in reader.parts("footer"):
        reader.block(part)
    core = package.root("docProps/core.xml")
    title = next((each.text for each in core.iter("{*}title") if each.text), None) if core is not None else None
    text = reader.writer.text
    unread = ["Symbols of fonts that are not known are written as \ufffd."] if _UNKNOWN_SYMBOL in text else []
    if any(target.rpartition("/")[2].startswith("chart") for _, target in reader.relations.values()):
        unread.append("Charts are not read.")
    return text, title or reader.title, unread


@dataclass(slots=True)
class _Style:
    """Properties of a style that say how its text is shown."""

    depth: int | None = None
    hidden: bool | None = None
    caps: bool | None = None
    numbering: tuple[str, int] | None = None


@dataclass(slots=True)
class _Reader:
    package: Package
    relations: dict[str, tuple[str, str]]
    writer: Writer = field(default_factory=Writer)
    styles: dict[str, _Style] = field(default_factory=dict)
    default_style: str = ""
    levels: dict[str, dict[int, tuple[str, str, int]]] = field(default_factory=dict)
    counters: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    abstract: dict[str, str] = field(default_factory=dict)
    note_ids: list[tuple[str, str]] = field(default_factory=list)
    fields: list[bool] = field(default_factory=list)
    title: str | None = None

    # styles and numbers

    def part(self, kind: str) -> etree._Element | None:
        target = next((target for each, target in self.relations.values() if each == kind), None)
        return self.package.root(target) if target else None

    def parts(self, kind: str) -> Iterator[etree._Element]:
        """Yield headers or footers, those with the same words once, and none that is a page number alone."""
        seen = set()
        for each, target in self.relations.values():
            root = self.package.root(target) if each == kind else None
            words = "".join(map(str, root.itertext())).strip() if root is not None else ""
            if root is not None and words not in seen and any(char.isalpha() for char in words):
                seen.add(words)
                yield root

    def load(self) -> None:
        """Read styles and numberings."""
        root = self.part("styles")
        for each in root.iter(f"{_W}style") if root is not None else ():
            if each.get(f"{_W}default") in {"1", "true"} and each.get(f"{_W}type") == "paragraph":
                self.default_style = each.get(f"{_W}styleId") or ""
        elements = {
            each.get(f"{_W}styleId") or "": each for each in (root.iter(f"{_W}style") if root is not None else ())
        }
        for name in elements:
            self.styles[name] = _style(elements, name)
        numbers = self.part("numbering")
        if numbers is None:
            return
        definitions = {
            each.get(f"{_W}abstractNumId") or "": {
                _integer(level.get(f"{_W}ilvl")): _level(level) for level in each.iter(f"{_W}lvl")
            }
            for each in numbers.iter(f"{_W}abstractNum")
        }
        for each in numbers.iter(f"{_W}num"):
            number = each.get(f"{_W}numId") or ""
            abstract = _value(each, "abstractNumId") or ""
            levels = dict(definitions.get(abstract, {}))
            starts = False
            for override in each.iter(f"{_W}lvlOverride"):
                at = _integer(override.get(f"{_W}ilvl"))
                own = override.find(f"{_W}lvl")
                kind, text, start = _level(own) if own is not None else levels.get(at, ("decimal", f"%{at + 1}.", 1))
                begin = _value(override, "startOverride")
                starts = starts or begin is not None
                levels[at] = (kind, text, _integer(begin, start))
            self.levels[number] = levels
            self.abstract[number] = f"{abstract}/{number}" if starts else abstract

    def number(self, paragraph: etree._Element, style: _Style | None) -> tuple[int, str, bool] | None:
        """Return the depth and the sign of a numbered paragraph, and whether it is a bullet."""
        found = paragraph.find(f"{_W}pPr/{_W}numPr")
        number, depth = style.numbering if style and style.numbering else ("", 0)
        if found is not None:
            number = _value(found, "numId") or number
            depth = _integer(_value(found, "ilvl"), depth)
        levels = self.levels.get(number)
        if not levels or number == "0":
            return None
        kind, text, start = levels.get(depth, ("decimal", f"%{depth + 1}.", 1))
        counters = self.counters[self.abstract[number]]
        counters[depth] = counters.get(depth, start - 1) + 1
        for deeper in [each for each in counters if each > depth]:
            del counters[deeper]
        if kind == "none" and not text:
            return None
        if kind == "bullet":
            return depth, "-", True
        for level in range(depth + 1):
            at = levels.get(level, ("decimal", "", 1))
            text = text.replace(f"%{level + 1}", as_marker(counters.get(level, at[2]), at[0]))
        return depth, text.strip(), False

    # blocks

    def block(self, element: etree._Element) -> None:
        for child in element:
            name = local_name(child)
            if name == "p":
                self.paragraph(child)
            elif name == "tbl":
                self.table(child)
            elif name not in _SKIPPED:
                self.block(child)

    def style_of(self, paragraph: etree._Element) -> _Style | None:
        return self.styles.get(_value(paragraph.find(f"{_W}pPr"), "pStyle") or self.default_style)

    def paragraph(self, paragraph: etree._Element) -> None:
        style = self.style_of(paragraph)
        text = self.text(paragraph, style)
        if not plain(text):
            self.boxes(paragraph)
            return
        marker = self.number(paragraph, style)
        outline = _value(paragraph.find(f"{_W}pPr"), "outlineLvl")
        depth = _integer(outline) + 1 if outline and _integer(outline) < 9 else (style.depth if style else None)
        if depth is not None:
            self.title = self.title or (plain(text) if depth == 0 else None)
            self.writer.heading(max(depth, 1), f"{marker[1]} {text}" if marker and not marker[2] else text)
        elif marker is None:
            self.writer.paragraph(text)
        elif marker[2] or (marker[1].rstrip(".)").isdecimal() and len(marker[1]) < 10 and marker[1][-1:] in ".)"):
            self.writer.item(marker[0], marker[1], text)
        else:
            self.writer.item(marker[0], "-", f"{marker[1]} {text}")
        self.boxes(paragraph)

    def boxes(self, paragraph: etree._Element) -> None:
        """Write the text boxes that are anchored in a paragraph."""
        for box in paragraph.iter(f"{_W}txbxContent"):
            if not any(local_name(each) in {"Fallback", "txbxContent"} for each in box.iterancestors()):
                self.block(box)

    def table(self, table: etree._Element) -> None:
        rows: list[list[Cell]] = []
        starts: dict[int, tuple[int, int]] = {}
        headers = 0
        for row in table.iter(f"{_W}tr"):
            if next(row.iterancestors(f"{_W}tbl")) is not table or _is_on(row, "hidden") or _deleted(row):
                continue
            cells: list[Cell] = []
            at = _integer(_value(row.find(f"{_W}trPr"), "gridBefore"))
            cells += [Cell("")] * min(at, 60)
            covered = []
            for cell in row.iter(f"{_W}tc"):
                if next(cell.iterancestors(f"{_W}tr")) is not row:
                    continue
                properties = cell.find(f"{_W}tcPr")
                width = max(1, min(_integer(_value(properties, "gridSpan"), 1), 60))
                merge = properties.find(f"{_W}vMerge") if properties is not None else None
                if merge is not None and merge.get(f"{_W}val") != "restart" and at in starts:
                    covered.append(at)
                else:
                    starts.pop(at, None)
                    if merge is not None:
                        starts[at] = (len(rows), len(cells))
                    cells.append(Cell(self.cell(cell), columns=width))
                at += width
            for column in covered:
                line, index = starts[column]
                above = rows[line][index]
                rows[line][index] = Cell(above.text, above.columns, above.rows + 1)
            marked = row.find(f"{_W}trPr/{_W}tblHeader")
            if marked is not None and marked.get(f"{_W}val") not in _OFF and headers == len(rows):
                headers += 1
            rows.append(cells)
        self.writer.add(write_table(rows, headers if headers and headers < len(rows) else None))

    def cell(self, cell: etree._Element) -> str:
        """Return the text of a cell on one line."""
        inner = _Reader(
            self.package, self.relations, styles=self.styles, default_style=self.default_style, levels=self.levels,
            counters=self.counters, abstract=self.abstract, note_ids=self.note_ids,
        )  # fmt: skip
        inner.block(cell)
        return " ".join(text.removeprefix("- ") for _, text in inner.writer.blocks)

    def notes(self) -> None:
        """Write the foot and end notes that the text refers to."""
        for kind in ("footnote", "endnote"):
            root = self.part(f"{kind}s") if any(each == kind for each, _ in self.note_ids) else None
            notes = {each.get(f"{_W}id"): each for each in root or ()}
            for number, (each, name) in enumerate(list(self.note_ids), 1):
                note = notes.get(name) if each == kind else None
                if note is not None:
                    texts = (self.text(p, self.style_of(p)) for p in note.iter(f"{_W}p"))
                    self.writer.paragraph(f"[{number}] {' '.join(texts).strip()}")

    # text

    def text(self, paragraph: etree._Element, style: _Style | None = None) -> str:
        return "".join(self.inline(paragraph, style))

    def inline(self, element: etree._Element, style: _Style | None) -> Iterator[str]:
        for child in element:
            name = local_name(child)
            if name in _SKIPPED or name == "txbxContent":
                continue
            if name == "r":
                yield self.run(child, style)
            elif name in {"oMath", "oMathPara"}:
                yield f" {formula(child)} "
            elif name == "hyperlink":
                yield self.link(child, "".join(self.inline(child, style)))
            elif name in {"drawing", "AlternateContent", "object"}:
                continue
            else:
                yield from self.inline(child, style)

    def link(self, element: etree._Element, words: str) -> str:
        kind, target = self.relations.get(element.get(_R_ID) or "", ("", ""))
        shown = plain(words)
        leads = kind == "hyperlink" and target.startswith(("https://", "http://", "mailto:")) and " " not in target
        plain_words = shown and "[" not in shown and "\n" not in shown and shown.rstrip("/") not in target
        return f"[{shown}]({target})" if leads and plain_words and len(target) < 1000 else words

    def run(self, run: etree._Element, style: _Style | None) -> str:
        properties = run.find(f"{_W}rPr")
        own = self.styles.get(_value(properties, "rStyle") or "", _Style())
        hidden = _first(_switch(properties, "vanish"), own.hidden, (style or _Style()).hidden)
        text = "".join(self.signs(run, properties))
        if hidden or not text:
            return ""
        if _first(_switch(properties, "caps"), own.caps, (style or _Style()).caps):
            text = text.upper()
        if (_switch(properties, "strike") or _switch(properties, "dstrike")) and text.strip():
            text = f"~~{text.strip()}~~"
        match _value(properties, "vertAlign"):
            case "superscript":
                return text if text.startswith("[") else superscript(text)
            case "subscript":
                return subscript(text)
        return text

    def signs(self, run: etree._Element, properties: etree._Element | None) -> Iterator[str]:
        """Yield the characters of a run; the code of a field is no part of it, its result is."""
        fonts = properties.find(f"{_W}rFonts") if properties is not None else None
        font = (fonts.get(f"{_W}ascii") or "") if fonts is not None else ""
        for child in run:
            name = local_name(child)
            if name == "fldChar":
                self.field(child.get(f"{_W}fldCharType"))
            elif any(self.fields):
                continue
            elif name == "t":
                text = (
                    without_private(child.text or "")
                    if font.lower() not in {"symbol", "wingdings"}
                    else child.text or ""
                )
                coded = font.lower() in {"symbol", "wingdings"}
                yield "".join(symbol(font, ord(char)) if coded and char > " " else char for char in text)
            elif name == "noBreakHyphen":
                yield "-"
            elif name in {"tab", "ptab"}:
                yield " "
            elif name in {"br", "cr"}:
                yield BREAK if child.get(f"{_W}type") in {None, "textWrapping"} else " "
            elif name == "sym":
                code = child.get(f"{_W}char") or ""
                yield symbol(child.get(f"{_W}font") or font, int(code, 16) if _is_hex(code) else 0)
            elif name in {"footnoteReference", "endnoteReference"}:
                self.note_ids.append((name.removesuffix("Reference"), child.get(f"{_W}id") or ""))
                yield f"[{len(self.note_ids)}]"

    def field(self, kind: str | None) -> None:
        """Follow the nested fields of a text: each is code (True) up to its separator."""
        if kind == "begin":
            self.fields.append(True)
        elif kind == "separate" and self.fields:
            self.fields[-1] = False
        elif kind == "end" and self.fields:
            self.fields.pop()


def _style(elements: dict[str, etree._Element], name: str) -> _Style:
    """Return a style with what it inherits."""
    style = _Style()
    for _ in range(_MAX_STYLES):
        element = elements.get(name)
        if element is None:
            break
        shown = (_value(element, "name") or "").lower()
        outline = _value(element.find(f"{_W}pPr"), "outlineLvl")
        if style.depth is None:
            if outline is not None and _integer(outline) < 9:
                style.depth = _integer(outline) + 1
            elif shown.startswith("heading ") and shown[8:].isdecimal():
                style.depth = int(shown[8:])
            elif shown == "title":
                style.depth = 0
        run = element.find(f"{_W}rPr")
        style.hidden = _first(style.hidden, _switch(run, "vanish"))
        style.caps = _first(style.caps, _switch(run, "caps"))
        number = element.find(f"{_W}pPr/{_W}numPr")
        if style.numbering is None and number is not None:
            style.numbering = (_value(number, "numId") or "", _integer(_value(number, "ilvl")))
        name = _value(element, "basedOn") or ""
    return style


def _level(level: etree._Element) -> tuple[str, str, int]:
    kind = _value(level, "numFmt") or "decimal"
    return kind, _value(level, "lvlText") or "", _integer(_value(level, "start"), 1)


def _value(element: etree._Element | None, name: str) -> str | None:
    child = element.find(f"{_W}{name}") if element is not None else None
    return child.get(f"{_W}val") if child is not None else None


def _switch(properties: etree._Element | None, name: str) -> bool | None:
    child = properties.find(f"{_W}{name}") if properties is not None else None
    return None if child is None else child.get(f"{_W}val") not in _OFF


def _is_on(row: etree._Element, name: str) -> bool:
    return bool(_switch(row.find(f"{_W}trPr"), name))


def _deleted(row: etree._Element) -> bool:
    return row.find(f"{_W}trPr/{_W}del") is not None


def _first(*values: bool | None) -> bool | None:
    return next((value for value in values if value is not None), None)


def _integer(text: str | None, otherwise: int = 0) -> int:
    try:
        return max(-(10**6), min(int(text or ""), 10**6))
    except ValueError:
        return otherwise


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 6 and all(char in "0123456789abcdefABCDEF" for char in text)
