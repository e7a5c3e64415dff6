"""What documents need from the outside, and what answering needs of finding.

Every method that talks to a store or endpoint raises an `Unavailable` of `knowledge.errors` when that does not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from knowledge.documents.access import Scope
from knowledge.documents.models import (
    Chunk,
    Document,
    DocumentId,
    DocumentType,
    Finding,
    LogLine,
    NewDocument,
    PartitionVersion,
    Passage,
    PassageHit,
    PassageId,
    PassagePoint,
    PassageWhere,
    Profile,
    Query,
    Severity,
    SourceId,
    WholeDocument,
)
from knowledge.models import EmbeddingSpace, LeaseToken, SparseVector, TermStatistics, Vector


class Finder(Protocol):
    """How one system finds passages: the only part in which the systems differ."""

    async def find(self, query: Query, scope: Scope, profile: Profile) -> Finding:
        """Return what was found; a failure of all searches comes as `Finding.error`."""
        ...


class Searcher(Protocol):
    """The one search that every finder uses."""

    async def search(self, query: Query, scope: Scope) -> Finding:
        """Return the best `query.k` passages of the scope, with `coverage` None.

        Raises Unavailable where a part does not answer.
        """
        ...


class EvidenceSource(Protocol):
    """Exact facts of the logs of a scope: counts, first and last times, single lines."""

    async def facts(self, question: str, scope: Scope, documents: frozenset[DocumentId] | None = None) -> Finding:
        """Return computed passages for what a question asks of logs; none where it asks nothing of the kind."""
        ...


class QuoteSource(Protocol):
    """The text that a quote must be found in, looked up anew at the moment of checking."""

    async def visible(self, passages: Sequence[Passage], scope: Scope) -> Mapping[PassageId, str]:
        """Return the stored text of those passages whose document is in the scope, current and not deleted.

        Computed ones come with the text they have, if their document is.
        """
        ...

    async def versions(self, scope: Scope) -> tuple[PartitionVersion, ...]:
        """Return the version of each partition of the scope, ascending by name: it moves with every visible change."""
        ...

    async def documents(self, scope: Scope) -> list[Document]:
        """Return the documents of the scope that have an indexed version, ascending by title, then uri."""
        ...

    async def whole(self, scope: Scope, documents: Collection[DocumentId] | None = None) -> list[WholeDocument]:
        """Return visible documents with their texts, all of the scope or those named, in the order of `documents`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What was read of a file: text in which offsets are counted, and what its head says of it.

    `pages`: where each page begins in the text, where there are pages.
    """

    text: str
    document_type: DocumentType
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A document leased for indexing: its latest content, and the generation to write it as."""

    token: LeaseToken
    document: Document
    content: bytes
    generation: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGeneration:
    """All that is written of one version of a document. `vectors` are those of the chunks, shape (n, dims)."""

    parsed: Parsed
    text_hash: str
    chunks: tuple[Chunk, ...]
    vectors: Vector
    lines: tuple[LogLine, ...]
    summary: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A git repository whose files are documents of a partition."""

    source_id: SourceId
    partition: str
    url: str
    branch: str | None
    subdir: str
    globs: tuple[str, ...]
    last_commit: str | None
    last_error: str | None
    synced_at: datetime | None


class DocumentStore(QuoteSource, Protocol):
    """Documents of one workspace: the truth. Rows are the queue as well."""

    async def put(self, partition: str, new: NewDocument) -> tuple[Document, bool]:
        """Keep a document to be indexed, as a new one or a newer version; False where nothing changed.

        What was indexed before stays visible until the newer version is. Raises Conflict for a closed partition.
        """
        ...

    async def claim(self, *, limit: int, lease: timedelta) -> list[Job]:
        """Lease documents to be indexed, the oldest first, by the database's clock; skips what others hold."""
        ...

    async def extend(self, job: Job, lease: timedelta) -> bool:
        """Extend a lease; return whether it still holds."""
        ...

    async def write(self, job: Job, written: NewGeneration, space: EmbeddingSpace) -> Sequence[tuple[PassageId, Chunk]]:
        """Write a generation beside the one that is visible; return its passages. Writing it again replaces it."""
        ...

    async def activate(self, job: Job, written: NewGeneration) -> bool:
        """Make a written generation the visible one, in one transaction; False where the lease is lost."""
        ...

    async def unchanged(self, job: Job) -> None:
        """Note that the latest content says nothing new, so that the visible generation stays."""
        ...

    async def fail(self, job: Job, reason: str, *, retry_at: datetime | None) -> None:
        """Note why a document could not be indexed; without `retry_at` for good."""
        ...

    async def get(self, partition: str, document_id: DocumentId) -> Document:
        """Return a document that is not being deleted, indexed or not. Raises NotFound."""
        ...

    async def listed(self, partition: str, *, limit: int, after: str | None = None) -> list[Document]:
        """Return the documents of a partition that are not being deleted, ascending by uri."""
        ...

    async def hide(self, partition: str, document_ids: Collection[DocumentId]) -> int:
        """Hide documents for good at once, to be deleted once the index let go of them; return how many."""
        ...

    async def close(self, partition: str) -> int:
        """Hide all documents of a partition for good and take no more; return how many."""
        ...

    async def passages(self, passage_ids: Sequence[PassageId], scope: Scope) -> list[Passage]:
        """Return those passages that are visible in the scope, without scores."""
        ...

    async def counts(self, scope: Scope) -> tuple[int, int]:
        """Return how many documents of the scope are visible, and how many wait to be indexed."""
        ...

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return how common terms are among the passages of the scope."""
        ...

    async def stale(self, limit: int) -> list[tuple[DocumentId, int, tuple[PassageId, ...]]]:
        """Return generations nothing may show any more, whose points are to go: document, generation, points."""
        ...

    async def forget(self, document_id: DocumentId, generation: int) -> None:
        """Delete a stale generation whose points are gone; the document itself where it is being deleted."""
        ...


class LogStore(Protocol):
    """Lines of the visible logs of a scope, counted by the database. Every method goes over the named documents."""

    async def by_severity(self, documents: Collection[DocumentId], scope: Scope) -> Mapping[str, int]:
        """Return how many lines of each severity there are; lines without one count as ''."""
        ...

    async def select(
        self,
        documents: Collection[DocumentId],
        scope: Scope,
        *,
        severities: Collection[Severity] = (),
        term: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        last_first: bool = False,
        limit: int,
    ) -> tuple[int, list[tuple[DocumentId, LogLine]]]:
        """Return how many lines fit in all, and the first `limit` of them in order of document and line."""
        ...

    async def around(
        self, documents: Collection[DocumentId], scope: Scope, line: int, *, neighbours: int
    ) -> list[tuple[DocumentId, LogLine]]:
        """Return the lines about a line number."""
        ...


class PassageIndex(Protocol):
    """Points of chunks of one embedding space, in a collection of their own. Derived from Postgres, never truth."""

    async def ensure(self, space: EmbeddingSpace) -> None:
        """Create the collection of the space with its payload indexes, if absent."""
        ...

    async def upsert(self, space: EmbeddingSpace, points: Sequence[PassagePoint]) -> None:
        """Write all points or raise; once it returns they survive a kill and are found."""
        ...

    async def search(
        self, space: EmbeddingSpace, dense: Vector, lexical: SparseVector, where: PassageWhere, *, limit: int
    ) -> list[PassageHit]:
        """Return the union of the `limit` nearest points by each vector, both raw scores of each."""
        ...

    async def delete(self, space: EmbeddingSpace, passage_ids: Sequence[PassageId]) -> None:
        """Delete points; absent ids are no error."""
        ...

    async def count(self, space: EmbeddingSpace, workspace: str, partition: str | None = None) -> int:
        """Return the exact number of points of a workspace, or of one partition of it."""
        ...

    async def scan(self, space: EmbeddingSpace, workspace: str, *, after: UUID | None, limit: int) -> list[PassageId]:
        """Return up to `limit` point ids above `after`, ascending."""
        ...

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""
        ...

    async def aclose(self) -> None:
        """Flush and let go of the index."""
        ...
