"""The routes of checkpoints and of the workspace, which the table of operations does not describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from fastapi import FastAPI
from pydantic import StrictBool

from hardwon.client.arguments import lenient
from hardwon.client.knowledge_client import WorkspaceAnswer
from hardwon.errors import InvalidInput
from knowledge.models import CheckpointReport, CheckpointType
from orchestrator.http.operation_route import CallerKnowledge, ProgressCallback, performs

_FORBID: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBody:
    """A checkpoint of a project; without a project, a manual checkpoint of all.

    `distill`: the chat model of the settings describes the patterns that are due for it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str | None = None
    checkpoint_type: str = CheckpointType.MANUAL
    distill: StrictBool = False


def add_operations(app: FastAPI) -> None:
    """Add the routes of operations to an app."""

    @app.post("/v1/checkpoints", status_code=201, tags=["operations"])
    @performs("checkpoints.process_checkpoint", problems=(409, 502))
    async def process_checkpoint(
        body: Annotated[CheckpointBody, lenient(CheckpointBody)], knowledge: CallerKnowledge, progress: ProgressCallback
    ) -> CheckpointReport:
        """Embed what is staged."""
        if body.project_id is not None:
            return await knowledge.checkpoints.process_checkpoint(
                body.project_id, body.checkpoint_type, distill=body.distill, progress=progress
            )
        if body.checkpoint_type != CheckpointType.MANUAL:
            raise InvalidInput("project_id", f"is required for a {body.checkpoint_type}")
        return await knowledge.checkpoints.process_all(distill=body.distill, progress=progress)

    @app.get("/v1/workspace", tags=["operations"])
    @performs("holds_anything")
    async def holds_anything(knowledge: CallerKnowledge) -> WorkspaceAnswer:
        """Return the workspace of the request, and whether it holds anything: an empty one may be mistyped."""
        return WorkspaceAnswer(workspace=knowledge.workspace, holds_anything=await knowledge.holds_anything())
