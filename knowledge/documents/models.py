"""Documents, the passages found in them, and answers that quote them: frozen values without behaviour.

All times are aware and in UTC; lines and pages count from 1, characters from 0. `relevance` is the calibrated likeness
of dense vectors, 0..1, on which every threshold stands; `score` is what passages are ordered by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, NewType, Self
from uuid import UUID

from pydantic import Field

from knowledge.models import SparseVector, Vector

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
class WholeDocument:
    """A visible document with the text of its current version."""

    document: Document
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document's text with its position: text == document text[char_start:char_end].

    A summary has no position: its spans are empty.
    """

    text: str
    ordinal: int
    char_start: int
    char_end: int
    line_start: int
    line_end: int
    kind: PassageKind = PassageKind.CHUNK
    section: str | None = None
    page: int | None = None
    function: str | None = None
    timestamp: datetime | None = None
    until: datetime | None = None
    severities: tuple[Severity, ...] = ()


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
class PassageConditions:
    """Filter on passages that a question names. Several values of a field mean any of them; empty fields match all."""

    severities: frozenset[Severity] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    lines: tuple[int, ...] = ()
    document_ids: frozenset[DocumentId] = frozenset()

    def __bool__(self) -> bool:
        """Return whether any field is set."""
        return self != PassageConditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An earlier message of the conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A search for passages.

    `question` is the text to search for, after any rewriting; `original` the user's own words if they differ.
    `documents` limits the search to these documents of the scope. `filtering`: read conditions from the question.
    """

    question: str
    k: int = 5
    original: str | None = None
    focus: Mapping[str, Any] = field(default_factory=dict)
    conversation: tuple[Turn, ...] = ()
    documents: frozenset[DocumentId] | None = None
    min_relevance: float = 0.0
    filtering: bool = True


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


class AnswerStatus(StrEnum):
    """Outcome of a question."""

    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    EMPTY_SCOPE = "empty_scope"
    INDEXING = "indexing"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Words of a passage that support a claim."""

    passage_id: PassageId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of an answer with the quotes that support it."""

    text: str
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A quote that was found in a visible, current document. `number` counts passages by first use."""

    number: int
    passage_id: PassageId
    document_id: DocumentId
    title: str
    name: str
    uri: str
    link: str | None
    quote: str
    score: float
    category: str | None = None
    section: str | None = None
    page: int | None = None
    line_start: int | None = None
    line_end: int | None = None
    timestamp: datetime | None = None
    severity: Severity | None = None
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to a question. Every quote of a claim was found in its source; `citations` are exactly these quotes.

    `extractive`: no model wrote it, its sentences are quotes. `found` are the passages that it was drafted from.
    """

    status: AnswerStatus
    question: str
    text: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    found: tuple[Passage, ...] = ()
    searched: tuple[str, ...] = ()
    missing: str | None = None
    confidence: float = 0.0
    coverage: float | None = None
    extractive: bool = False
    cached: bool = False
    error: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings of one answering system: when it refuses, and how its answer is rendered. Its finder does the search.

    `gate_mean`: the mean relevance that the best three passages must reach; `coverage`: this many passages above this
    relevance end a search of at most `max_queries`. `render` returns the text of an answer, or of a refusal.
    """

    name: str
    system_prompt: str
    k: int = 5
    gate_mean: float | None = None
    coverage: tuple[int, float] | None = None
    max_queries: int = 1
    render: Callable[[Answer], str] | None = None
    max_tokens: int = 500
    temperature: float | None = 0.0
    cache_ttl: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVersion:
    """A partition and the number of its last visible change: part of the key of every cached answer."""

    partition: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassagePoint:
    """Point of a chunk in the index: vectors and filter fields, no text."""

    passage_id: PassageId
    workspace: str
    partition: str
    document_id: DocumentId
    generation: int
    dense: Vector
    lexical: SparseVector
    category: str | None = None
    severities: tuple[Severity, ...] = ()
    timestamp: datetime | None = None
    until: datetime | None = None
    line_start: int = 1
    line_end: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageWhere:
    """Filter of a search in the index."""

    workspace: str
    partitions: tuple[str, ...]
    documents: frozenset[DocumentId] | None = None
    conditions: PassageConditions = PassageConditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageHit:
    """A point found by a search: cosine of the dense vectors, dot product of the lexical ones."""

    passage_id: PassageId
    cosine: float
    lexical: float
