"""The operation of a route, the caller's services of a request, and the progress of long work."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import unquote_to_bytes
from uuid import UUID

from cachetools import LRUCache
from fastapi import Depends, Header, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from hardwon.client.transport import WORKSPACE_HEADER, WorkProgress
from hardwon.coercion import unknown_name
from hardwon.errors import AccessDenied, InvalidInput
from knowledge.access.permissions import operations
from knowledge.access.principals import OWNER, Principal
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.ports import Progress
from knowledge.wiring.open import Knowledge
from orchestrator.http.middleware.authentication import PRINCIPAL

MAX_DEPTH: Final = 20
"""Deepest nesting of JSON: an entry's is three, a batch's five."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods whose body has no meaning (RFC 9110, 9.3.1); some clients always send one."""
_CACHE_BUSTER: Final = "_"
"""The parameter by which scripts get round caches."""


def make_unread_check(route: APIRoute) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """Return a check that raises InvalidInput for a query parameter or body that the route does not read."""
    known = {name: name for name in _query_parameters(route.dependant)}
    has_body = route.body_field is not None or "requestBody" in (route.openapi_extra or {})

    strict = route_operation(route).strict

    async def check(request: Request) -> None:
        is_safe = request.method in _SAFE_METHODS
        if is_safe and not strict:
            return
        for name in request.query_params:
            if name not in known and not (is_safe and name == _CACHE_BUSTER):
                raise unknown_name(name, known)
        if not has_body and not is_safe:
            _refuse_body(await request.body(), known)

    return check


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a route and of its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _query_parameters(other)


def _refuse_body(content: bytes, known: Mapping[str, str]) -> None:
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
        raise unknown_name(name, known)
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
    strict: bool = False
    """Unknown query parameters are rejected also where nothing can be changed."""


def performs(
    operation: str, *, problems: tuple[int, ...] = (), strict: bool = False
) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the operation of a route, and its error statuses beyond those of every route.

    `strict`: unknown query parameters are rejected also where nothing can be changed.

    409: a conflict with stored data, such as another embedding model, or a request too late or too early. 502: an
    endpoint may refuse for good. 404: something that the path does not name may be missing.
    """
    if operation not in operations():
        raise ValueError(f"unknown operation {operation}: add it to the table of permissions")
    return _mark(RouteOperation(operation, problems, strict))


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

    Unknown parameters of a request that may change something are rejected, and of every row of the table: who sends
    a filter counts on it. A route without a declared operation cannot be added.
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


def caller_knowledge(request: Request, workspace: str | None = None) -> Knowledge:
    """Return the caller's services from the LRU cache of workspaces and principals.

    `workspace`: the one whose page is requested, else that of the header or the key. Raises AccessDenied for another
    workspace than the caller's. The services of a workspace are made once for all its callers: they hold the cache of
    its documents.
    """
    cache: LRUCache[tuple[str, Principal], Knowledge] = request.app.state.opened
    principal = _principal(request)
    if workspace is None:
        workspace = _workspace(request)
    principal.check_workspace(workspace)

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
