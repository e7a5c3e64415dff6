"""Documents as a person names them: by their ids, or by their names in a knowledge base."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from knowledge.documents.models import Document, DocumentId
from knowledge.errors import InvalidInput
from orchestrator.paging import paged


class Listed(Protocol):
    """What lists the documents of a base, here or on a server."""

    async def list_documents(self, kb: str, scope_id: str | None, *, limit: int, after: str | None) -> list[Document]:
        """Return documents in the order of their names."""
        ...


async def document_ids(kb: Listed, base: str, scope_id: str | None, names: Iterable[str]) -> list[DocumentId]:
    """Return the ids of documents, each once. Raises InvalidInput for a name that none of the base has."""
    told = list(dict.fromkeys(names))
    found = {name: read for name in told if (read := _read(name)) is not None}
    if len(found) < len(told):
        every = await paged(
            lambda last, most: kb.list_documents(base, scope_id, limit=most, after=last), lambda each: each.uri
        )
        by_name = {each.uri: each.document_id for each in every}
        for name in told:
            if name not in found:
                if name not in by_name:
                    raise InvalidInput("document", f"there is no {name} here: hardwon kb list shows ids and names")
                found[name] = by_name[name]
    return list(dict.fromkeys(found.values()))


def _read(name: str) -> DocumentId | None:
    try:
        return DocumentId(UUID(name))
    except ValueError:
        return None
