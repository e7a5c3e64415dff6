"""What a request tells that nobody reads: refused, since whoever told it counts on it.

A prune that was to be a dry run is none where `dry_run` is told where nobody looks for it. Who only reads loses nothing
by it, and scrapers and caches add parameters of their own: these are passed over. JSON that is nested too deep is
refused as well.
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
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD"})
"""Of these, what is told in a body has no meaning (RFC 9110, 9.3.1), and some callers always send one."""


def refuses_unread(route: APIRoute) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """Return what raises InvalidInput for a request that may change something and has what its route does not read."""
    known = frozenset(_parameters(route.dependant))
    bodiless = route.body_field is None and "requestBody" not in (route.openapi_extra or {})

    async def refuse(request: Request) -> None:
        if request.method in _CHANGES_NOTHING:
            return
        for name in request.query_params:
            if name not in known:
                raise as_invalid_input([name], {"type": "extra_forbidden"})
        if bodiless:
            _refuse_body(await request.body(), known)

    return refuse


def _parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the parameters of an address that a route and what it depends on read."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _parameters(other)


def _refuse_body(content: bytes, known: frozenset[str]) -> None:
    """Raise InvalidInput for a body that tells something: an empty object, which some callers always send, does not."""
    try:
        told = json.loads(content) if content.strip() else None
    except (ValueError, RecursionError):
        told = content
    if not told:
        return
    name = next(iter(told)) if isinstance(told, dict) else None
    if name in known:
        raise InvalidInput(str(name), f"is read from the address alone: give it there, as ?{name}=...")
    if name is not None:
        raise as_invalid_input([name], {"type": "extra_forbidden"})
    raise InvalidInput("body", "is not read here: send none")


class ShallowRequest(Request):
    """A request whose JSON must not be nested too deep."""

    async def json(self) -> Any:
        """Return the parsed body. Raises HTTPException where it is nested too deep."""
        if not hasattr(self, "_json"):
            try:
                parsed = json.loads(await self.body())
                deep = deeper_than([parsed], MAX_DEPTH)
            except RecursionError:
                deep = True
            if deep:
                detail = f"is nested deeper than the {MAX_DEPTH} levels allowed"
                raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
            self._json = parsed
        return self._json


def deeper_than(values: Iterable[object], levels: int) -> bool:
    """Return whether objects and lists among JSON values are nested deeper than so many levels."""
    for value in values:
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        if children is not None and (levels == 0 or deeper_than(children, levels - 1)):
            return True
    return False
