"""What documents need from the outside, and what answering needs of finding.

Every method that talks to a store or endpoint raises an `Unavailable` of `knowledge.errors` when that does not answer.
"""

from __future__ import annotations

from knowledge.documents.ports.converting import Converted, Converter, Parsed
from knowledge.documents.ports.finding import (
    EvidenceSource,
    Finder,
    LogStore,
    PassageIndex,
    PassageStore,
    QuoteSource,
    Searcher,
)
from knowledge.documents.ports.indexing import DocumentStore, Indexed, IndexingStore, Job, Received, Stale
from knowledge.documents.ports.sources import Repositories, Repository, Source, SourceStore, TreeFile

__all__ = [
    "Converted",
    "Converter",
    "DocumentStore",
    "EvidenceSource",
    "Finder",
    "Indexed",
    "IndexingStore",
    "Job",
    "LogStore",
    "Parsed",
    "PassageIndex",
    "PassageStore",
    "QuoteSource",
    "Received",
    "Repositories",
    "Repository",
    "Searcher",
    "Source",
    "SourceStore",
    "Stale",
    "TreeFile",
]
