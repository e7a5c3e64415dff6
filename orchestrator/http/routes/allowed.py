"""`GET /v1/access`: the operations that the caller's key allows. It takes no scope."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import Route

from knowledge.access.permissions import operations
from orchestrator.http.operation_route import caller_knowledge

PATH = "/v1/access"


def add_access(app: FastAPI) -> None:
    """Add the route to an app."""
    app.router.routes.append(Route(PATH, _get_access, include_in_schema=False))


async def _get_access(request: Request) -> JSONResponse:
    """Return the operations that the caller may use, in one workspace, or in all (null)."""
    principal = caller_knowledge(request).principal
    allowed = sorted(operation for operation in operations() if principal.may(operation))
    return JSONResponse({"operations": allowed, "workspace": principal.workspace})
