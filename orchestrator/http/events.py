"""The routes of events: what happened to a task or at a gate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI
from pydantic import Field, StrictBool

from knowledge.memory.events import Kept
from knowledge.models import AppliesWhen
from orchestrator.http.opened import Open, performs

_MOST_TRIED = 1000
_FORBID: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedBody:
    """A task that failed: which one, how, and in spite of which patterns of its contexts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str
    task_id: str
    agent_type: str
    failure_description: str
    error_message: str | None = None
    task_type: str | None = None
    technology: str | None = None
    task_description: str | None = None
    applies_when: AppliesWhen | None = None
    run_id: str | None = None
    tried: Annotated[list[UUID] | None, Field(max_length=_MOST_TRIED)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedBody:
    """A task that was solved: which one, how, what showed it, and by which patterns of its contexts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str
    task_id: str
    solution_steps: str | None = None
    verified_by: str | None = None
    when_to_try: str | None = None
    applies_when: AppliesWhen | None = None
    run_id: str | None = None
    tried: Annotated[list[UUID] | None, Field(max_length=_MOST_TRIED)] = None
    failures: Annotated[list[UUID] | None, Field(max_length=_MOST_TRIED)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBody:
    """A decision at a gate: what was proposed, and what was accepted or why it was not."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str
    gate_type: str
    accepted: StrictBool
    proposal: str | None = None
    approach: str | None = None
    human_feedback: str | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    task_description: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    verified_by: str | None = None
    when_to_try: str | None = None
    applies_when: AppliesWhen | None = None


def _told(body: FailedBody | SolvedBody | DecidedBody) -> dict[str, Any]:
    return {field.name: getattr(body, field.name) for field in fields(body)}


def add_events(app: FastAPI) -> None:
    """Add the routes of events to an app."""

    @app.post("/v1/tasks:failed", tags=["events"])
    @performs("events.task_failed", problems=(409,))
    async def task_failed(body: FailedBody, knowledge: Open) -> Kept:
        """Open a failure until its task is solved; what was handed out for the run did not work."""
        return await knowledge.events.task_failed(**_told(body))

    @app.post("/v1/tasks:solved", tags=["events"])
    @performs("events.task_solved", problems=(409,))
    async def task_solved(body: SolvedBody, knowledge: Open) -> Kept:
        """Resolve the open failures of a task; what was handed out since the run failed worked."""
        return await knowledge.events.task_solved(**_told(body))

    @app.post("/v1/gates:decided", tags=["events"])
    @performs("events.gate_decided", problems=(409,))
    async def gate_decided(body: DecidedBody, knowledge: Open) -> Kept:
        """Keep a rejection until its revision is accepted, resolve it, or keep a first-attempt approval."""
        return await knowledge.events.gate_decided(**_told(body))
