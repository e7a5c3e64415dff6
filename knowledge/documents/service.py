"""All that one workspace's documents offer, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.documents.access import AccessPolicy
from knowledge.documents.indexing import DocumentIndexing
from knowledge.documents.library import DocumentLibrary
from knowledge.documents.ports import PassageStore
from knowledge.documents.searching import DocumentSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The services of documents of one workspace. A scope of `access` opens each of them."""

    workspace: str
    access: AccessPolicy
    library: DocumentLibrary
    indexing: DocumentIndexing
    search: DocumentSearch
    quotes: PassageStore
