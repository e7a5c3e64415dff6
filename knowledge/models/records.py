"""Records of trials, and what they say of a question: the candidates of a choice and the numbers it was made by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hardwon.models.ids import PatternId, PointId
from knowledge.models.spaces import BoundSpace, TermStatistics

SILENCE: Final = ""
"""The arm of a task that got no hint."""
PRIOR_WEIGHTS: Final = (0.0, 0.6, 0.6, 0.2)
"""Weights of 1, the logit of confidence, the logit of the arm's mean, and the gap to the next arm; a prior
(docs/evaluation.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial of an arm in a situation; `point_id` stands for the situation, or for the nearest one indexed.

    `arm` is `SILENCE` where the task got no hint. `is_exact`: the point is that situation itself; `situation`: its key.
    `pattern_id` is the pattern of the point. `reporter`: the key that reported it. `event`: the (project, task, run),
    None where the task is unknown.
    """

    arm: str
    point_id: PointId
    pattern_id: PatternId
    situation: str | None
    is_exact: bool
    worked: bool
    low_trust: bool
    reporter: str | None
    event: tuple[str, str, str] | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """A workspace's experience with hints.

    `outcomes`: tasks with a reported outcome, with or without hint, counted up to `MIN_OUTCOMES`; with any, experience
    decides. `weights`: fitted, as
    `PRIOR_WEIGHTS`. `unaided`, `unaided_worked`: the latest tasks of the agent type without a hint, and those solved.
    """

    outcomes: int = 0
    weights: tuple[float, ...] = PRIOR_WEIGHTS
    unaided: int = 0
    unaided_worked: int = 0

    @property
    def base_rate(self) -> float:
        """The rate at which tasks without a hint are solved, by Laplace's rule of succession."""
        return (self.unaided_worked + 1) / (self.unaided + 2)


MIN_OUTCOMES = 5
"""Outcomes from which a workspace's own weights are fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftCounts:
    """Tasks with a hint and tasks held out, each with those that were solved."""

    hinted: int = 0
    hinted_solved: int = 0
    held_out: int = 0
    held_out_solved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """The keys of an entry's task description and of its error's signature, empty where it has none."""

    task: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlaces:
    """Answer of Postgres alone to a question: points of its situation or error, and patterns of its task's text.

    Trusted entries come first, then the latest. They may be of entries that expired or were never embedded.
    """

    points: tuple[PointId, ...] = ()
    task_patterns: tuple[PatternId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStart:
    """The data of a search before the index is asked: the space in use, and the statistics of the question's terms.

    `exact`: a few points of exactly the question's situation that trusted entries have, the latest first.
    `experience`: the workspace's, where it was asked for.
    """

    bound: BoundSpace
    statistics: TermStatistics
    exact: tuple[PointId, ...]
    experience: Experience
