"""Ports of the documents package: stores, index, sources, conversion and finders.

Every method that calls a store or endpoint raises an `Unavailable` of `hardwon.errors` if that does not respond.
"""

from __future__ import annotations

from hardwon.models.documents import Source
from knowledge.documents.ports.conversion import ConvertedDocument, Converter, ParsedDocument
from knowledge.documents.ports.index import (
    DocumentStore,
    IndexedGeneration,
    IndexingJob,
    IndexingStore,
    ReceivedDocument,
    StaleGeneration,
)
from knowledge.documents.ports.search import (
    EvidenceSource,
    Finder,
    LogStore,
    PassageIndex,
    PassageStore,
    QuoteSource,
    Searcher,
)
from knowledge.documents.ports.sources import Repositories, Repository, SourceStore, TreeFile

__all__ = [
    "ConvertedDocument",
    "Converter",
    "DocumentStore",
    "EvidenceSource",
    "Finder",
    "IndexedGeneration",
    "IndexingJob",
    "IndexingStore",
    "LogStore",
    "ParsedDocument",
    "PassageIndex",
    "PassageStore",
    "QuoteSource",
    "ReceivedDocument",
    "Repositories",
    "Repository",
    "Searcher",
    "Source",
    "SourceStore",
    "StaleGeneration",
    "TreeFile",
]
