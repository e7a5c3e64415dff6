"""The documents that a model may look into: their list, the tools it is offered, and what its lookups find."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from knowledge.documents.access import Scope
from knowledge.documents.answers import Answering
from knowledge.documents.language_model import Tool
from knowledge.documents.models import Document, Passage, Query
from knowledge.logs import get_logger
from knowledge.settings import KnowledgeSettings
from orchestrator.tools.tool_loop import Arguments

log = get_logger(__name__)

LOOKUP = "lookup_documents"
LIST = "list_documents"
DEFAULT_TOP_K = 3
LONGEST_NAME = 200
PAGE = 50
MOST_LISTED = 200
"""Names that an error lists; all of them stand in the list of documents."""
_CHARS_PER_TOKEN = 4


def get_tool_schema(settings: KnowledgeSettings) -> Tool:
    """Return the schema of the lookup tool that a model gets, with the limits of the settings."""
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
    """What a model asks of documents, within its limits."""

    document_names: tuple[str, ...]
    query: str
    top_k: int
    min_similarity: float


def validate_parameters(arguments: Arguments, settings: KnowledgeSettings) -> LookupParameters:
    """Return what a model asks for: numbers clamped. Raises ValueError, for the model, where something is missing."""
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
        top_k=int(_clamped(arguments.get("top_k"), 1, settings.lookup_max_chunks, default=DEFAULT_TOP_K)),
        min_similarity=float(
            _clamped(arguments.get("min_similarity"), 0.0, 1.0, default=settings.similarity_threshold)
        ),
    )


def _clamped(told: object, least: float, most: float, *, default: float) -> float:
    """Return a number within its limits, however large a model wrote it; what is none is the default."""
    if isinstance(told, bool) or not isinstance(told, int | float) or told != told:  # noqa: PLR0124 - not a number
        told = default
    return max(least, min(told, most))


@dataclass(slots=True)
class Documents:
    """The documents a caller may see, by name and by short id; a repeated name stands for all its bearers."""

    known: Sequence[Document]
    _bearers: dict[str, list[Document]] = field(default_factory=dict)

    def get_indexed_document_names(self) -> list[str]:
        """Return the names, in order."""
        return [_named(document) for document in self.known]

    def get_documents_by_names(self, names: Sequence[str]) -> tuple[list[Document], list[str]]:
        """Return the documents of names or short ids, and the names that are none."""
        if not self._bearers:  # not before a name is asked for: of 20,000 documents it takes 0.3 s
            for document in self.known:
                for form in _forms(document):
                    self._bearers.setdefault(form, []).append(document)
        found: dict[str, Document] = {}
        unknown = []
        for name in names:
            bearers = self._bearers.get(" ".join(name.split()).casefold(), [])
            found.update((str(each.document_id), each) for each in bearers)
            if not bearers:
                unknown.append(name)
        return list(found.values()), unknown

    def format_document_list(self, *, max_tokens: int) -> tuple[str, bool]:
        """Return the list, a document a line with its short id, and whether it is whole."""
        lines = [f"- {_named(each)} (id: {_short(each)})" for each in self.known]
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
        fitting = [each for each in self.known if contains in _named(each).casefold()]
        pages = max(1, -(-len(fitting) // PAGE))
        shown = fitting[(page - 1) * PAGE : page * PAGE]
        names = [{"name": _named(each), "id": _short(each)} for each in shown]
        return json.dumps({"status": "success", "page": page, "pages": pages, "documents": names})


def _named(document: Document) -> str:
    return " ".join(document.title.split())[:LONGEST_NAME]


def _short(document: Document) -> str:
    return str(document.document_id)[:8]


def _forms(document: Document) -> set[str]:
    forms = {_named(document), document.title, document.name, document.uri, str(document.document_id), _short(document)}
    return {" ".join(form.split()).casefold() for form in forms}


@dataclass(slots=True, kw_only=True)
class Lookups:
    """What the lookups of one request found, each passage once."""

    answering: Answering
    settings: KnowledgeSettings
    scope: Scope
    documents: Documents
    found: dict[tuple[str, str | None, str], Passage] = field(default_factory=dict)
    looked_into: Counter[str] = field(default_factory=Counter)
    searched: list[str] = field(default_factory=list)

    async def execute_lookup(self, arguments: Arguments) -> str:
        """Search the named documents only. Raises ValueError, for the model, for what it has to put right."""
        asked = validate_parameters(arguments, self.settings)
        chosen, unknown = self.documents.get_documents_by_names(asked.document_names)
        if unknown and not chosen:
            names = self.documents.get_indexed_document_names()
            valid = ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:MOST_LISTED])
            raise ValueError(f"unknown documents: {', '.join(unknown)[:500]}; valid names are: {valid}")
        passages = await self.search_in_documents(asked, chosen)
        self.searched.append(asked.query)
        for document in chosen:
            self.looked_into[_named(document)] += 1
        for passage in passages:
            key = (str(passage.document_id), passage.section, passage.text)
            if key not in self.found or passage.relevance > self.found[key].relevance:
                self.found[key] = passage
        log.info(
            "documents_looked_up",
            documents=[str(document.document_id) for document in chosen[:MOST_LISTED]],
            passages=[str(passage.passage_id) for passage in passages],
            unknown=len(unknown),
        )
        told: dict[str, object] = {
            "status": "success",
            "documents_searched": [_named(document) for document in chosen],
            "query": asked.query,
            "results": [
                {
                    "document": " ".join(passage.title.split())[:LONGEST_NAME],
                    "section": passage.section or "",
                    "similarity": round(passage.relevance, 2),
                    "text": passage.text,
                }
                for passage in passages
            ],
        }
        if unknown:
            told["unknown"] = unknown
        return json.dumps(told)

    async def search_in_documents(self, asked: LookupParameters, chosen: Sequence[Document]) -> list[Passage]:
        """Return the best passages of some documents above a similarity; the index itself leaves out all others."""
        found = await self.answering.direct.searcher.search(
            Query(
                question=asked.query,
                k=asked.top_k,
                documents=frozenset(document.document_id for document in chosen),
                min_relevance=asked.min_similarity,
                filtering=False,
            ),
            self.scope,
        )
        return list(found.passages)
