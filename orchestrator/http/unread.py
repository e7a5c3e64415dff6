"""Reject unknown query parameters and bodies of requests that may change something, and JSON nested too deep.

Else a prune with a misplaced `dry_run` would delete. Requests that only read may have unknown parameters: scrapers and
caches add their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from knowledge.errors import InvalidInput
from orchestrator.entries import as_invalid_input

MAX_DEPTH: Final = 20
"""Deepest nesting of JSON: an entry's is three, a batch's five."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods whose body has no meaning (RFC 9110, 9.3.1); some clients always send one."""


def make_unread_check(route: APIRoute) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """Return a check that raises InvalidInput for a query parameter or body that the route does not read."""
    known = frozenset(_query_parameters(route.dependant))
    has_body = route.body_field is not None or "requestBody" in (route.openapi_extra or {})

    async def check(request: Request) -> None:
        if request.method in _SAFE_METHODS:
            return
        for name in request.query_params:
            if name not in known:
                raise as_invalid_input([name], {"type": "extra_forbidden"})
        if not has_body:
            _refuse_body(await request.body(), known)

    return check


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and of its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _query_parameters(other)


def _refuse_body(content: bytes, known: frozenset[str]) -> None:
    """Raise InvalidInput for a body, unless it is an empty object, which some clients always send."""
    try:
        body = json.loads(content) if content.strip() else None
    except (ValueError, RecursionError):
        body = content
    if not body:
        return
    name = next(iter(body)) if isinstance(body, dict) else None
    if name in known:
        raise InvalidInput(str(name), f"is read from the query only: send it as ?{name}=...")
    if name is not None:
        raise as_invalid_input([name], {"type": "extra_forbidden"})
    raise InvalidInput("body", "is not read here: send no body")


class ShallowRequest(Request):
    """A request whose JSON must not be nested too deep."""

    async def json(self) -> Any:
        """Return the parsed body. Raises HTTPException where it is nested too deep."""
        if not hasattr(self, "_json"):
            try:
                parsed = json.loads(await self.body())
                deep = is_deeper_than([parsed], MAX_DEPTH)
            except RecursionError:
                deep = True
            if deep:
                detail = f"is nested deeper than the {MAX_DEPTH} levels allowed"
                raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
            self._json = parsed
        return self._json


def is_deeper_than(values: Iterable[object], levels: int) -> bool:
    """Return whether objects and lists among JSON values are nested deeper than so many levels."""
    for value in values:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        if children is not None and (levels == 0 or is_deeper_than(children, levels - 1)):
            return True
    return False
