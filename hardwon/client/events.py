"""The events of tasks and gates over HTTP."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from contextlib import suppress
from typing import Annotated
from uuid import UUID

from pydantic import Field

from hardwon.client import fields
from hardwon.client.fields import LAST
from hardwon.client.operations import Operation, Service, Tool, Wire
from hardwon.coercion import coerce_arguments
from hardwon.models.choices import ChoiceRecord, RecomputedChoice
from hardwon.models.ids import ContextId, PatternId
from hardwon.models.reports import EventResult
from hardwon.validation import as_id

_TaskId = Annotated[str, Field(description="The task's id: what is told of it later goes by it.")]
_VerifiedBy = Annotated[
    str | None, Field(description="What showed that it works, such as the name of a test. Goes with solution_steps.")
]
_Failures = Annotated[
    Collection[UUID | str] | None,
    Field(
        max_length=1000,
        description="The failures that this solved, by their entries; without it, the one it can be about.",
    ),
]
_TaskAtGate = Annotated[str | None, Field(description="The task: it tells the proposals at a gate apart.")]


class RemoteEvents(Service, name="events", tag="events", scopes=("capture", "query")):
    """`TaskEventService` over HTTP."""

    @Operation("POST", "/v1/tasks:failed", problems=(409,), tool=Tool(title="Tell that a task failed"))
    async def task_failed(
        self,
        *,
        project_id: fields.Project,
        task_id: _TaskId,
        agent_type: Annotated[str, Field(description="The type of the agent, such as backend.")],
        failure_description: Annotated[str, Field(description="What failed.")],
        error_message: fields.ErrorMessage = None,
        task_type: fields.TaskType = None,
        technology: fields.Technology = None,
        task_description: fields.TaskDescription = None,
        applies_when: fields.Conditions = None,
        run_id: fields.RunId = None,
        tried: fields.Tried = None,
    ) -> EventResult:
        """Open a failure until its task is solved, and record that what its run was handed did not work."""

    @Operation("POST", "/v1/tasks:solved", problems=(409,), tool=Tool(title="Tell that a task was solved"))
    async def task_solved(
        self,
        *,
        project_id: fields.Project,
        task_id: _TaskId,
        solution_steps: Annotated[
            str | None, Field(description="What solved it. Without it, its failures stay open.")
        ] = None,
        verified_by: _VerifiedBy = None,
        when_to_try: fields.WhenToTry = None,
        applies_when: fields.Conditions = None,
        run_id: fields.RunId = None,
        tried: fields.Tried = None,
        failures: _Failures = None,
    ) -> EventResult:
        """Resolve the open failure that a solution is about, and record that what was handed out since then worked."""

    @Operation("POST", "/v1/gates:decided", problems=(409,), tool=Tool(title="Tell what a gate decided"))
    async def gate_decided(
        self,
        *,
        project_id: fields.Project,
        gate_type: fields.GateType,
        accepted: Annotated[bool, Field(description="Whether the proposal passed.")],
        proposal: Annotated[str | None, Field(description="What was proposed.")] = None,
        approach: Annotated[str | None, Field(description="What was accepted, where it is not the proposal.")] = None,
        human_feedback: Annotated[str | None, Field(description="Why not. Required for a rejection.")] = None,
        agent_type: fields.AgentType = None,
        task_type: fields.TaskType = None,
        technology: fields.Technology = None,
        task_description: fields.TaskDescription = None,
        task_id: _TaskAtGate = None,
        run_id: fields.RunId = None,
        verified_by: Annotated[str | None, Field(description="What showed that what was accepted works.")] = None,
        when_to_try: fields.WhenToTry = None,
        applies_when: fields.Conditions = None,
    ) -> EventResult:
        """Keep a rejection until its revision is accepted, resolve it, or keep a first-attempt approval."""


class RemoteContextLog(Service, name="contexts", tag="queries", scopes=("query",)):
    """`ContextLog` over HTTP."""

    @Operation("GET", "/v1/contexts", operation_id="list_contexts", cursor="context_id")
    async def list(
        self,
        *,
        project_id: Annotated[
            str | None, Wire(also="project"), Field(description="Only those of this project; `project` is the same.")
        ] = None,
        reason: Annotated[str | None, Field(description="Only those that this rule decided.")] = None,
        given: Annotated[str | None, Field(description="yes, silent, held (out by chance) or late.")] = None,
        outcome: Annotated[str | None, Field(description="worked, failed or none.")] = None,
        pattern_id: Annotated[
            PatternId | None, Wire(name="pattern", field="pattern"), Field(description="Only those that showed it.")
        ] = None,
        days: Annotated[int | None, Field(ge=1, le=3660, description="Only of the last so many days.")] = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
        after: Annotated[ContextId | None, LAST] = None,
    ) -> builtins.list[ChoiceRecord]:
        """Return the contexts, the latest first: for which task, what was shown, and the rule that decided."""

    @Operation("GET", "/v1/contexts/{context_id}", operation_id="show_context", problems=(404,))
    async def show(self, context_id: ContextId) -> RecomputedChoice:
        """Return how a context was chosen, and what the same choice gives when it is made again."""


class RemoteOutcomes(Service, name="outcomes", tag="queries", scopes=("query",)):
    """`OutcomeService` over HTTP."""

    @coerce_arguments
    async def record_outcome(
        self,
        context_id: ContextId,
        pattern_id: PatternId,
        *,
        worked: bool,
        project_id: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
    ) -> PatternId:
        """Record whether a pattern of a context worked; return the pattern that counts the attempt."""
        body = {
            "context_id": str(as_id("context_id", context_id)),
            "pattern_id": str(as_id("pattern_id", pattern_id)),
            "worked": worked,
            "project_id": project_id,
            "task_id": task_id,
            "run_id": run_id,
        }
        response = await self._api.send("POST", "/v1/outcomes", body=body)
        with suppress(ValueError):
            return PatternId(UUID(response.headers.get("Location", "").rpartition("/")[-1]))
        return PatternId(as_id("pattern_id", pattern_id))  # a server of the release before does not say

    @Operation(
        "POST", "/v1/contexts/{context_id}/result", problems=(404,), tool=Tool(title="Tell how a task went unaided")
    )
    async def record_unaided(
        self,
        context_id: Annotated[ContextId, Field(description="The context, which held no pattern.")],
        *,
        worked: Annotated[bool, Field(description="Whether the task was solved.")],
    ) -> None:
        """Record whether a task was solved whose context held no pattern; the first result stands."""
