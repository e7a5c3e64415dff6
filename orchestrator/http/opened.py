"""What a route does, whose knowledge a request is about, and who is told how far its work is."""

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
from orchestrator.client.calls import WORKSPACE_HEADER, Done
from orchestrator.http.access import PRINCIPAL
from orchestrator.http.unread import ShallowRequest, refuses_unread

MOST_OPEN = 1000
_LONGEST_WORKSPACE = 1200
_PERFORMED = "_hardwon_performed"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Performed:
    """What a route does: an operation of `access/operations.py`, and the problems that not every route may end in."""

    operation: str | None
    """Where a route does several, one of them: they take the same scopes. None: anybody may ask."""
    problems: tuple[int, ...] = ()


def performs(operation: str, *, problems: tuple[int, ...] = ()) -> Callable[[_Endpoint], _Endpoint]:
    """Say beside a route which operation it performs, and what else may go wrong than with any route.

    409: what is stored may contradict, an embedding model among it; it comes too late or too early. 502: an endpoint
    may refuse for good. 404: there may be nothing, though no part of the path names it.
    """
    if operation not in OPERATIONS:
        raise ValueError(f"{operation} stands in no table of operations: say in access/operations.py what it takes")
    return _marking(Performed(operation, problems))


def free(*, problems: tuple[int, ...] = ()) -> Callable[[_Endpoint], _Endpoint]:
    """Say beside a route that anybody may ask it."""
    return _marking(Performed(None, problems))


def _marking(performed: Performed) -> Callable[[_Endpoint], _Endpoint]:
    def marked(endpoint: _Endpoint) -> _Endpoint:
        vars(endpoint)[_PERFORMED] = performed
        return endpoint

    return marked


def performed(route: APIRoute) -> Performed:
    """Return what a route does. Raises ValueError for one that does not say."""
    found: Performed | None = vars(route.endpoint).get(_PERFORMED)
    if found is None:
        raise ValueError(f"the route {route.path} does not say what it does: put @performs(...) or @free() beside it")
    return found


class OperationRoute(APIRoute):
    """A route that looks whether its operation is allowed before the request's body is read; the service looks again.

    What a request tells that nobody reads is refused where it may change something. A route that does not say which
    operation it performs cannot be added.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()
        operation = performed(self).operation
        refuse_unread = refuses_unread(self)

        async def guarded(request: Request) -> Response:
            shallow = ShallowRequest(request.scope, request.receive)
            if operation is not None:
                _principal(request).check(operation)  # the service, which looks again, requires it
                _workspace(request)
                await refuse_unread(shallow)
            return await answer(shallow)

        return guarded


def _principal(request: Request) -> Principal:
    principal: Principal | None = request.scope.get(PRINCIPAL)
    if principal is None:  # no door has let it in: a defect, and no way in
        raise AccessDenied("nobody has shown who asks")
    return principal


def _workspace(request: Request) -> str:
    """Return the workspace of a request: the one it names, else that of its key. Raises AccessDenied for another."""
    principal = _principal(request)
    told = request.headers.get(WORKSPACE_HEADER)
    if told is None:
        return principal.workspace or DEFAULT_WORKSPACE
    try:
        named = unquote_to_bytes(told.encode("latin-1")).decode()  # percent-encoded, or UTF-8 as it is
    except UnicodeDecodeError as error:
        raise InvalidInput("workspace", f"is not UTF-8 in the header {WORKSPACE_HEADER}") from error
    principal.check_workspace(named)
    return named


_NAMES = Header(
    alias=WORKSPACE_HEADER,
    description="The workspace, percent-encoded; that of the key where it is not named.",
    max_length=_LONGEST_WORKSPACE,
)


def opened(request: Request) -> Knowledge:
    """Return the caller's services from the LRU cache of workspaces and principals.

    Those of a workspace are made once for all who ask in it: they hold what is kept of its documents.
    """
    cache: LRUCache[tuple[str, Principal], Knowledge] = request.app.state.opened
    workspace, principal = _workspace(request), _principal(request)

    def known(asker: Principal, make: Callable[[], Knowledge]) -> Knowledge:
        found = cache.get((workspace, asker))
        if found is None:
            found = cache[workspace, asker] = make()
        return found

    knowledge: Knowledge = request.app.state.knowledge
    of_workspace = known(OWNER, lambda: knowledge.in_workspace(workspace))
    return known(principal, lambda: of_workspace.for_principal(principal))


async def _opened(request: Request, _: Annotated[str | None, _NAMES] = None) -> Knowledge:
    """Return the services; a coroutine, as FastAPI has a thread call any other function, which costs more than this."""
    return opened(request)


Open = Annotated[Knowledge, Depends(_opened)]


async def _told(
    request: Request,
    operation: Annotated[UUID | None, Query(description="An id of the caller's, to ask how far the work is.")] = None,
) -> AsyncIterator[Progress | None]:
    """Give what long work tells its progress to, while the request lasts, if the caller gave it a name to ask by."""
    if operation is None:
        yield None
        return
    under_way: dict[tuple[str, UUID], Done] = request.app.state.under_way
    name = (_workspace(request), operation)

    def told(done: int, total: int | None) -> None:
        under_way[name] = Done(done=done, total=total)

    told(0, None)
    try:
        yield told
    finally:
        under_way.pop(name, None)


Told = Annotated[Progress | None, Depends(_told)]
