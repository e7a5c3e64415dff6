"""Settings of each kind of knowledge base for answering: prompt, form of citations, lifetime of cached answers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hardwon.models.documents import Passage
from knowledge.documents.access import CASE, GLOBAL, TEAM, USER, Base
from knowledge.documents.models import Answer, AnswerStatus, Citation
from knowledge.text.pluralize import plain_count_of

HOUR = 3600
DAY = 24 * HOUR
_ARTICLE = re.compile(r"\b[A-Z]{2,6}-\d+\b")

CASE_EVIDENCE_SYSTEM_PROMPT = """You are analyzing uploaded case evidence (logs, configs, metrics, code).

Answer factually with forensic precision:
- Cite exact line numbers and timestamps when available
- Include error codes and messages verbatim
- Preserve chronological order for events
- Distinguish between ERROR, WARN, INFO severity levels

Be precise and detailed. This is forensic evidence analysis."""

USER_KB_SYSTEM_PROMPT = """You are retrieving from the user's personal runbooks and procedures.

Answer with procedural clarity:
- Provide step-by-step instructions when procedures are described
- Reference the user's documented procedures by title
- Use the user's terminology and naming conventions
- Include decision points and troubleshooting flows

Be helpful and procedural. This is the user's documented knowledge."""

GLOBAL_KB_SYSTEM_PROMPT = """You are retrieving from the system-wide knowledge base.

Answer with general best practices:
- Provide industry-standard approaches
- Include multiple options when applicable
- Reference official documentation
- Cover common pitfalls and gotchas

Be comprehensive and educational. This is general troubleshooting guidance."""

TEAM_KB_SYSTEM_PROMPT = """You are retrieving from team-shared documentation.

Answer with team context:
- Reference team-specific procedures
- Use team terminology
- Name the team whose document you quote

Be precise and practical. This is the team's shared knowledge."""


class KBConfig(ABC):
    """A kind of knowledge base. A new one is a class like those below and a `Base` in the access policy."""

    base: Base
    system_prompt: str
    guidance: str
    cache_ttl: int
    """Seconds that an answer stays cached."""

    @property
    def kb(self) -> str:
        """The name of the kind."""
        return self.base.name

    @property
    def requires_scope_id(self) -> bool:
        """True if each scope id has a knowledge base of its own."""
        return self.base.requires_scope_id

    def get_collection_name(self, scope_id: str | None = None) -> str:
        """Return the partition of a scope. Raises InvalidInput where the scope id is missing or cannot be one."""
        return self.base.partition(scope_id)

    @abstractmethod
    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return the header of a passage for a model; unknown fields are left out."""

    @abstractmethod
    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the display name of a source."""

    @abstractmethod
    def get_citation_format(self) -> str:
        """Return the form of a citation, with the names of its fields in braces."""

    @abstractmethod
    def cite(self, citation: Citation, metadata: Mapping[str, Any]) -> str:
        """Return a citation in that form."""

    @abstractmethod
    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return an answer with its footer."""

    @abstractmethod
    def nothing(self, answer: Answer) -> str:
        """Return the text for a question without an answer."""


def _fields(*pairs: tuple[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in pairs if value not in {None, ""})


def _footer(answer: str, label: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
    if not sources:
        return answer
    chunks = plain_count_of(chunk_count, "chunk")
    return f"{answer}\n\n{label}: {', '.join(sources)} ({chunks}, {confidence:.0%} relevance)"


def _without_answer(answer: Answer, *, empty: str, unsaid: str, indexing: str) -> str:
    match answer.status:
        case AnswerStatus.EMPTY_SCOPE:
            return f"No documents found. {empty}"
        case AnswerStatus.INDEXING:
            return indexing
        case AnswerStatus.ERROR:
            return "The question could not be answered: a part of the service does not work at the moment."
        case _:
            return f"{unsaid} Missing: {answer.missing}" if answer.missing else unsaid


def metadata_of(passage: Passage | Citation, partition: str = "") -> dict[str, Any]:
    """Return the metadata of a passage under the field names of the designs."""
    partition = passage.partition if isinstance(passage, Passage) else partition
    names = f"{passage.name} {passage.uri} {passage.title}"
    article = _ARTICLE.search(names)
    return {
        "filename": passage.name,
        "line_number": passage.line_start,
        "timestamp": passage.timestamp.strftime("%Y-%m-%dT%H:%M:%SZ") if passage.timestamp else None,
        "document_title": passage.title,
        "category": passage.category,
        "section": passage.section,
        "kb_article_id": article[0] if article else None,
        "title": passage.title,
        "source": passage.link or passage.uri,
        "team_name": TEAM.scope_id(partition),
    }


class CaseEvidenceConfig(KBConfig):
    """Evidence of a case: kept until the case closes."""

    base = CASE
    system_prompt = CASE_EVIDENCE_SYSTEM_PROMPT
    guidance = "Cite sources accurately with line numbers and timestamps"
    cache_ttl = HOUR

    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return score, source, line and time."""
        return _fields(
            ("Score", f"{score:.2f}"),
            ("Source", metadata.get("filename")),
            ("Line", metadata.get("line_number")),
            ("Time", metadata.get("timestamp")),
        )

    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the name of the file."""
        return str(metadata.get("filename") or "unknown")

    def get_citation_format(self) -> str:
        """Return file, line and time of day."""
        return "{filename}:{line_number} ({time})"

    def cite(self, citation: Citation, metadata: Mapping[str, Any]) -> str:
        """Return such as server.log:1045 (14:32:15Z)."""
        place = f":{citation.line_start}" if citation.line_start else ""
        stamp = f" ({citation.timestamp:%H:%M:%SZ})" if citation.timestamp else ""
        return f"{self.extract_source_name(metadata)}{place}{stamp}"

    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return the answer with its files below."""
        return _footer(answer, "Sources", sources, chunk_count, confidence)

    def nothing(self, answer: Answer) -> str:
        """Speak of the evidence of the case."""
        return _without_answer(
            answer,
            empty="Nothing was uploaded to this case.",
            unsaid="The evidence of this case does not say.",
            indexing="The evidence of this case is still being indexed: ask again in a moment.",
        )


class UserKBConfig(KBConfig):
    """A user's own runbooks: kept until the user deletes them."""

    base = USER
    system_prompt = USER_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with document titles and sections"
    cache_ttl = DAY

    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return score, document, category and section."""
        return _fields(
            ("Score", f"{score:.2f}"),
            ("Doc", metadata.get("document_title")),
            ("Category", metadata.get("category")),
            ("Section", metadata.get("section")),
        )

    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the title of the document."""
        return str(metadata.get("document_title") or metadata.get("filename") or "unknown")

    def get_citation_format(self) -> str:
        """Return title and section."""
        return '"{document_title}" section {section}'

    def cite(self, citation: Citation, metadata: Mapping[str, Any]) -> str:
        """Return such as "Database Timeout Runbook" section 3."""
        title = self.extract_source_name(metadata)
        section = (citation.section or "").removeprefix(f"{title} > ")
        return f'"{title}" section {section}' if section and section != title else f'"{title}"'

    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return the answer with its runbooks below."""
        return _footer(answer, "From your runbooks", sources, chunk_count, confidence)

    def nothing(self, answer: Answer) -> str:
        """Speak of the user's runbooks."""
        return _without_answer(
            answer,
            empty="Your knowledge base holds no runbooks yet.",
            unsaid="Your runbooks do not say.",
            indexing="Your runbooks are still being indexed: ask again in a moment.",
        )


class GlobalKBConfig(KBConfig):
    """The knowledge base of everyone: kept for good, changed by administrators."""

    base = GLOBAL
    system_prompt = GLOBAL_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with article IDs and titles"
    cache_ttl = 7 * DAY

    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return score, article and title."""
        return _fields(
            ("Score", f"{score:.2f}"), ("Article", metadata.get("kb_article_id")), ("Title", metadata.get("title"))
        )

    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the title of the article."""
        return str(metadata.get("title") or metadata.get("source") or "unknown")

    def get_citation_format(self) -> str:
        """Return article and title."""
        return '{kb_article_id} "{title}"'

    def cite(self, citation: Citation, metadata: Mapping[str, Any]) -> str:  # noqa: ARG002 - the article has no parts
        """Return such as KB-1234 "API Performance Guide"."""
        article = f"{metadata['kb_article_id']} " if metadata.get("kb_article_id") else ""
        return f'{article}"{self.extract_source_name(metadata)}"'

    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return the answer with its articles below."""
        return _footer(answer, "Knowledge Base", sources, chunk_count, confidence)

    def nothing(self, answer: Answer) -> str:
        """Speak of the knowledge base."""
        return _without_answer(
            answer,
            empty="The knowledge base is empty.",
            unsaid="The knowledge base does not say.",
            indexing="The knowledge base is still being indexed: ask again in a moment.",
        )


class TeamKBConfig(KBConfig):
    """Documents that a team shares with its members."""

    base = TEAM
    system_prompt = TEAM_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with document titles and team"
    cache_ttl = 12 * HOUR

    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return score, team and title."""
        return _fields(("Score", f"{score:.2f}"), ("Team", metadata.get("team_name")), ("Title", metadata.get("title")))

    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the title of the document."""
        return str(metadata.get("title") or metadata.get("filename") or "unknown")

    def get_citation_format(self) -> str:
        """Return title and team."""
        return '"{title}" (team {team_name})'

    def cite(self, citation: Citation, metadata: Mapping[str, Any]) -> str:  # noqa: ARG002 - a title is enough
        """Return such as "On-call guide" (team payments)."""
        team = f" (team {metadata['team_name']})" if metadata.get("team_name") else ""
        return f'"{self.extract_source_name(metadata)}"{team}'

    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return the answer with the team's documents below."""
        return _footer(answer, "From your team's documents", sources, chunk_count, confidence)

    def nothing(self, answer: Answer) -> str:
        """Speak of the team's documents."""
        return _without_answer(
            answer,
            empty="The team has shared no documents yet.",
            unsaid="The team's documents do not say.",
            indexing="The team's documents are still being indexed: ask again in a moment.",
        )


CONFIGS: Mapping[str, Callable[[], KBConfig]] = {
    "case": CaseEvidenceConfig,
    "user": UserKBConfig,
    "global": GlobalKBConfig,
    "team": TeamKBConfig,
}
