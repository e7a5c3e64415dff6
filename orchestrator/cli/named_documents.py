"""Documents by id or by name in a knowledge base, as people name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from knowledge.documents.models import Document, DocumentId
from knowledge.errors import InvalidInput
from orchestrator.paging import fetch_pages


class DocumentList(Protocol):
    """The list of the documents of a base, in process or on a server."""

    async def list_documents(self, kb: str, scope_id: str | None, *, limit: int, after: str | None) -> list[Document]:
        """Return documents ordered by name."""
        ...


async def document_ids(kb: DocumentList, base: str, scope_id: str | None, names: Iterable[str]) -> list[DocumentId]:
    """Return the ids of documents, each once. Raises InvalidInput for an unknown name."""
    names = list(dict.fromkeys(names))
    found = {name: document_id for name in names if (document_id := _parse_id(name)) is not None}
    if len(found) < len(names):
        every = await fetch_pages(
            lambda last, most: kb.list_documents(base, scope_id, limit=most, after=last), lambda each: each.uri
        )
        by_name = {each.uri: each.document_id for each in every}
        for name in names:
            if name not in found:
                if name not in by_name:
                    raise InvalidInput("document", f"there is no {name} here: hardwon kb list shows ids and names")
                found[name] = by_name[name]
    return list(dict.fromkeys(found.values()))


def _parse_id(name: str) -> DocumentId | None:
    try:
        return DocumentId(UUID(name))
    except ValueError:
        return None
