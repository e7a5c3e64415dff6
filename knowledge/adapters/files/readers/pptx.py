"""Read .pptx slide by slide, with notes; without hidden slides and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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

_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_TITLES: Final = frozenset({"title", "ctrTitle"})
_UNSEEN: Final = frozenset({"sldNum", "dt", "sldImg", "hdr"})
_OFF: Final = frozenset({"0", "false"})


def read_pptx(content: bytes) -> tuple[list[str], str | None, list[str]]:
    """Return the texts of the slides that are shown, the title of the file, and notes on what was not read."""
    package = Package.open(content)
    main = next((target for kind, target in package.relations("").values() if kind == "officeDocument"), "")
    root = package.root(main or "ppt/presentation.xml")
    if root is None:
        raise ValueError("it has no presentation in it")
    relations = package.relations(main or "ppt/presentation.xml")
    slides: list[str] = []
    hidden = 0
    charts = False
    for each in root.iter(f"{_P}sldId"):
        name = relations.get(each.get(f"{_R}id") or "", ("", ""))[1]
        slide = package.root(name)
        if slide is None:
            continue
        if slide.get("show") in _OFF:
            hidden += 1
            continue
        inner = package.relations(name)
        charts = charts or any(kind in {"chart", "diagramData"} for kind, _ in inner.values())
        writer = Writer()
        reader = _Slide(writer, inner)
        reader.shapes(slide)
        notes = next((target for kind, target in inner.values() if kind == "notesSlide"), None)
        noted = package.root(notes) if notes else None
        if noted is not None and (words := _notes(noted, inner)):
            writer.add(f"Notes: {words}")
        slides.append(writer.text)
    core = package.root("docProps/core.xml")
    title = next((each.text for each in core.iter("{*}title") if each.text), None) if core is not None else None
    unread = ["Charts and diagrams are not read."] if charts else []
    return slides, title, unread + ([f"Hidden slides that are not read: {hidden}."] if hidden else [])


def _notes(root: etree._Element, relations: dict[str, tuple[str, str]]) -> str:
    inner = Writer()
    reader = _Slide(inner, relations)
    for shape in root.iter(f"{_P}sp"):
        if _placeholder(shape) == "body":
            reader.body(shape, listed=False)
    return inner.text


def _placeholder(shape: etree._Element) -> str | None:
    found = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return None if found is None else found.get("type") or "body"


@dataclass(slots=True)
class _Slide:
    writer: Writer
    relations: dict[str, tuple[str, str]]

    def shapes(self, root: etree._Element) -> None:
        """Write the shapes of a slide: its title first."""
        shapes = [each for each in root.iter(f"{_P}sp", f"{_P}graphicFrame") if not _is_hidden(each)]
        shapes.sort(key=lambda each: _placeholder(each) not in _TITLES)
        for shape in shapes:
            kind = _placeholder(shape)
            if kind in _TITLES:
                self.writer.heading(2, " ".join(self.text(each) for each in shape.iter(f"{_A}p")))
            elif kind in _UNSEEN:
                continue
            elif local_name(shape) == "graphicFrame":
                for table in shape.iter(f"{_A}tbl"):
                    self.table(table)
            else:
                self.body(shape, listed=kind == "body")

    def body(self, shape: etree._Element, *, listed: bool) -> None:
        counters: dict[int, int] = {}
        for paragraph in shape.iter(f"{_A}p"):
            text = self.text(paragraph)
            properties = paragraph.find(f"{_A}pPr")
            depth = _integer(properties.get("lvl")) if properties is not None else 0
            number = properties.find(f"{_A}buAutoNum") if properties is not None else None
            if not plain(text):
                continue
            counters = {level: count for level, count in counters.items() if level <= depth}
            if number is not None:
                counters[depth] = counters.get(depth, _integer(number.get("startAt"), 1) - 1) + 1
                self.writer.item(depth, *_numbered(counters[depth], number.get("type") or "", text))
                continue
            counters.pop(depth, None)
            none = properties is not None and properties.find(f"{_A}buNone") is not None
            bullet = properties is not None and properties.find(f"{_A}buChar") is not None
            if bullet or (listed and not none):
                self.writer.item(depth, "-", text)
            else:
                self.writer.paragraph(text)

    def text(self, paragraph: etree._Element) -> str:
        return "".join(self.runs(paragraph))

    def runs(self, paragraph: etree._Element) -> Iterator[str]:
        for run in paragraph:
            name = local_name(run)
            if name == "br":
                yield BREAK
            elif name in {"r", "fld"}:
                yield self.run(run)
            elif name in {"m", "AlternateContent"}:
                yield from (f" {formula(each)} " for each in run.iter("{*}oMath"))

    def run(self, run: etree._Element) -> str:
        text = without_private(run.findtext(f"{_A}t") or "").replace("\v", BREAK).replace("\u2011", "-")
        properties = run.find(f"{_A}rPr")
        if properties is None:
            return text
        if properties.get("cap") == "all":
            text = text.upper()
        if properties.get("strike") in {"sngStrike", "dblStrike"} and text.strip():
            text = f"~~{text.strip()}~~"
        link = properties.find(f"{_A}hlinkClick")
        target = self.relations.get(link.get(f"{_R}id") or "", ("", ""))[1] if link is not None else ""
        shown = plain(text)
        if target.startswith(("https://", "http://")) and shown and "[" not in shown and shown not in target:
            return f"[{shown}]({target})"
        baseline = _integer(properties.get("baseline"))
        return superscript(text) if baseline > 0 else subscript(text) if baseline < 0 else text

    def table(self, table: etree._Element) -> None:
        rows = []
        for row in table.iter(f"{_A}tr"):
            cells = []
            for cell in row.iterchildren(f"{_A}tc"):
                if cell.get("hMerge") in {"1", "true"} or cell.get("vMerge") in {"1", "true"}:
                    continue
                text = " ".join(plain(self.text(each)).replace("\n", " ") for each in cell.iter(f"{_A}p"))
                cells.append(Cell(text, _integer(cell.get("gridSpan"), 1), _integer(cell.get("rowSpan"), 1)))
            rows.append(cells)
        self.writer.add(write_table(rows))


def _numbered(number: int, kind: str, text: str) -> tuple[str, str]:
    """Return the sign of an item, and its text with the number that Markdown cannot write."""
    if kind.startswith("arabic"):
        return f"{number}.", text
    names = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}
    shown = as_marker(number, next((sign for name, sign in names.items() if kind.startswith(name)), "decimal"))
    return "-", f"{shown}{')' if 'Paren' in kind else '.'} {text}"


def _is_hidden(shape: etree._Element) -> bool:
    """Return whether a shape, or a group that it is in, is hidden."""
    for each in (shape, *shape.iterancestors(f"{_P}grpSp")):
        names = each.iterfind(f"*/{_P}cNvPr")
        if any(name.get("hidden") in {"1", "true"} for name in names):
            return True
    return any(local_name(each) == "Fallback" for each in shape.iterancestors())


def _integer(text: str | None, otherwise: int = 0) -> int:
    try:
        return max(-(10**6), min(int(text or ""), 10**6))
    except ValueError:
        return otherwise
