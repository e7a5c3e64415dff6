"""Judgement of the candidates for a question: how like each is, and whether any of them is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from knowledge.memory.rules import embedding_text
from knowledge.memory.rules.entry_profile import view_terms
from knowledge.memory.rules.ranking import Match
from knowledge.models import BoundSpace, Evidence, PointId, TermStatistics, View, point_id_of
from knowledge.retrieval import confidence as likeness
from knowledge.retrieval import confidence as silence
from knowledge.retrieval.calibration import relevance
from knowledge.retrieval.confidence import MAX_COSINE_GAP, MIN_RETELLINGS, count_once, find_retellings
from knowledge.retrieval.cosine_scale import stretch_factor
from knowledge.retrieval.features import MAX_CANDIDATES, Candidate, Features, QueryTerms, features, read_query


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
        candidates = [to_candidate(each, evidence[each.point_id], workspace) for each in read]
        features_of_read = features(question, candidates, bound.mean_terms)
        likenesses = [likeness.likeness(each, likeness.BUNDLED_LIKENESS) for each in features_of_read]
        scores = likeness.to_fused_scale(likenesses, fused)
        if len(read) >= silence.MIN_CANDIDATES:
            confidence = _confidence(fused, likenesses, features_of_read)
            every = [*candidates, *(to_candidate(each, evidence[each.point_id], workspace) for each in rest)]
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


def to_candidate(point: ScoredPoint, evidence: Evidence, workspace: str) -> Candidate:
    """Return the terms of the text that a point represents, as far as its pattern's words tell, with its scores."""
    view = View.TASK if _is_task_view(point, evidence, workspace) else View.SITUATION
    return Candidate(terms=view_terms(evidence, view), cosine=point.cosine, coverage=point.coverage)


def _is_task_view(point: ScoredPoint, evidence: Evidence, workspace: str) -> bool:
    """Return whether a point stands for the task description of its pattern's words."""
    if not evidence.words.task_description:
        return False
    task = embedding_text.views(evidence.words).get(View.TASK)
    return task is not None and point.point_id == point_id_of(
        workspace, evidence.pattern_id, View.TASK, embedding_text.normalise(task)
    )


def count_retellings_once(
    text: str, statistics: TermStatistics, candidates: Sequence[Candidate], best: int
) -> tuple[QueryTerms, list[int]] | None:
    """Return the terms of a question with the retellings of the best candidate counted once, and the places left.

    The places are those of the candidates without these retellings; None where there are few.
    """
    cosines = [candidate.cosine for candidate in candidates]
    near = [place for place, cosine in enumerate(cosines) if cosines[best] - cosine <= MAX_COSINE_GAP]
    if len(near) < MIN_RETELLINGS:
        return None
    terms = [each.terms.ids if place in near else frozenset() for place, each in enumerate(candidates)]
    retellings = find_retellings(terms, cosines, best)
    if len(retellings) < MIN_RETELLINGS:
        return None
    others = [place for place in range(len(candidates)) if place == best or place not in retellings]
    again = count_once(statistics, [terms[place] for place in retellings], others_seen=len(others) > 1)
    return read_query(text, again), others
