"""Checkpoints over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from knowledge.models import CheckpointId, CheckpointReport, CheckpointType
from knowledge.ports import Progress
from orchestrator.client.calls import watch_progress
from orchestrator.client.table import Operation, Service, Wire


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
