"""Document lookups by a model: the list of documents, the schemas of the tools, and the passages found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hardwon.event_log import get_logger
from hardwon.models.documents import Document, Passage
from knowledge.documents.access import Scope
from knowledge.documents.answer_service import Answering
from knowledge.documents.llm import Tool
from knowledge.documents.models import Query
from knowledge.settings import KnowledgeSettings
from orchestrator.qa.tool_loop import Arguments

log = get_logger(__name__)

LOOKUP = "lookup_documents"
LIST = "list_documents"
DEFAULT_TOP_K = 3
MAX_NAME_CHARS = 200
PAGE_SIZE = 50
MAX_LISTED = 200
"""Names that an error message lists."""
_CHARS_PER_TOKEN = 4


def get_tool_schema(settings: KnowledgeSettings) -> Tool:
    """Return the schema of the lookup tool, with the limits of the settings."""
    return Tool(
        name=LOOKUP,
        description="Search relevant document sections for information",
        parameters={
            "type": "object",
            "properties": {
                "document_names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names of documents to search (from available list)",
                    "example": ["Laws of Game 2024-25", "VAR Guidelines 2024"],
                },
                "query": {"type": "string", "description": "Search query for these documents"},
                "top_k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": settings.lookup_max_chunks,
                    "default": min(DEFAULT_TOP_K, settings.lookup_max_chunks),
                    "description": "Number of results to return",
                },
                "min_similarity": {
                    "type": "number",
                    "minimum": 0.0,
                    "maximum": 1.0,
                    "default": settings.similarity_threshold,
                    "description": "Minimum similarity threshold",
                },
            },
            "required": ["document_names", "query"],
        },
    )


LIST_TOOL = Tool(
    name=LIST,
    description="List further available documents, a page at a time; may be called freely",
    parameters={
        "type": "object",
        "properties": {
            "page": {"type": "integer", "minimum": 1, "default": 1},
            "contains": {"type": "string", "description": "Only documents whose name contains this"},
        },
        "required": [],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupParameters:
    """The parameters of a lookup, within their limits."""

    document_names: tuple[str, ...]
    query: str
    top_k: int
    min_similarity: float


def validate_parameters(arguments: Arguments, settings: KnowledgeSettings) -> LookupParameters:
    """Return the parameters of a call, numbers clamped. Raises ValueError, for the model, if one is missing."""
    names, query = arguments.get("document_names"), arguments.get("query")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("document_names is required, a list of names: call the tool again with it")
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query is required, a text: call the tool again with it")
    return LookupParameters(
        document_names=tuple(names),
        query=query.strip()[:1_000],
        top_k=int(_clamp(arguments.get("top_k"), 1, settings.lookup_max_chunks, default=DEFAULT_TOP_K)),
        min_similarity=float(_clamp(arguments.get("min_similarity"), 0.0, 1.0, default=settings.similarity_threshold)),
    )


def _clamp(value: object, low: float, high: float, *, default: float) -> float:
    """Return a number within its limits; the default if `value` is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        value = default
    return max(low, min(value, high))


@dataclass(slots=True)
class Documents:
    """The documents a caller may see, by name and by short id; a name may belong to several documents."""

    documents: Sequence[Document]
    _by_name: dict[str, list[Document]] = field(default_factory=dict)

    def get_indexed_document_names(self) -> list[str]:
        """Return the names, in order."""
        return [_display_name(document) for document in self.documents]

    def get_documents_by_names(self, names: Sequence[str]) -> tuple[list[Document], list[str]]:
        """Return the documents with these names or short ids, and the unknown names."""
        if not self._by_name:  # lazily: it takes 0.3 s for 20,000 documents
            for document in self.documents:
                for form in _lookup_keys(document):
                    self._by_name.setdefault(form, []).append(document)
        found: dict[str, Document] = {}
        unknown = []
        for name in names:
            documents = self._by_name.get(" ".join(name.split()).casefold(), [])
            found.update((str(each.document_id), each) for each in documents)
            if not documents:
                unknown.append(name)
        return list(found.values()), unknown

    def format_document_list(self, *, max_tokens: int) -> tuple[str, bool]:
        """Return the list, one line per document with its short id, and whether it is complete."""
        lines = [f"- {_display_name(each)} (id: {_short_id(each)})" for each in self.documents]
        left = max_tokens * _CHARS_PER_TOKEN
        shown = []
        for line in lines:
            left -= len(line) + 1
            if left < 0:
                break
            shown.append(line)
        if len(shown) == len(lines):
            return "\n".join(lines) or "(none)", True
        rest = len(lines) - len(shown)
        return "\n".join([*shown, f"- and {rest} more: see them with the {LIST} tool"]), False

    def page(self, arguments: Arguments) -> str:
        """Return one page of the names that contain a text."""
        contains = str(arguments.get("contains") or "").casefold()
        page = arguments.get("page")
        page = page if isinstance(page, int) and page > 0 else 1
        matches = [each for each in self.documents if contains in _display_name(each).casefold()]
        pages = max(1, -(-len(matches) // PAGE_SIZE))
        shown = matches[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        names = [{"name": _display_name(each), "id": _short_id(each)} for each in shown]
        return json.dumps({"status": "success", "page": page, "pages": pages, "documents": names})


def _display_name(document: Document) -> str:
    return " ".join(document.title.split())[:MAX_NAME_CHARS]


def _short_id(document: Document) -> str:
    return str(document.document_id)[:8]


def _lookup_keys(document: Document) -> set[str]:
    names = {_display_name(document), document.title, document.name, document.uri}
    names |= {str(document.document_id), _short_id(document)}
    return {" ".join(name.split()).casefold() for name in names}


@dataclass(slots=True, kw_only=True)
class Lookups:
    """The lookups of one request, and the passages they found, each once."""

    answering: Answering
    settings: KnowledgeSettings
    scope: Scope
    documents: Documents
    found: dict[tuple[str, str | None, str], Passage] = field(default_factory=dict)
    lookup_counts: Counter[str] = field(default_factory=Counter)
    searched: list[str] = field(default_factory=list)

    async def execute_lookup(self, arguments: Arguments) -> str:
        """Search the named documents only. Raises ValueError, for the model, for a call that it has to correct."""
        parameters = validate_parameters(arguments, self.settings)
        chosen, unknown = self.documents.get_documents_by_names(parameters.document_names)
        if unknown and not chosen:
            names = self.documents.get_indexed_document_names()
            valid = ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:MAX_LISTED])
            raise ValueError(f"unknown documents: {', '.join(unknown)[:500]}; valid names are: {valid}")
        passages = await self.search_in_documents(parameters, chosen)
        self.searched.append(parameters.query)
        for document in chosen:
            self.lookup_counts[_display_name(document)] += 1
        for passage in passages:
            key = (str(passage.document_id), passage.section, passage.text)
            if key not in self.found or passage.relevance > self.found[key].relevance:
                self.found[key] = passage
        log.info(
            "documents_looked_up",
            documents=[str(document.document_id) for document in chosen[:MAX_LISTED]],
            passages=[str(passage.passage_id) for passage in passages],
            unknown=len(unknown),
        )
        result: dict[str, object] = {
            "status": "success",
            "documents_searched": [_display_name(document) for document in chosen],
            "query": parameters.query,
            "results": [
                {
                    "document": " ".join(passage.title.split())[:MAX_NAME_CHARS],
                    "section": passage.section or "",
                    "similarity": round(passage.relevance, 2),
                    "text": passage.text,
                }
                for passage in passages
            ],
        }
        if unknown:
            result["unknown"] = unknown
        return json.dumps(result)

    async def search_in_documents(self, parameters: LookupParameters, chosen: Sequence[Document]) -> list[Passage]:
        """Return the best passages of some documents above a similarity; the index itself filters by document."""
        found = await self.answering.direct.searcher.search(
            Query(
                question=parameters.query,
                k=parameters.top_k,
                documents=frozenset(document.document_id for document in chosen),
                min_relevance=parameters.min_similarity,
                filtering=False,
            ),
            self.scope,
        )
        return list(found.passages)
