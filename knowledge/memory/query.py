"""Queries: how were such situations resolved before? One embedding, one round trip to the index, one to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge.errors import InvalidInput
from knowledge.memory import texts
from knowledge.memory.ranking import Match, rank
from knowledge.memory.spaces import space_in_use
from knowledge.memory.validation import MAX_TEXT_BYTES, check_text
from knowledge.models import (
    BoundSpace,
    Entry,
    EntryType,
    Evidence,
    Hit,
    Pattern,
    PatternId,
    PointId,
    SparseVector,
    Vector,
    View,
    Where,
)
from knowledge.ports import Embedder, Stores
from knowledge.search.calibration import relevance
from knowledge.search.fusion import fuse
from knowledge.search.lexical import query_vector, term_counts

CANDIDATES = 100
"""Points taken from each half of the search (docs/evaluation.md: 100 loses nothing against all)."""

MAX_RESULTS = 100
_MOST_SHOWN = 32
"""Points whose words are fetched, the best ones; more where more results are asked for."""

_MAX_QUERY_CHARS = 20_000
"""A longer question is cut: the model reads its beginning only, and the words of a log repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked for, in both halves of the search. `weight` is the sum of the lexical weights."""

    dense: Vector
    lexical: SparseVector
    weight: float
    floor: float
    max_results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a search found relevant, the best first: raw score, point, relevance.

    `complete`: nothing else in the workspace is relevant, so that no search with more conditions finds more.
    """

    nearest: tuple[tuple[float, PointId, float], ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RAGQueryService:
    """Orchestrator-only service for querying what was learned."""

    stores: Stores
    task_relevance: float
    failure_relevance: float

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned, best first.

        The description is compared with task descriptions and with situations. Where fewer than `max_results` patterns
        of this agent type, task type and technology fit, others fill up. `min_relevance` (0..1) replaces the setting.
        Raises InvalidInput, Unavailable or SpaceMismatch.
        """
        task_description = _asked("task_description", task_description)
        where = replace(self._where(), agent_type=agent_type, task_type=task_type, technology=technology)
        floor = self.task_relevance if min_relevance is None else min_relevance
        return await self._query(task_description, where, floor, max_results)

    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        max_results: int = 3,
        *,
        min_relevance: float | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved, best first; fills up and raises as `query_for_task` does."""
        failure_description = _asked("failure_description", failure_description)
        if error_message is not None:
            error_message = _asked("error_message", error_message)
        where = replace(
            self._where(),
            view=View.SITUATION,
            entry_types=frozenset({EntryType.FAILURE_SOLUTION}),
            agent_type=agent_type,
            task_type=task_type,
        )
        floor = self.failure_relevance if min_relevance is None else min_relevance
        text = texts.failure_situation(failure_description, error_message)
        return await self._query(text, where, floor, max_results)

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern as a query would show it, with relevance 1. Raises NotFound."""
        evidence = await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())
        return _pattern(evidence, 1.0)

    def _where(self) -> Where:
        return Where(workspace=self.stores.workspace, live_at=self.stores.clock.now())

    async def _query(self, text: str, where: Where, floor: float, max_results: int) -> list[Pattern]:
        if not 1 <= max_results <= MAX_RESULTS:
            raise InvalidInput("max_results", f"must be 1 to {MAX_RESULTS}, not {max_results}")
        in_use = await space_in_use(self.stores)
        if in_use is None:
            return []
        bound = in_use.bound
        question = await self._encode(in_use.embedder, text[:_MAX_QUERY_CHARS], floor, max_results)
        anywhere = replace(where, agent_type=None, task_type=None, technology=None)
        found = await self._find(bound, question, anywhere)
        if anywhere == where or found.complete:
            matches = [
                replace(match, fits=_fits(match.evidence.words, where)) for match in await self._matches(found, where)
            ]
            fitting = [match for match in matches if match.fits]
            matches = fitting if _patterns_in(fitting) >= max_results else matches
        else:
            matches = await self._matches(await self._find(bound, question, where), where)
            if _patterns_in(matches) < max_results:
                known = {match.evidence.pattern_id for match in matches}
                others = await self._matches(found, where)
                matches += [replace(match, fits=False) for match in others if match.evidence.pattern_id not in known]
        return [_pattern(match.evidence, match.relevance) for match in rank(matches, limit=max_results)]

    async def _encode(self, embedder: Embedder, text: str, floor: float, max_results: int) -> _Question:
        counts = term_counts(text)
        embedded, statistics = await asyncio.gather(
            embedder.embed([text], "query"), self.stores.spaces.statistics(list(counts))
        )
        lexical, weight = query_vector(counts, statistics)
        return _Question(
            dense=embedded.vectors[0], lexical=lexical, weight=weight, floor=floor, max_results=max_results
        )

    async def _find(self, bound: BoundSpace, asked: _Question, where: Where) -> _Found:
        """Search, and drop what is not relevant."""
        hits = await self.stores.index.search(bound.space, asked.dense, asked.lexical, where, limit=CANDIDATES)
        scored = ((fuse(hit.cosine, hit.lexical, asked.weight), hit.point_id) for hit in hits)
        likely = ((score, point, relevance(score, bound.calibration)) for score, point in scored)
        relevant = sorted((each for each in likely if each[2] >= asked.floor), reverse=True)
        shown = max(_MOST_SHOWN, 4 * asked.max_results)
        rest = _best_of_the_rest(hits, asked.weight)
        all_seen = rest is None or relevance(rest, bound.calibration) < asked.floor
        return _Found(nearest=tuple(relevant[:shown]), complete=all_seen and len(relevant) <= shown)

    async def _matches(self, found: _Found, where: Where) -> list[Match]:
        """Fetch the words of what was found, in one hop."""
        if not found.nearest:
            return []
        points = [point for _, point, _ in found.nearest]
        evidence = await self.stores.patterns.evidence(points, now=where.live_at)
        return [
            Match(evidence=evidence[point], relevance=likeness, score=score)
            for score, point, likeness in found.nearest
            if point in evidence
        ]


def _asked(field: str, text: str) -> str:
    """Return the beginning of a text that is asked for. Raises InvalidInput, naming the field, unless it is a text."""
    if isinstance(text, str):
        text = text[:_MAX_QUERY_CHARS]
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) > MAX_TEXT_BYTES:
            end = MAX_TEXT_BYTES
            while encoded[end] & 0xC0 == 0x80:  # inside of a character, which goes whole
                end -= 1
            text = encoded[:end].decode("utf-8", "surrogatepass")
    check_text(field, text)
    return text


def _best_of_the_rest(hits: Sequence[Hit], weight: float) -> float | None:
    """Return the highest score a point that a search left out can have, None if it left out none.

    Such a point is in neither list of the union, so by either vector it comes after the last of that list.
    """
    if len(hits) < CANDIDATES:
        return None
    cosines = sorted((hit.cosine for hit in hits), reverse=True)
    lexical = sorted((hit.lexical for hit in hits), reverse=True)
    return fuse(cosines[CANDIDATES - 1], lexical[CANDIDATES - 1], weight)


def _fits(words: Entry, where: Where) -> bool:
    """Whether an entry's fields are those asked for, or not told."""
    pairs = (
        (words.agent_type, where.agent_type),
        (words.task_type, where.task_type),
        (words.technology, where.technology),
    )
    return all(told is None or asked is None or told == asked for told, asked in pairs)


def _patterns_in(matches: Sequence[Match]) -> int:
    return len({match.evidence.pattern_id for match in matches})


def _pattern(evidence: Evidence, likeness: float) -> Pattern:
    words = evidence.words
    return Pattern(
        pattern_id=evidence.pattern_id,
        entry_type=evidence.entry_type,
        problem=texts.situation(words),
        solution=texts.resolution(words),
        when_to_try=texts.when_to_try(words),
        success_count=evidence.success_count,
        attempt_count=evidence.attempt_count,
        project_count=evidence.project_count,
        relevance=likeness,
        agent_type=words.agent_type,
        task_type=words.task_type,
        technology=words.technology,
        gate_type=words.gate_type,
        entry_ids=evidence.entry_ids,
        founded_at=evidence.founded_at,
    )
