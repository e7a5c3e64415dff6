"""What documents need from the outside, and what answering needs of finding.

Every method that talks to a store or endpoint raises an `Unavailable` of `knowledge.errors` when that does not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from knowledge.documents.access import Scope
from knowledge.documents.models import (
    Chunk,
    Document,
    DocumentId,
    DocumentType,
    Finding,
    LogLine,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A document as it came, read and redacted; `refused` says why it could not be read, then nothing was parsed.

    `content_hash` is of the bytes, and of what changes how they are read.
    """

    uri: str
    title: str | None
    category: str | None
    tags: tuple[str, ...]
    link: str | None
    mark: str | None
    source_id: SourceId | None
    content_hash: str
    parsed: Parsed | None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A document leased for indexing, with the text of the generation to index."""

    token: LeaseToken
    document_id: DocumentId
    partition: str
    uri: str
    generation: int
    title: str
    parsed: Parsed
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """What is written of a generation before it is shown. `passage_ids`, `terms` and `text_hashes` are the chunks'."""

    chunks: tuple[Chunk, ...]
    passage_ids: tuple[PassageId, ...]
    terms: tuple[tuple[int, ...], ...]
    text_hashes: tuple[bytes, ...]
    lines: tuple[LogLine, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A generation that nothing shows any more, and the points that are to go before it does."""

    document_id: DocumentId
    generation: int
    passage_ids: tuple[PassageId, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file of a commit. `mark` changes with its content."""

    path: str
    mark: str
    size: int


class Repository(Protocol):
    """A git repository as fetched."""

    async def files(self) -> list[TreeFile]:
        """Return the plain files of the commit: no links, no other repositories."""
        ...

    async def content(self, mark: str) -> bytes:
        """Return the content of a file."""
        ...


class Repositories(Protocol):
    """Fetches git repositories."""

    def fetched(self, source: Source) -> AbstractAsyncContextManager[tuple[str, Repository]]:
        """Fetch a source; give its commit, and the repository until the block ends. Raises SourceUnavailable."""
        ...

    async def forget(self, source_id: SourceId) -> None:
        """Delete what was fetched of a source."""
        ...


class SourceStore(Protocol):
    """The git repositories of one workspace."""

    async def add(self, source: Source) -> Source:
        """Keep a source; the same address and folder again in a partition changes it."""
        ...

    async def of(self, partition: str | None) -> list[Source]:
        """Return the sources of a partition, or of all that are not closed."""
        ...

    async def synced(self, source_id: SourceId, *, commit: str | None, error: str | None) -> None:
        """Note what came of a sync; without a commit the last one stays."""
        ...

    async def delete(self, partition: str, source_id: SourceId) -> None:
        """Forget a source. Raises NotFound."""
        ...


class DocumentStore(Protocol):
    """Which documents the partitions of one workspace hold."""

    async def known(self, partition: str, uri: str) -> tuple[str | None, str] | None:
        """Return the mark and content hash of the latest version of a document, None where none could be read."""
        ...

    async def put(self, partition: str, received: Received) -> tuple[Document, bool]:
        """Keep a version of a document to be indexed; False where it says nothing new.

        What was indexed before stays visible until the newer version is. Raises Conflict for a closed partition.
        """
        ...

    async def get(self, partition: str, document_id: DocumentId) -> Document:
        """Return a document that is not being deleted, indexed or not. Raises NotFound."""
        ...

    async def named(self, partition: str, uri: str) -> Document:
        """Return a document by its uri. Raises NotFound."""
        ...

    async def listed(self, partition: str, *, limit: int, after: str | None = None) -> list[Document]:
        """Return the documents of a partition that are not being deleted, ascending by uri."""
        ...

    async def marks(self, partition: str, source_id: SourceId) -> Mapping[str, tuple[DocumentId, str | None]]:
        """Return the uris of the documents of a source, with their ids and marks."""
        ...

    async def retry(self, partition: str) -> int:
        """Have documents of a partition indexed again that failed after they were read; return how many."""
        ...

    async def hide(self, partition: str, document_ids: Collection[DocumentId]) -> int:
        """Hide documents for good at once, to be deleted once the index let go of them; return how many."""
        ...

    async def close(self, partition: str, *, keep_for: timedelta = timedelta(0)) -> int:
        """Take no more documents; hide all for good, at once or by `close_due` after a while; return how many."""
        ...

    async def close_due(self) -> int:
        """Hide what is left of partitions that are closed for long enough; return how many documents."""
        ...

    async def forget_partition(self, partition: str) -> int:
        """Hide all documents of a partition for good, which goes on taking new ones; return how many."""
        ...


class IndexingStore(Protocol):
    """What is to be indexed of one workspace, and what the index is to hold. Rows are the queue."""

    async def claim(self, *, limit: int, lease: timedelta) -> list[Job]:
        """Lease documents to be indexed, the oldest first, by the database's clock; skips what others hold."""
        ...

    async def anything(self) -> bool:
        """Return whether there is a document, in whatever state."""
        ...

    async def held(self) -> bool:
        """Return whether somebody has a lease on a document."""
        ...

    async def extend(self, job: Job, lease: timedelta) -> bool:
        """Extend a lease; return whether it still holds."""
        ...

    async def write(self, job: Job, indexed: Indexed) -> None:
        """Write passages and lines beside those that are shown; written again, they replace what was written."""
        ...

    async def activate(self, job: Job, space: EmbeddingSpace, notes: Sequence[str]) -> bool:
        """Show a written generation instead of the one before, in one transaction; False where the lease is lost."""
        ...

    async def fail(self, job: Job, reason: str, *, retry_after: timedelta | None) -> None:
        """Note why a document could not be indexed; without `retry_after` for good."""
        ...

    async def requeue(self, space: EmbeddingSpace) -> int:
        """Have documents indexed again whose passages are not in a space; return how many."""
        ...

    async def stale(self, limit: int) -> list[Stale]:
        """Return generations nothing shows or will show."""
        ...

    async def forget(self, stale: Stale) -> None:
        """Delete a stale generation whose points are gone; the document too, where it is being deleted."""
        ...

    async def forget_empty(self) -> int:
        """Delete documents that are being deleted and of which nothing is left; return how many."""
        ...

    async def vectors(self, space: EmbeddingSpace, text_hashes: Collection[bytes]) -> Mapping[bytes, Vector]:
        """Return the embeddings that texts have already."""
        ...

    async def keep_vectors(self, space: EmbeddingSpace, vectors: Mapping[bytes, Vector]) -> None:
        """Keep the embeddings of texts by their hashes."""
        ...

    async def purge_vectors(self) -> int:
        """Delete embeddings of texts that no passage has any more; return how many."""
        ...

    async def points(
        self, space: EmbeddingSpace, *, after: PassageId | None, limit: int
    ) -> list[tuple[PassagePoint, str]]:
        """Return points that the index is to hold, ascending by id, with their texts instead of lexical vectors.

        Left out are those without an embedding in the space.
        """
        ...

    async def on_their_way(self) -> list[PassageId]:
        """Return the passages that are written and may be shown yet."""
        ...

    async def count_points(self) -> int:
        """Return how many points the index is to hold."""
        ...


class PassageStore(QuoteSource, Protocol):
    """What may be shown of the documents of one workspace: nothing else than what is active and in the scope."""

    async def passages(self, passage_ids: Sequence[PassageId], scope: Scope) -> list[Passage]:
        """Return those passages that are visible in the scope, without scores."""
        ...

    async def counts(self, scope: Scope) -> tuple[int, int]:
        """Return how many documents of the scope are visible, and how many wait to be indexed."""
        ...

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        """Return how common terms are among the visible passages of the scope."""
        ...

    async def sample(self, space: EmbeddingSpace, limit: int) -> list[tuple[str, Vector]]:
        """Return some visible passages with their embeddings."""
        ...

    async def scale(self, space: EmbeddingSpace) -> tuple[float, float] | None:
        """Return the measured cosines of relevance 0 and 1, where they were."""
        ...

    async def keep_scale(self, space: EmbeddingSpace, low: float, high: float, passages: int) -> None:
        """Keep measured cosines of relevance 0 and 1."""
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

    async def span(self, documents: Collection[DocumentId], scope: Scope) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last moment that a line names."""
        ...

    async def templates(self, documents: Collection[DocumentId], scope: Scope, *, limit: int) -> list[tuple[str, int]]:
        """Return the most frequent templates of lines with how often they occur, the most frequent first."""
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

    async def count(self, space: EmbeddingSpace, workspace: str) -> int:
        """Return the exact number of points of a workspace."""
        ...

    async def scan(
        self, space: EmbeddingSpace, workspace: str, *, after: PassageId | None, limit: int
    ) -> list[PassageId]:
        """Return up to `limit` point ids above `after`, ascending."""
        ...

    async def drop(self, space: EmbeddingSpace) -> None:
        """Delete the collection of the space, if there is one."""
        ...

    async def aclose(self) -> None:
        """Flush and let go of the index."""
        ...
