"""What the tools take, as JSON schemas describe it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field, StrictBool

from knowledge.models import AppliesWhen, CheckpointType, FactsTold

_FORBID: dict[str, Any] = {"extra": "forbid"}

Text = Annotated[str, Field(min_length=1)]
AgentType = Annotated[str | None, Field(description="What kind of agent asks, such as backend.")]
TaskType = Annotated[str | None, Field(description="What kind of task, such as bugfix.")]
Technology = Annotated[str | None, Field(description="Such as python.")]
MaxResults = Annotated[int, Field(ge=1, le=100, description="How many patterns at most.")]
MinRelevance = Annotated[
    float | None, Field(ge=0, le=1, description="Patterns less relevant are left out; without it, the settings say.")
]
OnlyIfSure = Annotated[StrictBool, Field(description="Nothing at all where the best is likely no match.")]
Facts = Annotated[
    FactsTold | None,
    Field(description="What is known of where it is done: technology, its version, tool, error."),
]


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
class TaskQuestion:
    """A task about to be assigned."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task_description: Annotated[Text, Field(description="The task that is about to be assigned.")]
    agent_type: AgentType = None
    task_type: TaskType = None
    technology: Technology = None
    max_results: MaxResults = 5
    min_relevance: MinRelevance = None
    only_if_sure: OnlyIfSure = False
    facts: Facts = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureQuestion:
    """A failure that just happened."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    failure_description: Annotated[Text, Field(description="What failed.")]
    error_message: Annotated[str | None, Field(description="The error, as it was printed.")] = None
    agent_type: AgentType = None
    task_type: TaskType = None
    technology: Technology = None
    max_results: MaxResults = 3
    min_relevance: MinRelevance = None
    only_if_sure: OnlyIfSure = False
    facts: Facts = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQuestion:
    """A proposal about to go to a gate."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    gate_type: Annotated[Text, Field(description="The gate, such as design_review.")]
    proposal: Annotated[Text, Field(description="What is about to be proposed.")]
    project_id: Annotated[str | None, Field(description="The project; its own decisions count more.")] = None
    max_results: MaxResults = 5
    min_relevance: MinRelevance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOf:
    """A task, and the agent that gets it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task_description: Annotated[Text, Field(description="The task that is about to be assigned.")]
    agent_type: Annotated[Text, Field(description="The type of the agent that gets it, such as backend.")]
    task_type: TaskType = None
    technology: Technology = None
    project_id: Annotated[str | None, Field(description="The task's project; outcomes need it.")] = None
    task_id: Annotated[str | None, Field(description="The task's id; outcomes go by it.")] = None
    run_id: Annotated[str | None, Field(description="The attempt at the task.")] = None
    facts: Facts = None


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
