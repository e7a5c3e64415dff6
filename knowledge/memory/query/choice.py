"""Hints for a task: which patterns to show, if any, and the numbers of that choice; it can be made again from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from knowledge.memory.query.arm_counts import SearchResult
from knowledge.memory.query.search import Question
from knowledge.memory.rules import hints
from knowledge.memory.rules.arms import EXACT_LEAD, Counts, arm_counts, kernel, order_score, record_weight
from knowledge.memory.rules.hints import HintDecision
from knowledge.memory.rules.ranking import Match, rank, strength
from knowledge.models import (
    SILENCE,
    Choice,
    ChoiceRecord,
    Experience,
    PointId,
    Reason,
    RecomputedChoice,
    ScoredCandidate,
    TrialRecord,
)

MAX_CANDIDATES = 64
"""Candidates that are stored with a choice, the best first: all that a query weighs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedHint:
    """The matches to show, best first, and the choice."""

    shown: Sequence[Match]
    reason: Reason
    choice: Choice | None


def choose(result: SearchResult, question: Question, *, margin: float) -> RankedHint:
    """Choose the matches to show for a task. `margin`: as in `rules.hints.decide`.

    With some experience the chance of being right decides about the first place, whatever its relevance; further places
    need the relevance that a query needs. Without, all places do.
    """
    experience = result.experience
    known = experience.outcomes > 0
    able = [match for match in result.matches if not match.is_failing]
    relevant = [match for match in able if match.relevance >= question.floor]
    ranked = rank(able if known else relevant, limit=question.max_results)
    if not ranked:
        return RankedHint(shown=(), reason=Reason.NOTHING_NEAR, choice=None)
    first = ranked[0]
    # an agent's key casts no doubt on what something trusted told
    others = [m.order for m in able if m.arm != first.arm and (first.is_low_trust or not m.is_low_trust)]
    gap = first.order - max(others) if others else 1.0
    values = hints.features(result.confidence, first.counts.mean, gap)
    unaided = _near_unaided(result)
    decision = hints.decide(values, experience, unaided, margin=margin, level=result.level)
    choice = _to_choice(result, able, first, experience=experience, decision=decision, unaided=unaided, margin=margin)
    shown = [first, *(match for match in ranked[1:] if match.relevance >= question.floor)] if decision.speak else []
    return RankedHint(shown=shown, reason=decision.reason, choice=choice)


def _near_unaided(result: SearchResult) -> tuple[float, float]:
    """Return the weight of the trusted tasks without a hint near a question, and that of the solved ones."""
    told = [record for record in result.records if record.arm == SILENCE and not record.low_trust]
    weights = [(record_weight(record, result.weights, result.situation), record.worked) for record in told]
    return sum(weight for weight, _ in weights), sum(weight for weight, worked in weights if worked)


def _to_choice(
    result: SearchResult,
    able: Sequence[Match],
    first: Match,
    *,
    experience: Experience,
    decision: HintDecision,
    unaided: tuple[float, float],
    margin: float,
) -> Choice:
    ordered = [first, *sorted((match for match in able if match is not first), key=lambda match: -strength(match))]
    return Choice(
        situation=result.situation,
        exact=bool(result.exact),
        confidence=result.confidence,
        level=result.level,
        margin=margin,
        weights=experience.weights,
        outcomes=experience.outcomes,
        base_rate=experience.base_rate,
        near_unaided=unaided,
        features=decision.features,
        right=decision.right,
        alone=decision.alone,
        candidates=tuple(_to_candidate(match, result.weights) for match in ordered[:MAX_CANDIDATES]),
        crowd=result.crowd,
    )


def _to_candidate(match: Match, weights: Mapping[PointId, float]) -> ScoredCandidate:
    return ScoredCandidate(
        pattern_id=match.evidence.pattern_id,
        point_id=match.point_id,
        arm=match.arm,
        likeness=match.likeness,
        weight=weights.get(match.point_id, 0.0),
        relevance=match.relevance,
        successes=match.counts.successes,
        failures=match.counts.failures,
        factor=match.factor,
        score=match.order,
        low_trust=match.is_low_trust,
    )


def recompute(stored: ChoiceRecord, records: Sequence[TrialRecord]) -> RecomputedChoice:
    """Make a stored choice again from its numbers; `records`: those near its candidates, told until then."""
    choice = stored.choice
    if choice is None or not choice.candidates:
        return RecomputedChoice(record=stored, speak=False, first=None, right=0.0, differences=())
    likenesses = {each.point_id: each.likeness for each in choice.candidates}
    best = max(likenesses.values())
    exact = {point for point, likeness in likenesses.items() if choice.exact and likeness == best}
    likenesses |= dict.fromkeys(exact, best - EXACT_LEAD)  # as they were without it
    differences, changes = [], []
    rescored = []
    weights = kernel(likenesses, exact)
    for each in choice.candidates:
        again = arm_counts(each.arm, records, weights, choice.situation)
        counts = Counts(successes=each.successes, failures=each.failures)
        if records and (abs(again.successes - each.successes) > _ROUND or abs(again.failures - each.failures) > _ROUND):
            changes.append(
                f"pattern {each.pattern_id}: {again.successes:.3f} successes and {again.failures:.3f} failures by the"
                f" records of now, {each.successes:.3f} and {each.failures:.3f} then"
            )
        score = order_score(each.likeness, best, counts)
        if abs(score - each.score) > _ROUND:
            differences.append(f"pattern {each.pattern_id}: score {score:.6f}, stored {each.score:.6f}")
        rescored.append((score, each))
    first = choice.candidates[0]
    others = [score for score, each in rescored if each.arm != first.arm and (first.low_trust or not each.low_trust)]
    gap = rescored[0][0] - max(others) if others else 1.0
    counts = Counts(successes=first.successes, failures=first.failures)
    values = hints.features(choice.confidence, counts.mean, gap)
    experience = Experience(outcomes=choice.outcomes, weights=choice.weights)
    decision = hints.decide(
        values, experience, choice.near_unaided, margin=choice.margin, level=choice.level, base_rate=choice.base_rate
    )
    spoke = stored.reason in {Reason.SPOKE, Reason.HELD_OUT}
    if decision.speak != spoke:
        differences.append(f"decision: {decision.reason}, stored {stored.reason}")
    if abs(decision.right - choice.right) > _ROUND:
        differences.append(f"chance of being right: {decision.right:.6f}, stored {choice.right:.6f}")
    return RecomputedChoice(
        record=stored,
        speak=decision.speak,
        first=first.pattern_id,
        right=decision.right,
        differences=tuple(differences),
        changes=tuple(changes),
    )


_ROUND = 1e-6
