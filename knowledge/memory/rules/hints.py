"""Decision to give a task a hint: the chance that it is right against the chance that the agent manages alone.

Pure. Without any outcome on record the fitted level of `knowledge.retrieval.confidence` decides; from the first outcome
on the workspace's own experience does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from hardwon.models.reports import Lift
from knowledge.models import MIN_OUTCOMES, PRIOR_WEIGHTS, ContextId, Experience, LiftCounts, Reason

MAX_GAP = 3.0
"""Distance between the best two arms from which more says nothing; ours."""
PRIOR_STRENGTH = 4.0
"""Precision of the prior in the fit: weights move by 0.5 as easily as one outcome asks for; 1 to 12 perform alike."""
MAX_OUTCOMES = 500
"""Outcomes that the weights are fitted to, the latest first."""
BASE_STRENGTH = 2.0
"""Tasks that the workspace's rate of unaided success counts for beside the records near a question."""
_STEPS = 50
_MAX_HALVINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class HintDecision:
    """A decision about a hint. `right`: the chance that the best arm is right; `alone`: that the agent needs none."""

    speak: bool
    reason: Reason
    right: float
    alone: float
    features: tuple[float, ...]


def features(confidence: float, mean: float, gap: float) -> tuple[float, ...]:
    """Return the features of a hint: of the store's confidence and the arm's mean, 0..1, and the gap to the next."""
    return (1.0, logit(confidence), logit(mean), min(gap, MAX_GAP))


def decide(
    values: tuple[float, ...],
    experience: Experience,
    near_unaided: tuple[float, float],
    *,
    margin: float,
    level: float,
    base_rate: float | None = None,
) -> HintDecision:
    """Decide about a hint with these features.

    `near_unaided`: the weight of the tasks without a hint near the question, and of those of them that were solved.
    `level`: the confidence to speak from while there is no outcome; `margin`: how much likelier than the agent's
    own success a hint must be right. `base_rate` replaces that of the experience.
    """
    right = _logistic(sum(weight * value for weight, value in zip(experience.weights, values, strict=True)))
    weight, worked = near_unaided
    base = experience.base_rate if base_rate is None else base_rate
    alone = (worked + BASE_STRENGTH * base) / (weight + BASE_STRENGTH)
    if not experience.outcomes:
        speak = _logistic(values[1]) >= level
        reason = Reason.SPOKE if speak else Reason.NOT_SURE
    else:
        speak = right >= alone + margin
        reason = Reason.SPOKE if speak else Reason.NOT_SURE if right < 0.5 else Reason.AGENT_KNOWS
    return HintDecision(speak=speak, reason=reason, right=right, alone=alone, features=values)


def fit_weights(rows: Sequence[tuple[tuple[float, ...], bool]]) -> tuple[float, ...]:
    """Return the weights fitted to hints and whether they worked (Platt 1999, by Newton's method, with the prior).

    A step that makes the fit worse is halved: from a store that is sure of itself and wrong, whole steps diverge.
    """
    import numpy as np  # noqa: PLC0415 - loads for longer than a client takes to start

    prior = np.array(PRIOR_WEIGHTS)
    if len(rows) < MIN_OUTCOMES:
        return PRIOR_WEIGHTS

    def loss(weights: Any) -> float:
        odds = table @ weights
        away = weights - prior
        return float(np.sum(np.logaddexp(0.0, odds) - worked * odds) + PRIOR_STRENGTH / 2 * away @ away)

    table, worked = np.array([values for values, _ in rows]), np.array([float(each) for _, each in rows])
    weights, current = prior, loss(prior)
    for _ in range(_STEPS):
        right = 1 / (1 + np.exp(-np.clip(table @ weights, -30, 30)))
        gradient = table.T @ (right - worked) + PRIOR_STRENGTH * (weights - prior)
        curvature = (table * (right * (1 - right))[:, None]).T @ table + PRIOR_STRENGTH * np.eye(len(prior))
        change = np.linalg.solve(curvature, gradient)
        halvings = (change / 2**times for times in range(_MAX_HALVINGS))
        step = next((each for each in halvings if loss(weights - each) <= current), None)
        if step is None:  # as near as floating point numbers come
            break
        weights = weights - step
        current = loss(weights)
        if float(np.abs(step).max()) < 1e-9:
            break
    return tuple(float(each) for each in weights)


def is_held_out(context_id: ContextId, share: float) -> bool:
    """Return whether a task gets no hint, to know the lift: a share of all, by the hash of the context's id."""
    return int.from_bytes(sha256(context_id.bytes).digest()[:8]) < share * 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A difference of two rates with its 95 % interval."""

    difference: float
    low: float
    high: float


def rate_difference(worked: int, tried: int, other_worked: int, other_tried: int) -> Interval | None:
    """Return the difference of two rates with its 95 % interval (Newcombe 1998, method 10); None without trials."""
    if not tried or not other_tried:
        return None
    (one, low, high), (other, other_low, other_high) = _wilson(worked, tried), _wilson(other_worked, other_tried)
    return Interval(
        difference=one - other,
        low=one - other - math.hypot(one - low, other_high - other),
        high=one - other + math.hypot(high - one, other - other_low),
    )


def to_lift(counts: LiftCounts) -> Lift:
    """Return the lift of hints with its interval."""
    found = rate_difference(counts.hinted_solved, counts.hinted, counts.held_out_solved, counts.held_out)
    lift = Lift(
        hinted=counts.hinted,
        hinted_solved=counts.hinted_solved,
        held_out=counts.held_out,
        held_out_solved=counts.held_out_solved,
    )
    return lift if found is None else replace(lift, lift=found.difference, low=found.low, high=found.high)


_Z = 1.959964


def _wilson(worked: int, tried: int) -> tuple[float, float, float]:
    """Return a rate and the ends of its 95 % interval (Wilson 1927)."""
    rate = worked / tried
    middle = (rate + _Z**2 / (2 * tried)) / (1 + _Z**2 / tried)
    half = _Z * math.sqrt(rate * (1 - rate) / tried + _Z**2 / (4 * tried**2)) / (1 + _Z**2 / tried)
    return rate, middle - half, middle + half


def logit(probability: float) -> float:
    """Return the log odds of a probability, which is kept off 0 and 1 by a millionth."""
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(kept / (1 - kept))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, value)))
