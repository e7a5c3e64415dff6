"""The JSON of citations and conversations, the same over HTTP, MCP and as tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardwon.models.answers import CitationJson
from knowledge.documents.ingestion.url_policy import commit_of
from knowledge.documents.models import Answer, Citation, Turn


def citation_json(citation: Citation) -> CitationJson:
    """Return a citation as JSON."""
    lines = None
    if citation.line_start is not None:
        lines = [citation.line_start, citation.line_end or citation.line_start]
    return CitationJson(
        number=citation.number,
        title=citation.title,
        path=citation.link or citation.uri,
        score=citation.score,
        quote=citation.quote,
        document_id=str(citation.document_id),
        section=citation.section,
        page=citation.page,
        lines=lines,
        time=citation.timestamp.isoformat() if citation.timestamp else None,
        category=citation.category,
        commit=commit_of(citation.link),
        marked=list(citation.marked) if citation.marked else None,
    )


def nearest_json(answer: Answer) -> CitationJson | None:
    """Return what comes nearest where nothing answers."""
    return None if answer.nearest is None else citation_json(answer.nearest)


def turns_of(conversation: Sequence[Mapping[str, Any]]) -> tuple[Turn, ...]:
    """Return the last fifty turns of a conversation: roles and texts."""
    return tuple(
        Turn(role=str(turn.get("role") or "user")[:50], content=str(turn.get("content") or "")[:8_000])
        for turn in conversation[-50:]
    )
