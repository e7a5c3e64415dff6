"""Conversion of files to text, in a process with limited time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hardwon.models.documents import DocumentType


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A file as text, with the metadata of its front matter or headings.

    `pages`: the offset at which each page begins in the text, if it has pages.
    """

    text: str
    document_type: DocumentType
    text_hash: str = ""
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedDocument:
    """The text of a file in another format. `pages`: the offset at which each page begins, if it has pages."""

    text: str
    title: str | None = None
    markdown: bool = False
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class Converter(Protocol):
    """Reads formats other than text."""

    async def convert(self, uri: str, content: bytes) -> ConvertedDocument:
        """Return the text of a file. Raises Unreadable, also if that takes too much time or memory."""
