"""Outcomes over HTTP."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from knowledge.forms import as_id
from knowledge.models import ContextId, PatternId
from orchestrator.client.table import Service


class RemoteOutcomes(Service):
    """`OutcomeService` over HTTP."""

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
