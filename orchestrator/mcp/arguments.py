"""What the tools take that are no plain rows of the table of operations, as JSON schemas describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field, StrictBool

from knowledge.models import AppliesWhen, CheckpointType
from orchestrator.client import fields

_FORBID: dict[str, Any] = {"extra": "forbid"}

Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What resolves an open entry."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    entry_id: Annotated[UUID, Field(description="The open entry, as capture or list_unresolved names it.")]
    solution_steps: Annotated[str | None, Field(description="Of a failure: what mended it.")] = None
    revision_approach: Annotated[str | None, Field(description="Of a rejection: the accepted revision.")] = None
    verified_by: Annotated[str | None, Field(description="What showed that it works. Required for a failure.")] = None
    when_to_try: Annotated[str | None, Field(description="When this is worth trying again.")] = None
    applies_when: Annotated[AppliesWhen | None, Field(description="Facts without which it does not apply at all.")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOf:
    """A task, and the agent that gets it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task_description: Annotated[Text, Field(description="The task that is about to be assigned.")]
    agent_type: Annotated[Text, Field(description="The type of the agent that gets it, such as backend.")]
    task_type: fields.TaskType = None
    technology: fields.Technology = None
    project_id: Annotated[str | None, Field(description="The task's project; outcomes need it.")] = None
    task_id: Annotated[str | None, Field(description="The task's id; outcomes go by it.")] = None
    run_id: Annotated[str | None, Field(description="The attempt at the task.")] = None
    facts: fields.Facts = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A checkpoint of a project."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Annotated[Text, Field(description="The project that reached a checkpoint.")]
    checkpoint_type: Annotated[
        CheckpointType,
        Field(description="What was reached. A project that is complete or cancelled gives up what is still open."),
    ] = CheckpointType.PHASE_COMPLETION


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeTold:
    """What came of a pattern of a context."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    context_id: Annotated[UUID, Field(description="The context, as build_context named it.")]
    pattern_id: Annotated[UUID, Field(description="The pattern of it that was tried.")]
    worked: Annotated[StrictBool, Field(description="Whether it solved the task.")]
    project_id: Annotated[str | None, Field(description="The task's project, unless the context has it.")] = None
    task_id: Annotated[str | None, Field(description="The task's id, unless the context has it.")] = None
    run_id: Annotated[str | None, Field(description="The attempt; an attempt counts once.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOf:
    """Whose open entries to list."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Annotated[Text | None, Field(description="Only those of this project.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="How many at most.")] = 20
    after: Annotated[UUID | None, Field(description="The last entry listed before, for those behind it.")] = None
