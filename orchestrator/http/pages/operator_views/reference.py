"""The page of the API: each operation of its OpenAPI document, with its parameters and an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.http.pages.shell import respond


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """An operation: its route, its sentences, its parameters by name, and an example of its body."""

    method: str
    path: str
    summary: str
    description: str
    parameters: Sequence[tuple[str, str, bool]]
    body: str | None


async def show_reference(request: Request) -> Response:
    """Answer `/docs`: all operations, by subject; it holds nothing that is stored."""
    return respond("reference.html", groups=_read_groups(request.app.openapi()))


def _read_groups(document: Mapping[str, Any]) -> Mapping[str, Sequence[ReferenceRow]]:
    """Return the operations of an OpenAPI document by tag."""
    groups: dict[str, list[ReferenceRow]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault((operation.get("tags") or ["other"])[0], []).append(_read_row(path, method, operation))
    return dict(sorted(groups.items()))


def _read_row(path: str, method: str, operation: Mapping[str, Any]) -> ReferenceRow:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    example = content.get("example")
    return ReferenceRow(
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        description=operation.get("description", ""),
        parameters=[
            (each["name"], each.get("description", ""), each.get("required", False))
            for each in operation.get("parameters", ())
            if each["in"] != "header"
        ],
        body=None if example is None else json.dumps(example, ensure_ascii=False, indent=1),
    )
