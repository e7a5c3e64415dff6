"""Documents, and the work of making passages of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from knowledge.documents.models import Chunk, Document, DocumentId, LogLine, PassageId, PassagePoint, SourceId
from knowledge.documents.ports.converting import Parsed
from knowledge.models import EmbeddingSpace, LeaseToken, Vector


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


class DocumentStore(Protocol):
    """Which documents the partitions of one workspace hold."""

    async def known(self, partition: str, uri: str) -> tuple[str | None, str] | None:
        """Return the mark and content hash of the latest version of a document, None where none could be read."""
        ...

    async def put(self, partition: str, received: Received) -> tuple[Document, bool]:
        """Keep a version of a document to be indexed; False where it says nothing new.

        What was indexed before stays visible until the newer version is. Raises Conflict for a closed partition, and
        NotFound for a source that was deleted.
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
        """Have documents of a partition indexed again that failed after they were read; return how many.

        Those that were put off count, too: they are due at once.
        """
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
        """Hide all documents of a partition for good, and forget its sources; return how many documents.

        It goes on taking new ones.
        """
        ...


class IndexingStore(Protocol):
    """What is to be indexed of one workspace, and what the index is to hold. Rows are the queue."""

    async def claim(self, *, limit: int, lease: timedelta, only: Collection[DocumentId] | None = None) -> list[Job]:
        """Lease documents to be indexed, by the database's clock; skips what others hold.

        Partitions take turns: first comes one of which none is held, then the one that was served longest ago, and of
        it the oldest document. Of huge ones so many are held at most that others can be beside them. `only`: no others
        than these, and of these huge ones, too.

        Those that were put off come last. One whose lease ran out, and that was leased as often as it may be, is noted
        as failed.
        """
        ...

    async def anything(self) -> bool:
        """Return whether there is a document, in whatever state."""
        ...

    async def held(self, only: Collection[DocumentId] | None = None) -> bool:
        """Return whether somebody has a lease on a document, or on one of these."""
        ...

    async def extend(self, job: Job, lease: timedelta) -> bool:
        """Extend a lease; return whether it still holds."""
        ...

    async def write(self, job: Job, indexed: Indexed) -> bool:
        """Write passages and lines beside those that are shown; False, and nothing written, where the lease is lost.

        Written again, they replace what was written.
        """
        ...

    async def activate(self, job: Job, space: EmbeddingSpace, notes: Sequence[str]) -> bool:
        """Show a written generation instead of the one before, in one transaction; False where the lease is lost."""
        ...

    async def overtaken(self, job: Job) -> bool:
        """Return whether the generation of a job is not shown, and never will be: deleted, or a newer one came."""
        ...

    async def fail(self, job: Job, reason: str, *, retry_after: timedelta | None) -> None:
        """Note why a document could not be indexed; without `retry_after` for good.

        With it, that it was leased does not count, and it waits behind those that were not put off.
        """
        ...

    async def give_back(self, job: Job) -> None:
        """End a lease as if it had never been: whoever asks next gets the document."""
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

    async def shown(self, space: EmbeddingSpace) -> int:
        """Return how many passages are shown that have an embedding in a space: the index holds no fewer."""
        ...

    async def standing(self, *, after: PassageId | None, limit: int) -> dict[PassageId, bool]:
        """Return the passages that are shown (True) or written and may be shown yet (False), ascending by id.

        All of them as they are at one moment.
        """
        ...

    async def written(self, passage_ids: Collection[PassageId]) -> set[PassageId]:
        """Return those of some passages that are written in Postgres, shown or not."""
        ...

    async def renew(self) -> None:
        """Say that what is found may have changed in every partition, so that no kept answer is given any more."""
        ...
