"""From what a search found and what stands in the entries behind it to matches, and whether any is one; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.memory import texts
from knowledge.memory.ranking import Match
from knowledge.models import BoundSpace, Evidence, PointId, View, point_id_of
from knowledge.search import likeness, silence
from knowledge.search.calibration import relevance
from knowledge.search.cosines import stretch
from knowledge.search.reading import MOST_CANDIDATES, Candidate, Reading, features


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPoint:
    """A point that a search found, with both scores, the cosine on the bundled model's scale, and the fused one."""

    point_id: PointId
    cosine: float
    coverage: float
    fused: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The live patterns among what was found, the likeliest first.

    `confidence` is how sure it is that one of them is meant, 0..1. `speak` is false where that is too little to say
    anything unasked. Where nobody knows on which scale the model's cosines are, or with few candidates, only a floor of
    relevance keeps silence.
    """

    matches: tuple[Match, ...]
    confidence: float
    speak: bool


def judge(
    found: Sequence[ScoredPoint],
    evidence: Mapping[PointId, Evidence],
    asked: Reading,
    bound: BoundSpace,
    workspace: str,
) -> Judged:
    """Read the best of what was found, the highest fused score first, against the question and put it in order."""
    alive = [each for each in found if each.point_id in evidence]
    if not alive:
        return Judged(matches=(), confidence=0.0, speak=False)
    read, rest = alive[:MOST_CANDIDATES], alive[MOST_CANDIDATES:]
    fused = [each.fused for each in read]
    scores = fused
    confidence, speak = relevance(fused[0], bound.calibration), True
    if stretch(bound) is not None:
        told = features(
            asked, [_candidate(each, evidence[each.point_id], workspace) for each in read], bound.mean_terms
        )
        likenesses = [likeness.likeness(each, likeness.BUNDLED) for each in told]
        scores = likeness.on_the_fused_scale(likenesses, fused)
        if len(read) >= silence.FEWEST:
            confidence = silence.confidence(silence.signs(fused, likenesses, told), silence.BUNDLED)
            speak = confidence >= silence.BUNDLED.level
    last = min(scores)  # what was not read comes after what was
    scores = [*scores, *(min(each.fused, last) for each in rest)]
    matches = [
        Match(evidence=evidence[each.point_id], relevance=relevance(score, bound.calibration), score=score)
        for each, score in zip(alive, scores, strict=True)
    ]
    return Judged(matches=tuple(sorted(matches, key=lambda match: -match.score)), confidence=confidence, speak=speak)


def _candidate(found: ScoredPoint, evidence: Evidence, workspace: str) -> Candidate:
    """Return the text that a point stands for, as far as the words of its pattern tell, with its scores."""
    told = texts.views(evidence.words)
    text = told[View.SITUATION]
    task = told.get(View.TASK)
    if task and found.point_id == point_id_of(workspace, evidence.pattern_id, View.TASK, texts.normalise(task)):
        text = task
    return Candidate(text=text, cosine=found.cosine, coverage=found.coverage)
