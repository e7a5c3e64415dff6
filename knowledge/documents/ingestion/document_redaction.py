"""Documents with secrets that were stored before there was a rule for them: a redacted version replaces each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hardwon.models.documents import DocumentId, DocumentType
from knowledge.documents.ingestion.queue import DocumentIndexing
from knowledge.documents.parsing.decode import parse_text
from knowledge.documents.ports import ParsedDocument
from knowledge.ports import Progress
from knowledge.text.redaction import redact

_PAGE: Final = 20
"""Documents read at a time: each may have 15 MB of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """The latest version of a document."""

    document_id: DocumentId
    partition: str
    generation: int
    uri: str
    title: str
    category: str | None
    tags: tuple[str, ...]
    document_type: DocumentType
    text: str
    pages: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedDocument:
    """A redacted version of a document."""

    uri: str
    title: str
    category: str | None
    tags: tuple[str, ...]
    notes: tuple[str, ...]
    parsed: ParsedDocument


class RewritingStore(Protocol):
    """The latest versions of the documents of one workspace."""

    async def page(self, *, after: DocumentId | None, limit: int) -> list[StoredDocument]:
        """Return up to `limit` documents with ids above `after`, ascending; those being deleted are left out."""

    async def replace(self, stored: StoredDocument, redacted: RedactedDocument) -> bool:
        """Write a redacted version as the latest, to be indexed; False, and nothing, if there is a later one.

        The one that is shown stays until then. Where its uri belongs to another document, it is hidden for good.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRedactionService:
    """Redacts the documents of one workspace again."""

    store: RewritingStore
    indexing: DocumentIndexing

    async def redact_again(
        self, *, dry_run: bool = False, progress: Progress | None = None
    ) -> tuple[int, Sequence[str]]:
        """Rewrite documents with secrets, to be indexed again; return their number, and the kinds of the secrets."""
        changed, kinds, done = 0, Counter[str](), 0
        after: DocumentId | None = None
        while page := await self.store.page(after=after, limit=_PAGE):
            for stored in page:
                redacted = await asyncio.to_thread(_redact, stored, kinds)
                if redacted is not None and (dry_run or await self.store.replace(stored, redacted)):
                    changed += 1
            after, done = page[-1].document_id, done + len(page)
            if progress:
                progress(done, None)
        return changed, list(kinds.elements())

    async def index(self) -> tuple[int, str | None]:
        """Index what waits and delete what it replaces; return the number of documents, and why some still wait."""
        report = await self.indexing.run(wait=True)
        await self.indexing.store.purge_vectors()
        return report.indexed, report.reason


def _redact(stored: StoredDocument, kinds: Counter[str]) -> RedactedDocument | None:
    """Return what redaction makes of a document, None if nothing."""
    found: list[str] = []

    def clean(text: str) -> str:
        redaction = redact(text)
        found.extend(redaction.found)
        return redaction.text

    found += redact(stored.text, keep_lines=True).found
    uri, title = clean(stored.uri), clean(stored.title)
    category = stored.category and clean(stored.category)
    tags, notes = tuple(map(clean, stored.tags)), tuple(map(clean, stored.notes))
    if not found:
        return None
    kinds.update(found)
    parsed = parse_text(stored.text, stored.document_type, redacting=True, pages=stored.pages, notes=notes)
    return RedactedDocument(uri=uri, title=title, category=category, tags=tags, notes=notes, parsed=parsed)
