"""Finders of the answering systems: one search, several queries, or whole documents by keywords."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hardwon.errors import EmbedderRejected, Unavailable
from hardwon.event_log import get_logger
from hardwon.models.documents import DocumentId, Finding, Passage, PassageId, PassageKind
from hardwon.models.log_query import LogQuery
from knowledge.documents.access import Scope
from knowledge.documents.answering.pipeline import RewriterProvider, best_mean
from knowledge.documents.logs.questions import parse_log_question
from knowledge.documents.logs.service import LogEvidence
from knowledge.documents.models import Profile, Query, WholeDocument
from knowledge.documents.ports import Finder, PassageStore, Searcher
from knowledge.documents.retrieval.keyword_score import (
    SEEDED,
    KeywordDocument,
    KeywordQuestion,
    KeywordWeights,
    keyword_score,
)
from knowledge.documents.retrieval.search import merge_touching

log = get_logger(__name__)

CHARS_PER_TOKEN = 4
SHOWN_TOKENS = 24_000
"""Tokens of all documents that the strict knowledge base shows a model, about, ours: most models of today read 32,000
and more, and the question and the answer need the rest."""
LOGGED = 10
SECONDS_BESIDE_FACTS = 1.0
"""After which an answer that has exact facts goes without passages beside them."""
_MAX_CHUNKS = 12
_MAX_QUERY_CHARS = 1_000
_RELEVANCE_WEIGHT = 2.0
"""Weight of relevance next to the keyword score in hybrid mode; ours: a third more than a whole query in a title."""

_REFERENCE = re.compile(r"(?i)\b(?:they|them|their|its?|th(?:is|at|[eo]se)|ones?|such|both|same)\b")
Relevance = Literal["keyword", "embedding", "hybrid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectFinder(Finder):
    """One search, its results preceded by the exact facts about logs that the question asks for.

    `logs`: the query plan for logs; without one it is parsed from the question.
    """

    searcher: Searcher
    evidence: LogEvidence | None = None
    logs: LogQuery | None = None

    async def find(self, query: Query, scope: Scope, profile: Profile) -> Finding:  # noqa: ARG002 - one search is all
        """Return facts, then passages. Facts need no embedding: they do not wait long for what is still embedded."""
        if self.evidence is None:
            return await self.searcher.search(query, scope)
        asked = query.question if query.original is None else words_for_logs(query.original, query.question)
        until = asyncio.get_running_loop().time() + SECONDS_BESIDE_FACTS
        search = asyncio.create_task(self.searcher.search(query, scope))
        try:
            facts = await self.evidence.facts(asked, scope, query.documents, query=self.logs)
            if not facts.passages:
                found = await search
                lines = (
                    await self.evidence.lines_naming(query.question, scope, found.passages) if found.passages else []
                )
                return replace(found, passages=(*found.passages, *lines))
            try:
                async with asyncio.timeout_at(until):
                    found = await search
            except (TimeoutError, Unavailable, EmbedderRejected) as error:
                log.warning("search_beside_facts_failed", error=type(error).__name__)
                found = Finding(searched=(query.question,), trace=("the passages beside the facts were not searched",))
        finally:
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
        return replace(
            found,
            empty_scope=False,
            passages=(*facts.passages, *found.passages),
            trace=(*found.trace, *facts.trace),
            notes=(*found.notes, *facts.notes),
        )


def words_for_logs(own: str, searched: str) -> str:
    """Return the text of a follow-up to parse for logs: `own`, unless it refers to what only `searched` names.

    "When did they start?" is about the errors that the conversation spoke of; "How many CRITICAL entries are there?"
    stands by itself.
    """
    if _REFERENCE.search(own) is None:
        return own
    plan = parse_log_question(own)
    return own if plan is not None and (plan.selects or plan.lines) else searched


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiQueryFinder(Finder):
    """Searches for the question, then for it with the words of the focus, unless the first search found enough.

    Enough is `profile.coverage`: this many passages above this relevance. A query that fails is skipped; if all fail,
    the finding is an error.
    """

    searcher: Searcher
    rewriter: RewriterProvider

    async def find(self, query: Query, scope: Scope, profile: Profile) -> Finding:
        """Return the passages of all queries, each once, with its best score."""
        found: dict[tuple[object, ...], Passage] = {}
        searched: list[str] = []
        failures: list[str] = []
        last: Finding | None = None
        for number in range(profile.max_queries):
            text = query.question if number == 0 else await self._expand_query(query)
            if text in searched:
                break
            try:
                last = await self.searcher.search(replace(query, question=text), scope)
            except (Unavailable, EmbedderRejected) as error:
                failures.append(str(error))
                continue
            finally:
                searched.append(text)
            for passage in last.passages:
                same = (passage.passage_id, passage.char_start, passage.char_end)
                if same not in found or passage.relevance > found[same].relevance:
                    found[same] = passage
            if last.empty_scope or is_covered(list(found.values()), profile):
                break
        if last is None:
            return Finding(searched=tuple(searched), error=failures[0], trace=tuple(failures))
        passages = merge_touching(sorted(found.values(), key=lambda each: (-each.relevance, -each.score)))[: query.k]
        return replace(
            last,
            passages=tuple(passages),
            searched=tuple(searched),
            coverage=round(best_mean(passages), 4),
            trace=(*last.trace, *(f"a query failed: {failure}" for failure in failures)),
        )

    async def _expand_query(self, query: Query) -> str:
        """Return the question rewritten to be self-contained, with the words of the focus."""
        rewriter = await self.rewriter()
        rewritten = await rewriter.rewrite(query.question, query.conversation)
        focus = [str(value).replace("_", " ") for value in query.focus.values() if isinstance(value, str | int)]
        if rewritten == query.question and not focus:
            tail = [turn.content for turn in query.conversation[-2:] if turn.content.strip()]
            return _append_words(query.question, tail)
        return _append_words(rewritten, focus)


def _append_words(question: str, words: Sequence[str]) -> str:
    """Return a question with words appended, cut to the maximum length; the question itself is not cut."""
    return " ".join([question, *words])[: max(len(question), _MAX_QUERY_CHARS)]


def is_covered(passages: Sequence[Passage], profile: Profile) -> bool:
    """Return whether enough chunks are above the relevance of `profile.coverage`, each by itself."""
    if profile.coverage is None:
        return False
    fewest, relevance = profile.coverage
    return len({each for passage in passages for each, near in passage.chunks() if near > relevance}) >= fewest


@dataclass(slots=True)
class _DocumentCache:
    """Whole documents at one version of their partitions."""

    key: object = None
    documents: list[tuple[WholeDocument, KeywordDocument]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordFinder(Finder):
    """Whole documents by keyword score: the coarse filter of the strict knowledge base; a model does the rest.

    `max_tokens`: the budget of all documents together; those that do not fit are left out, and if not even one fits,
    the best passages are returned instead.
    """

    store: PassageStore
    searcher: Searcher
    weights: KeywordWeights = SEEDED
    max_docs: int = 30
    min_relevance: float = 0.1
    relevance: Relevance = "keyword"
    max_tokens: int = SHOWN_TOKENS
    _cache: _DocumentCache = field(default_factory=_DocumentCache)

    async def find(self, query: Query, scope: Scope, profile: Profile) -> Finding:  # noqa: ARG002 - words are all
        """Return the documents above `min_relevance`, best first, as many as fit."""
        documents = await self._documents(scope)
        _, pending = await self.store.counts(scope)
        if not documents:
            return Finding(empty_scope=True, pending=pending, searched=(query.question,))
        near = await self._near(query, scope)
        asked = KeywordQuestion(query.question)
        scored = [
            (self._score(asked, words, near.get(whole.document.document_id)), whole) for whole, words in documents
        ]
        best = sorted((each for each in scored if each[0] > self.min_relevance), key=lambda each: -each[0])
        top = [f"{whole.document.uri} {score:.2f}" for score, whole in best[:LOGGED]]
        log.info("documents_scored", documents=len(documents), above=len(best), top=top)
        taken = self._fit_budget(best[: self.max_docs])
        passages = [_passage(whole, score) for score, whole in taken]
        if best and not taken:
            passages = await self._best_chunks(query, scope, [whole for _, whole in best[: self.max_docs]])
        log.info("documents_passed_on", documents=[passage.uri for passage in passages])
        return Finding(passages=tuple(passages), searched=(query.question,), pending=pending, trace=tuple(top))

    async def _documents(self, scope: Scope) -> list[tuple[WholeDocument, KeywordDocument]]:
        key = (scope.workspace, await self.store.versions(scope))
        if self._cache.key == key:
            return self._cache.documents
        documents = await asyncio.to_thread(_read, await self.store.whole(scope))
        self._cache.documents, self._cache.key = documents, key
        return documents

    async def _near(self, query: Query, scope: Scope) -> Mapping[DocumentId, float]:
        if self.relevance == "keyword":
            return {}
        found = await self.searcher.search(replace(query, k=min(3 * self.max_docs, 100), filtering=False), scope)
        near: dict[DocumentId, float] = {}
        for passage in found.passages:
            near[passage.document_id] = max(passage.relevance, near.get(passage.document_id, 0.0))
        return near

    def _score(self, asked: KeywordQuestion, words: KeywordDocument, near: float | None) -> float:
        if self.relevance == "embedding":
            return near or 0.0
        return keyword_score(asked, words, self.weights) + _RELEVANCE_WEIGHT * (near or 0.0)

    def _fit_budget(self, best: Sequence[tuple[float, WholeDocument]]) -> list[tuple[float, WholeDocument]]:
        left = self.max_tokens * CHARS_PER_TOKEN
        fitting = []
        for score, whole in best:
            if len(whole.text) > left:
                break
            left -= len(whole.text)
            fitting.append((score, whole))
        return fitting

    async def _best_chunks(self, query: Query, scope: Scope, wholes: Sequence[WholeDocument]) -> list[Passage]:
        ids = frozenset(whole.document.document_id for whole in wholes)
        found = await self.searcher.search(replace(query, k=_MAX_CHUNKS, documents=ids, filtering=False), scope)
        return list(found.passages)


def _read(wholes: Sequence[WholeDocument]) -> list[tuple[WholeDocument, KeywordDocument]]:
    """Return documents with their tokenized words; takes 1.2 s for 14 MB."""
    return [(whole, _words_of(whole)) for whole in wholes]


def _words_of(whole: WholeDocument) -> KeywordDocument:
    document = whole.document
    return KeywordDocument(title=document.title, text=whole.text, category=document.category, tags=document.tags)


def _passage(whole: WholeDocument, score: float) -> Passage:
    document = whole.document
    passage_id = PassageId(uuid.uuid5(document.document_id, f"whole {document.generation}"))
    return replace(
        Passage.of(document, passage_id, PassageKind.DOCUMENT, whole.text),
        line_start=1,
        line_end=max(document.lines, 1),
        char_start=0,
        char_end=len(whole.text),
        score=score,
    )
