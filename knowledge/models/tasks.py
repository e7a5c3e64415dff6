"""Tasks, the context that an agent was handed, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import StrictInt

from knowledge.models.patterns import Pattern
from knowledge.names import ContextId, PatternId

FactsTold = Mapping[str, str | Sequence[StrictInt]]
"""Facts by their names; a version may be told in numbers, as `sys.version_info[:2]` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task about to be assigned. `type` is its kind, such as `bugfix`; `task_id` and `project_id` where known.

    `facts` are what is known of where it is done: `version` (of the technology), `tool`, `error`, `technology`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    description: str
    type: str | None = None
    technology: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    facts: FactsTold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text handed to an agent, and the patterns in it. `degraded` says why knowledge is missing, if it is."""

    context_id: ContextId
    text: str
    patterns: tuple[Pattern, ...] = ()
    degraded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """A context that was handed out: for which task, with which patterns; with those of it that `worked`, if asked."""

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    pattern_ids: tuple[PatternId, ...]
    worked: tuple[PatternId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a pattern that was handed out: one attempt of a distinct (project, task, run).

    `recorded_by` is the id of the key that told it, None where none was needed; `low_trust`: that is an agent's, and of
    one that was rotated the id is that of the first.
    """

    context_id: ContextId
    pattern_id: PatternId
    project_id: str
    task_id: str
    run_id: str
    worked: bool
    recorded_by: str | None = None
    low_trust: bool = False
