"""Documents, their sources and the passages found in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, NewType, Self
from uuid import UUID

from pydantic import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedDocument:
    """An added document as it is now; `changed` unless its content was stored already."""

    document: Document
    changed: bool


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
class NewSource:
    """A repository to fetch documents from: all readable files below `subdir`, or those that match one of `globs`."""

    url: str
    branch: str | None = None
    subdir: str = ""
    globs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """Counts of a sync of a source. `error` says why it could not be fetched; then nothing was changed."""

    source_id: SourceId
    url: str
    commit: str | None = None
    added: int = 0
    unreadable: int = 0
    deleted: int = 0
    unchanged: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """Counts of a run of the index job. `reason`: why it postponed documents and stopped, None if it did not."""

    indexed: int = 0
    failed: int = 0
    postponed: int = 0
    removed: int = 0
    reason: str | None = None


DocumentId = NewType("DocumentId", UUID)
PassageId = NewType("PassageId", UUID)
"""A chunk's id, which is its point's, or one derived from what a computed passage says."""
SourceId = NewType("SourceId", UUID)


class DocumentType(StrEnum):
    """Kind of a document, which decides how it is split into passages."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CODE = "code"
    CONFIG = "config"
    LOG = "log"


class DocumentStatus(StrEnum):
    """State of a document. One that is being indexed is `pending` with a lease that ends in the future."""

    PENDING = "pending"
    INDEXED = "indexed"
    FAILED = "failed"
    DELETING = "deleting"


class PassageKind(StrEnum):
    """Origin of a passage's text. A summary leads a search to a document, but is not evidence: it is never quoted."""

    CHUNK = "chunk"
    SUMMARY = "summary"
    COMPUTED = "computed"
    DOCUMENT = "document"


LISTED: Final = "listed"
"""The section of a computed passage that lists log lines."""


class Severity(StrEnum):
    """Severity that a log line names, the worst last."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A file to store in a partition. `uri` is its key there: the same uri again is the next version of it.

    `mark` identifies its content without reading it, such as a git blob id; `link` is where a person can open it.
    """

    uri: str
    content: bytes
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    link: str | None = None
    mark: str | None = None
    source_id: SourceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A stored document, without its text. `error` says why the latest version could not be indexed.

    `generation` is the version that its passages belong to, None if none was indexed yet; `waiting`: a newer version
    is still to be indexed. `name` is the last part of `uri`.
    """

    document_id: DocumentId
    partition: str
    uri: str
    name: str
    title: str
    document_type: DocumentType
    category: str | None
    tags: tuple[str, ...]
    link: str | None
    version: int
    status: DocumentStatus
    error: str | None
    generation: int | None
    waiting: bool
    lines: int
    characters: int
    content_hash: str | None
    added_at: datetime
    indexed_at: datetime | None
    notes: tuple[str, ...] = ()
    """Notes for a reader, such as that the text was cut at a cap."""
    source_id: SourceId | None = None
    """The repository it comes from; None if it was added directly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a log. The template is the text with its variable parts replaced, so that alike lines are equal."""

    line: int
    text: str
    timestamp: datetime | None
    severity: Severity | None
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text that an answer may quote, with its position in its document.

    The `text` of a chunk is exactly the document's text at that position; adjacent chunks are merged into one passage
    with the id of the best of them. `severity` is the worst in it, `timestamp` and `until` its first and last moment.
    """

    passage_id: PassageId
    kind: PassageKind
    document_id: DocumentId
    partition: str
    text: str
    title: str
    name: str
    uri: str
    link: str | None = None
    document_type: DocumentType = DocumentType.TEXT
    category: str | None = None
    tags: tuple[str, ...] = ()
    version: int = 1
    section: str | None = None
    function: str | None = None
    page: int | None = None
    line_start: int | None = None
    line_end: int | None = None
    char_start: int | None = None
    char_end: int | None = None
    timestamp: datetime | None = None
    until: datetime | None = None
    severity: Severity | None = None
    cosine: Annotated[float | None, Field(exclude=True)] = None
    lexical: Annotated[float | None, Field(exclude=True)] = None
    """Raw scores, None where nothing was compared; not part of any response."""
    rows: Annotated[tuple[LogLine | None, ...], Field(exclude=True)] = ()
    """For a computed text: the document line behind each of its lines, None for a line about several."""
    joined: Annotated[tuple[tuple[PassageId, float], ...], Field(exclude=True)] = ()
    """The merged chunks, each with its own relevance."""
    relevance: float = 0.0
    score: float = 0.0

    generation: int = 0
    ordinal: int = 0

    @classmethod
    def of(cls, document: Document, passage_id: PassageId, kind: PassageKind, text: str) -> Self:
        """Return a passage with the fields of its document and without a position in it."""
        return cls(
            passage_id=passage_id,
            kind=kind,
            document_id=document.document_id,
            partition=document.partition,
            text=text,
            title=document.title,
            name=document.name,
            uri=document.uri,
            link=document.link,
            document_type=document.document_type,
            category=document.category,
            tags=document.tags,
            version=document.version,
            generation=document.generation or 0,
        )

    def chunks(self) -> tuple[tuple[PassageId, float], ...]:
        """Return the ids of the chunks it was merged from, each with its own relevance."""
        return self.joined or ((self.passage_id, self.relevance),)

    @property
    def quotable(self) -> bool:
        """True unless it is a summary: a quote of it is evidence."""
        return self.kind is not PassageKind.SUMMARY

    @property
    def listing(self) -> bool:
        """True for a list of log lines that a question asked for."""
        return self.kind is PassageKind.COMPUTED and self.section == LISTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of a search, best passage first.

    `searched`: the queries that were sent. `empty_scope`: the scope holds no document at all; `pending`: the number of
    its documents that are still to be indexed. `coverage` is a finder's own measure. `error` says what failed if
    nothing could be searched; `notes` are for the reader of the answer, such as that a log was cut. `read_as` is the
    question with corrected spelling, if any word was corrected.
    """

    passages: tuple[Passage, ...] = ()
    searched: tuple[str, ...] = ()
    coverage: float | None = None
    empty_scope: bool = False
    pending: int = 0
    error: str | None = None
    trace: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    read_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    """Measured and default scores at relevance 0 and 1 of a model."""

    model: str
    passages: int
    low: float
    high: float
    shipped_low: float
    shipped_high: float
