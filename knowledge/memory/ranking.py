"""Which of the matches are shown, and in which order; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from knowledge.models import EntryType, Evidence

OTHER_FIELD_WEIGHT = 0.9
"""What a match counts that another agent type, task type or technology left behind; ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A live pattern a search found. `score` is the raw fused one, `fits` whether its fields are those asked for."""

    evidence: Evidence
    relevance: float
    score: float
    fits: bool = True


def strength(match: Match) -> float:
    """Return relevance times the smoothed success rate, (s + 1) / (n + 2) (Laplace's rule of succession).

    A product, so that no evidence lifts what is not relevant.
    """
    evidence = match.evidence
    rate = (evidence.success_count + 1) / (evidence.attempt_count + 2)
    return match.relevance * rate * (1.0 if match.fits else OTHER_FIELD_WEIGHT)


def rank(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` matches, a pattern once, best first.

    Ties go to the higher raw score, then to more projects, then to the older pattern. Gate entries take at most two of
    five places while others fit.
    """
    best: dict[object, Match] = {}
    for match in matches:
        known = best.get(match.evidence.pattern_id)
        if known is None or (strength(match), match.score) > (strength(known), known.score):
            best[match.evidence.pattern_id] = match
    ordered = sorted(best.values(), key=_order)
    return sorted(_within_quota(ordered, limit), key=_order)


def gate_quota(limit: int) -> int:
    """Return how many of `limit` places gate entries may take while others fit: 2 of 5, 1 of 3."""
    return max(1, limit * 2 // 5)


def _within_quota(ordered: list[Match], limit: int) -> list[Match]:
    gates = [match for match in ordered if match.evidence.entry_type is not EntryType.FAILURE_SOLUTION]
    held_back = gates[gate_quota(limit) :]
    others = {match.evidence.pattern_id for match in held_back}
    first = [match for match in ordered if match.evidence.pattern_id not in others][:limit]
    return first + held_back[: limit - len(first)]


def _order(match: Match) -> tuple[float, float, int, float, str]:
    evidence = match.evidence
    return (
        -strength(match),
        -match.score,
        -evidence.project_count,
        evidence.founded_at.timestamp(),
        str(evidence.pattern_id),
    )
