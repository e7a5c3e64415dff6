"""`GET /v1/access`: what whoever asks may ask for. Any key may know that of itself, so that it takes no scope."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import Route

from knowledge.access.operations import OPERATIONS
from orchestrator.http.opened import opened

PATH = "/v1/access"


def add_access(app: FastAPI) -> None:
    """Add the route to an app."""
    app.router.routes.append(Route(PATH, _tell_access, include_in_schema=False))


async def _tell_access(request: Request) -> JSONResponse:
    """Return the operations that the caller may ask for, in one workspace, or in all (null)."""
    principal = opened(request).principal
    allowed = sorted(operation for operation in OPERATIONS if principal.may(operation))
    return JSONResponse({"operations": allowed, "workspace": principal.workspace})
