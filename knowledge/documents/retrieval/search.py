"""Hybrid search for passages, shared by all answering systems.

The index returns the nearest passages by dense and by lexical vector, with both scores of each; Postgres then filters
those that are in the scope and current, and only their texts are read. The score is a weighted sum of relevance and of
the lexical score as a share of the best one: 0.7 and 0.3 as seeded. On natural questions the choice hardly matters, on
exact strings it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hardwon.errors import IndexUnavailable, InvalidInput
from hardwon.models.documents import Document, DocumentType, Finding, Passage, PassageId
from hardwon.models.log_query import LineFilter, instant
from hardwon.validation import as_integer, as_relevance, kind_of
from knowledge.documents.access import Scope
from knowledge.documents.ingestion.queue import ActiveSpace, ActiveSpaceProvider
from knowledge.documents.logs.passages import entry_passage, line_passage
from knowledge.documents.logs.questions import QUOTED, line_numbers_in, names_file, severities_in, times_in
from knowledge.documents.models import PassageConditions, PassageHit, PassageWhere, Query
from knowledge.documents.ports import LogStore, PassageIndex, PassageStore, Searcher
from knowledge.documents.relevance import Scale, default_scale
from knowledge.documents.retrieval.spelling import IsWord, SpellingCorrection, correct_spelling, correctable_words
from knowledge.models import SparseVector, Vector
from knowledge.text.bm25 import query_vector, term_counts

VECTOR_WEIGHT: Final = 0.7
OVERSAMPLING: Final = 3
MAX_K: Final = 200
_WIDENING: Final = 4
_MAX_ROUNDS: Final = 4
_MAX_QUESTION_CHARS: Final = 4000
_FILE: Final = re.compile(r"[\w-]\.[A-Za-z]\w{0,9}\b")
_ISO_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSearch(Searcher):
    """Searches the passages of one workspace."""

    passages: PassageStore
    logs: LogStore
    index: PassageIndex
    active_space: ActiveSpaceProvider
    vector_weight: float = VECTOR_WEIGHT
    is_word: IsWord | None = None
    """True for a correctly spelt word, in lower case; None turns spelling correction off."""

    async def search(self, query: Query, scope: Scope) -> Finding:
        """Return the best `query.k` passages, best first: ordered by `score`, with `relevance` as their closeness.

        The search is repeated if the embedding model changed meanwhile, and the old index was dropped.
        """
        _check(query)
        visible, pending = await self.passages.counts(scope)
        if not visible:
            return Finding(empty_scope=not pending, pending=pending, searched=(query.question,))
        found, trace = await self._search_active_space(query, scope)
        corrected = await self._correct_spelling(query.question, found, scope)
        if corrected is None:
            return Finding(passages=tuple(found), searched=(query.question,), pending=pending, trace=tuple(trace))
        found, trace = await self._search_active_space(replace(query, question=corrected.question), scope)
        corrections = [f"read {word!r} as {correction!r}" for word, correction in corrected.words]
        return Finding(
            passages=tuple(found),
            searched=(query.question, corrected.question),
            pending=pending,
            trace=(*corrections, *trace),
            read_as=corrected.question,
        )

    async def _search_active_space(self, query: Query, scope: Scope) -> tuple[list[Passage], list[str]]:
        """Return the best passages, and the trace of the search."""
        while True:
            active = await self.active_space()
            try:
                return await self._search_space(active, query, scope)
            except IndexUnavailable:
                if (await self.active_space()).space.collection == active.space.collection:
                    raise

    async def _correct_spelling(
        self, question: str, found: Sequence[Passage], scope: Scope
    ) -> SpellingCorrection | None:
        """Return the question with misspelt words corrected to words of the results; None if there are none."""
        if self.is_word is None:
            return None
        words = correctable_words(question)
        terms = {word: term_counts(word) for word in words}
        frequencies = (
            await self.passages.statistics(scope, [term for each in terms.values() for term in each])
        ).frequencies
        unknown = [word for word in words if not any(frequencies.get(term) for term in terms[word])]
        if not unknown:
            return None
        texts = [f"{each.title}\n{each.text}" for each in found]
        return await asyncio.to_thread(correct_spelling, question, unknown, texts, self.is_word)

    async def _search_space(self, active: ActiveSpace, query: Query, scope: Scope) -> tuple[list[Passage], list[str]]:
        """Return the best passages by the index of a space, and the trace of the search."""
        embedded = await active.embedder.embed([query.question], "query")
        vectors = _QuestionVectors(
            active_space=active, dense=embedded.vectors[0], lexical=await self._lexical(query.question, scope)
        )
        scale = await self.scale(active)
        trace: list[str] = []
        named = await self._named(query, scope)
        conditions = parse_conditions(query.question, named) if query.filtering else PassageConditions()
        found = (await self._numbered_lines(conditions, named, scope))[: query.k]
        if conditions and not found:
            found = await self._search_filtered(query, scope, vectors, scale, conditions)
            found = [await self._fitting_entry(each, conditions, scope) for each in found]
        if conditions:
            trace.append(f"filter {'kept' if found else 'dropped, as it left nothing'}: {_describe(conditions)}")
        if not found:
            found = await self._search_filtered(query, scope, vectors, scale, PassageConditions())
        return found, trace

    async def _named(self, query: Query, scope: Scope) -> list[Document]:
        """Return the documents that a question may name by their files."""
        return await self.passages.documents(scope) if query.filtering and _FILE.search(query.question) else []

    async def _numbered_lines(
        self, conditions: PassageConditions, named: Sequence[Document], scope: Scope
    ) -> list[Passage]:
        """Return the lines of named logs that conditions ask for by number: a passage is but one of each kind."""
        logs = {
            each.document_id: each
            for each in named
            if each.document_type is DocumentType.LOG and each.document_id in conditions.document_ids
        }
        if not logs or not conditions.lines:
            return []
        lines = await self.logs.numbered(logs, scope, conditions.lines)
        return [replace(line_passage(logs[log], line, at), relevance=1.0) for log, line, at in lines]

    async def _fitting_entry(self, passage: Passage, conditions: PassageConditions, scope: Scope) -> Passage:
        """Return a passage of a log with an entry that fits conditions where its own, the first of its kind, does not.

        That one can be too early: the times of a passage are those of all entries of its kind.
        """
        began = passage.timestamp
        if passage.document_type is not DocumentType.LOG or passage.line_start is None or passage.joined:
            return passage
        if conditions.since is None or began is None or began >= conditions.since:
            return passage
        only = LineFilter(since=conditions.since, until=conditions.until)
        found = await self.logs.entry_like(passage.document_id, scope, passage.line_start, only)
        return passage if found is None else entry_passage(passage, *found)

    async def scale(self, active: ActiveSpace) -> Scale:
        """Return the scale of relevance of a space: the measured one, else the default of its model."""
        measured = await self.passages.scale(active.space)
        return (
            default_scale(active.space.model)
            if measured is None
            else Scale(low=measured[0], high=measured[1], measured=True)
        )

    async def _lexical(self, question: str, scope: Scope) -> SparseVector:
        counts = term_counts(question)
        vector, _ = query_vector(counts, await self.passages.statistics(scope, list(counts)))
        return vector

    async def _search_filtered(
        self, query: Query, scope: Scope, vectors: _QuestionVectors, scale: Scale, conditions: PassageConditions
    ) -> list[Passage]:
        """Return the best passages that meet conditions. The limit grows while many hits are not visible."""
        where = PassageWhere(
            workspace=scope.workspace, partitions=scope.partitions, documents=query.documents, conditions=conditions
        )
        limit = query.k * OVERSAMPLING
        best: list[Passage] = []
        for _ in range(_MAX_ROUNDS):
            hits = await self._hits(vectors, where, scope, limit)
            visible = await self.passages.passages([hit.passage_id for hit in hits], scope)
            visible = [each for each in visible if query.documents is None or each.document_id in query.documents]
            scored = rank_passages(visible, hits, scale, vector_weight=self.vector_weight)
            best = merge_touching([each for each in scored if each.relevance >= query.min_relevance])[: query.k]
            enough = len(best) >= query.k or len(visible) == len(hits)
            if enough or len(hits) < limit:
                break
            limit *= _WIDENING
        return best

    async def _hits(self, vectors: _QuestionVectors, where: PassageWhere, scope: Scope, limit: int) -> list[PassageHit]:
        """Search the index. Raises IndexUnavailable if it holds no points of a scope that has passages."""
        space = vectors.active_space.space
        hits = await self.index.search(space, vectors.dense, vectors.lexical, where, limit=limit)
        if hits or where.documents is not None or where.conditions != PassageConditions():
            return hits
        if not (await self.passages.statistics(scope, [])).documents:
            return hits
        hits = await self.index.search(space, vectors.dense, vectors.lexical, where, limit=limit)  # written just now
        if not hits:
            raise IndexUnavailable(
                "The index holds nothing of these documents: it was lost, or is being filled. It is filled within the "
                "hour, by `hardwon rebuild` at once."
            )
        return hits


def parse_conditions(question: str, documents: Iterable[Document] = ()) -> PassageConditions:
    """Return the conditions that a question names: severities, ISO times, line numbers, documents by file name or uri.

    Times without a day are ignored: they may be part of a document's subject rather than times of log lines.
    """
    since = until = None
    if _ISO_DAY.search(question):
        with contextlib.suppress(ValueError):
            since, until, _ = times_in(QUOTED.sub(" ", question))
    return PassageConditions(
        severities=frozenset(severities_in(QUOTED.sub(" ", question))),
        since=instant(since) if since else None,
        until=instant(until, end=True) if until else None,
        lines=line_numbers_in(question),
        document_ids=frozenset(each.document_id for each in documents if names_file(question, each.name, each.uri)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _QuestionVectors:
    """A question as vectors."""

    active_space: ActiveSpace
    dense: Vector
    lexical: SparseVector


def rank_passages(
    passages: Iterable[Passage], hits: Sequence[PassageHit], scale: Scale, *, vector_weight: float
) -> list[Passage]:
    """Return passages with their scores, best first; ties go to the one that comes first in its document."""
    by_id = {hit.passage_id: hit for hit in hits}
    candidates = list(passages)
    best_lexical = max((by_id[each.passage_id].lexical for each in candidates), default=0.0)
    scored = [_score(each, by_id, scale, best_lexical, vector_weight) for each in candidates]
    return sorted(scored, key=lambda each: (-each.score, each.uri, each.ordinal))


def _score(
    passage: Passage, hits: Mapping[PassageId, PassageHit], scale: Scale, best_lexical: float, vector_weight: float
) -> Passage:
    hit = hits[passage.passage_id]
    relevance = scale.relevance(hit.cosine)
    lexical = hit.lexical / best_lexical if best_lexical > 0 else 0.0
    score = vector_weight * relevance + (1 - vector_weight) * lexical
    return replace(passage, cosine=hit.cosine, lexical=hit.lexical, relevance=relevance, score=score)


def merge_touching(passages: Sequence[Passage]) -> list[Passage]:
    """Return passages with adjacent or overlapping ones of a document merged, at the position of the best of them.

    Only passages of the same section, or of a log, are merged.
    """
    merged: list[Passage] = []
    for passage in passages:
        touching = [other for other in merged if _touch(other, passage)]
        if not touching:
            merged.append(passage)
            continue
        one = _merge(touching[0], passage)
        for other in touching[1:]:  # a passage between two others joins all three
            one = _merge(one, other)
        merged[merged.index(touching[0])] = one
        merged = [other for other in merged if other not in touching[1:]]
    return merged


def _touch(one: Passage, other: Passage) -> bool:
    same = (one.document_id, one.generation, one.kind, one.section) == (
        other.document_id,
        other.generation,
        other.kind,
        other.section,
    )
    if not same or None in {one.char_start, one.char_end, other.char_start, other.char_end}:
        return False
    first, second = _in_order(one, other)
    if first.char_end == second.char_end == 0:
        return False
    if one.document_type is DocumentType.CODE and one.function != other.function:
        return False
    return (second.char_start or 0) <= (first.char_end or 0)


def _in_order(one: Passage, other: Passage) -> tuple[Passage, Passage]:
    return (one, other) if (one.char_start or 0) <= (other.char_start or 0) else (other, one)


def _merge(best: Passage, other: Passage) -> Passage:
    first, second = _in_order(best, other)
    end = first.char_end or 0
    beyond = second.text[end - (second.char_start or 0) :] if (second.char_end or 0) > end else ""
    moments = [each for each in (best.timestamp, other.timestamp) if each]
    untils = [each for each in (best.until, other.until) if each]
    severities = [each for each in (best.severity, other.severity) if each]
    chunks: dict[PassageId, float] = {}
    for each, relevance in (*best.chunks(), *other.chunks()):
        chunks[each] = max(relevance, chunks.get(each, 0.0))
    return replace(
        best,
        joined=tuple(chunks.items()),
        text=first.text + beyond,
        function=first.function,
        char_start=first.char_start,
        char_end=max(end, second.char_end or 0),
        line_start=min(best.line_start or 1, other.line_start or 1),
        line_end=max(best.line_end or 1, other.line_end or 1),
        timestamp=min(moments, default=None),
        until=max(untils, default=None),
        severity=max(severities, key=list(type(severities[0])).index) if severities else None,
    )


def _describe(conditions: PassageConditions) -> str:
    """Return conditions in words, for the trace."""
    parts = [", ".join(sorted(conditions.severities))]
    parts += [f"since {conditions.since.isoformat()}"] if conditions.since else []
    parts += [f"until {conditions.until.isoformat()}"] if conditions.until else []
    parts += [f"line {', '.join(map(str, conditions.lines))}"] if conditions.lines else []
    parts += [f"{len(conditions.document_ids)} named documents"] if conditions.document_ids else []
    return "; ".join(part for part in parts if part)


def _check(query: Query) -> None:
    if not isinstance(query.question, str):
        raise InvalidInput("question", f"must be a text, not {kind_of(query.question)}")
    if not query.question.strip() or len(query.question) > _MAX_QUESTION_CHARS:
        raise InvalidInput("question", f"give 1 to {_MAX_QUESTION_CHARS} characters")
    as_integer("k", query.k, least=1, most=MAX_K)
    as_relevance("min_relevance", query.min_relevance)
