"""Documents, the passages found in them, and answers that quote them: frozen values without behaviour.

All times are aware and in UTC; lines and pages count from 1, characters from 0. `relevance` is the calibrated likeness
of dense vectors, 0..1, on which every threshold stands; `score` is what passages are ordered by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hardwon.models.documents import Document, DocumentId, Passage, PassageId, PassageKind, Severity
from knowledge.models import SparseVector, Vector


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
    """A statement of an answer with the quotes that support it. `marked`: what matched best in the last quote."""

    text: str
    quotes: tuple[Quote, ...]
    marked: tuple[int, int] | None = None


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
    marked: tuple[int, int] | None = None
    """Where the sentence that matched best begins and ends in the quote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to a question. Every quote of a claim was found in its source; `citations` are exactly these quotes.

    `extractive`: no model wrote it, its sentences are quotes. `found` are the passages that it was drafted from.
    Where none answers, `lacking` are the question's words that nothing found holds, `nearest` what comes nearest.
    """

    status: AnswerStatus
    question: str
    text: str
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    found: tuple[Passage, ...] = ()
    searched: tuple[str, ...] = ()
    missing: str | None = None
    lacking: tuple[str, ...] = ()
    nearest: Citation | None = None
    confidence: float = 0.0
    coverage: float | None = None
    extractive: bool = False
    degraded: str | None = None
    """Why the reranker did not take part."""
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
