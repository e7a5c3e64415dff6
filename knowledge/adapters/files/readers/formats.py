"""The reader of each format; those without one here are read by kreuzberg."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from urllib.parse import unquote

from knowledge.adapters.files.readers.docx import read_docx
from knowledge.adapters.files.readers.html import read_html
from knowledge.adapters.files.readers.opendocument import read_opendocument
from knowledge.adapters.files.readers.packages import Package
from knowledge.adapters.files.readers.pptx import read_pptx
from knowledge.adapters.files.readers.xlsx import read_xlsx


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A file as Markdown, in pages if it has pages, with notes on what was not read."""

    text: str
    title: str | None = None
    notes: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def read_exactly(ending: str, content: bytes, page: str | None = None) -> ReadFile | None:
    """Return a file as its reader shows it, None for other formats. `page`: an HTML file as text."""
    match ending:
        case ".docx":
            text, title, notes = read_docx(content)
        case ".xlsx":
            text, title, notes = read_xlsx(content)
        case ".pptx":
            slides, title, notes = read_pptx(content)
            return ReadFile(
                text="\n\n".join(filter(None, slides)), title=title, notes=tuple(notes), pages=tuple(slides)
            )
        case ".odt" | ".ods" | ".odp":
            text, title, notes, slides = read_opendocument(content)
            return ReadFile(text=text, title=title, notes=tuple(notes), pages=tuple(slides))
        case ".epub":
            return _read_epub(content)
        case _ if page is not None:
            text, title = read_html(page)
            notes = []
        case _:
            return None
    return ReadFile(text=text, title=title, notes=tuple(notes))


def _read_epub(content: bytes) -> ReadFile:
    """Return a book: its pages in the order of its spine."""
    package = Package.open(content)
    container = package.root("META-INF/container.xml")
    entry = next(container.iter("{*}rootfile"), None) if container is not None else None
    name = (entry.get("full-path") or "") if entry is not None else ""
    root = package.root(name)
    if root is None:
        raise ValueError("it has no list of its pages")
    files = {each.get("id"): unquote(each.get("href") or "") for each in root.iter("{*}item")}
    order = [files.get(each.get("idref"), "") for each in root.iter("{*}itemref") if each.get("linear") != "no"]
    names = [posixpath.normpath(posixpath.join(posixpath.dirname(name), each)) for each in order if each]
    pages = (package.read(each).decode("utf-8", "replace") for each in names if each in package.names)
    title = next((each.text for each in root.iter("{*}title") if each.text), None)
    return ReadFile(text="\n\n".join(filter(None, (read_html(page)[0] for page in pages))), title=title)
