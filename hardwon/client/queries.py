"""Queries over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field

from hardwon.client import fields
from hardwon.client.operations import Envelope, Operation, Service, Tool, Wire
from hardwon.client.transport import watch_progress
from hardwon.coercion import Alias
from hardwon.models.ids import CheckpointId, CheckpointType, PatternId
from hardwon.models.patterns import FoundPatterns, Pattern
from hardwon.models.reports import CheckpointReport, Progress


class RemoteCheckpoints(Service, name="checkpoints", tag="operations", scopes=("query",)):
    """`CheckpointEmbeddingService` over HTTP."""

    async def process_checkpoint(
        self,
        project_id: str,
        checkpoint_type: CheckpointType | str,
        *,
        distill: bool = False,
        progress: Progress | None = None,
    ) -> CheckpointReport:
        """Embed what a project has staged."""
        body = {"project_id": project_id, "checkpoint_type": checkpoint_type}
        return await self._process(body, progress, distill=distill)

    async def process_all(self, *, distill: bool = False, progress: Progress | None = None) -> CheckpointReport:
        """Embed what all projects have staged."""
        return await self._process({}, progress, distill=distill)

    async def _process(self, body: dict[str, Any], progress: Progress | None, *, distill: bool) -> CheckpointReport:
        if distill:  # sent only then: a server of the release before does not know it
            body = {**body, "distill": True}
        async with watch_progress(self._api, progress) as operation:
            return await self._api.call(
                "POST", "/v1/checkpoints", CheckpointReport, body=body, params=operation, timeout_seconds=None
            )

    @Operation("POST", "/v1/sweeps", scopes=("admin",), problems=(409, 502), long=True)
    async def sweep(self, *, staged_for: Annotated[timedelta, Wire(field="staged_for")]) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long."""

    @Operation("GET", "/v1/checkpoints/{checkpoint_id}", operation_id="get_checkpoint")
    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint."""


_ENDS = Wire(ends=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns(Envelope):
    """Patterns, best first. `degraded`: the index is down, and they are known by the same text or error alone.

    It is null else: a query that fails is an error.
    """

    patterns: list[Pattern]
    degraded: str | None = None

    @classmethod
    def wrap(cls, value: list[Pattern]) -> Self:
        """Return the answer for what a query found."""
        return cls(patterns=value, degraded=value.degraded if isinstance(value, FoundPatterns) else None)

    def unwrap(self) -> list[Pattern]:
        """Return what the query found."""
        return FoundPatterns(self.patterns, degraded=self.degraded)


class RemoteQueries(Service, name="queries", tag="queries", scopes=("query",)):
    """`RAGQueryService` over HTTP."""

    @Operation(
        "POST",
        "/v1/queries/task",
        problems=(409, 502),
        answer=Patterns,
        tool=Tool(title="What to know before a task", answer=Patterns, read_only=True),
    )
    async def query_for_task(
        self,
        task_description: Annotated[
            str, _ENDS, Alias(("description",)), Field(description="The task that is about to be assigned.")
        ],
        agent_type: fields.AgentType = None,
        task_type: fields.AskedTaskType = None,
        technology: fields.Technology = None,
        max_results: fields.MaxResults = 5,
        *,
        min_relevance: fields.MinRelevance = None,
        only_if_sure: fields.OnlyIfSure = False,
        facts: fields.Facts = None,
    ) -> list[Pattern]:
        """Return how situations like that of a task were resolved before, best first."""

    @Operation(
        "POST",
        "/v1/queries/failure",
        problems=(409, 502),
        answer=Patterns,
        tool=Tool(title="How such failures were solved", answer=Patterns, read_only=True),
    )
    async def query_for_failure(
        self,
        failure_description: Annotated[str, _ENDS, Field(description="What failed.")],
        error_message: Annotated[str | None, _ENDS, Field(description="The error, as it was printed.")] = None,
        agent_type: fields.AgentType = None,
        task_type: fields.AskedTaskType = None,
        max_results: fields.MaxResults = 3,
        *,
        technology: fields.Technology = None,
        min_relevance: fields.MinRelevance = None,
        only_if_sure: fields.OnlyIfSure = False,
        facts: fields.Facts = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved before, best first."""

    @Operation(
        "POST",
        "/v1/queries/gate",
        problems=(409, 502),
        answer=Patterns,
        tool=Tool(title="What was decided on such proposals", answer=Patterns, read_only=True),
    )
    async def query_for_gate(
        self,
        gate_type: fields.GateType,
        proposal: Annotated[str, _ENDS, Field(description="What is about to be proposed.")],
        *,
        project_id: Annotated[str | None, Field(description="The project; its own decisions count more.")] = None,
        max_results: fields.MaxResults = 5,
        min_relevance: fields.MinRelevance = None,
    ) -> list[Pattern]:
        """Return what people objected to in proposals like this one, and what passed at once, best first."""

    @Operation("GET", "/v1/patterns/{pattern_id}", operation_id="get_pattern", tag="patterns")
    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern."""
