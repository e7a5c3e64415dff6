"""The routes of operations that are no plain rows of their table: checkpoints, and the workspace that is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fastapi import FastAPI
from pydantic import StrictBool

from knowledge.errors import InvalidInput
from knowledge.models import CheckpointReport, CheckpointType
from orchestrator.client.knowledge_client import WorkspaceAnswer
from orchestrator.http.opened import Open, Told, performs

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


def add_operations(app: FastAPI) -> None:
    """Add the routes of operations to an app."""

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

    @app.get("/v1/workspace", tags=["operations"])
    @performs("holds_anything")
    async def holds_anything(knowledge: Open) -> WorkspaceAnswer:
        """Return which workspace is meant, and whether it holds anything: one that does not may be mistyped."""
        return WorkspaceAnswer(workspace=knowledge.workspace, holds_anything=await knowledge.holds_anything())
