"""Counts of the matches' arms at a question, from the records near it, and the places that follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from knowledge.memory.query.judgement import JudgedMatches
from knowledge.memory.rules.arms import EXACT_LEAD, Counts, count, kernel, order_score, situation_key
from knowledge.memory.rules.entry_profile import arm_of
from knowledge.memory.rules.ranking import Match, counts_of_pattern
from knowledge.models import Experience, PatternId, PointId, TrialRecord, View, point_id_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The matches, of any relevance, with the counts of their arms, and the confidence that one of them is right.

    `level`: the confidence from which to inject any unasked. `situation`: the key of the question; `records`: those
    near it; `weights`: of the matches' situations at the question, 0..1; `exact`: those with the question's own text,
    the trusted ones where there are any.
    `experience`: the workspace's, of a question asked unasked. `crowd`: as in `JudgedMatches`. `words_only`: the
    question was not embedded in time; `embedder_failed`: as the embedder did not answer. `index_error`: why the index
    was not used, and only what is known word for word is here; `index_failed`: as it did not answer.
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
    words_only: bool = False
    embedder_failed: bool = False
    index_error: str | None = None
    index_failed: bool = False


def count_arms(
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
        arm = arm_of(match.evidence)
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
