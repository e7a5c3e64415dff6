"""Bytes to text, in a process that may take little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from knowledge.documents.models import DocumentType


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was read of a file: text in which offsets are counted, and what its head says of it.

    `pages`: where each page begins in the text, where there are pages.
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
class Converted:
    """The text of a file in another format. `pages`: where each page begins in it, where there are pages."""

    text: str
    title: str | None = None
    markdown: bool = False
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class Converter(Protocol):
    """Reads formats other than text."""

    async def convert(self, uri: str, content: bytes) -> Converted:
        """Return the text of a file. Raises Unreadable, also where that takes too much time or memory."""
        ...
