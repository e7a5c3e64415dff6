"""Services of the answers of one workspace, as the four answering systems use them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from cachetools import LRUCache

from hardwon.models.documents import Document
from knowledge.documents.access import AccessPolicy, Scope
from knowledge.documents.answer_cache import AnswerCache
from knowledge.documents.answering.pipeline import GroundedAnswerer
from knowledge.documents.answering.strategies import DirectFinder, KeywordFinder, MultiQueryFinder
from knowledge.documents.journal import Journal
from knowledge.documents.llm import LanguageModel
from knowledge.documents.ports import PassageStore, Reranker
from knowledge.documents.reading.embedding_cache import SentenceVectors
from knowledge.ports import Clock

_MAX_CACHED_LISTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Models by role, None if not configured: `main` selects tools, `synthesis` writes answers, `reranker` ranks.

    `sentences`: cached sentence embeddings for extractive answers.
    """

    main: LanguageModel | None = None
    synthesis: LanguageModel | None = None
    reranker: Reranker | None = None
    sentences: SentenceVectors = field(default_factory=SentenceVectors)

    async def aclose(self) -> None:
        """Close both."""
        for model in (self.main, self.synthesis):
            if model is not None:
                await model.aclose()


@dataclass(slots=True)
class DocumentLists:
    """LRU cache of the document lists of scopes, each valid until a visible change."""

    quotes: PassageStore
    _cache: LRUCache[object, tuple[object, Sequence[Document]]] = field(
        default_factory=lambda: LRUCache(_MAX_CACHED_LISTS)
    )

    async def of(self, scope: Scope) -> Sequence[Document]:
        """Return the documents of a scope that have an indexed version, ascending by title, then uri."""
        key, versions = (scope.workspace, frozenset(scope.partitions)), await self.quotes.versions(scope)
        known = self._cache.get(key)
        if (
            known is None or known[0] != versions
        ):  # replaced, not kept under its version: otherwise most cached lists would be stale
            self._cache[key] = known = (versions, tuple(await self.quotes.documents(scope)))
        return known[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Services of answers of one workspace. `main`: the model that selects tools, None if texts may not go to it."""

    workspace: str
    access: AccessPolicy
    answerer: GroundedAnswerer
    lists: DocumentLists
    direct: DirectFinder
    by_queries: MultiQueryFinder
    by_keywords: KeywordFinder
    cache: AnswerCache
    journal: Journal
    clock: Clock
    main: Callable[[], Awaitable[LanguageModel | None]]
