"""Retrieval of the matches for a question: one embedding, one round trip to the index, one to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from hardwon.errors import IndexUnavailable
from knowledge.memory.index.embedding_space import SpaceInUse, is_retired, space_in_use
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.conditions import NOTHING_KNOWN, Facts, may_apply
from knowledge.memory.rules.facets import MIN_FITTING, fit, fits
from knowledge.memory.rules.ranking import Match
from knowledge.models import (
    BoundSpace,
    EmbeddingSpace,
    Evidence,
    Hit,
    PointFilter,
    PointId,
    SparseVector,
    TermStatistics,
    Vector,
    View,
    point_id_of,
)
from knowledge.ports import Embedder, Stores
from knowledge.retrieval import confidence as likeness
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.calibration import relevance
from knowledge.retrieval.cosine_scale import rescale_cosine, stretch_factor
from knowledge.retrieval.features import MAX_CANDIDATES, Candidate, QueryTerms, features, read_query
from knowledge.retrieval.fusion import coverage, fuse
from knowledge.runtime.instrumentation import Span, step
from knowledge.text.bm25 import query_vector, term_counts
from knowledge.text.error_summary import error_codes, is_different_error


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPoint:
    """A point with its cosine on the bundled model's scale, its lexical coverage, and the fused score."""

    point_id: PointId
    cosine: float
    coverage: float
    fused: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMatches:
    """The live patterns among the points, likeliest first.

    `confidence`: that one of them is right, 0..1. `speak`: False where that is too low to inject any unasked. Where
    the scale of the model's cosines is unknown, or with few candidates, only the relevance floor decides.
    """

    matches: tuple[Match, ...]
    confidence: float
    speak: bool


def judge(
    points: Sequence[ScoredPoint],
    evidence: Mapping[PointId, Evidence],
    question: QueryTerms,
    bound: BoundSpace,
    workspace: str,
) -> JudgedMatches:
    """Compare the best points, highest fused score first, with the question and sort them."""
    alive = [each for each in points if each.point_id in evidence]
    if not alive:
        return JudgedMatches(matches=(), confidence=0.0, speak=False)
    read, rest = alive[:MAX_CANDIDATES], alive[MAX_CANDIDATES:]
    fused = [each.fused for each in read]
    scores = fused
    confidence, speak = relevance(fused[0], bound.calibration), True
    if stretch_factor(bound) is not None:
        features_of_read = features(
            question, [_candidate(each, evidence[each.point_id], workspace) for each in read], bound.mean_terms
        )
        likenesses = [likeness.likeness(each, likeness.BUNDLED_LIKENESS) for each in features_of_read]
        scores = likeness.to_fused_scale(likenesses, fused)
        if len(read) >= silence.MIN_CANDIDATES:
            confidence = silence.confidence(
                silence.signals(fused, likenesses, features_of_read), silence.BUNDLED_CONFIDENCE
            )
            speak = confidence >= silence.BUNDLED_CONFIDENCE.level
    lowest = min(scores)  # points that were not read come last
    scores = [*scores, *(min(each.fused, lowest) for each in rest)]
    matches = [
        Match(evidence=evidence[each.point_id], relevance=relevance(score, bound.calibration), score=score)
        for each, score in zip(alive, scores, strict=True)
    ]
    return JudgedMatches(
        matches=tuple(sorted(matches, key=lambda match: -match.score)), confidence=confidence, speak=speak
    )


def _candidate(point: ScoredPoint, evidence: Evidence, workspace: str) -> Candidate:
    """Return the text that a point represents, as far as its pattern's words tell, with its scores."""
    views = embedding_text.views(evidence.words)
    text = views[View.SITUATION]
    task = views.get(View.TASK)
    if task and point.point_id == point_id_of(
        workspace, evidence.pattern_id, View.TASK, embedding_text.normalise(task)
    ):
        text = task
    return Candidate(text=text, cosine=point.cosine, coverage=point.coverage)


CANDIDATES = 100
"""Points requested from each half of the search (docs/evaluation.md: 100 loses nothing against all)."""
_MAX_FETCHED = 32
"""Best points whose texts are fetched; more where more results are requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A text to find situations for. `where`: preferred fields. `floor`: the minimum relevance, 0..1.

    Patterns known not to apply, by the `facts`, are excluded; with `unasked` also those of another error. Patterns of
    the project `project_id` rank higher.
    """

    text: str
    where: PointFilter
    floor: float
    max_results: int
    project_id: str | None = None
    facts: Facts = NOTHING_KNOWN
    unasked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The relevant matches, the confidence that one is right, and whether to inject it unasked."""

    matches: tuple[Match, ...]
    confidence: float
    speak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedQuestion:
    """A question encoded for both halves of the search. `weight`: the sum of the lexical weights."""

    dense: Vector
    lexical: SparseVector
    weight: float
    reading: QueryTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prefetched:
    """A question being embedded by the model of this process, and the space of its vector."""

    space: EmbeddingSpace
    vector: asyncio.Task[Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nearest:
    """The best points of a search, highest fused score first.

    `spare`: number of points at the end that are only read where earlier ones do not apply. `complete`: nothing else in
    the workspace is relevant, so that a search with more conditions finds nothing more.
    """

    points: tuple[ScoredPoint, ...]
    spare: int
    complete: bool


async def search(stores: Stores, question: Question) -> SearchResult:
    """Return the relevant matches for a question, whatever their fields, each with the fit of these.

    Repeats the search where another model came into use meanwhile and the index of the one before was dropped.
    """
    async with _prefetch_embedding(stores, question.text) as prefetched:
        while True:
            in_use = await space_in_use(stores)
            if in_use is None:
                return SearchResult(matches=(), confidence=0.0, speak=False)
            try:
                return await _search(stores, in_use, question, prefetched)
            except IndexUnavailable:
                if not await is_retired(stores, in_use.bound):
                    raise


@asynccontextmanager
async def _prefetch_embedding(stores: Stores, text: str) -> AsyncIterator[_Prefetched | None]:
    """Embed a question while Postgres is asked for the model in use; only in process, where a wasted call is free."""
    if stores.embedder.efficient_batch_size is None:
        yield None
        return
    vector = asyncio.create_task(_embed(stores.embedder, text))
    try:
        yield _Prefetched(space=await stores.embedder.space(), vector=vector)
    finally:
        vector.cancel()
        await asyncio.gather(vector, return_exceptions=True)


async def _search(stores: Stores, in_use: SpaceInUse, question: Question, ahead: _Prefetched | None) -> SearchResult:
    """Search without conditions on fields first.

    Where too few matches fit and others might, search once more with the conditions.
    """
    where = question.where
    encoded = await _encode(stores, in_use, question.text, ahead)
    bound = await _find_scale(stores, in_use.bound)
    anywhere = replace(where, agent_type=None, task_type=None, technology=None, gate_type=None)
    nearest = await _find(stores, bound, encoded, question, anywhere)
    if not nearest.points:
        await _refuse_lost(stores, bound)
    judged_matches = await _judge(stores, bound, encoded, nearest, question)
    matches = _relevant(judged_matches, question)
    if anywhere != where and not nearest.complete and not has_enough(matches, question):
        narrow = await _find(stores, bound, encoded, question, where)
        pattern_ids = {match.evidence.pattern_id for match in matches}
        more = _relevant(await _judge(stores, bound, encoded, narrow, question), question)
        matches += [match for match in more if match.evidence.pattern_id not in pattern_ids]
    return SearchResult(matches=tuple(matches), confidence=judged_matches.confidence, speak=judged_matches.speak)


async def _find_scale(stores: Stores, bound: BoundSpace) -> BoundSpace:
    """Return the space with the scale of its model's cosines.

    For an imported store the scale is measured with the first question.
    """
    if stretch_factor(bound) is not None:
        return bound
    current = await stores.spaces.bound()
    return bound if current is None or current.space.fingerprint != bound.space.fingerprint else current


async def _refuse_lost(stores: Stores, bound: BoundSpace) -> None:
    """Raise IndexUnavailable where the index lost all points: otherwise nothing would seem to be known."""
    if not await stores.points.has_any(stores.clock.now()):
        return
    if (
        await stores.index.count(bound.space, stores.workspace) == 0
    ):  # second, since points are indexed before they are marked
        raise IndexUnavailable(
            "The index holds none of the stored patterns: it was lost, or is being filled. The next checkpoint or "
            "prune fills it; `hardwon rebuild` does so at once."
        )


def has_enough(matches: Sequence[Match], question: Question) -> bool:
    """Return whether enough patterns fit the requested fields."""
    fitting = {match.evidence.pattern_id for match in matches if match.fits}
    return len(fitting) >= min(MIN_FITTING, question.max_results)


async def _encode(stores: Stores, in_use: SpaceInUse, text: str, prefetched: _Prefetched | None) -> _EncodedQuestion:
    counts = term_counts(text)
    is_usable = prefetched is not None and prefetched.space.fingerprint == in_use.bound.space.fingerprint
    embedding = prefetched.vector if prefetched and is_usable else _embed(in_use.embedder, text)
    dense, statistics = await asyncio.gather(embedding, _statistics(stores, list(counts)))
    lexical, weight = query_vector(counts, statistics)
    return _EncodedQuestion(dense=dense, lexical=lexical, weight=weight, reading=read_query(text, statistics))


@step("embedding")
async def _embed(embedder: Embedder, text: str) -> Vector:
    dense: Vector = (await embedder.embed([text], "query")).vectors[0]
    return dense


@step("statistics")
async def _statistics(stores: Stores, terms: Sequence[int]) -> TermStatistics:
    return await stores.spaces.statistics(terms)


async def _find(
    stores: Stores, bound: BoundSpace, encoded: _EncodedQuestion, question: Question, where: PointFilter
) -> _Nearest:
    """Search and keep the relevant points; the best are kept at any score, as reading their texts decides."""
    with Span("index"):
        hits = await stores.index.search(bound.space, encoded.dense, encoded.lexical, where, limit=CANDIDATES)
    factor = stretch_factor(bound)
    if factor not in {None, 1.0}:
        hits = [replace(hit, cosine=rescale_cosine(hit.cosine, factor)) for hit in hits]
    fused = [(-fuse(hit.cosine, hit.lexical, encoded.weight), hit.point_id, hit) for hit in hits]
    fused.sort()
    relevant = sum(relevance(-score, bound.calibration) >= question.floor for score, _, _ in fused)
    shown = max(_MAX_FETCHED, 4 * question.max_results)
    max_remaining = _max_remaining_score(hits, encoded.weight)
    all_seen = max_remaining is None or relevance(max_remaining, bound.calibration) < question.floor
    fetched = min(shown, max(relevant, MAX_CANDIDATES))
    points = tuple(_to_scored(hit, -score, encoded.weight) for score, _, hit in fused[:shown])
    return _Nearest(points=points, spare=max(0, len(points) - fetched), complete=all_seen and relevant <= shown)


async def _judge(
    stores: Stores, bound: BoundSpace, encoded: _EncodedQuestion, nearest: _Nearest, question: Question
) -> JudgedMatches:
    """Fetch the patterns of the points in one round trip, and judge those that may apply.

    Others are not candidates: they would distort the confidence in the rest.
    """
    points = [each.point_id for each in nearest.points]
    if not points:
        return judge((), {}, encoded.reading, bound, stores.workspace)
    read = len(points) - nearest.spare
    may_help = _make_filter(question)
    with Span("rows"):
        evidence_by_point = await _evidence(stores, points[:read], question)
        applying = {point: each for point, each in evidence_by_point.items() if may_help(each)}
        if len(applying) < len(evidence_by_point) and nearest.spare:
            more = await _evidence(stores, points[read:], question)
            spare = [point for point in points[read:] if point in more and may_help(more[point])]
            applying |= {point: more[point] for point in spare[: len(evidence_by_point) - len(applying)]}
    with Span("ranking"):
        return judge(nearest.points, applying, encoded.reading, bound, stores.workspace)


async def _evidence(stores: Stores, points: Sequence[PointId], question: Question) -> Mapping[PointId, Evidence]:
    return await stores.patterns.evidence(points, now=question.where.live_at, project_id=question.project_id)


def _relevant(judged: JudgedMatches, question: Question) -> list[Match]:
    return [
        replace(match, fit=fit(match.evidence, question.where), fits=fits(match.evidence, question.where))
        for match in judged.matches
        if match.relevance >= question.floor
    ]


def _make_filter(question: Question) -> Callable[[Evidence], bool]:
    """Return a predicate for patterns that may help with a question."""
    codes = error_codes(question.text) if question.unasked else {}

    def may_help(evidence: Evidence) -> bool:
        if not _may_apply(evidence, question.facts):
            return False
        return not codes or not is_different_error(codes, error_codes(embedding_text.situation(evidence.words)))

    return may_help


def _may_apply(evidence: Evidence, facts: Facts) -> bool:
    learned_in = {each.technology for each in evidence.circumstances if each.technology}
    return may_apply(evidence.conditions, facts, evidence.whens, learned_in)


def _to_scored(hit: Hit, fused: float, weight: float) -> ScoredPoint:
    return ScoredPoint(point_id=hit.point_id, cosine=hit.cosine, coverage=coverage(hit.lexical, weight), fused=fused)


def _max_remaining_score(hits: Sequence[Hit], weight: float) -> float | None:
    """Return an upper bound of the score of points that a search did not return, None if it returned all.

    Such a point is in neither list of the union, so it scores below the last of each list.
    """
    if len(hits) < CANDIDATES:
        return None
    cosines = sorted((hit.cosine for hit in hits), reverse=True)
    lexical = sorted((hit.lexical for hit in hits), reverse=True)
    return fuse(cosines[CANDIDATES - 1], lexical[CANDIDATES - 1], weight)
