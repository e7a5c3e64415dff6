"""The routes of operations: checkpoints, pruning, jobs, and how much there is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field, StrictBool

from jobs.table import run_job
from knowledge.errors import InvalidInput
from knowledge.models import CheckpointId, CheckpointReport, CheckpointType, PruneReport, WorkspaceStats
from orchestrator.http.opened import Open, Told, performs
from orchestrator.http.paging import LAST, Limit, link_next

_FORBID: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBody:
    """Which project reached which checkpoint; no project: a manual checkpoint of all.

    `distill`: have the chat model of the settings describe the patterns that are due for it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str | None = None
    checkpoint_type: str = CheckpointType.MANUAL
    distill: StrictBool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepBody:
    """Projects with something staged for this long."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    staged_for_seconds: Annotated[float, Field(ge=0, le=1e9, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """How many things a job dealt with; null if its slot was run already."""

    dealt_with: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceAnswer:
    """A workspace, and whether it holds anything: a project, or documents."""

    workspace: str
    holds_anything: bool


def add_operations(app: FastAPI) -> None:
    """Add the routes of operations to an app."""
    _add_work(app)
    _add_counts(app)


def _add_work(app: FastAPI) -> None:
    @app.post("/v1/checkpoints", status_code=201, tags=["operations"])
    @performs("checkpoints.process_checkpoint", problems=(409, 502))
    async def process_checkpoint(body: CheckpointBody, knowledge: Open, told: Told) -> CheckpointReport:
        """Embed what is staged."""
        if body.project_id is not None:
            return await knowledge.checkpoints.process_checkpoint(
                body.project_id, body.checkpoint_type, distill=body.distill, progress=told
            )
        if body.checkpoint_type != CheckpointType.MANUAL:
            raise InvalidInput("project_id", f"is required for a {body.checkpoint_type}")
        return await knowledge.checkpoints.process_all(distill=body.distill, progress=told)

    @app.post("/v1/sweeps", tags=["operations"])
    @performs("checkpoints.sweep", problems=(409, 502))
    async def sweep(body: SweepBody, knowledge: Open) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long."""
        return await knowledge.checkpoints.sweep(staged_for=timedelta(seconds=body.staged_for_seconds))

    @app.get("/v1/checkpoints/{checkpoint_id}", tags=["operations"])
    @performs("checkpoints.get")
    async def get_checkpoint(checkpoint_id: UUID, knowledge: Open) -> CheckpointReport:
        """Return the report of a checkpoint."""
        return await knowledge.checkpoints.get(CheckpointId(checkpoint_id))

    @app.post("/v1/prune", tags=["operations"])
    @performs("pruning.prune", problems=(409,))
    async def prune(knowledge: Open, told: Told, *, dry_run: Annotated[bool, Query()] = False) -> PruneReport:
        """Delete what is past its year, or say what would go; refused where the clock is ahead of that of Postgres."""
        return await knowledge.pruning.prune(dry_run=dry_run, progress=told)

    @app.post("/v1/jobs/{name}", tags=["operations"])
    @performs("run_job", problems=(409, 502))
    async def run_one_job(name: str, knowledge: Open, *, once_per_slot: bool = False) -> JobAnswer:
        """Run a job of the scheduler now; null where, `once_per_slot`, another process ran this slot, or does."""
        return JobAnswer(dealt_with=await run_job(knowledge, name, once_per_slot=once_per_slot))


def _add_counts(app: FastAPI) -> None:
    @app.get("/v1/stats", tags=["operations"])
    @performs("stats", problems=(409,))
    async def stats(knowledge: Open) -> WorkspaceStats:
        """Return the workspace's counts."""
        return await knowledge.stats()

    @app.get("/v1/workspace", tags=["operations"])
    @performs("holds_anything")
    async def holds_anything(knowledge: Open) -> WorkspaceAnswer:
        """Return which workspace is meant, and whether it holds anything: one that does not may be mistyped."""
        return WorkspaceAnswer(workspace=knowledge.workspace, holds_anything=await knowledge.holds_anything())

    @app.get("/v1/workspaces", tags=["operations"])
    @performs("workspaces")
    async def workspaces(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[str | None, Query(description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[str]:
        """Return the workspaces that hold anything, ascending."""
        found = await knowledge.workspaces(after=after, limit=limit)
        if len(found) == limit:
            link_next(request, response, after=found[-1], limit=limit)
        return found
