"""Read HTML as a browser shows it: without what is hidden, tables once, superscripts and formulas as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lxml import etree
from lxml.html import HTMLParser, document_fromstring

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

_SKIPPED: Final = frozenset({
    "script", "style", "template", "noscript", "head", "svg", "select", "datalist", "iframe", "object", "canvas",
    "audio", "video", "rp", "title", "meta", "link", "textarea",
})  # fmt: skip
_BLOCKS: Final = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
    "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "ul", "caption", "tbody",
    "thead", "tfoot", "tr", "td", "th", "hgroup", "search",
})  # fmt: skip
_HEADINGS: Final = {f"h{depth}": depth for depth in range(1, 7)}
_HIDING = re.compile(r"(?i)(?:^|[;{\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))")
_RULE = re.compile(r"([^{}]{1,500})\{([^{}]{0,2000})\}")
_MEDIA = re.compile(r"@[^{}]{0,300}\{(?:[^{}]{0,2000}\{[^{}]{0,2000}\}){0,500}[^{}]{0,500}\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SIMPLE_SELECTOR = re.compile(r"[.#][\w-]{1,100}")
_NUMBERINGS: Final = {"a": "abcdefghijklmnopqrstuvwxyz"}
_NOTE = re.compile(r"\[?(\d{1,4}|[a-z*†‡])\]?")
_STRUCK: Final = frozenset({"s", "strike", "del"})


def read_html(page: str) -> tuple[str, str | None]:
    """Return a page as Markdown, and its title."""
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    source = without_private(page).encode("utf-8", "replace")
    if not source.strip():
        return "", None
    root = document_fromstring(source, parser=parser)
    if any("Excessive depth" in each.message for each in parser.error_log):
        raise ValueError("its elements are nested too deeply")
    title = next((words for each in root.iter("title") if (words := " ".join((each.text or "").split()))), None)
    reader = _Reader(_hidden_names(root))
    reader.block(root)
    reader.flush()
    return reader.writer.text, title


def _hidden_names(root: etree._Element) -> frozenset[str]:
    """Return the classes (`.name`) and ids (`#name`) that the style sheets of a page hide from everybody."""
    hidden = set()
    for style in root.iter("style"):
        for selectors, rules in _RULE.findall(_MEDIA.sub("", _COMMENT.sub("", style.text or "")[:200_000])):
            if _HIDING.search(rules):
                hidden |= {each for part in selectors.split(",") if _SIMPLE_SELECTOR.fullmatch(each := part.strip())}
    return frozenset(hidden)


@dataclass(slots=True)
class _Reader:
    """Writes elements as blocks; text between blocks is collected until the next one begins."""

    hidden: frozenset[str] = frozenset()
    writer: Writer = field(default_factory=Writer)
    pending: list[str] = field(default_factory=list)

    def flush(self) -> None:
        text = "".join(self.pending)
        self.pending = []
        self.writer.paragraph(text)

    def block(self, element: etree._Element) -> None:
        """Write what is in an element that is a block."""
        self.pending.append(element.text or "")
        for child in element:
            self.child(child)
            self.pending.append(child.tail or "")

    def child(self, child: etree._Element) -> None:
        name = local_name(child)
        if self.is_hidden(child, name):
            return
        if name not in _BLOCKS and not self.has_blocks(child):
            self.pending.append(self.inline(child))
            return
        self.flush()
        if name in _HEADINGS:
            self.writer.heading(_HEADINGS[name], self.inner(child))
        elif name == "pre":
            self.writer.code(self.code(child))
        elif name == "table":
            self.table(child)
        elif name in {"ul", "ol", "menu"}:
            self.list_items(child, 0)
        elif name == "dl":
            self.definitions(child)
        else:
            self.block(child)
        self.flush()

    def has_blocks(self, element: etree._Element) -> bool:
        return any(local_name(each) in _BLOCKS for each in element.iterdescendants())

    def is_hidden(self, element: etree._Element, name: str) -> bool:
        if name in _SKIPPED or not name:
            return True
        if element.get("hidden") is not None and element.get("hidden") != "until-found":
            return True
        if _HIDING.search(element.get("style") or ""):
            return True
        if not self.hidden:
            return False
        names = {f".{each}" for each in (element.get("class") or "").split()} | {f"#{element.get('id')}"}
        return not names.isdisjoint(self.hidden)

    def inner(self, element: etree._Element) -> str:
        """Return the text in an element, without lists and tables within."""
        return "".join(self.parts(element))

    def parts(self, element: etree._Element) -> Iterator[str]:
        yield element.text or ""
        for child in element:
            yield self.inline(child)
            yield child.tail or ""

    def inline(self, element: etree._Element) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each element
        """Return the text of an element within a line."""
        name = local_name(element)
        if self.is_hidden(element, name):
            return ""
        if name == "br":
            return BREAK
        if name == "math":
            return formula(element)
        if name == "input":
            shown = element.get("type") in {"submit", "button", "text", None}
            return (element.get("value") or "") if shown else ""
        if name == "img":
            return element.get("alt") or ""
        inner = self.inner(element)
        if name == "pre":
            return f"{BREAK}{self.code(element)}{BREAK}"
        if name == "sup":
            return self.raise_text(element, inner)
        if name == "sub":
            return subscript(inner)
        if name in {"code", "kbd", "tt", "samp"} and inner.strip() and "`" not in inner:
            return f"`{plain(inner)}`" if "\n" not in inner.strip() else inner
        if name in _STRUCK and inner.strip():
            return f"~~{inner.strip()}~~"
        if name == "a":
            return _link(element, inner)
        if name == "q":
            return f"\u201c{inner}\u201d"
        if name == "rt":
            return f"({inner})"
        if name in {"td", "th"}:
            return f" {inner} "
        return f"{BREAK}{inner}{BREAK}" if name in _BLOCKS else inner

    def raise_text(self, element: etree._Element, inner: str) -> str:
        """Return raised text; the mark of a note is written in brackets."""
        note = _NOTE.fullmatch(inner.strip())
        marked = any((each.get("href") or "").startswith("#") for each in element.iter("a"))
        parent = element.getparent()
        within = parent is not None and local_name(parent) == "a" and (parent.get("href") or "").startswith("#")
        return f"[{note[1]}]" if note and (marked or within) else superscript(inner)

    def code(self, element: etree._Element) -> str:
        """Return the text of an element with its white space."""
        text = element.text or ""
        for child in element:
            name = local_name(child)
            text += "\n" if name == "br" else "" if self.is_hidden(child, name) else self.code(child)
            text += child.tail or ""
        return text

    def list_items(self, element: etree._Element, depth: int) -> None:
        ordered = local_name(element) == "ol"
        items = [each for each in element if local_name(each) == "li"]
        number = _integer(element.get("start"), len(items) if element.get("reversed") is not None else 1)
        for each in element:
            name = local_name(each)
            if name in {"ul", "ol", "menu"}:
                self.list_items(each, depth + 1)
            elif name == "li" and not self.is_hidden(each, name):
                number = _integer(each.get("value"), number)
                self.item(each, depth, _marker(number, element.get("type")) if ordered else "-")
                number += -1 if element.get("reversed") is not None else 1

    def item(self, element: etree._Element, depth: int, marker: str, lead: str = "") -> None:
        """Write an item: its text, then what is nested in it."""
        text = [lead, element.text or ""]
        begun = False

        def end() -> None:
            nonlocal begun, text
            words = "".join(text)
            if words.strip() and not begun:
                self.writer.item(depth, marker, words)
                begun = True
            elif words.strip():
                self.writer.add(_indent(plain(words), depth + 1))
            text = []

        for child in element:
            name = local_name(child)
            if self.is_hidden(child, name):
                pass
            elif name in {"ul", "ol", "menu"}:
                end()
                self.list_items(child, depth + 1 if begun else depth)
            elif name in {"pre", "table", "dl"} or (
                name == "div" and next(child.iter("pre", "table"), None) is not None
            ):
                end()
                nested = _Reader(self.hidden)
                nested.child(child)
                self.writer.add(_indent(nested.writer.text, depth + 1))
            elif name in {"p", "div"} and "".join(text).strip():
                text += [BREAK, self.inner(child), BREAK]
            else:
                text.append(self.inline(child))
            text.append(child.tail or "")
        end()

    def definitions(self, element: etree._Element) -> None:
        """Write terms with their bodies as items of a list."""
        terms: list[str] = []
        entries = [each for each in element.iter("dt", "dd") if _owner(each) is element]
        for each in entries:
            name = local_name(each)
            if self.is_hidden(each, name):
                continue
            if name == "dt":
                terms.append(plain(self.inner(each)).replace("\n", " "))
                continue
            self.item(each, 0, "-", lead=f"{', '.join(terms)}: " if terms else "")
            terms = []
        for term in terms:
            self.writer.item(0, "-", term)

    def table(self, element: etree._Element) -> None:
        caption = next(iter(element.iterchildren("caption")), None)
        if caption is not None and not self.is_hidden(caption, "caption"):
            self.writer.paragraph(self.inner(caption))
        rows: list[list[Cell]] = []
        headers = 0
        for row in element.iter("tr"):
            if _owner(row) is not element or self.is_hidden(row, "tr"):
                continue
            cells = [self.cell(each) for each in row.iterchildren("td", "th") if not self.is_hidden(each, "td")]
            if not cells:
                continue
            parent = row.getparent()
            if parent is not None and local_name(parent) == "thead" and headers == len(rows):
                headers += 1
            rows.append(cells)
        self.writer.add(write_table(rows, headers or None))

    def cell(self, element: etree._Element) -> Cell:
        rows = _integer(element.get("rowspan"), 1)
        return Cell(
            plain(self.inner(element)).replace("\n", " "),
            columns=max(1, _integer(element.get("colspan"), 1)),
            rows=rows or 65_534,
            header=local_name(element) == "th",
        )


def _owner(element: etree._Element) -> etree._Element | None:
    """Return the table or definition list that an element belongs to."""
    return next(element.iterancestors("table", "dl"), None)


def _indent(text: str, depth: int) -> str:
    return "\n".join("    " * depth + line if line else "" for line in text.split("\n"))


def _integer(text: str | None, otherwise: int) -> int:
    try:
        return max(-(10**9), min(int((text or "").strip()), 10**9))
    except ValueError:
        return otherwise


def _marker(number: int, kind: str | None) -> str:
    """Return the sign of an item: letters as a browser shows them, Roman numbers as numbers."""
    if kind in {"a", "A"} and 1 <= number <= len(_NUMBERINGS["a"]):
        letter = _NUMBERINGS["a"][number - 1]
        return f"- {letter if kind == 'a' else letter.upper()}."
    return f"{number}."


def _link(element: etree._Element, inner: str) -> str:
    """Return the words of a link, with its address if it leads to another page and says so nowhere else."""
    address, words = (element.get("href") or "").strip(), plain(inner)
    if element.get("class") in {"headerlink", "anchor"} and len(words) <= 1:
        return ""
    leads = address.startswith(("https://", "http://", "mailto:")) and len(address) < 1000
    if not leads or not words or words.rstrip("/") in address or "\n" in words or "[" in words or " " in address:
        return inner
    return f"[{words}]({address})"
