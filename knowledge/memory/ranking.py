"""Which of the matches are shown, and in which order; pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from knowledge.memory import texts
from knowledge.models import EntryType, Evidence
from knowledge.search.lexical import term_counts

OTHER_FIELD_WEIGHT = 0.9
"""What a match counts that another agent type, task type or technology left behind; ours."""

COPY = 0.8
"""A resolution that shares so much of its words with another one says the same; ours."""

_COMPARED = 2_000
"""Characters of resolutions that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A live pattern a search found. `score` is the raw fused one, `fits` whether its fields are those asked for."""

    evidence: Evidence
    relevance: float
    score: float
    fits: bool = True


def strength(match: Match) -> float:
    """Return relevance times the lower bound of the success rate.

    A product, so that no evidence lifts what is not relevant.
    """
    evidence = match.evidence
    rate = success_rate(evidence.success_count, evidence.attempt_count)
    return match.relevance * rate * (1.0 if match.fits else OTHER_FIELD_WEIGHT)


def success_rate(successes: int, attempts: int) -> float:
    """Return a lower bound of how often it works: the mean of the Beta posterior less its standard deviation.

    The posterior of a uniform prior is Beta(s + 1, n - s + 1), with mean (s + 1) / (n + 2) (Laplace's rule of
    succession) and variance m (1 - m) / (n + 3). So 9 of 10 (0.73) comes before 1 of 1 (0.43), and 1 of 2 (0.28) last.
    """
    mean = (successes + 1) / (attempts + 2)
    return mean - math.sqrt(mean * (1 - mean) / (attempts + 3))


def rank(matches: Iterable[Match], *, limit: int) -> list[Match]:
    """Return the best `limit` matches, a pattern once, best first.

    Ties go to the higher raw score, then to more projects, then to the older pattern. Gate entries take at most two of
    five places while others fit; so does what resolves it in nearly the words of one before, which is left out where
    anything else is left.
    """
    best: dict[object, Match] = {}
    for match in matches:
        known = best.get(match.evidence.pattern_id)
        if known is None or (strength(match), match.score) > (strength(known), known.score):
            best[match.evidence.pattern_id] = match
    ordered = sorted(best.values(), key=_order)
    return _within_quota(_copies_last(ordered, limit), limit)


def gate_quota(limit: int) -> int:
    """Return how many of `limit` places gate entries may take while others fit: 2 of 5, 1 of 3."""
    return max(1, limit * 2 // 5)


def _within_quota(ordered: list[Match], limit: int) -> list[Match]:
    gates = [match for match in ordered if match.evidence.entry_type is not EntryType.FAILURE_SOLUTION]
    held_back = gates[gate_quota(limit) :]
    others = {match.evidence.pattern_id for match in held_back}
    first = [match for match in ordered if match.evidence.pattern_id not in others][:limit]
    return sorted(first + held_back[: limit - len(first)], key=ordered.index)


def _copies_last(ordered: list[Match], limit: int) -> list[Match]:
    """Return the matches in order, those behind all others whose resolution repeats that of one before it.

    Only among those that may be shown: beyond them it changes nothing.
    """
    looked_at, rest = ordered[: 2 * limit], ordered[2 * limit :]
    distinct: list[tuple[Match, Counter[int]]] = []
    copies = []
    for match in looked_at:
        words = term_counts(texts.resolution(match.evidence.words)[:_COMPARED])
        if any(shared(words, other) >= COPY for _, other in distinct):
            copies.append(match)
        else:
            distinct.append((match, words))
    return [*(match for match, _ in distinct), *rest, *copies]


def shared(some: Counter[int], others: Counter[int]) -> float:
    """Return which share of all the words of two texts both have, 0..1."""
    either = (some | others).total()
    return (some & others).total() / either if either else 1.0


def _order(match: Match) -> tuple[float, float, int, float, str]:
    evidence = match.evidence
    return (
        -strength(match),
        -match.score,
        -evidence.project_count,
        evidence.founded_at.timestamp(),
        str(evidence.pattern_id),
    )
