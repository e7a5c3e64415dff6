"""Judges the points of a search by their texts: relevance, order, and the confidence in the best; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.memory import texts
from knowledge.memory.ranking import Match
from knowledge.models import BoundSpace, Evidence, PointId, View, point_id_of
from knowledge.search import likeness, silence
from knowledge.search.calibration import relevance
from knowledge.search.cosines import stretch_factor
from knowledge.search.reading import MAX_CANDIDATES, Candidate, QueryTerms, features


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
    views = texts.views(evidence.words)
    text = views[View.SITUATION]
    task = views.get(View.TASK)
    if task and point.point_id == point_id_of(workspace, evidence.pattern_id, View.TASK, texts.normalise(task)):
        text = task
    return Candidate(text=text, cosine=point.cosine, coverage=point.coverage)
