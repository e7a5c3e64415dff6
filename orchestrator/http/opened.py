"""The operation of a route, the caller's services of a request, and the progress of long work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import UUID

from cachetools import LRUCache
from fastapi import Depends, Header, Query, Request, Response
from fastapi.routing import APIRoute

from knowledge.access.operations import OPERATIONS
from knowledge.access.principals import OWNER, Principal
from knowledge.errors import AccessDenied, InvalidInput
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.ports import Progress
from knowledge.wiring import Knowledge
from orchestrator.client.calls import WORKSPACE_HEADER, WorkProgress
from orchestrator.http.access import PRINCIPAL
from orchestrator.http.unread import ShallowRequest, make_unread_check

MAX_CACHED_SERVICES = 1000
_MAX_WORKSPACE_CHARS = 1200
_ROUTE_OPERATION = "_hardwon_performed"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RouteOperation:
    """The operation of a route, in the table of permissions, and its error statuses beyond those of every route."""

    operation: str | None
    """One of them where a route performs several: they take the same scopes. None: no key is needed."""
    problems: tuple[int, ...] = ()


def performs(operation: str, *, problems: tuple[int, ...] = ()) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the operation of a route, and its error statuses beyond those of every route.

    409: a conflict with stored data, such as another embedding model, or a request too late or too early. 502: an
    endpoint may refuse for good. 404: something that the path does not name may be missing.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"unknown operation {operation}: add it to the table of permissions")
    return _mark(RouteOperation(operation, problems))


def public(*, problems: tuple[int, ...] = ()) -> Callable[[_Endpoint], _Endpoint]:
    """Declare that a route needs no key."""
    return _mark(RouteOperation(None, problems))


def _mark(operation: RouteOperation) -> Callable[[_Endpoint], _Endpoint]:
    def mark(endpoint: _Endpoint) -> _Endpoint:
        vars(endpoint)[_ROUTE_OPERATION] = operation
        return endpoint

    return mark


def route_operation(route: APIRoute) -> RouteOperation:
    """Return the operation of a route. Raises ValueError for a route that declares none."""
    operation: RouteOperation | None = vars(route.endpoint).get(_ROUTE_OPERATION)
    if operation is None:
        raise ValueError(f"the route {route.path} declares no operation: decorate it with @performs(...) or @public()")
    return operation


class OperationRoute(APIRoute):
    """A route that checks the permission before the request's body is read; the service checks it again.

    Unknown parameters of a request that may change something are rejected. A route without a declared operation cannot
    be added.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()
        operation = route_operation(self).operation
        check_unread = make_unread_check(self)

        async def handle_checked(request: Request) -> Response:
            shallow = ShallowRequest(request.scope, request.receive)
            if operation is not None:
                _principal(request).check(operation)  # the service checks it again, and audits
                _workspace(request)
                await check_unread(shallow)
            return await handle(shallow)

        return handle_checked


def _principal(request: Request) -> Principal:
    principal: Principal | None = request.scope.get(PRINCIPAL)
    if principal is None:  # a defect: no middleware has authenticated the request
        raise AccessDenied("the request is not authenticated")
    return principal


def _workspace(request: Request) -> str:
    """Return the workspace of a request: the one it names, else that of its key. Raises AccessDenied for another."""
    principal = _principal(request)
    header = request.headers.get(WORKSPACE_HEADER)
    if header is None:
        return principal.workspace or DEFAULT_WORKSPACE
    try:
        workspace = unquote_to_bytes(header.encode("latin-1")).decode()  # percent-encoded, or UTF-8 as it is
    except UnicodeDecodeError as error:
        raise InvalidInput("workspace", f"is not UTF-8 in the header {WORKSPACE_HEADER}") from error
    principal.check_workspace(workspace)
    return workspace


_WORKSPACE_NAME = Header(
    alias=WORKSPACE_HEADER,
    description="The workspace, percent-encoded; by default that of the key.",
    max_length=_MAX_WORKSPACE_CHARS,
)


def caller_knowledge(request: Request) -> Knowledge:
    """Return the caller's services from the LRU cache of workspaces and principals.

    The services of a workspace are made once for all its callers: they hold the cache of its documents.
    """
    cache: LRUCache[tuple[str, Principal], Knowledge] = request.app.state.opened
    workspace, principal = _workspace(request), _principal(request)

    def get_or_make(caller: Principal, make: Callable[[], Knowledge]) -> Knowledge:
        cached = cache.get((workspace, caller))
        if cached is None:
            cached = cache[workspace, caller] = make()
        return cached

    knowledge: Knowledge = request.app.state.knowledge
    of_workspace = get_or_make(OWNER, lambda: knowledge.in_workspace(workspace))
    return get_or_make(principal, lambda: of_workspace.for_principal(principal))


async def _caller_knowledge(request: Request, _: Annotated[str | None, _WORKSPACE_NAME] = None) -> Knowledge:
    """Return the services; a coroutine, since FastAPI runs any other function in a thread, which costs more."""
    return caller_knowledge(request)


CallerKnowledge = Annotated[Knowledge, Depends(_caller_knowledge)]


async def _progress_callback(
    request: Request,
    operation: Annotated[
        UUID | None, Query(description="An id of the caller's choice, to ask for the progress.")
    ] = None,
) -> AsyncIterator[Progress | None]:
    """Yield the progress callback of a request whose caller sent an operation id; its progress ends with it."""
    if operation is None:
        yield None
        return
    under_way: dict[tuple[str, UUID], WorkProgress] = request.app.state.under_way
    name = (_workspace(request), operation)

    def report(done: int, total: int | None) -> None:
        under_way[name] = WorkProgress(done=done, total=total)

    report(0, None)
    try:
        yield report
    finally:
        under_way.pop(name, None)


ProgressCallback = Annotated[Progress | None, Depends(_progress_callback)]
