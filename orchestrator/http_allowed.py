"""`GET /v1/access`: what whoever asks may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI

from knowledge.access.operations import OPERATIONS
from orchestrator.http_opened import Open


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The operations that a caller may ask for, in one workspace, or in all (None)."""

    operations: list[str]
    workspace: str | None


def add_access(app: FastAPI) -> None:
    """Add the route to an app."""

    @app.get("/v1/access", tags=["health"])
    async def tell_access(knowledge: Open) -> Access:
        """Return what the caller may ask for."""
        principal = knowledge.principal
        allowed = sorted(operation for operation in OPERATIONS if principal.may(operation))
        return Access(operations=allowed, workspace=principal.workspace)
