"""Retrieval of the matches for a question: one embedding, one round trip to the index, two to Postgres."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from hardwon.context.deadline import Patience
from hardwon.errors import EmbedderUnavailable, IndexUnavailable, reason_of
from hardwon.event_log import get_logger
from knowledge.memory.index.embedding_space import SpaceInUse, is_retired, use_space
from knowledge.memory.query.arm_counts import SearchResult, count_arms
from knowledge.memory.query.judgement import JudgedMatches, ScoredPoint, count_retellings_once, judge, to_candidate
from knowledge.memory.query.known import NO_ANSWER, IndexLate, Recall, find_in_time, find_known, is_outage
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import (
    situation_key,
)
from knowledge.memory.rules.conditions import NOTHING_KNOWN, Facts, may_apply
from knowledge.memory.rules.facets import MIN_FITTING, fit, fits
from knowledge.memory.rules.ranking import Match, source_quota
from knowledge.models import (
    BoundSpace,
    EmbeddingSpace,
    Evidence,
    Hit,
    PointFilter,
    PointId,
    SearchStart,
    SparseVector,
    TermStatistics,
    TrialRecord,
    Vector,
)
from knowledge.ports import Embedder, Stores
from knowledge.retrieval.calibration import relevance
from knowledge.retrieval.confidence import (
    MAX_COSINE_GAP,
    find_crowd,
    leave_out,
)
from knowledge.retrieval.cosine_scale import rescale_cosine, stretch_factor
from knowledge.retrieval.features import MAX_CANDIDATES, QueryTerms, read_query
from knowledge.retrieval.fusion import coverage, fuse
from knowledge.runtime.instrumentation import Span, step
from knowledge.text.bm25 import query_vector, term_counts
from knowledge.text.error_summary import error_codes, is_different_error

log = get_logger(__name__)

CANDIDATES = 100
"""Points requested from each half of the search (docs/evaluation.md: 100 loses nothing against all)."""
_MAX_OF_KEY = 4
"""Situations of one agent's key that are compared with a question while trusted ones are near; ours."""
_MAX_FETCHED = 32
"""Best points whose texts are fetched; more where more results are requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A text to find situations for. `where`: preferred fields. `floor`: the minimum relevance, 0..1.

    `asked_by`: the type of the agent whose experience with hints counts. `situation`: the whole text, where only the
    gist of it is searched for; the text itself by default. Patterns known not to apply, by the `facts`, are excluded;
    with `unasked` also those of another error. Patterns of the project `project_id` rank higher. `embed_by`: the time
    of the event loop after which only words are compared. `error_key` computes that of its error.
    With `patience` a question is answered without the index where that is down or slow; another raises where nothing is
    known word for word.
    """

    text: str
    where: PointFilter
    floor: float
    max_results: int
    situation: str | None = None
    asked_by: str | None = None
    project_id: str | None = None
    facts: Facts = NOTHING_KNOWN
    unasked: bool = False
    embed_by: float | None = None
    error_key: Callable[[], str] = str
    patience: Patience | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embedded:
    """The vector of a question, None where it was not embedded in time; `failed`: the embedder did not answer."""

    vector: Vector | None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedQuestion:
    """A question encoded for both halves of the search. `weight`: the sum of the lexical weights."""

    embedded: _Embedded
    lexical: SparseVector
    weight: float
    reading: QueryTerms
    statistics: TermStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prefetched:
    """A question being embedded by the model of this process, and the space of its vector."""

    space: EmbeddingSpace
    vector: asyncio.Task[Vector]


FusedHit: TypeAlias = tuple[bool, float, Hit]
"""A hit of the search: that it has another text than the question, the fused score, negative, and the hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nearest:
    """The best points of a search, highest fused score first.

    `spare`: number of points at the end that are only read where earlier ones do not apply. `complete`: nothing else in
    the workspace is relevant, so that a search with more conditions finds nothing more. `beyond`: the points after
    these, read only where an agent's key crowds the others out. `in_index`: the index returned any. `failure`: why
    it was not used.
    """

    points: tuple[ScoredPoint, ...]
    spare: int
    complete: bool
    in_index: bool
    beyond: tuple[FusedHit, ...] = ()
    failure: IndexUnavailable | None = None


async def search(stores: Stores, question: Question) -> SearchResult:
    """Return the matches for a question, whatever their fields, each with the fit of these.

    Repeats the search where another model came into use meanwhile and the index of the one before was dropped.
    """
    async with _prefetch_embedding(stores, question) as prefetched:
        counts = term_counts(question.text)
        text = embedding_text.normalise(question.situation or question.text)
        while True:
            start = await _begin(stores, question, list(counts), text)
            if start is None:
                return SearchResult()
            in_use = await use_space(stores, start.bound)
            try:
                encoded = await _encode(in_use, question, counts, start.statistics, prefetched)
                return await _search(stores, start, question, text, encoded)
            except IndexUnavailable:
                if not await is_retired(stores, in_use.bound):
                    raise


@step("statistics")
async def _begin(stores: Stores, question: Question, terms: Sequence[int], text: str) -> SearchStart | None:
    return await stores.records.begin_search(
        terms, situation_key(text), unasked=question.unasked, agent_type=question.asked_by
    )


@asynccontextmanager
async def _prefetch_embedding(stores: Stores, question: Question) -> AsyncIterator[_Prefetched | None]:
    """Embed a question while Postgres is asked for the model in use; only in process, where a wasted call is free."""
    if stores.embedder.efficient_batch_size is None or _is_too_late(question):
        yield None
        return
    vector = asyncio.create_task(_embed(stores.embedder, question.text))
    await asyncio.sleep(0)  # it begins in its thread, before the text is tokenised here
    try:
        yield _Prefetched(space=await stores.embedder.space(), vector=vector)
    finally:
        if not vector.done() or vector.cancelled() or vector.exception():
            vector.cancel()
            await asyncio.gather(vector, return_exceptions=True)


async def _search(
    stores: Stores, start: SearchStart, question: Question, text: str, encoded: _EncodedQuestion
) -> SearchResult:
    """Search without conditions on fields first.

    Where too few matches fit and others might, search once more with the conditions. `text`: the situation, normalised.
    """
    where, exact = question.where, start.exact
    bound = await _find_scale(stores, start.bound)
    anywhere = replace(where, agent_type=None, task_type=None, technology=None, gate_type=None)
    nearest = await _find_or_recall(
        stores, bound, encoded, question, anywhere, text=text, exact=set(exact) - where.without
    )
    failure = nearest.failure
    judged, records = await _judge(stores, bound, encoded, nearest, question)
    matches = _with_fit(judged.matches, question)
    relevant = [match for match in matches if match.relevance >= question.floor]
    if anywhere != where and failure is None and not nearest.complete and not has_enough(relevant, question):
        narrow, failure = await _find_narrow(stores, bound, encoded, question)
        if narrow is not None:
            pattern_ids = {match.evidence.pattern_id for match in matches}
            more, more_records = await _judge(stores, bound, encoded, narrow, question)
            matches += [
                match
                for match in _with_fit(more.matches, question)
                if match.relevance >= question.floor and match.evidence.pattern_id not in pattern_ids
            ]
            records = [*dict.fromkeys([*records, *more_records])]
    with Span("ranking"):
        return replace(
            count_arms(matches, records, judged, text, known=exact, workspace=stores.workspace),
            experience=start.experience,
            words_only=encoded.embedded.vector is None,
            embedder_failed=encoded.embedded.failed,
            index_error=None if failure is None else str(failure),
            index_failed=is_outage(failure, remote=stores.index_is_remote),
        )


async def _find_or_recall(
    stores: Stores,
    bound: BoundSpace,
    encoded: _EncodedQuestion,
    question: Question,
    where: PointFilter,
    *,
    text: str,
    exact: Collection[PointId],
) -> _Nearest:
    """Search; where the index is down, or takes too long, use what Postgres knows word for word.

    Raises IndexUnavailable where that is nothing, unless the question has a deadline.
    """

    async def find() -> _Nearest:
        nearest = await _find(stores, bound, encoded, question, where, exact=exact)
        if not nearest.in_index:
            await _refuse_lost(stores, bound)
        return nearest

    recall = Recall(
        partial(
            find_known,
            stores,
            bound,
            text=text,
            error_key=question.error_key,
            dense=encoded.embedded.vector,
            lexical=encoded.lexical,
            where=where,
        )
    )
    try:
        return await find_in_time(find, recall, question.patience)
    except IndexUnavailable as error:
        if await is_retired(stores, bound):
            raise
        known = await recall.hits()
        if not known and question.patience is None:
            raise
        log.warning("index_not_used", reason=reason_of(error), known=len(known))
        found = _rank_hits(known, bound, encoded, question, exact if known else ())
        return replace(found, failure=error)


async def _find_narrow(
    stores: Stores, bound: BoundSpace, encoded: _EncodedQuestion, question: Question
) -> tuple[_Nearest | None, IndexUnavailable | None]:
    """Search with the conditions; None and the reason where there is no time left, or the index went down meanwhile."""
    try:
        async with asyncio.timeout_at(None if question.patience is None else question.patience.index_by):
            return await _find(stores, bound, encoded, question, question.where), None
    except TimeoutError:
        return None, IndexLate(NO_ANSWER)
    except IndexUnavailable as error:
        if question.patience is None or await is_retired(stores, bound):
            raise
        return None, error


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


async def _encode(
    in_use: SpaceInUse,
    question: Question,
    counts: Mapping[int, int],
    statistics: TermStatistics,
    prefetched: _Prefetched | None,
) -> _EncodedQuestion:
    text = question.text
    is_usable = prefetched is not None and prefetched.space.fingerprint == in_use.bound.space.fingerprint
    remote = in_use.embedder.efficient_batch_size is None

    async def embed() -> Vector:
        return await (prefetched.vector if prefetched and is_usable else _embed(in_use.embedder, text))

    lexical, weight = query_vector(counts, statistics)
    reading = read_query(text, statistics)
    embedded = await _embed_in_time(question, embed, remote=remote)
    return _EncodedQuestion(embedded=embedded, lexical=lexical, weight=weight, reading=reading, statistics=statistics)


async def _embed_in_time(question: Question, embed: Callable[[], Awaitable[Vector]], *, remote: bool) -> _Embedded:
    """Embed a question; give up where it has a deadline and is not embedded in time, or not at all.

    A model of this process that is late has too little of the machine; a `remote` one does not answer.
    """
    if question.embed_by is None:
        return _Embedded(vector=await embed())
    if _is_too_late(question):
        return _Embedded(vector=None)
    try:
        async with asyncio.timeout_at(question.embed_by):
            return _Embedded(vector=await embed())
    except TimeoutError:
        log.info("question_not_embedded", reason="late")
        return _Embedded(vector=None, failed=remote)
    except EmbedderUnavailable as error:
        log.warning("question_not_embedded", reason=reason_of(error))
        return _Embedded(vector=None, failed=True)


def _is_too_late(question: Question) -> bool:
    return question.embed_by is not None and question.embed_by <= asyncio.get_running_loop().time()


@step("embedding")
async def _embed(embedder: Embedder, text: str) -> Vector:
    dense: Vector = (await embedder.embed([text], "query")).vectors[0]
    return dense


async def _find(
    stores: Stores,
    bound: BoundSpace,
    encoded: _EncodedQuestion,
    question: Question,
    where: PointFilter,
    *,
    exact: Collection[PointId] = (),
) -> _Nearest:
    """Search and keep the relevant points; the best are kept at any score, as reading their texts decides.

    `exact`: points with the question's own text, which come first even where others crowd them out of the search.
    """
    with Span("index"):
        hits = await stores.index.search(bound.space, encoded.embedded.vector, encoded.lexical, where, limit=CANDIDATES)
    return _rank_hits(hits, bound, encoded, question, exact)


def _rank_hits(
    hits: Sequence[Hit],
    bound: BoundSpace,
    encoded: _EncodedQuestion,
    question: Question,
    exact: Collection[PointId],
) -> _Nearest:
    """Return the points of hits, highest fused score first; `exact` as in `_find`."""
    if encoded.embedded.vector is None:
        hits = [replace(hit, cosine=coverage(hit.lexical, encoded.weight)) for hit in hits]
    factor = stretch_factor(bound) if encoded.embedded.vector is not None else None
    if factor not in {None, 1.0}:
        hits = [replace(hit, cosine=rescale_cosine(hit.cosine, factor)) for hit in hits]
    in_index, max_remaining = bool(hits), _max_remaining_score(hits, encoded.weight)
    all_seen = max_remaining is None or relevance(max_remaining, bound.calibration) < question.floor
    if exact:
        unseen = set(exact) - {hit.point_id for hit in hits}
        hits = [*hits, *(Hit(point_id=point, cosine=1.0, lexical=encoded.weight) for point in unseen)]
    fused: list[FusedHit] = [
        (bool(exact) and hit.point_id not in exact, -fuse(hit.cosine, hit.lexical, encoded.weight), hit) for hit in hits
    ]
    fused.sort(key=_sort_key)
    relevant = sum(relevance(-score, bound.calibration) >= question.floor for _, score, _ in fused)
    shown = max(_MAX_FETCHED, 4 * question.max_results)
    fetched = min(shown, max(relevant, MAX_CANDIDATES))
    return _Nearest(
        points=tuple(_to_scored(each, encoded.weight) for each in fused[:shown]),
        spare=max(0, min(shown, len(fused)) - fetched),
        complete=all_seen and relevant <= shown,
        in_index=in_index,
        beyond=tuple(fused[shown:]),
    )


def _sort_key(fused: FusedHit) -> tuple[bool, float, int]:
    other, score, hit = fused
    return other, score, hit.point_id.int  # comparing UUIDs takes ten times as long


async def _judge(
    stores: Stores, bound: BoundSpace, encoded: _EncodedQuestion, nearest: _Nearest, question: Question
) -> tuple[JudgedMatches, list[TrialRecord]]:
    """Fetch the patterns of the points and the records near them, and judge those that may apply.

    Others are not candidates: they would distort the confidence in the rest.
    """
    points = [each.point_id for each in nearest.points]
    if not points:
        return judge((), {}, encoded.reading, bound, stores.workspace), []
    read = len(points) - nearest.spare
    may_help = _make_filter(question)
    with Span("rows"):
        evidence_by_point, records = await stores.patterns.evidence_with_records(
            points[:read], points[read:], now=question.where.live_at, project_id=question.project_id
        )
        applying = {point: each for point, each in evidence_by_point.items() if may_help(each)}
        if len(applying) < len(evidence_by_point) and nearest.spare:
            more = await _evidence(stores, points[read:], question)
            spare = [point for point in points[read:] if point in more and may_help(more[point])]
            applying |= {point: more[point] for point in spare[: len(evidence_by_point) - len(applying)]}
    scored, reading, statistics = nearest.points, encoded.reading, encoded.statistics
    limit = max(_MAX_OF_KEY, source_quota(question.max_results))
    crowd = _find_crowd(scored, applying, limit)
    if crowd:
        unread = tuple(_to_scored(each, encoded.weight) for each in nearest.beyond)
        beyond = [each.point_id for each in unread]
        rest = [point for point in points if point not in evidence_by_point] + beyond
        more, more_records = await asyncio.gather(_evidence(stores, rest, question), stores.records.near(beyond))
        records = [*dict.fromkeys([*records, *more_records])]
        applying |= {point: each for point, each in more.items() if may_help(each)}
        crowd = _find_crowd([*scored, *unread], applying, limit)
        candidates = [to_candidate(each, applying[each.point_id], stores.workspace) for each in crowd]
        statistics = leave_out(statistics, [each.terms.ids for each in candidates])
        reading = read_query(question.text, statistics)
        scored = tuple(each for each in [*scored, *unread] if each not in crowd)
    with Span("ranking"):
        recount = partial(count_retellings_once, question.text, statistics)
        judged = judge(scored, applying, reading, bound, stores.workspace, recount=recount)
        return replace(judged, crowd=_count_near(crowd, scored, applying)), records


def _find_crowd(points: Sequence[ScoredPoint], applying: Mapping[PointId, Evidence], limit: int) -> list[ScoredPoint]:
    """Return the points that agents' keys reported beyond the `limit` nearest of each key, where others are trusted."""
    known = [each for each in points if each.point_id in applying]
    sources = [applying[each.point_id].words.source for each in known]
    return [known[place] for place in find_crowd(sources, limit=limit)]


def _count_near(
    crowd: Sequence[ScoredPoint], scored: Sequence[ScoredPoint], applying: Mapping[PointId, Evidence]
) -> Mapping[str, int]:
    """Return the number of left out points that are about as near to the question as the best, by key."""
    best = max((each.cosine for each in scored), default=0.0)
    near = [each for each in crowd if best - each.cosine <= MAX_COSINE_GAP]
    return Counter(applying[each.point_id].words.source or "" for each in near)


async def _evidence(stores: Stores, points: Sequence[PointId], question: Question) -> Mapping[PointId, Evidence]:
    return await stores.patterns.evidence(points, now=question.where.live_at, project_id=question.project_id)


def _with_fit(matches: Sequence[Match], question: Question) -> list[Match]:
    wanted = question.where
    if not (question.project_id or wanted.agent_type or wanted.task_type or wanted.technology or wanted.gate_type):
        return list(matches)
    return [replace(match, fit=fit(match.evidence, wanted), fits=fits(match.evidence, wanted)) for match in matches]


def _make_filter(question: Question) -> Callable[[Evidence], bool]:
    """Return a predicate for patterns that may help with a question."""
    codes = error_codes(question.text) if question.unasked else {}

    def may_help(evidence: Evidence) -> bool:
        wanted = question.where.entry_types
        if not _may_apply(evidence, question.facts) or (wanted is not None and evidence.entry_type not in wanted):
            return False
        return not codes or not is_different_error(codes, error_codes(embedding_text.situation(evidence.words)))

    return may_help


def _may_apply(evidence: Evidence, facts: Facts) -> bool:
    learned_in = {each.technology for each in evidence.circumstances if each.technology}
    return may_apply(evidence.conditions, facts, evidence.whens, learned_in)


def _to_scored(fused: FusedHit, weight: float) -> ScoredPoint:
    _, score, hit = fused
    return ScoredPoint(point_id=hit.point_id, cosine=hit.cosine, coverage=coverage(hit.lexical, weight), fused=-score)


def _max_remaining_score(hits: Sequence[Hit], weight: float) -> float | None:
    """Return an upper bound of the score of points that a search did not return, None if it returned all.

    Such a point is in neither list of the union, so it scores below the last of each list.
    """
    if len(hits) < CANDIDATES:
        return None
    cosines = sorted((hit.cosine for hit in hits), reverse=True)
    lexical = sorted((hit.lexical for hit in hits), reverse=True)
    return fuse(cosines[CANDIDATES - 1], lexical[CANDIDATES - 1], weight)
