"""Retrieval of the matches for a question: one embedding, one round trip to the index, one to Postgres."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from hardwon.errors import IndexUnavailable
from knowledge.memory.index.embedding_space import SpaceInUse, is_retired, space_in_use
from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.arms import (
    EXACT_LEAD,
    Counts,
    arm_key,
    count,
    kernel,
    order_score,
    situation_key,
)
from knowledge.memory.rules.conditions import NOTHING_KNOWN, Facts, may_apply
from knowledge.memory.rules.facets import MIN_FITTING, fit, fits
from knowledge.memory.rules.ranking import Match, counts_of_pattern, source_quota
from knowledge.models import (
    BoundSpace,
    EmbeddingSpace,
    Evidence,
    Experience,
    Hit,
    PatternId,
    PointFilter,
    PointId,
    SparseVector,
    TermStatistics,
    TrialRecord,
    Vector,
    View,
    point_id_of,
)
from knowledge.ports import Embedder, Stores
from knowledge.retrieval import confidence as likeness
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.calibration import relevance
from knowledge.retrieval.confidence import (
    MAX_COSINE_GAP,
    MIN_RETELLINGS,
    count_once,
    find_crowd,
    find_retellings,
    leave_out,
)
from knowledge.retrieval.cosine_scale import rescale_cosine, stretch_factor
from knowledge.retrieval.features import MAX_CANDIDATES, Candidate, Features, QueryTerms, features, read_query
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

    `confidence`: that one of them is right, 0..1; `level`: from which to inject any unasked. It is 0 where only the
    relevance floor decides: where the scale of the model's cosines is unknown, or with few candidates.
    `crowd`: situations of agents' keys near the question that were left out, by key, as they were too many.
    """

    matches: tuple[Match, ...]
    confidence: float
    level: float
    crowd: Mapping[str, int] = field(default_factory=dict)


def judge(
    points: Sequence[ScoredPoint],
    evidence: Mapping[PointId, Evidence],
    question: QueryTerms,
    bound: BoundSpace,
    workspace: str,
    *,
    recount: Callable[[Sequence[Candidate], int], tuple[QueryTerms, list[int]] | None] = lambda *_: None,
) -> JudgedMatches:
    """Compare the best points, highest fused score first, with the question and sort them.

    `recount`: for all candidates and the place of the best one, the terms of the question with the retellings of that
    one counted once, and the places of the candidates without them; None where there are few.
    """
    alive = [each for each in points if each.point_id in evidence]
    if not alive:
        return JudgedMatches(matches=(), confidence=0.0, level=1.0)
    read, rest = alive[:MAX_CANDIDATES], alive[MAX_CANDIDATES:]
    fused = [each.fused for each in read]
    scores, likenesses = fused, [likeness.SCALE * each for each in fused]
    confidence, level = relevance(fused[0], bound.calibration), 0.0
    if stretch_factor(bound) is not None:
        candidates = [_candidate(each, evidence[each.point_id], workspace) for each in read]
        features_of_read = features(question, candidates, bound.mean_terms)
        likenesses = [likeness.likeness(each, likeness.BUNDLED_LIKENESS) for each in features_of_read]
        scores = likeness.to_fused_scale(likenesses, fused)
        if len(read) >= silence.MIN_CANDIDATES:
            confidence = _confidence(fused, likenesses, features_of_read)
            every = [*candidates, *(_candidate(each, evidence[each.point_id], workspace) for each in rest)]
            if again := recount(every, likenesses.index(max(likenesses))):
                terms, places = again
                confidence = max(confidence, _confidence_of(terms, [every[at] for at in places], alive, places, bound))
            level = silence.BUNDLED_CONFIDENCE.level
    lowest = min(scores)  # points that were not read come last
    scores = [*scores, *(min(each.fused, lowest) for each in rest)]
    likenesses = [*likenesses, *(min(likenesses) for _ in rest)]
    matches = [
        Match(
            evidence=evidence[each.point_id],
            relevance=relevance(score, bound.calibration),
            score=score,
            point_id=each.point_id,
            likeness=nats,
            is_task_view=_is_task_view(each, evidence[each.point_id], workspace),
        )
        for each, score, nats in zip(alive, scores, likenesses, strict=True)
    ]
    return JudgedMatches(
        matches=tuple(sorted(matches, key=lambda match: -match.score)), confidence=confidence, level=level
    )


def _confidence(fused: Sequence[float], likenesses: Sequence[float], found: Sequence[Features]) -> float:
    return silence.confidence(silence.signals(fused, likenesses, found), silence.BUNDLED_CONFIDENCE)


def _confidence_of(
    question: QueryTerms,
    candidates: Sequence[Candidate],
    points: Sequence[ScoredPoint],
    places: Sequence[int],
    bound: BoundSpace,
) -> float:
    """Return the confidence by some of the candidates, those at `places`."""
    some = list(zip(candidates, places, strict=True))[:MAX_CANDIDATES]
    found = features(question, [candidate for candidate, _ in some], bound.mean_terms)
    likenesses = [likeness.likeness(each, likeness.BUNDLED_LIKENESS) for each in found]
    return _confidence([points[place].fused for _, place in some], likenesses, found)


def _candidate(point: ScoredPoint, evidence: Evidence, workspace: str) -> Candidate:
    """Return the text that a point represents, as far as its pattern's words tell, with its scores."""
    views = embedding_text.views(evidence.words)
    view = View.TASK if _is_task_view(point, evidence, workspace) else View.SITUATION
    return Candidate(text=views[view], cosine=point.cosine, coverage=point.coverage)


def _is_task_view(point: ScoredPoint, evidence: Evidence, workspace: str) -> bool:
    """Return whether a point stands for the task description of its pattern's words."""
    task = embedding_text.views(evidence.words).get(View.TASK)
    return task is not None and point.point_id == point_id_of(
        workspace, evidence.pattern_id, View.TASK, embedding_text.normalise(task)
    )


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
    with `unasked` also those of another error. Patterns of the project `project_id` rank higher.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The matches, of any relevance, with the counts of their arms, and the confidence that one of them is right.

    `level`: the confidence from which to inject any unasked. `situation`: the key of the question; `records`: those
    near it; `weights`: of the matches' situations at the question, 0..1; `exact`: those with the question's own text,
    the trusted ones where there are any.
    `experience`: the workspace's, of a question asked unasked. `crowd`: as in `JudgedMatches`.
    """

    matches: tuple[Match, ...] = ()
    confidence: float = 0.0
    level: float = 1.0
    situation: str = ""
    records: tuple[TrialRecord, ...] = ()
    weights: Mapping[PointId, float] = field(default_factory=dict)
    exact: frozenset[PointId] = frozenset()
    crowd: Mapping[str, int] = field(default_factory=dict)
    experience: Experience = field(default_factory=Experience)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedQuestion:
    """A question encoded for both halves of the search. `weight`: the sum of the lexical weights."""

    dense: Vector
    lexical: SparseVector
    weight: float
    reading: QueryTerms
    statistics: TermStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prefetched:
    """A question being embedded by the model of this process, and the space of its vector."""

    space: EmbeddingSpace
    vector: asyncio.Task[Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nearest:
    """The best points of a search, highest fused score first.

    `spare`: number of points at the end that are only read where earlier ones do not apply. `complete`: nothing else in
    the workspace is relevant, so that a search with more conditions finds nothing more. `beyond`: the points after
    these, read only where an agent's key crowds the others out. `in_index`: the index returned any.
    """

    points: tuple[ScoredPoint, ...]
    spare: int
    complete: bool
    in_index: bool
    beyond: tuple[ScoredPoint, ...] = ()


async def search(stores: Stores, question: Question) -> SearchResult:
    """Return the matches for a question, whatever their fields, each with the fit of these.

    Repeats the search where another model came into use meanwhile and the index of the one before was dropped.
    """
    async with _prefetch_embedding(stores, question.text) as prefetched:
        while True:
            in_use = await space_in_use(stores)
            if in_use is None:
                return SearchResult()
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
    text = embedding_text.normalise(question.situation or question.text)
    encoded, exact = await asyncio.gather(
        _encode(stores, in_use, question.text, ahead), stores.records.exact_points(situation_key(text))
    )
    bound = await _find_scale(stores, in_use.bound)
    anywhere = replace(where, agent_type=None, task_type=None, technology=None, gate_type=None)
    nearest = await _find(stores, bound, encoded, question, anywhere, exact=set(exact) - where.without)
    if not nearest.in_index:
        await _refuse_lost(stores, bound)
    judged, records, experience = await _judge(stores, bound, encoded, nearest, question)
    matches = _with_fit(judged.matches, question)
    relevant = [match for match in matches if match.relevance >= question.floor]
    if anywhere != where and not nearest.complete and not has_enough(relevant, question):
        narrow = await _find(stores, bound, encoded, question, where)
        pattern_ids = {match.evidence.pattern_id for match in matches}
        more, more_records, _ = await _judge(stores, bound, encoded, narrow, question)
        matches += [
            match
            for match in _with_fit(more.matches, question)
            if match.relevance >= question.floor and match.evidence.pattern_id not in pattern_ids
        ]
        records = [*dict.fromkeys([*records, *more_records])]
    with Span("ranking"):
        return replace(
            _count(matches, records, judged, text, known=exact, workspace=stores.workspace), experience=experience
        )


def _count(
    matches: Sequence[Match],
    records: Sequence[TrialRecord],
    judged: JudgedMatches,
    text: str,
    *,
    known: Collection[PointId],
    workspace: str,
) -> SearchResult:
    """Return the matches with the counts of their arms at the question, and their places.

    `text`: that of the question, normalised; `known`: points of trusted entries with it. Where something trusted has
    the very text, nothing that rests on agents' keys alone leads by having it, too, and the situation is known, however
    common its words became.
    """
    key = situation_key(text)
    likenesses = {match.point_id: match.likeness for match in matches}
    least = max(likenesses.values(), default=0.0) - EXACT_LEAD  # the same text is not far behind the best
    near = [match for match in matches if match.likeness >= least or match.point_id in known]
    same = [match for match in near if match.point_id in known or _is_exact(match, text, workspace)]
    trusted = frozenset(match.point_id for match in same if not match.is_low_trust)
    exact = trusted or frozenset(match.point_id for match in same)
    weights = kernel(likenesses, exact)
    lead = max(likenesses.values(), default=0.0) + EXACT_LEAD
    confidence = max(judged.confidence, judged.level) if trusted else judged.confidence
    _add_task_views(weights, matches, records)
    by_arm: dict[str, list[TrialRecord]] = {}
    for record in records:
        by_arm.setdefault(record.arm, []).append(record)
    counts: dict[str, Counts] = {}
    counted = []
    for match in matches:
        words = match.evidence.words
        arm = arm_key(embedding_text.resolution(words), embedding_text.situation(words))
        if arm not in counts:
            told = by_arm.get(arm)
            counts[arm] = count(told, weights, key) if told else counts_of_pattern(match.evidence)
        nats = lead if match.point_id in exact else match.likeness
        relevant = 1.0 if match.point_id in trusted else match.relevance
        order = order_score(nats, lead if exact else lead - EXACT_LEAD, counts[arm])
        counted.append(replace(match, arm=arm, counts=counts[arm], likeness=nats, relevance=relevant, order=order))
    return SearchResult(
        matches=tuple(counted),
        confidence=confidence,
        crowd=judged.crowd,
        level=judged.level,
        situation=key,
        records=tuple(records),
        weights=weights,
        exact=exact,
    )


def _is_exact(match: Match, text: str, workspace: str) -> bool:
    """Return whether a match stands for a normalised text itself."""
    pattern_id = match.evidence.pattern_id
    return any(match.point_id == point_id_of(workspace, pattern_id, view, text) for view in View)


def _add_task_views(weights: dict[PointId, float], matches: Sequence[Match], records: Sequence[TrialRecord]) -> None:
    """Weigh the records of entries that were found by their task description as that is weighed.

    Their records stand at the situation, which the search may not have found.
    """
    of_pattern: dict[PatternId, float] = {}
    for match in matches:
        if match.is_task_view:
            weight = weights[match.point_id]
            of_pattern[match.evidence.pattern_id] = max(weight, of_pattern.get(match.evidence.pattern_id, 0.0))
    for record in records:
        if record.pattern_id in of_pattern:
            weights.setdefault(record.point_id, of_pattern[record.pattern_id])


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
    reading = read_query(text, statistics)
    return _EncodedQuestion(dense=dense, lexical=lexical, weight=weight, reading=reading, statistics=statistics)


@step("embedding")
async def _embed(embedder: Embedder, text: str) -> Vector:
    dense: Vector = (await embedder.embed([text], "query")).vectors[0]
    return dense


@step("statistics")
async def _statistics(stores: Stores, terms: Sequence[int]) -> TermStatistics:
    return await stores.spaces.statistics(terms)


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
        hits = await stores.index.search(bound.space, encoded.dense, encoded.lexical, where, limit=CANDIDATES)
    factor = stretch_factor(bound)
    if factor not in {None, 1.0}:
        hits = [replace(hit, cosine=rescale_cosine(hit.cosine, factor)) for hit in hits]
    unseen = set(exact) - {hit.point_id for hit in hits}
    every = [*hits, *(Hit(point_id=point, cosine=1.0, lexical=encoded.weight) for point in unseen)]
    fused = [
        (hit.point_id not in exact, -fuse(hit.cosine, hit.lexical, encoded.weight), hit.point_id, hit) for hit in every
    ]
    fused.sort()
    relevant = sum(relevance(-score, bound.calibration) >= question.floor for _, score, _, _ in fused)
    shown = max(_MAX_FETCHED, 4 * question.max_results)
    max_remaining = _max_remaining_score(hits, encoded.weight)
    all_seen = max_remaining is None or relevance(max_remaining, bound.calibration) < question.floor
    fetched = min(shown, max(relevant, MAX_CANDIDATES))
    points = tuple(_to_scored(hit, -score, encoded.weight) for _, score, _, hit in fused)
    return _Nearest(
        points=points[:shown],
        spare=max(0, min(shown, len(points)) - fetched),
        complete=all_seen and relevant <= shown,
        in_index=bool(hits),
        beyond=points[shown:],
    )


async def _judge(
    stores: Stores, bound: BoundSpace, encoded: _EncodedQuestion, nearest: _Nearest, question: Question
) -> tuple[JudgedMatches, list[TrialRecord], Experience]:
    """Fetch the patterns of the points and the records near them, and judge those that may apply.

    Others are not candidates: they would distort the confidence in the rest.
    """
    points = [each.point_id for each in nearest.points]
    if not points:
        return judge((), {}, encoded.reading, bound, stores.workspace), [], Experience()
    read = len(points) - nearest.spare
    may_help = _make_filter(question)
    with Span("rows"):
        evidence_by_point, (records, experience) = await asyncio.gather(
            _evidence(stores, points[:read], question), _records(stores, points, question)
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
        beyond = [each.point_id for each in nearest.beyond]
        rest = [point for point in points if point not in evidence_by_point] + beyond
        more, more_records = await asyncio.gather(_evidence(stores, rest, question), stores.records.near(beyond))
        records = [*dict.fromkeys([*records, *more_records])]
        applying |= {point: each for point, each in more.items() if may_help(each)}
        crowd = _find_crowd([*scored, *nearest.beyond], applying, limit)
        texts = [_candidate(each, applying[each.point_id], stores.workspace).text for each in crowd]
        statistics = leave_out(statistics, [set(term_counts(text)) for text in texts])
        reading = read_query(question.text, statistics)
        scored = tuple(each for each in [*scored, *nearest.beyond] if each not in crowd)
    with Span("ranking"):
        recount = partial(_count_retellings_once, question.text, statistics)
        judged = judge(scored, applying, reading, bound, stores.workspace, recount=recount)
        return replace(judged, crowd=_count_near(crowd, scored, applying)), records, experience


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


async def _records(
    stores: Stores, points: Sequence[PointId], question: Question
) -> tuple[list[TrialRecord], Experience]:
    if question.unasked:
        return await stores.records.near_with_experience(points, question.asked_by)
    return await stores.records.near(points), Experience()


def _count_retellings_once(
    text: str, statistics: TermStatistics, candidates: Sequence[Candidate], best: int
) -> tuple[QueryTerms, list[int]] | None:
    cosines = [candidate.cosine for candidate in candidates]
    near = [place for place, cosine in enumerate(cosines) if cosines[best] - cosine <= MAX_COSINE_GAP]
    if len(near) < MIN_RETELLINGS:
        return None
    terms = [set(term_counts(each.text)) if place in near else set() for place, each in enumerate(candidates)]
    retellings = find_retellings(terms, cosines, best)
    if len(retellings) < MIN_RETELLINGS:
        return None
    others = [place for place in range(len(candidates)) if place == best or place not in retellings]
    again = count_once(statistics, [terms[place] for place in retellings], others_seen=len(others) > 1)
    return read_query(text, again), others


async def _evidence(stores: Stores, points: Sequence[PointId], question: Question) -> Mapping[PointId, Evidence]:
    return await stores.patterns.evidence(points, now=question.where.live_at, project_id=question.project_id)


def _with_fit(matches: Sequence[Match], question: Question) -> list[Match]:
    return [
        replace(match, fit=fit(match.evidence, question.where), fits=fits(match.evidence, question.where))
        for match in matches
    ]


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
