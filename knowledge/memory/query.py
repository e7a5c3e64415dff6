"""Queries: how were such situations resolved before? One embedding, one round trip to the index, one to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from knowledge.errors import InvalidInput
from knowledge.memory import texts
from knowledge.memory.judging import Judged, Scored, judge
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
from knowledge.redaction import redact
from knowledge.search.calibration import relevance
from knowledge.search.fusion import coverage, fuse
from knowledge.search.lexical import query_vector, term_counts
from knowledge.search.reading import MOST_CANDIDATES, Reading, read_question

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
    reading: Reading
    floor: float
    max_results: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The points worth reading of what a search found, the highest fused score first.

    `complete`: nothing else in the workspace is relevant, so that no search with more conditions finds more.
    """

    nearest: tuple[Scored, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The patterns to show, and how sure it is that the right one is known, 0..1 (`knowledge.search.silence`).

    `sure` is whether that is enough to say something unasked.
    """

    patterns: list[Pattern]
    confidence: float
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RAGQueryService:
    """Orchestrator-only service for querying what was learned."""

    stores: Stores
    task_relevance: float
    failure_relevance: float
    redaction: bool = True

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned, best first.

        The description is compared with task descriptions and with situations. Where fewer than `max_results` patterns
        of this agent type, task type and technology fit, others fill up. `min_relevance` (0..1) replaces the setting.
        `only_if_sure`: nothing at all where the best is likely no match (`knowledge.search.silence`), for what is
        injected unasked. Raises InvalidInput, Unavailable or SpaceMismatch.
        """
        task_description = _asked("task_description", task_description)
        where = replace(self._where(), agent_type=agent_type, task_type=task_type, technology=technology)
        floor = self.task_relevance if min_relevance is None else min_relevance
        answer = await self._answer(task_description, where, floor, max_results)
        return answer.patterns if answer.sure or not only_if_sure else []

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
        where = replace(self._failures(), agent_type=agent_type, task_type=task_type)
        floor = self.failure_relevance if min_relevance is None else min_relevance
        return (await self._answer_failure(failure_description, error_message, where, floor, max_results)).patterns

    async def weigh_failure(
        self, failure_description: str, error_message: str | None = None, *, without: Collection[PointId] = ()
    ) -> Answer:
        """Return what would be injected for a failure, and how sure it is; as if points `without` were not there.

        For measurements: what would be said of a failure that is not known.
        """
        where = replace(self._failures(), without=frozenset(without))
        answer = await self._answer_failure(failure_description, error_message, where, self.failure_relevance, 3)
        return answer if answer.sure else replace(answer, patterns=[])

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern as a query would show it, with relevance 1. Raises NotFound."""
        evidence = await self.stores.patterns.get(pattern_id, now=self.stores.clock.now())
        return to_pattern(evidence)

    def _where(self) -> Where:
        return Where(workspace=self.stores.workspace, live_at=self.stores.clock.now())

    def _failures(self) -> Where:
        return replace(self._where(), view=View.SITUATION, entry_types=frozenset({EntryType.FAILURE_SOLUTION}))

    async def _answer_failure(
        self, failure: str, error: str | None, where: Where, floor: float, max_results: int
    ) -> Answer:
        failure = _asked("failure_description", failure)
        if error is not None:
            error = _asked("error_message", error)
        return await self._answer(texts.failure_situation(failure, error), where, floor, max_results)

    async def _answer(self, text: str, where: Where, floor: float, max_results: int) -> Answer:
        if not 1 <= max_results <= MAX_RESULTS:
            raise InvalidInput("max_results", f"must be 1 to {MAX_RESULTS}, not {max_results}")
        in_use = await space_in_use(self.stores)
        if in_use is None:
            return Answer(patterns=[], confidence=0.0, sure=False)
        bound = in_use.bound
        asked = await self._encode(in_use.embedder, self._redacted(text)[:_MAX_QUERY_CHARS], floor, max_results)
        anywhere = replace(where, agent_type=None, task_type=None, technology=None)
        found = await self._find(bound, asked, anywhere)
        judged = await self._judge(bound, asked, found, anywhere)
        matches = _relevant(judged, floor)
        if anywhere == where or found.complete:
            matches = [replace(match, fits=_fits(match.evidence.words, where)) for match in matches]
            fitting = [match for match in matches if match.fits]
            matches = fitting if _patterns_in(fitting) >= max_results else matches
        else:
            others = matches
            matches = _relevant(await self._judge(bound, asked, await self._find(bound, asked, where), where), floor)
            if _patterns_in(matches) < max_results:
                known = {match.evidence.pattern_id for match in matches}
                matches += [replace(match, fits=False) for match in others if match.evidence.pattern_id not in known]
        shown = [to_pattern(match.evidence, match.relevance) for match in rank(matches, limit=max_results)]
        return Answer(patterns=shown, confidence=judged.confidence, sure=judged.speak)

    def _redacted(self, text: str) -> str:
        """Return what is asked in the words that entries are stored in; no secret goes to an embedder."""
        return redact(text).text if self.redaction else text

    async def _encode(self, embedder: Embedder, text: str, floor: float, max_results: int) -> _Question:
        counts = term_counts(text)
        embedded, statistics = await asyncio.gather(
            embedder.embed([text], "query"), self.stores.spaces.statistics(list(counts))
        )
        lexical, weight = query_vector(counts, statistics)
        return _Question(
            dense=embedded.vectors[0],
            lexical=lexical,
            weight=weight,
            reading=read_question(text, statistics),
            floor=floor,
            max_results=max_results,
        )

    async def _find(self, bound: BoundSpace, asked: _Question, where: Where) -> _Found:
        """Search, and drop what is not relevant; the best are kept whatever they score, to be told apart by reading."""
        hits = await self.stores.index.search(bound.space, asked.dense, asked.lexical, where, limit=CANDIDATES)
        scored = sorted((_scored(hit, asked.weight) for hit in hits), key=lambda each: (-each.fused, each.point_id))
        relevant = sum(relevance(each.fused, bound.calibration) >= asked.floor for each in scored)
        shown = max(_MOST_SHOWN, 4 * asked.max_results)
        rest = _best_of_the_rest(hits, asked.weight)
        all_seen = rest is None or relevance(rest, bound.calibration) < asked.floor
        fetched = min(shown, max(relevant, MOST_CANDIDATES))
        return _Found(nearest=tuple(scored[:fetched]), complete=all_seen and relevant <= shown)

    async def _judge(self, bound: BoundSpace, asked: _Question, found: _Found, where: Where) -> Judged:
        """Fetch the words of what was found, in one hop, and read them."""
        points = [each.point_id for each in found.nearest]
        evidence = await self.stores.patterns.evidence(points, now=where.live_at) if points else {}
        return judge(found.nearest, evidence, asked.reading, bound, self.stores.workspace)


def _scored(hit: Hit, weight: float) -> Scored:
    return Scored(
        point_id=hit.point_id,
        cosine=hit.cosine,
        coverage=coverage(hit.lexical, weight),
        fused=fuse(hit.cosine, hit.lexical, weight),
    )


def _relevant(judged: Judged, floor: float) -> list[Match]:
    return [match for match in judged.matches if match.relevance >= floor]


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


def to_pattern(evidence: Evidence, likeness: float = 1.0) -> Pattern:
    """Return a pattern as it is shown, in the words of its most trusted evidence."""
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
