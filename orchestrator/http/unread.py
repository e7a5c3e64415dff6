"""What a request tells that nobody reads: refused, since whoever told it counts on it.

A prune that was to be a dry run is none where `dry_run` is told where nobody looks for it. Who only reads loses nothing
by it, and scrapers and caches add parameters of their own: these are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from knowledge.errors import InvalidInput
from orchestrator.entries import in_our_words

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
                raise in_our_words([name], {"type": "extra_forbidden"})
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
        raise in_our_words([name], {"type": "extra_forbidden"})
    raise InvalidInput("body", "is not read here: send none")
