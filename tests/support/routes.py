"""The routes of the API, made once for all the apps of a process: making them takes half a second."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from types import CodeType
from typing import Any

from fastapi.routing import APIRouter, request_response

from orchestrator.http.operation_route import OperationRoute


def keep_routes() -> None:
    """Have each app that is made from now on take the routes of the first one, with endpoints of its own."""
    made: dict[tuple[str, CodeType, tuple[str, ...]], OperationRoute] = {}
    make = APIRouter.add_api_route

    def add(router: APIRouter, path: str, endpoint: Callable[..., Any], **told: Any) -> None:
        if router.route_class is not OperationRoute:
            make(router, path, endpoint, **told)
            return
        key = (path, endpoint.__code__, tuple(told["methods"]))
        known = made.get(key)
        if known is not None:
            router.routes.append(_copied(known, endpoint, router))
            return
        make(router, path, endpoint, **told)
        added = router.routes[-1]
        assert isinstance(added, OperationRoute)
        made[key] = added

    setattr(APIRouter, "add_api_route", add)  # noqa: B010 - the tests' process is its own


def _copied(route: OperationRoute, endpoint: Callable[..., Any], router: APIRouter) -> OperationRoute:
    """Return a route that calls an endpoint of the same words; what was learned of its types is the same."""
    made = copy(route)
    made.endpoint = endpoint
    made.dependant = copy(route.dependant)
    made.dependant.call = endpoint
    made.dependency_overrides_provider = router.dependency_overrides_provider
    made.app = request_response(made.get_route_handler())
    return made
