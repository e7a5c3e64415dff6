"""The quick way through a route: a plain JSON body that fits is read, worked on and answered without more ado.

Whatever is not so plain takes FastAPI's way, which says what is wrong with it: another content type, a header that the
route declares, a body that does not fit. Half of what a capture cost beside the capture itself was that way (measured).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi.params import Header
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.http.bodies import MAX_DEPTH, deeper_than

Quick = Callable[[Request], Coroutine[Any, Any, Response | None]]
"""Answers a request, or returns None, with nothing done, for one that is to take FastAPI's way."""

_PLAIN: Final = b"application/json"


def quick_way(
    route: APIRoute, opened: object, open_for: Callable[[Request], Any], *, longest_workspace: int, workspace: bytes
) -> Quick | None:
    """Return the quick way through a route that takes a body, the services and optional headers; None for any other.

    `opened`: the annotation that the services have as a parameter; `open_for` gives them.
    """
    found = _parameters(route, opened)
    if found is None or route.response_model is None or not isinstance(route.status_code or 200, int):
        return None
    body_type, services, declared = found
    read, write = _adapter(body_type), _adapter(route.response_model)
    endpoint, status = route.endpoint, route.status_code or 200

    async def answer(request: Request) -> Response | None:
        plain = 0
        for name, value in request.scope["headers"]:
            if name == b"content-type":
                plain += 1 if value == _PLAIN else 2
            elif name in declared or (name == workspace and len(value) > longest_workspace):
                return None
        if plain != 1:
            return None
        content = await request.body()
        if deeper_than(content, MAX_DEPTH):
            return None
        try:
            body = read.validate_json(content)
        except ValidationError:
            return None
        answered = await endpoint(body, **{services: open_for(request)})
        return Response(write.dump_json(answered, by_alias=True), status, media_type="application/json")

    return answer


@cache  # making one takes 5 ms, and routes share some of their types
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parameters(route: APIRoute, opened: object) -> tuple[Any, str, frozenset[bytes]] | None:
    """Return the type of the body, the name of the services, and the headers; None where a route takes more."""
    body: Any = None
    services = ""
    declared = set()
    for position, parameter in enumerate(inspect.signature(route.endpoint, eval_str=True).parameters.values()):
        kind = parameter.annotation
        if position == 0 and isinstance(kind, type) and is_dataclass(kind):
            body = kind
        elif kind == opened:
            services = parameter.name
        elif parameter.default is None and _is_header(kind):
            declared.add(parameter.name.replace("_", "-").encode())
        else:
            return None
    return (body, services, frozenset(declared)) if body is not None and services else None


def _is_header(kind: object) -> bool:
    return get_origin(kind) is Annotated and any(
        isinstance(each, Header) and each.alias is None for each in get_args(kind)[1:]
    )
