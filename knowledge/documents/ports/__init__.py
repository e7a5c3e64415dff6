"""Ports of the documents package: stores, index, sources, conversion and finders.

Every method that calls a store or endpoint raises an `Unavailable` of `hardwon.errors` if that does not respond.
"""

from __future__ import annotations

from hardwon.models.documents import Source as Source
from knowledge.documents.ports.conversion import ConvertedDocument as ConvertedDocument
from knowledge.documents.ports.conversion import Converter as Converter
from knowledge.documents.ports.conversion import ParsedDocument as ParsedDocument
from knowledge.documents.ports.index import DocumentStore as DocumentStore
from knowledge.documents.ports.index import IndexedGeneration as IndexedGeneration
from knowledge.documents.ports.index import IndexedPassage as IndexedPassage
from knowledge.documents.ports.index import IndexingJob as IndexingJob
from knowledge.documents.ports.index import IndexingStore as IndexingStore
from knowledge.documents.ports.index import ReceivedDocument as ReceivedDocument
from knowledge.documents.ports.index import StaleGeneration as StaleGeneration
from knowledge.documents.ports.search import MAX_ENTRY_LINES as MAX_ENTRY_LINES
from knowledge.documents.ports.search import FieldCounts as FieldCounts
from knowledge.documents.ports.search import Finder as Finder
from knowledge.documents.ports.search import LogStore as LogStore
from knowledge.documents.ports.search import PassageIndex as PassageIndex
from knowledge.documents.ports.search import PassageStore as PassageStore
from knowledge.documents.ports.search import Reranker as Reranker
from knowledge.documents.ports.search import Searcher as Searcher
from knowledge.documents.ports.sources import Repositories as Repositories
from knowledge.documents.ports.sources import Repository as Repository
from knowledge.documents.ports.sources import SourceStore as SourceStore
from knowledge.documents.ports.sources import TreeFile as TreeFile
