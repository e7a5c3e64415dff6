"""A question to passages: the one search that every system uses.

The index gives the nearest passages by sense and by words, with both scores of each; Postgres then says which of them
are in the scope and current, and only their texts are seen. The score is a weighted sum of relevance and the share of
the best lexical score: 0.7 and 0.3 as seeded. On natural questions the choice hardly matters, on exact strings it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge.documents.access import Scope
from knowledge.documents.indexing import Room, Rooms
from knowledge.documents.log_query import instant
from knowledge.documents.log_questions import QUOTED, line_numbers_in, names_file, severities_in, times_in
from knowledge.documents.misspelt import Known, Respelt, respelt, words_that_may_be_misspelt
from knowledge.documents.models import (
    Document,
    DocumentType,
    Finding,
    Passage,
    PassageHit,
    PassageId,
    PassageWhere,
    Query,
    Wanted,
)
from knowledge.documents.ports import PassageIndex, PassageStore, Searcher
from knowledge.documents.scale import Scale, shipped
from knowledge.errors import IndexUnavailable, InvalidInput
from knowledge.forms import as_integer, as_relevance
from knowledge.models import SparseVector, Vector
from knowledge.search.lexical import query_vector, term_counts

VECTOR_WEIGHT: Final = 0.7
OVERSAMPLING: Final = 3
MOST: Final = 200
_WIDER: Final = 4
_MOST_ROUNDS: Final = 4
_LONGEST_QUESTION: Final = 4000
_FILE: Final = re.compile(r"[\w-]\.[A-Za-z]\w{0,9}\b")
_ISO_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSearch(Searcher):
    """Searches the passages of one workspace."""

    passages: PassageStore
    index: PassageIndex
    room: Rooms
    vector_weight: float = VECTOR_WEIGHT
    known: Known | None = None
    """Which words are spelt as they should be; None where that is not known, and then each is taken as it stands."""

    async def search(self, query: Query, scope: Scope) -> Finding:
        """Return the best `query.k` passages, best first; `score` orders them, `relevance` says how near they are.

        Asked again where another model came into use meanwhile, and the index of the one before was dropped.
        """
        _check(query)
        shown, pending = await self.passages.counts(scope)
        if not shown:
            return Finding(empty_scope=not pending, pending=pending, searched=(query.question,))
        found, trace = await self._found_somewhere(query, scope)
        spelt = await self._spelt(query.question, found, scope)
        if spelt is None:
            return Finding(passages=tuple(found), searched=(query.question,), pending=pending, trace=tuple(trace))
        found, trace = await self._found_somewhere(replace(query, question=spelt.question), scope)
        read = [f"read {word!r} as {meant!r}" for word, meant in spelt.words]
        return Finding(
            passages=tuple(found),
            searched=(query.question, spelt.question),
            pending=pending,
            trace=(*read, *trace),
            read_as=spelt.question,
        )

    async def _found_somewhere(self, query: Query, scope: Scope) -> tuple[list[Passage], list[str]]:
        """Return the best passages, and what was done to find them."""
        while True:
            room = await self.room()
            try:
                return await self._in_room(room, query, scope)
            except IndexUnavailable:
                if (await self.room()).space.fingerprint == room.space.fingerprint:
                    raise

    async def _spelt(self, question: str, found: Sequence[Passage], scope: Scope) -> Respelt | None:
        """Return a question without the misspellings of what was found; None where there are none."""
        if self.known is None:
            return None
        words = words_that_may_be_misspelt(question)
        terms = {word: term_counts(word) for word in words}
        seen = (await self.passages.statistics(scope, [term for each in terms.values() for term in each])).frequencies
        unheard = [word for word in words if not any(seen.get(term) for term in terms[word])]
        if not unheard:
            return None
        texts = [f"{each.title}\n{each.text}" for each in found]
        return await asyncio.to_thread(respelt, question, unheard, texts, self.known)

    async def _in_room(self, room: Room, query: Query, scope: Scope) -> tuple[list[Passage], list[str]]:
        """Return the best passages by the index of a space, and what was done to find them."""
        embedded = await room.embedder.embed([query.question], "query")
        asked = _Asked(room=room, dense=embedded.vectors[0], lexical=await self._lexical(query.question, scope))
        scale = await self.scale(room)
        trace: list[str] = []
        wish = await self._wish(query, scope)
        found: list[Passage] = []
        if wish:
            found = await self._found(query, scope, asked, scale, wish)
            trace.append(f"filter {'kept' if found else 'dropped, as it left nothing'}: {_told(wish)}")
        if not found:
            found = await self._found(query, scope, asked, scale, Wanted())
        return found, trace

    async def _wish(self, query: Query, scope: Scope) -> Wanted:
        if not query.filtering:
            return Wanted()
        named = await self.passages.documents(scope) if _FILE.search(query.question) else []
        return wanted(query.question, named)

    async def scale(self, room: Room) -> Scale:
        """Return the scale of relevance of a space: as measured here, else as shipped."""
        kept = await self.passages.scale(room.space)
        return shipped(room.space.model) if kept is None else Scale(low=kept[0], high=kept[1], measured=True)

    async def _lexical(self, question: str, scope: Scope) -> SparseVector:
        counts = term_counts(question)
        vector, _ = query_vector(counts, await self.passages.statistics(scope, list(counts)))
        return vector

    async def _found(self, query: Query, scope: Scope, asked: _Asked, scale: Scale, wish: Wanted) -> list[Passage]:
        """Return the best passages that meet a wish. Where the index holds much that is gone, it is asked for more."""
        where = PassageWhere(
            workspace=scope.workspace, partitions=scope.partitions, documents=query.documents, wanted=wish
        )
        limit = query.k * OVERSAMPLING
        best: list[Passage] = []
        for _ in range(_MOST_ROUNDS):
            hits = await self._hits(asked, where, scope, limit)
            visible = await self.passages.passages([hit.passage_id for hit in hits], scope)
            visible = [each for each in visible if query.documents is None or each.document_id in query.documents]
            scored = ranked(visible, hits, scale, vector_weight=self.vector_weight)
            best = merged([each for each in scored if each.relevance >= query.min_relevance])[: query.k]
            enough = len(best) >= query.k or len(visible) == len(hits)
            if enough or len(hits) < limit:
                break
            limit *= _WIDER
        return best

    async def _hits(self, asked: _Asked, where: PassageWhere, scope: Scope, limit: int) -> list[PassageHit]:
        """Ask the index. Raises IndexUnavailable where it holds nothing of a scope that has passages."""
        space = asked.room.space
        hits = await self.index.search(space, asked.dense, asked.lexical, where, limit=limit)
        if hits or where.documents is not None or where.wanted != Wanted():
            return hits
        if not (await self.passages.statistics(scope, [])).documents:
            return hits
        hits = await self.index.search(space, asked.dense, asked.lexical, where, limit=limit)  # they came just now
        if not hits:
            raise IndexUnavailable(
                "The index holds nothing of these documents: it was lost, or is being filled. It is filled within the "
                "hour, by `hardwon rebuild` at once."
            )
        return hits


def wanted(question: str, documents: Iterable[Document] = ()) -> Wanted:
    """Return the filters that a question names: severities, ISO times, line numbers, documents by file name or uri.

    A time without a day may as well be of what a document tells, which names no moments to look by.
    """
    since = until = None
    if _ISO_DAY.search(question):
        with contextlib.suppress(ValueError):
            since, until, _ = times_in(QUOTED.sub(" ", question))
    return Wanted(
        severities=frozenset(severities_in(QUOTED.sub(" ", question))),
        since=instant(since) if since else None,
        until=instant(until, end=True) if until else None,
        lines=line_numbers_in(question),
        document_ids=frozenset(each.document_id for each in documents if names_file(question, each.name, each.uri)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question as vectors."""

    room: Room
    dense: Vector
    lexical: SparseVector


def ranked(
    passages: Iterable[Passage], hits: Sequence[PassageHit], scale: Scale, *, vector_weight: float
) -> list[Passage]:
    """Return passages with their scores, best first; ties go to what comes first in its document."""
    by_id = {hit.passage_id: hit for hit in hits}
    given = list(passages)
    most = max((by_id[each.passage_id].lexical for each in given), default=0.0)
    scored = [_scored(each, by_id, scale, most, vector_weight) for each in given]
    return sorted(scored, key=lambda each: (-each.score, each.uri, each.ordinal))


def _scored(
    passage: Passage, hits: Mapping[PassageId, PassageHit], scale: Scale, most: float, vector_weight: float
) -> Passage:
    hit = hits[passage.passage_id]
    relevance = scale.relevance(hit.cosine)
    lexical = hit.lexical / most if most > 0 else 0.0
    score = vector_weight * relevance + (1 - vector_weight) * lexical
    return replace(passage, cosine=hit.cosine, lexical=hit.lexical, relevance=relevance, score=score)


def merged(passages: Sequence[Passage]) -> list[Passage]:
    """Return passages with those of a document that touch or overlap as one, in the place of the best of them.

    Only within a section, or in a log: two sections that follow each other stay two.
    """
    taken: list[Passage] = []
    for passage in passages:
        touching = [other for other in taken if _touch(other, passage)]
        if not touching:
            taken.append(passage)
            continue
        one = _joined(touching[0], passage)
        for other in touching[1:]:  # what came between two of them makes one of all three
            one = _joined(one, other)
        taken[taken.index(touching[0])] = one
        taken = [other for other in taken if other not in touching[1:]]
    return taken


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


def _joined(best: Passage, other: Passage) -> Passage:
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


def _told(wish: Wanted) -> str:
    """Return a wish in words, for the trace."""
    parts = [", ".join(sorted(wish.severities))]
    parts += [f"since {wish.since.isoformat()}"] if wish.since else []
    parts += [f"until {wish.until.isoformat()}"] if wish.until else []
    parts += [f"line {', '.join(map(str, wish.lines))}"] if wish.lines else []
    parts += [f"{len(wish.document_ids)} named documents"] if wish.document_ids else []
    return "; ".join(part for part in parts if part)


def _check(query: Query) -> None:
    if not isinstance(query.question, str):
        raise InvalidInput("question", f"must be a text, not {type(query.question).__name__}")
    if not query.question.strip() or len(query.question) > _LONGEST_QUESTION:
        raise InvalidInput("question", f"give 1 to {_LONGEST_QUESTION} characters")
    as_integer("k", query.k, least=1, most=MOST)
    as_relevance("min_relevance", query.min_relevance)
