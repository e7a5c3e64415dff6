"""Tasks, the contexts handed to agents, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictInt

from hardwon.coercion import Alias
from hardwon.models.ids import ContextId, PatternId
from hardwon.models.patterns import Pattern

TaskFacts = Mapping[str, str | Sequence[StrictInt]]
"""Facts by name; a version may also be a sequence of numbers, such as `sys.version_info[:2]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task about to be assigned. `type` is its kind, such as `bugfix`; `task_id` and `project_id` where known.

    `facts` describe its environment: `version` (of the technology), `tool`, `error`, `technology`. `urgent`: it is
    never held out to measure the lift.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    description: Annotated[
        str, Alias(("task_description",)), Field(description="The task that is about to be assigned.")
    ]
    type: Annotated[str | None, Alias(("task_type",)), Field(description="What kind of task, such as bugfix.")] = None
    technology: Annotated[str | None, Field(description="Such as python.")] = None
    project_id: Annotated[str | None, Field(description="The task's project; outcomes need it.")] = None
    task_id: Annotated[str | None, Alias(("id",)), Field(description="The task's id; outcomes refer to it.")] = None
    run_id: Annotated[str | None, Field(description="The attempt at the task.")] = None
    facts: Annotated[
        TaskFacts | None,
        Field(description="What is known of where it is done: technology, its version, tool, error."),
    ] = None
    urgent: Annotated[bool, Field(description="Never held out to measure the lift.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """A task and the type of the agent that gets it."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    task: Task
    agent_type: Annotated[str, Field(description="The type of the agent that gets it, such as backend.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCandidate:
    """A pattern that was considered for a context, likeliest first, with the numbers that decided.

    `relevance`: 0..1. `successes`, `failures`: trials of its solution in situations like this one, weighted by likeness
    and age. `score`: of its place, higher first. `withheld`: the reason where it is not in the context.
    """

    pattern_id: PatternId
    relevance: float
    successes: float
    failures: float
    score: float
    withheld: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text handed to an agent, and the patterns in it. `degraded`: the reason if patterns are missing.

    `confidence`: the chance that the first candidate is right, 0..1, None where nothing was found. `reason`: the rule
    that decided: `spoke`, `nothing_near`, `not_sure` (the hint is likely wrong), `agent_knows` (the agent is likelier
    right without it), `held_out` (no hint, to measure the lift) or `degraded` (the task alone, in time).
    """

    context_id: ContextId
    text: str
    patterns: tuple[Pattern, ...] = ()
    degraded: str | None = None
    confidence: float | None = None
    reason: str | None = None
    candidates: tuple[ContextCandidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContext:
    """A context that was handed out: its task and patterns, and, if requested, those of them that `worked`.

    `shown`: all its patterns, in the order of the block. `reason`: the rule that decided, None in a context
    of before revision 0027.
    """

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    pattern_ids: tuple[PatternId, ...]
    worked: tuple[PatternId, ...] = ()
    shown: tuple[PatternId, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a pattern that was handed out: one attempt of a distinct (project, task, run).

    `recorded_by` is the id of the key that reported it, None where no key was needed. `low_trust`: it is an agent's
    key; the id is then that of the first key of its rotation chain.
    """

    context_id: ContextId
    pattern_id: PatternId
    project_id: str
    task_id: str
    run_id: str
    worked: bool
    recorded_by: str | None = None
    low_trust: bool = False
