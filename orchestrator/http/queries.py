"""The routes of queries: what was learned, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Response
from pydantic import Field, StrictBool

from knowledge.models import ContextId, FactsTold, Pattern, PatternId
from orchestrator.http.opened import Open, performs

_FORBID: dict[str, Any] = {"extra": "forbid"}

MaxResults = Annotated[int, Field(strict=True)]
Relevance = Annotated[float | None, Field(ge=0, le=1, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueryBody:
    """A task about to be assigned."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task_description: str
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    max_results: MaxResults = 5
    min_relevance: Relevance = None
    only_if_sure: StrictBool = False
    facts: FactsTold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureQueryBody:
    """A failure that just happened."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    failure_description: str
    error_message: str | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    max_results: MaxResults = 3
    min_relevance: Relevance = None
    only_if_sure: StrictBool = False
    facts: FactsTold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQueryBody:
    """A proposal about to go to a gate."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    gate_type: str
    proposal: str
    project_id: str | None = None
    max_results: MaxResults = 5
    min_relevance: Relevance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeBody:
    """What came of a pattern of a context; what is not given is taken from the context."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    context_id: UUID
    pattern_id: UUID
    worked: StrictBool
    project_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Patterns, best first. `degraded` is null: a query that fails is an error."""

    patterns: list[Pattern]
    degraded: str | None = None


def add_queries(app: FastAPI) -> None:
    """Add the routes of queries to an app."""

    @app.post("/v1/queries/task", tags=["queries"])
    @performs("queries.query_for_task", problems=(409, 502))
    async def query_for_task(body: TaskQueryBody, knowledge: Open) -> Patterns:
        """What to know before a task is assigned."""
        found = await knowledge.queries.query_for_task(
            body.task_description,
            body.agent_type,
            body.task_type,
            body.technology,
            body.max_results,
            min_relevance=body.min_relevance,
            only_if_sure=body.only_if_sure,
            facts=body.facts,
        )
        return Patterns(patterns=found)

    @app.post("/v1/queries/failure", tags=["queries"])
    @performs("queries.query_for_failure", problems=(409, 502))
    async def query_for_failure(body: FailureQueryBody, knowledge: Open) -> Patterns:
        """How failures like this one were solved."""
        found = await knowledge.queries.query_for_failure(
            body.failure_description,
            body.error_message,
            body.agent_type,
            body.task_type,
            body.max_results,
            technology=body.technology,
            min_relevance=body.min_relevance,
            only_if_sure=body.only_if_sure,
            facts=body.facts,
        )
        return Patterns(patterns=found)

    @app.post("/v1/queries/gate", tags=["queries"])
    @performs("queries.query_for_gate", problems=(409, 502))
    async def query_for_gate(body: GateQueryBody, knowledge: Open) -> Patterns:
        """What people objected to in proposals like this one, and what passed at once."""
        found = await knowledge.queries.query_for_gate(
            body.gate_type,
            body.proposal,
            project_id=body.project_id,
            max_results=body.max_results,
            min_relevance=body.min_relevance,
        )
        return Patterns(patterns=found)


def add_outcomes(app: FastAPI) -> None:
    """Add the route of outcomes to an app."""

    @app.post("/v1/outcomes", status_code=204, tags=["queries"])
    @performs("outcomes.record_outcome", problems=(404,))
    async def record_outcome(body: OutcomeBody, knowledge: Open, response: Response) -> None:
        """Keep whether a pattern of a context worked: a distinct (project, task, run) is one attempt.

        Location is the pattern whose attempt it is: another one, where that of the context was joined to it since.
        """
        pattern_id = await knowledge.outcomes.record_outcome(
            ContextId(body.context_id),
            PatternId(body.pattern_id),
            worked=body.worked,
            project_id=body.project_id,
            task_id=body.task_id,
            run_id=body.run_id,
        )
        response.headers["Location"] = f"/v1/patterns/{pattern_id}"
