"""The OpenAPI document: what keys each operation takes, problem details as they are sent, examples."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from knowledge.access.operations import OPERATIONS, Reach
from orchestrator.client.calls import ARCHIVE_PATH, ARCHIVE_TYPE, ENTRIES_TYPE, PROBLEM
from orchestrator.http.examples import ANSWERS, PROBLEMS, REQUESTS, VALUES
from orchestrator.http.opened import Performed, performed

_SECURITY: Final = "key"
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "The request's own id where it gave a harmless one, else one that was made for it.",
        "schema": {"type": "string"},
    },
}
_RETRY: Final = {
    "Retry-After": {"description": "When to come again, in seconds.", "schema": {"type": "integer", "minimum": 1}}
}


def document_of(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an app, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        made.setdefault("components", {})["securitySchemes"] = {
            _SECURITY: {"type": "http", "scheme": "bearer", "description": "A key: `hardwon keys create` makes one."}
        }
        for route in app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in route.methods or ():
                    _complete(route, made["paths"][route.path_format][method.lower()])
        app.openapi_schema = made
    return app.openapi_schema


def _complete(route: APIRoute, told: dict[str, Any]) -> None:
    name, does = route.name, performed(route)
    told["operationId"] = name
    _say_scopes(does, told)
    for parameter in told.get("parameters", ()):
        _give_example(parameter)
    if "requestBody" in told and name in REQUESTS:
        for kind in told["requestBody"]["content"].values():
            kind["example"] = REQUESTS[name]
    responses = told["responses"]
    for status in [*_problems(route, does, told), 500]:
        responses[str(status)] = {
            "description": HTTPStatus(int(status)).phrase,
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEMS[status]}},
        }
    for status, response in responses.items():
        response["headers"] = response.get("headers", {}) | _HEADERS | (_RETRY if status in {"429", "503"} else {})
        as_json = "application/json" in response.get("content", {})
        if status.startswith("2") and as_json and name in ANSWERS:
            response["content"]["application/json"]["example"] = ANSWERS[name]
    if name == "export_archive":
        responses["200"]["content"] = {ARCHIVE_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    if name == "export_entries":
        responses["200"]["content"] = {
            ENTRIES_TYPE: {"schema": {"type": "string"}, "example": json.dumps(REQUESTS["capture"]) + "\n"}
        }


def _say_scopes(does: Performed, told: dict[str, Any]) -> None:
    if does.operation is None:
        told["security"] = []
        return
    needed = OPERATIONS[does.operation]
    scopes = " and ".join(f"`{scope}`" for scope in sorted(needed.scopes))
    where = ", of all workspaces" if needed.reach is Reach.STORE else ""
    told["description"] = f"{told.get('description', '')}\n\nTakes a key of scope {scopes}{where}."
    told["security"] = [{_SECURITY: []}]
    told["x-hardwon-scopes"] = sorted(needed.scopes)


def _give_example(parameter: dict[str, Any]) -> None:
    value = VALUES.get(parameter["name"])
    if value is not None:
        parameter["example"] = value


def _problems(route: APIRoute, does: Performed, told: dict[str, Any]) -> list[int]:
    """Return which problems an operation may end in."""
    if does.operation is None:
        return list(does.problems)
    found = {401, 403, 422, 429, 503, *does.problems}
    if "{" in route.path:
        found.add(404)
    if "requestBody" in told and route.path != ARCHIVE_PATH:
        found |= {408, 413}
    if does.operation.startswith(("documents.", "answering.")):
        found |= {409, 502}
    return sorted(found)
