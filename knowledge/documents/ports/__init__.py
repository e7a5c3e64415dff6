"""Ports of the documents package: stores, index, sources, conversion and finders.

Every method that calls a store or endpoint raises an `Unavailable` of `knowledge.errors` if that does not respond.
"""

from __future__ import annotations

from knowledge.documents.ports.converting import ConvertedDocument, Converter, ParsedDocument
from knowledge.documents.ports.finding import (
    EvidenceSource,
    Finder,
    LogStore,
    PassageIndex,
    PassageStore,
    QuoteSource,
    Searcher,
)
from knowledge.documents.ports.indexing import (
    DocumentStore,
    IndexedGeneration,
    IndexingJob,
    IndexingStore,
    ReceivedDocument,
    StaleGeneration,
)
from knowledge.documents.ports.sources import Repositories, Repository, Source, SourceStore, TreeFile

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
