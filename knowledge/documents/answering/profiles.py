"""Settings of each kind of knowledge base for answering: prompt, form of citations, lifetime of cached answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hardwon.models.documents import Passage
from hardwon.text.pluralize import plain_count_of
from knowledge.documents.access import CASE, GLOBAL, TEAM, USER, Base
from knowledge.documents.models import Answer, AnswerStatus, Citation

HOUR = 3600
DAY = 24 * HOUR
_FIELD = re.compile(r"\{(\w+)\}")
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


class KBConfig:
    """A kind of knowledge base. A new one is a class like those below and a `Base` in the access policy."""

    base: Base
    system_prompt: str
    guidance: str
    cache_ttl: int
    """Seconds that an answer stays cached."""
    metadata_fields: tuple[tuple[str, str], ...]
    """Fields of a passage that a model is shown, by their names in its header."""
    source_fields: tuple[str, ...]
    """Fields that name a source; the first one that it has counts."""
    citation_format: tuple[str, ...]
    """The parts of a citation, with the names of their fields in braces."""
    sources_label: str
    empty: str
    """Text for a question where there are no documents; the next two, where none answers, or is indexed."""
    unsaid: str
    indexing: str

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

    def format_chunk_metadata(self, metadata: Mapping[str, Any], score: float) -> str:
        """Return the header of a passage for a model; unknown fields are left out."""
        fields = [("Score", f"{score:.2f}"), *((name, metadata.get(field)) for name, field in self.metadata_fields)]
        return ", ".join(f"{name}: {value}" for name, value in fields if value not in {None, ""})

    def extract_source_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the display name of a source."""
        return str(next((metadata[field] for field in self.source_fields if metadata.get(field)), "unknown"))

    def get_citation_format(self) -> str:
        """Return the form of a citation, with the names of its fields in braces."""
        return "".join(self.citation_format)

    def cite(self, citation: Citation, partition: str = "") -> str:
        """Return a citation in that form, without the parts whose fields it lacks."""
        known = metadata_of(citation, partition)
        source = self.extract_source_name(known)
        section = (citation.section or "").removeprefix(f"{source} > ")
        known |= {
            self.source_fields[0]: source,
            "section": section if section != source else "",
            "time": f"{citation.timestamp:%H:%M:%SZ}" if citation.timestamp else "",
        }
        parts = (part for part in self.citation_format if all(known[name] for name in _FIELD.findall(part)))
        return "".join(part.format_map(known) for part in parts).strip()

    def format_response(self, answer: str, sources: Sequence[str], chunk_count: int, confidence: float) -> str:
        """Return an answer with its sources below."""
        if not sources:
            return answer
        chunks = plain_count_of(chunk_count, "chunk")
        return f"{answer}\n\n{self.sources_label}: {', '.join(sources)} ({chunks}, {confidence:.0%} relevance)"

    def nothing(self, answer: Answer) -> str:
        """Return the text for a question without an answer."""
        match answer.status:
            case AnswerStatus.EMPTY_SCOPE:
                return f"No documents found. {self.empty}"
            case AnswerStatus.INDEXING:
                return self.indexing
            case AnswerStatus.ERROR:
                return "The question could not be answered: a part of the service does not work at the moment."
            case _:
                unsaid = f"{self.unsaid} {lacking_words(answer)}".rstrip()
                return f"{unsaid} Missing: {answer.missing}" if answer.missing else unsaid


def lacking_words(answer: Answer) -> str:
    """Return the sentence that names the words of the question that nothing found holds; "" if there are none."""
    words = ", ".join(f'"{word}"' for word in answer.lacking)
    return f"Nothing here says {words}." if words else ""


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
    metadata_fields = (("Source", "filename"), ("Line", "line_number"), ("Time", "timestamp"))
    source_fields = ("filename",)
    citation_format = ("{filename}", ":{line_number}", " ({time})")
    sources_label = "Sources"
    empty = "Nothing was uploaded to this case."
    unsaid = "The evidence of this case does not say."
    indexing = "The evidence of this case is still being indexed: ask again in a moment."


class UserKBConfig(KBConfig):
    """A user's own runbooks: kept until the user deletes them."""

    base = USER
    system_prompt = USER_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with document titles and sections"
    cache_ttl = DAY
    metadata_fields = (("Doc", "document_title"), ("Category", "category"), ("Section", "section"))
    source_fields = ("document_title", "filename")
    citation_format = ('"{document_title}"', " section {section}")
    sources_label = "From your runbooks"
    empty = "Your knowledge base holds no runbooks yet."
    unsaid = "Your runbooks do not say."
    indexing = "Your runbooks are still being indexed: ask again in a moment."


class GlobalKBConfig(KBConfig):
    """The knowledge base of everyone: kept for good, changed by administrators."""

    base = GLOBAL
    system_prompt = GLOBAL_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with article IDs and titles"
    cache_ttl = 7 * DAY
    metadata_fields = (("Article", "kb_article_id"), ("Title", "title"))
    source_fields = ("title", "source")
    citation_format = ("{kb_article_id}", ' "{title}"')
    sources_label = "Knowledge Base"
    empty = "The knowledge base is empty."
    unsaid = "The knowledge base does not say."
    indexing = "The knowledge base is still being indexed: ask again in a moment."


class TeamKBConfig(KBConfig):
    """Documents that a team shares with its members."""

    base = TEAM
    system_prompt = TEAM_KB_SYSTEM_PROMPT
    guidance = "Cite sources accurately with document titles and team"
    cache_ttl = 12 * HOUR
    metadata_fields = (("Team", "team_name"), ("Title", "title"))
    source_fields = ("title", "filename")
    citation_format = ('"{title}"', " (team {team_name})")
    sources_label = "From your team's documents"
    empty = "The team has shared no documents yet."
    unsaid = "The team's documents do not say."
    indexing = "The team's documents are still being indexed: ask again in a moment."


CONFIGS: Mapping[str, Callable[[], KBConfig]] = {
    "case": CaseEvidenceConfig,
    "user": UserKBConfig,
    "global": GlobalKBConfig,
    "team": TeamKBConfig,
}
