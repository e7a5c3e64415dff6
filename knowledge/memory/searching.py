"""From a question to the matches worth ranking: one embedding, one round trip to the index, one to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from knowledge.errors import IndexUnavailable
from knowledge.memory import texts
from knowledge.memory.applying import NOTHING_KNOWN, Facts, may_apply
from knowledge.memory.fitting import ENOUGH, fit, fits
from knowledge.memory.judging import Judged, ScoredPoint, judge
from knowledge.memory.ranking import Match
from knowledge.memory.spaces import SpaceInUse, space_in_use, was_left
from knowledge.models import (
    BoundSpace,
    EmbeddingSpace,
    Evidence,
    Hit,
    PointId,
    SparseVector,
    TermStatistics,
    Vector,
    Where,
)
from knowledge.ports import Embedder, Stores
from knowledge.search.calibration import relevance
from knowledge.search.cosines import stretch, stretched
from knowledge.search.error_codes import error_codes, is_another
from knowledge.search.fusion import coverage, fuse
from knowledge.search.lexical import query_vector, term_counts
from knowledge.search.reading import MOST_CANDIDATES, Reading, read_question
from knowledge.steps import Taking, step

CANDIDATES = 100
"""Points taken from each half of the search (docs/evaluation.md: 100 loses nothing against all)."""

_MOST_SHOWN = 32
"""Points whose words are fetched, the best ones; more where more results are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A text to find situations for. `where` names fields that fit best; `floor` is the least relevance, 0..1.

    What is known not to apply, by the `facts`, is left out; `unasked`, so is what was learned of another error.

    What was learned in the project of `project_id` counts more.
    """

    text: str
    where: Where
    floor: float
    max_results: int
    project_id: str | None = None
    facts: Facts = NOTHING_KNOWN
    unasked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The relevant matches, and how sure it is that one is meant (`knowledge.memory.judging`)."""

    matches: tuple[Match, ...]
    confidence: float
    speak: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoded:
    """A question in both halves of the search. `weight` is the sum of the lexical weights."""

    dense: Vector
    lexical: SparseVector
    weight: float
    reading: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    """A question on its way through the model of this process, and the space that its vector will be of."""

    space: EmbeddingSpace
    vector: asyncio.Task[Vector]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nearest:
    """The points worth reading of what a search found, the highest fused score first, and those next to them.

    `spare`: how many of them are only read where some before do not apply. `complete`: nothing else in the workspace is
    relevant, so that no search with more conditions finds more.
    """

    points: tuple[ScoredPoint, ...]
    spare: int
    complete: bool


async def search(stores: Stores, question: Question) -> Found:
    """Return the relevant matches for a question, whatever their fields, each with how well these fit.

    Asked again where another model came into use meanwhile, and the index of the one before was dropped.
    """
    async with _embedded_ahead(stores, question.text) as ahead:
        while True:
            in_use = await space_in_use(stores)
            if in_use is None:
                return Found(matches=(), confidence=0.0, speak=False)
            try:
                return await _search(stores, in_use, question, ahead)
            except IndexUnavailable:
                if not await was_left(stores, in_use.bound):
                    raise


@asynccontextmanager
async def _embedded_ahead(stores: Stores, text: str) -> AsyncIterator[_Ahead | None]:
    """Embed a question while Postgres is asked by which model; only in this process, where it may be in vain."""
    if stores.embedder.enough_at_once is None:
        yield None
        return
    vector = asyncio.create_task(_embedded(stores.embedder, text))
    try:
        yield _Ahead(space=await stores.embedder.space(), vector=vector)
    finally:
        vector.cancel()
        await asyncio.gather(vector, return_exceptions=True)


async def _search(stores: Stores, in_use: SpaceInUse, question: Question, ahead: _Ahead | None) -> Found:
    """Ask for matches anywhere first.

    Only where too few of these fit, and what was left out may, once more among what fits.
    """
    where = question.where
    asked = await _encode(stores, in_use, question.text, ahead)
    bound = await _on_a_scale(stores, in_use.bound)
    anywhere = replace(where, agent_type=None, task_type=None, technology=None, gate_type=None)
    nearest = await _find(stores, bound, asked, question, anywhere)
    if not nearest.points:
        await _refuse_lost(stores, bound)
    judged = await _judge(stores, bound, asked, nearest, question)
    matches = _relevant(judged, question)
    if anywhere != where and not nearest.complete and not enough(matches, question):
        narrow = await _find(stores, bound, asked, question, where)
        known = {match.evidence.pattern_id for match in matches}
        more = _relevant(await _judge(stores, bound, asked, narrow, question), question)
        matches += [match for match in more if match.evidence.pattern_id not in known]
    return Found(matches=tuple(matches), confidence=judged.confidence, speak=judged.speak)


async def _on_a_scale(stores: Stores, bound: BoundSpace) -> BoundSpace:
    """Return the space with how alike its model finds unrelated texts.

    Of a store that was moved here, the model is asked for that with the first question.
    """
    if stretch(bound) is not None:
        return bound
    now = await stores.spaces.bound()
    return bound if now is None or now.space.fingerprint != bound.space.fingerprint else now


async def _refuse_lost(stores: Stores, bound: BoundSpace) -> None:
    """Raise IndexUnavailable where the index has nothing of what was learned: else nothing would seem to be known."""
    if not await stores.points.any_learned(stores.clock.now()):
        return
    if await stores.index.count(bound.space, stores.workspace) == 0:  # asked second: it is there before it is marked
        raise IndexUnavailable(
            "The index holds nothing of what was learned: it was lost, or is being filled. The next checkpoint or "
            "prune fills it, `hardwon rebuild` at once."
        )


def enough(matches: Sequence[Match], question: Question) -> bool:
    """Return whether there are so many patterns of the fields asked for that no others are needed."""
    fitting = {match.evidence.pattern_id for match in matches if match.fits}
    return len(fitting) >= min(ENOUGH, question.max_results)


async def _encode(stores: Stores, in_use: SpaceInUse, text: str, ahead: _Ahead | None) -> _Encoded:
    counts = term_counts(text)
    fits = ahead is not None and ahead.space.fingerprint == in_use.bound.space.fingerprint
    embedding = ahead.vector if ahead and fits else _embedded(in_use.embedder, text)
    dense, statistics = await asyncio.gather(embedding, _statistics(stores, list(counts)))
    lexical, weight = query_vector(counts, statistics)
    return _Encoded(dense=dense, lexical=lexical, weight=weight, reading=read_question(text, statistics))


@step("embedding")
async def _embedded(embedder: Embedder, text: str) -> Vector:
    dense: Vector = (await embedder.embed([text], "query")).vectors[0]
    return dense


@step("statistics")
async def _statistics(stores: Stores, terms: Sequence[int]) -> TermStatistics:
    return await stores.spaces.statistics(terms)


async def _find(stores: Stores, bound: BoundSpace, asked: _Encoded, question: Question, where: Where) -> _Nearest:
    """Search, and drop what is not relevant; the best are kept whatever they score, to be told apart by reading."""
    with Taking("index"):
        hits = await stores.index.search(bound.space, asked.dense, asked.lexical, where, limit=CANDIDATES)
    by = stretch(bound)
    if by not in {None, 1.0}:
        hits = [replace(hit, cosine=stretched(hit.cosine, by)) for hit in hits]
    fused = [(-fuse(hit.cosine, hit.lexical, asked.weight), hit.point_id, hit) for hit in hits]
    fused.sort()
    relevant = sum(relevance(-score, bound.calibration) >= question.floor for score, _, _ in fused)
    shown = max(_MOST_SHOWN, 4 * question.max_results)
    rest = _best_of_the_rest(hits, asked.weight)
    all_seen = rest is None or relevance(rest, bound.calibration) < question.floor
    fetched = min(shown, max(relevant, MOST_CANDIDATES))
    points = tuple(_scored(hit, -score, asked.weight) for score, _, hit in fused[:shown])
    return _Nearest(points=points, spare=max(0, len(points) - fetched), complete=all_seen and relevant <= shown)


async def _judge(stores: Stores, bound: BoundSpace, asked: _Encoded, nearest: _Nearest, question: Question) -> Judged:
    """Fetch the words of what was found, in one hop, and read what may apply.

    What does not is no candidate: else another would be taken for sure because that one would have been.
    """
    points = [each.point_id for each in nearest.points]
    if not points:
        return judge((), {}, asked.reading, bound, stores.workspace)
    read = len(points) - nearest.spare
    may_help = _helping(question)
    with Taking("rows"):
        found = await _evidence(stores, points[:read], question)
        applying = {point: each for point, each in found.items() if may_help(each)}
        if len(applying) < len(found) and nearest.spare:
            more = await _evidence(stores, points[read:], question)
            spare = [point for point in points[read:] if point in more and may_help(more[point])]
            applying |= {point: more[point] for point in spare[: len(found) - len(applying)]}
    with Taking("ranking"):
        return judge(nearest.points, applying, asked.reading, bound, stores.workspace)


async def _evidence(stores: Stores, points: Sequence[PointId], question: Question) -> Mapping[PointId, Evidence]:
    return await stores.patterns.evidence(points, now=question.where.live_at, project_id=question.project_id)


def _relevant(judged: Judged, question: Question) -> list[Match]:
    return [
        replace(match, fit=fit(match.evidence, question.where), fits=fits(match.evidence, question.where))
        for match in judged.matches
        if match.relevance >= question.floor
    ]


def _helping(question: Question) -> Callable[[Evidence], bool]:
    """Return what tells whether a pattern may help with a question."""
    codes = error_codes(question.text) if question.unasked else {}

    def may_help(evidence: Evidence) -> bool:
        if not _may_apply(evidence, question.facts):
            return False
        return not codes or not is_another(codes, error_codes(texts.situation(evidence.words)))

    return may_help


def _may_apply(evidence: Evidence, facts: Facts) -> bool:
    learned_in = {each.technology for each in evidence.circumstances if each.technology}
    return may_apply(evidence.conditions, facts, evidence.whens, learned_in)


def _scored(hit: Hit, fused: float, weight: float) -> ScoredPoint:
    return ScoredPoint(point_id=hit.point_id, cosine=hit.cosine, coverage=coverage(hit.lexical, weight), fused=fused)


def _best_of_the_rest(hits: Sequence[Hit], weight: float) -> float | None:
    """Return the highest score a point that a search left out can have, None if it left out none.

    Such a point is in neither list of the union, so by either vector it comes after the last of that list.
    """
    if len(hits) < CANDIDATES:
        return None
    cosines = sorted((hit.cosine for hit in hits), reverse=True)
    lexical = sorted((hit.lexical for hit in hits), reverse=True)
    return fuse(cosines[CANDIDATES - 1], lexical[CANDIDATES - 1], weight)
