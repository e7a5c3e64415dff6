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
    """What a document is, by which it is cut into passages."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CODE = "code"
    CONFIG = "config"
    LOG = "log"


class DocumentStatus(StrEnum):
    """Where a document is in its life. One that is worked on is `pending` with a lease in the future."""

    PENDING = "pending"
    INDEXED = "indexed"
    FAILED = "failed"
    DELETING = "deleting"


class PassageKind(StrEnum):
    """Where the text of a passage comes from. A summary leads to a document, but is no evidence: it is never quoted."""

    CHUNK = "chunk"
    SUMMARY = "summary"
    COMPUTED = "computed"
    DOCUMENT = "document"


LISTED: Final = "listed"
"""The section of a computed passage that lists log lines."""


class Severity(StrEnum):
    """How bad a log line says it is, the worst last."""

    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A file to be kept in a partition. `uri` names it there: the same again is the next version of it.

    `mark` is what its source says of its content without reading it, such as a git blob id; `link` where a person can
    open it.
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
    """A document as it is known, without its text. `error` says why the latest version could not be indexed.

    `generation` is the version its passages are of, None where none was indexed yet; `waiting`: a newer version is
    still to be indexed. `name` is the last part of `uri`.
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
    """What a reader should know of it, such as that it was cut at a cap."""
    source_id: SourceId | None = None
    """The repository it comes from; None where it was added itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeDocument:
    """A visible document with the text of its current version."""

    document: Document
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document's text with its place there: text == document text[char_start:char_end].

    A summary has no place: its spans are empty.
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
    """A text that an answer may quote, with where it stands.

    Of a chunk, `text` is exactly what the document holds there; chunks that touch come as one passage with the id of
    the best of them. `severity` is the worst in it, `timestamp` to `until` its first and last moment.
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
    """Both raw, None where nothing was compared; told to nobody outside."""
    rows: Annotated[tuple[LogLine | None, ...], Field(exclude=True)] = ()
    """Of a computed text: which line of the document each of its lines tells of, None for what is told of several."""
    joined: Annotated[tuple[tuple[PassageId, float], ...], Field(exclude=True)] = ()
    """Of chunks that touch: each with its own relevance."""
    relevance: float = 0.0
    score: float = 0.0

    generation: int = 0
    ordinal: int = 0

    @classmethod
    def of(cls, document: Document, passage_id: PassageId, kind: PassageKind, text: str) -> Self:
        """Return a text of a document with all that is known of that, and nothing of where in it it stands."""
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
        """Return the chunks it is made of, each with how near it is by itself."""
        return self.joined or ((self.passage_id, self.relevance),)

    @property
    def quotable(self) -> bool:
        """Whether a quote of it is evidence."""
        return self.kind is not PassageKind.SUMMARY

    @property
    def listing(self) -> bool:
        """Whether it is a list of log lines that was asked for."""
        return self.kind is PassageKind.COMPUTED and self.section == LISTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a question asks of passages beside its sense. Several of a field: any of them. Empty fields ask nothing."""

    severities: frozenset[Severity] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    lines: tuple[int, ...] = ()
    document_ids: frozenset[DocumentId] = frozenset()

    def __bool__(self) -> bool:
        """Return whether it asks anything."""
        return self != Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What was said in a conversation before."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question on its way to passages.

    `question` is what is searched for, after any rewriting; `asked` the user's own words, where they differ.
    `documents` keeps the search to documents of the scope. `filtering`: take conditions from the words of the question.
    """

    question: str
    k: int = 5
    asked: str | None = None
    focus: Mapping[str, Any] = field(default_factory=dict)
    conversation: tuple[Turn, ...] = ()
    documents: frozenset[DocumentId] | None = None
    min_relevance: float = 0.0
    filtering: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found for a question, best first, and how.

    `searched`: the queries that were really sent. `empty_scope`: the scope holds no document at all; `pending`: so many
    documents of it are still to be indexed. `coverage` is a finder's own measure. `error` says what failed, where
    nothing could be searched; `notes` what a reader of the answer should know, such as a log that was cut. `read_as` is
    the question without its misspellings, where any was found.
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
    """What came of a question."""

    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    EMPTY_SCOPE = "empty_scope"
    INDEXING = "indexing"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Words of a passage that a claim rests on."""

    passage_id: PassageId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of an answer with the quotes it rests on."""

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
    """What a question was answered with. Every claim's quotes were found; `citations` are exactly theirs.

    `extractive`: no model wrote it, its sentences are quotes. `found` are the passages the answer was looked for in.
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
    """How one system answers: when it refuses, and how its answer reads. What it looks at is for its finder to say.

    `gate_mean`: the mean relevance that the best three passages must reach; `coverage`: so many passages above so much
    relevance end the search, of at most `max_queries`. `render`: how an answer reads, and that there is none.
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
    """A partition and the number of the last change that can be seen in it: the key of whatever is kept of answers."""

    partition: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassagePoint:
    """What the index holds of a chunk: vectors and what is filtered on. No text."""

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
    """Which points a search may return."""

    workspace: str
    partitions: tuple[str, ...]
    documents: frozenset[DocumentId] | None = None
    wanted: Wanted = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageHit:
    """A point a search found: cosine of the dense vectors, dot product of the lexical ones."""

    passage_id: PassageId
    cosine: float
    lexical: float
