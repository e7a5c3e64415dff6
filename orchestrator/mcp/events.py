"""What an orchestrator tells of its tasks and gates, as arguments of tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field, StrictBool

from knowledge.models import AppliesWhen

_FORBID: dict[str, Any] = {"extra": "forbid"}

Told = Annotated[str, Field(min_length=1)]
Project = Annotated[Told, Field(description="The project of the task.")]
TaskId = Annotated[Told, Field(description="The task's id: what is told of it later goes by it.")]
RunId = Annotated[str | None, Field(description="The attempt at the task; an attempt counts once.")]
TaskType = Annotated[str | None, Field(description="What kind of task, such as bugfix.")]
Technology = Annotated[str | None, Field(description="Such as python.")]
TaskDescription = Annotated[str | None, Field(description="What the task was.")]
WhenToTry = Annotated[str | None, Field(description="When this is worth trying again.")]
Conditions = Annotated[
    AppliesWhen | None, Field(description="Facts without which what solved it, or was accepted, does not apply at all.")
]
Tried = Annotated[
    list[UUID] | None,
    Field(max_length=1000, description="The patterns that the agent followed; of the others nothing is recorded."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """A task that failed."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Project
    task_id: TaskId
    agent_type: Annotated[Told, Field(description="The type of the agent, such as backend.")]
    failure_description: Annotated[Told, Field(description="What failed.")]
    error_message: Annotated[str | None, Field(description="The error, as it was printed.")] = None
    task_type: TaskType = None
    technology: Technology = None
    task_description: TaskDescription = None
    applies_when: Conditions = None
    run_id: RunId = None
    tried: Tried = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSolved:
    """A task that was solved."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Project
    task_id: TaskId
    solution_steps: Annotated[str | None, Field(description="What solved it. Without it, its failures stay open.")] = (
        None
    )
    verified_by: Annotated[
        str | None,
        Field(description="What showed that it works, such as the name of a test. Goes with solution_steps."),
    ] = None
    when_to_try: WhenToTry = None
    applies_when: Conditions = None
    run_id: RunId = None
    tried: Tried = None
    failures: Annotated[
        list[UUID] | None,
        Field(max_length=1000, description="The failures that this solved, by their entries; without it, all of them."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecided:
    """A decision at a gate."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Project
    gate_type: Annotated[Told, Field(description="The gate, such as design_review.")]
    accepted: Annotated[StrictBool, Field(description="Whether the proposal passed.")]
    proposal: Annotated[str | None, Field(description="What was proposed.")] = None
    approach: Annotated[str | None, Field(description="What was accepted, where it is not the proposal.")] = None
    human_feedback: Annotated[str | None, Field(description="Why not. Required for a rejection.")] = None
    agent_type: Annotated[str | None, Field(description="The type of the agent, such as backend.")] = None
    task_type: TaskType = None
    technology: Technology = None
    task_description: TaskDescription = None
    task_id: Annotated[str | None, Field(description="The task: it tells the proposals at a gate apart.")] = None
    run_id: RunId = None
    verified_by: Annotated[str | None, Field(description="What showed that what was accepted works.")] = None
    when_to_try: WhenToTry = None
    applies_when: Conditions = None


def as_told(event: TaskFailed | TaskSolved | GateDecided) -> Mapping[str, Any]:
    """Return an event as the arguments of its service."""
    return {field.name: getattr(event, field.name) for field in fields(event)}
