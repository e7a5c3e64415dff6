"""Choices of contexts: the candidates, and the numbers that a pattern was shown or withheld by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hardwon.models.ids import ContextId, PatternId, PointId
from hardwon.models.patterns import Pattern
from hardwon.models.tasks import ContextCandidate


class Reason(StrEnum):
    """The rule that decided about a context."""

    SPOKE = "spoke"
    NOTHING_NEAR = "nothing_near"
    NOT_SURE = "not_sure"
    AGENT_KNOWS = "agent_knows"
    HELD_OUT = "held_out"
    DEGRADED = "degraded"


class ContextKind(StrEnum):
    """The contexts of a list, by what was handed out."""

    YES = "yes"
    """With patterns."""
    SILENT = "silent"
    """Without any, by a rule."""
    HELD = "held"
    """Without any by chance, to measure the lift."""
    LATE = "late"
    """Without any, since the index or the embedder did not answer in time."""


class ContextOutcome(StrEnum):
    """The contexts of a list, by what was reported of their tasks."""

    WORKED = "worked"
    FAILED = "failed"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredCandidate:
    """A candidate of a choice: its likeness in nats, the counts of its arm at the question, and its place.

    `factor`: of its fields and trust, 0..1. `score`: logarithm of its place, the highest first. `weight`: of its
    situation at the question, 0..1. `low_trust`: it rests on agents' keys alone.
    """

    pattern_id: PatternId
    point_id: PointId
    arm: str
    likeness: float
    weight: float
    relevance: float
    successes: float
    failures: float
    factor: float
    score: float
    low_trust: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The numbers of a choice: enough to make it again.

    `situation`: the key of the question's text; `exact`: the question's own text is among the candidates. `level`,
    `margin`: the settings in force; `near_unaided`: weight and success of unaided tasks near the question. `right`,
    `alone`: the chance that the hint is right, and that the agent needs none. `crowd`: number of situations near the
    question that were left out because an agent's key reported too many, by key.
    """

    situation: str
    exact: bool
    confidence: float
    level: float
    margin: float
    weights: tuple[float, ...]
    outcomes: int
    base_rate: float
    near_unaided: tuple[float, float]
    features: tuple[float, ...]
    right: float
    alone: float
    candidates: tuple[ScoredCandidate, ...]
    crowd: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRecord:
    """A stored context with its choice: `reason` is the rule that decided, `shown` the patterns handed out.

    `choice` is None in lists, and for contexts of before revision 0027. `worked`: of a list, whether its task was
    solved, None where nothing was reported. `near`: what was considered where nothing was near enough for a choice.
    """

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    agent_type: str | None
    reason: str
    created_at: datetime
    shown: tuple[PatternId, ...]
    confidence: float | None = None
    choice: Choice | None = None
    worked: bool | None = None
    near: tuple[ContextCandidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedChoice:
    """A stored choice, and the same made again from the numbers stored with it.

    `speak`, `first`, `right`: what came out. `differences`: in words, what came out otherwise: there should be none.
    `changes`: candidates whose records stand otherwise today, since entries and situations were embedded after it, or
    outcomes corrected or deleted.
    """

    record: ChoiceRecord
    speak: bool
    first: PatternId | None
    right: float
    differences: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NearPattern:
    """A pattern that was too unlike a task, or whose records speak against it; `needed`: the relevance it takes."""

    pattern_id: PatternId
    relevance: float
    needed: float
    is_failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """The patterns to show with a task, none where the `reason` is another than `spoke`.

    `choice` is None where nothing was found at all. `words_only`: the question was not embedded, so that only its words
    were compared; `embedder_failed`: because the embedder did not answer, not because this machine is busy.
    `index_error`: why the index was not used, so that only what is known word for word was found; `index_failed`:
    because it did not answer. `near`: the likeliest patterns where there was no choice. `altered`: what was left out,
    as it is not as it was stored.
    """

    patterns: tuple[Pattern, ...] = ()
    reason: Reason = Reason.NOTHING_NEAR
    choice: Choice | None = None
    words_only: bool = False
    embedder_failed: bool = False
    index_error: str | None = None
    index_failed: bool = False
    near: tuple[NearPattern, ...] = ()
    altered: str | None = None
