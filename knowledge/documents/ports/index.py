"""Ports of documents and of the work of indexing them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from hardwon.models.documents import Document, DocumentId, LogLine, PassageId, SourceId
from knowledge.documents.models import Chunk, PassagePoint
from knowledge.documents.ports.conversion import ParsedDocument
from knowledge.models import EmbeddingSpace, LeaseToken, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedDocument:
    """A received document, parsed and redacted; `refused` says why it could not be read, and then `parsed` is None.

    `content_hash` covers the bytes, and whatever changes how they are read.
    """

    uri: str
    title: str | None
    category: str | None
    tags: tuple[str, ...]
    link: str | None
    mark: str | None
    source_id: SourceId | None
    content_hash: str
    parsed: ParsedDocument | None
    refused: str | None = None
    lines: tuple[LogLine, ...] = ()
    """The lines of a log: they are counted as soon as they are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingJob:
    """A document leased for indexing, with the text of the generation to index."""

    token: LeaseToken
    document_id: DocumentId
    partition: str
    uri: str
    generation: int
    title: str
    parsed: ParsedDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPassage:
    """A chunk as it is written: the id of its point, the counts of its terms, and the hash of the text to embed."""

    passage_id: PassageId
    chunk: Chunk
    term_counts: Mapping[int, int]
    text_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedGeneration:
    """A generation as written before it is shown.

    `lines` are written where none are stored yet: those of what an older release or an archive left to be indexed.
    """

    job: IndexingJob
    passages: tuple[IndexedPassage, ...]
    lines: tuple[LogLine, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleGeneration:
    """A generation that is not shown any more, and its points, which are deleted before it."""

    document_id: DocumentId
    generation: int
    passage_ids: tuple[PassageId, ...]


class DocumentStore(Protocol):
    """Documents of one workspace, by partition."""

    async def latest_mark_and_hash(self, partition: str, uri: str) -> tuple[str | None, str] | None:
        """Return the mark and content hash of a document's latest version, None if it could not be read."""

    async def put(self, partition: str, received: ReceivedDocument) -> tuple[Document, bool]:
        """Store a version of a document to be indexed; return it, and False if its content is unchanged.

        The version that was indexed before stays visible until the newer one is.
        Raises Conflict for a closed partition, and NotFound for a deleted source.
        """

    async def get(self, partition: str, document_id: DocumentId) -> Document:
        """Return a document that is not being deleted, indexed or not. Raises NotFound."""

    async def get_by_uri(self, partition: str, uri: str) -> Document:
        """Return a document by its uri. Raises NotFound."""

    async def list_documents(self, partition: str, *, limit: int, after: str | None = None) -> list[Document]:
        """Return the documents of a partition that are not being deleted, ascending by uri."""

    async def marks(self, partition: str, source_id: SourceId) -> Mapping[str, tuple[DocumentId, str | None]]:
        """Return the uris of the documents of a source, with their ids and marks."""

    async def retry(self, partition: str) -> int:
        """Queue the documents of a partition again that failed after they were read; return their number.

        Postponed ones count, too: they are due at once.
        """

    async def hide(self, partition: str, document_ids: Collection[DocumentId]) -> int:
        """Hide documents for good at once, to be deleted once their points are; return their number."""

    async def close(self, partition: str, *, keep_for: timedelta = timedelta(0)) -> int:
        """Take no more documents; hide all for good, at once or later by `close_due`; return their number."""

    async def close_due(self) -> int:
        """Hide the documents of partitions that are closed for long enough; return their number."""

    async def forget_partition(self, partition: str) -> int:
        """Hide all documents of a partition for good, and delete its sources; return the number of documents.

        The partition still takes new ones.
        """


class IndexingStore(Protocol):
    """Queue of documents to index in one workspace, and the points that the index must hold. Rows are the queue."""

    async def claim(
        self, *, limit: int, lease: timedelta, only: Collection[DocumentId] | None = None
    ) -> list[IndexingJob]:
        """Lease documents to be indexed, by the database's clock; skips those that are leased.

        Partitions take turns: first one without a leased document, then the one that was served longest ago, and of it
        the oldest documents, as many as are indexed together: at most `limit`, and their texts small. One that was
        tried before comes alone, since it may be what ended the process or the run. The number of huge documents
        leased at once is limited, so that others are not kept waiting. `only`: these documents alone, huge ones
        without that limit.

        Postponed documents come last. A document whose lease expired after the last permitted attempt is marked failed.
        """

    async def has_documents(self) -> bool:
        """Return whether there is any document, in whatever state."""

    async def has_leases(self, only: Collection[DocumentId] | None = None) -> bool:
        """Return whether any document, or any of `only`, is leased."""

    async def extend(self, jobs: Sequence[IndexingJob], lease: timedelta) -> bool:
        """Extend the leases of jobs of one claim; return False if all were lost."""

    async def lines(self, job: IndexingJob) -> tuple[LogLine, ...]:
        """Return the stored lines of the generation to index, in their order."""

    async def write(self, indexed: Sequence[IndexedGeneration]) -> set[DocumentId]:
        """Write passages and lines of one claim next to the shown ones; return the documents whose lease is not lost.

        Nothing is written of the others. Writing again replaces them.
        """

    async def activate(self, indexed: Sequence[IndexedGeneration], space: EmbeddingSpace) -> set[DocumentId]:
        """Show written generations of one claim instead of the ones before, in one transaction.

        Returns the documents whose lease is not lost: the others are left as they are.
        """

    async def is_superseded(self, job: IndexingJob) -> bool:
        """Return whether the generation of a job will never be shown: it was deleted, or a newer one came."""

    async def fail(self, job: IndexingJob, reason: str, *, retry_after: timedelta | None) -> None:
        """Record why a document could not be indexed; without `retry_after` it has failed for good.

        With `retry_after` the attempt does not count, and the document waits behind those that were not postponed.
        """

    async def give_back(self, jobs: Sequence[IndexingJob]) -> None:
        """Release the leases of one claim that are not lost, without counting the attempt: others may claim them."""

    async def requeue(self, space: EmbeddingSpace) -> int:
        """Queue the documents again whose passages are not in a space; return their number."""

    async def stale(self, limit: int) -> list[StaleGeneration]:
        """Return generations that are not shown and never will be."""

    async def forget(self, stale: StaleGeneration) -> None:
        """Delete a stale generation whose points are deleted; the document too, if it is being deleted."""

    async def forget_empty(self) -> int:
        """Delete the rows of documents that are being deleted and have no generation left; return their number."""

    async def vectors(self, space: EmbeddingSpace, text_hashes: Collection[bytes]) -> Mapping[bytes, Vector]:
        """Return the stored embeddings of texts by their hashes."""

    async def keep_vectors(self, space: EmbeddingSpace, vectors: Mapping[bytes, Vector]) -> None:
        """Store the embeddings of texts by their hashes."""

    async def purge_vectors(self) -> int:
        """Delete embeddings of texts that no passage has any more; return their number."""

    async def points(
        self, space: EmbeddingSpace, *, after: PassageId | None, limit: int
    ) -> list[tuple[PassagePoint, str]]:
        """Return points that the index must hold, ascending by id, with their texts instead of lexical vectors.

        Those without an embedding in the space are left out.
        """

    async def count_shown(self, space: EmbeddingSpace) -> int:
        """Return the number of shown passages with an embedding in a space: the least number of points in the index."""

    async def index_membership(self, *, after: PassageId | None, limit: int) -> dict[PassageId, bool]:
        """Return the passages that are shown (True), or written and may still be shown (False), ascending by id.

        All of them are read from one snapshot.
        """

    async def find_existing(self, passage_ids: Collection[PassageId]) -> set[PassageId]:
        """Return those passages that have a row in Postgres, shown or not."""

    async def renew(self) -> None:
        """Raise the version of every partition, so that no cached answer is used any more."""
