"""Answers from documents, and the journal of questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType, NotRequired
from uuid import UUID

from typing_extensions import TypedDict


class ToolAnswer(TypedDict):
    """A tool's answer. `status` is answered, not_found, empty_scope, indexing or error."""

    answer: str
    sources: list[str]
    chunk_count: int
    confidence: float
    status: str
    citations: list[CitationJson]
    searched: list[str]
    extractive: bool
    cached: bool
    error: str | None
    missing_words: list[str]
    degraded: str | None
    """The words of the question that nothing found holds, where that is why there is no answer."""
    nearest: CitationJson | None
    """What comes nearest where nothing answers: no answer."""


class CitationJson(TypedDict):
    """A quote with its place. `path` is the document's link if it has one, else its uri.

    `commit`: the commit of the repository that the document was read at. `marked`: where the sentence that matched best
    begins and ends in the quote.
    """

    number: int
    title: str
    path: str
    score: float
    quote: str
    document_id: str
    section: str | None
    page: int | None
    lines: list[int] | None
    time: str | None
    category: str | None
    commit: str | None
    marked: list[int] | None


class SourceJson(TypedDict):
    """A cited document with its link."""

    title: str
    url: str
    path: str
    category: str | None
    excerpt: str
    relevance_score: float
    commit: str | None


class KBQueryResponse(TypedDict):
    """The response of the strict knowledge base; not found is a success without sources."""

    status: str
    query: str
    answer: str
    sources: list[SourceJson]
    total_sources: int
    answer_id: str
    extractive: bool
    missing_words: list[str]
    degraded: str | None
    nearest: CitationJson | None
    reason: NotRequired[str]


EventId = NewType("EventId", UUID)
EscalationId = NewType("EscalationId", UUID)


class Priority(StrEnum):
    """Urgency of a gap in the documents."""

    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a question. `reviewed`: a person has looked at it."""

    event_id: EventId
    name: str
    happened_at: datetime
    session: str | None = None
    step: str | None = None
    payload: Mapping[str, Any]
    reviewed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A question that the documents did not answer, as work with a due date.

    `occurrences`: times in the last seven days, at most `MAX_OCCURRENCES`.
    """

    escalation_id: EscalationId
    question: str
    transcript: tuple[Mapping[str, str], ...]
    passage_ids: tuple[UUID, ...]
    suggested_fix: str
    created_at: datetime
    due_at: datetime
    occurrences: int
    priority: Priority
    closed_at: datetime | None = None


class SelectionResponse(TypedDict):
    """An answer with its citations, and the way its passages were retrieved. `documents`: those looked up."""

    status: str
    question: str
    answer: str
    citations: list[CitationJson]
    documents: list[str]
    lookups: int
    fallback: bool
    reason: str | None
    answer_id: str
    extractive: bool
    latency_ms: float
    missing_words: list[str]
    degraded: str | None
    nearest: CitationJson | None
