"""The OpenAPI document, with the key scopes of each operation, problem details, and examples."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from hardwon.client.transport import ARCHIVE_PATH, ARCHIVE_TYPE, ENTRIES_TYPE, PROBLEM
from knowledge.access.permissions import Reach, operations
from orchestrator.http.operation_route import RouteOperation, route_operation

_FILE: Final[dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)


def _resolve(value: Any) -> Any:
    """Return a value with each reference replaced by what it stands for."""
    if isinstance(value, str) and value.startswith("$"):
        return _resolve(_FILE["shared"][value[1:]])
    if isinstance(value, list):
        return [_resolve(each) for each in value]
    if isinstance(value, dict):
        whole = _resolve(f"${value['$']}") if "$" in value else {}
        return whole | {name: _resolve(each) for name, each in value.items() if name != "$"}
    return value


VALUES: Final[dict[str, Any]] = _resolve(_FILE["values"])
"""Parameters in a path, a query or a header."""
REQUESTS: Final[dict[str, Any]] = _resolve(_FILE["requests"])
ANSWERS: Final[dict[str, Any]] = _resolve(_FILE["answers"])
"""By operation; none where it would be counts and flags, which the schema tells as well."""
PROBLEMS: Final[dict[int, dict[str, Any]]] = {int(status): _resolve(body) for status, body in _FILE["problems"].items()}
_SECURITY: Final = "key"
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "X-Request-ID": {
        "description": "The id that the request sent, where it is safe to log; else a generated one.",
        "schema": {"type": "string"},
    },
}
_RETRY_HEADERS: Final = {
    "Retry-After": {
        "description": "Seconds until the request may be repeated.",
        "schema": {"type": "integer", "minimum": 1},
    }
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an app; it is generated once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        document.setdefault("components", {})["securitySchemes"] = {
            _SECURITY: {"type": "http", "scheme": "bearer", "description": "A key: `hardwon keys create` makes one."}
        }
        for route in app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in route.methods or ():
                    _complete_operation(route, document["paths"][route.path_format][method.lower()])
        app.openapi_schema = document
    return app.openapi_schema


def _complete_operation(route: APIRoute, operation: dict[str, Any]) -> None:
    name, performs = route.name, route_operation(route)
    operation["operationId"] = name
    _add_scopes(performs, operation)
    for parameter in operation.get("parameters", ()):
        _add_example(parameter)
    if "requestBody" in operation and name in REQUESTS:
        for kind, content in operation["requestBody"]["content"].items():
            if isinstance(REQUESTS[name], str) or kind == "application/json":
                content["example"] = REQUESTS[name]
    responses = operation["responses"]
    for status in [*_problem_statuses(route, performs, operation), 500]:
        responses[str(status)] = {
            "description": HTTPStatus(int(status)).phrase,
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEMS[status]}},
        }
    for status, response in responses.items():
        response["headers"] = (
            response.get("headers", {}) | _HEADERS | (_RETRY_HEADERS if status in {"429", "503"} else {})
        )
        has_json = "application/json" in response.get("content", {})
        if status.startswith("2") and has_json and name in ANSWERS:
            response["content"]["application/json"]["example"] = ANSWERS[name]
    if name == "export_archive":
        responses["200"]["content"] = {ARCHIVE_TYPE: {"schema": {"type": "string", "format": "binary"}}}
    if name == "export_entries":
        responses["200"]["content"] = {
            ENTRIES_TYPE: {"schema": {"type": "string"}, "example": json.dumps(REQUESTS["capture"]) + "\n"}
        }


def _add_scopes(performs: RouteOperation, operation: dict[str, Any]) -> None:
    if performs.operation is None:
        operation["security"] = []
        return
    needed = operations()[performs.operation]
    scopes = " and ".join(f"`{scope}`" for scope in sorted(needed.scopes))
    reach = ", of all workspaces" if needed.reach is Reach.STORE else ""
    operation["description"] = f"{operation.get('description', '')}\n\nTakes a key of scope {scopes}{reach}."
    operation["security"] = [{_SECURITY: []}]
    operation["x-hardwon-scopes"] = sorted(needed.scopes)


def _add_example(parameter: dict[str, Any]) -> None:
    value = VALUES.get(parameter["name"])
    if value is not None:
        parameter["example"] = value


def _problem_statuses(route: APIRoute, performs: RouteOperation, operation: dict[str, Any]) -> list[int]:
    """Return the error statuses that an operation may answer."""
    if performs.operation is None:
        return list(performs.problems)
    statuses = {401, 403, 422, 429, 503, *performs.problems}
    if "{" in route.path:
        statuses.add(404)
    if "requestBody" in operation and route.path != ARCHIVE_PATH:
        statuses |= {408, 413}
    if performs.operation.startswith(("documents.", "answering.")):
        statuses |= {409, 502}
    return sorted(statuses)
