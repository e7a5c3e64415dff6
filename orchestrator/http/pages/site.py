"""The addresses of the pages and the view of each, and sign-in with a key, for which a sealed cookie stands then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hardwon.errors import AccessDenied, HardwonError, InvalidInput, NotFound
from hardwon.event_log import get_logger
from hardwon.validation import check_text
from knowledge.access.principals import Principal, Trust
from knowledge.access.sessions import PageSessions
from knowledge.models import DEFAULT_WORKSPACE
from orchestrator.http.middleware.authentication import PRINCIPAL, Unauthenticated, client_address
from orchestrator.http.middleware.page_sessions import (
    ASSETS_PREFIX,
    CHECK_KEY,
    COOKIE,
    PAGES_PREFIX,
    REFUSAL,
    SEALER,
    SESSIONS,
    SIGN_IN_PATH,
    SIGN_OUT_PATH,
    SessionSealer,
    find_cookie,
    is_page,
    is_part_of_foreign_page,
)
from orchestrator.http.middleware.problems import problem_response
from orchestrator.http.operation_route import caller_knowledge
from orchestrator.http.pages.forms import check_origin, read_form
from orchestrator.http.pages.operator_views import audit, health, keys, reference
from orchestrator.http.pages.rendering.environment import ASSETS, asset_address, read_asset
from orchestrator.http.pages.shell import (
    HEADERS,
    PageRequest,
    View,
    find_workspaces,
    is_local,
    page_address,
    respond,
    safe_path,
    show_error,
    show_sign_in,
)
from orchestrator.http.pages.views import contexts, entry, overview, pattern, pattern_list, pattern_map, undo, waiting
from orchestrator.http.pages.views.knowledge_bases import ask, documents

log = get_logger(__name__)
ID: Final = "{id}"
"""A segment of an address that is an id: any UUID."""
NAME: Final = "{name}"
"""A segment that is a name: any text."""
VIEWS: Final[Mapping[tuple[str, Sequence[str]], View]] = {
    ("GET", ("",)): overview.show_overview,
    ("GET", ("patterns",)): pattern_list.show_patterns,
    ("GET", ("patterns", ID)): pattern.show_pattern,
    ("POST", ("patterns", ID, "join")): pattern.join,
    ("POST", ("patterns", ID, "split")): pattern.split,
    ("POST", ("patterns", ID, "tags")): pattern.tag,
    ("POST", ("patterns", ID, "delete")): pattern.delete,
    ("GET", ("waiting",)): waiting.show_waiting,
    ("POST", ("waiting", ID, "approve")): waiting.approve,
    ("POST", ("waiting", ID, "reject")): waiting.reject,
    ("POST", ("waiting", ID, "resolve")): waiting.resolve,
    ("POST", ("waiting", ID, "abandon")): waiting.abandon,
    ("GET", ("contexts",)): contexts.show_contexts,
    ("GET", ("contexts", ID)): contexts.show_context,
    ("POST", ("contexts", ID, "outcome")): contexts.tell_outcome,
    ("GET", ("map",)): pattern_map.show_map,
    ("GET", ("documents",)): documents.show_documents,
    ("POST", ("documents", "retry")): documents.retry_documents,
    ("POST", ("documents", ID, "delete")): documents.delete_document,
    ("POST", ("documents", "sources", ID, "forget")): documents.forget_source,
    ("GET", ("ask",)): ask.show_ask,
    ("GET", ("health",)): health.show_health,
    ("POST", ("health", "jobs", NAME)): health.run_one_job,
    ("POST", ("health", "dead", "retry")): health.retry_dead,
    ("GET", ("keys",)): keys.show_keys,
    ("POST", ("keys",)): keys.create,
    ("POST", ("keys", NAME, "rotate")): keys.rotate,
    ("POST", ("keys", NAME, "revoke")): keys.revoke,
    ("GET", ("audit",)): audit.show_audit,
    ("POST", ("audit", "verify")): audit.verify,
    ("POST", ("undo", ID)): undo.undo_deed,
    ("GET", ("entries", ID)): entry.show_entry,
    ("POST", ("entries", ID, "correct")): entry.correct,
    ("GET", ("state",)): waiting.show_state,
}
"""The view of each method and path within a workspace."""


def add_pages(app: FastAPI) -> None:
    """Add the pages, and what they load, to an app."""
    answer_defect = app.exception_handlers[Exception]

    async def show_defect(request: Request, error: Exception) -> Response:
        """Answer a defect of hardwon's own; on a page in the clothes of the pages."""
        answer: Response = await answer_defect(request, error)  # type: ignore[misc] # ours are coroutines; it logs
        return show_error(request, HardwonError("this page could not be made")) if is_page(request.url.path) else answer

    app.add_exception_handler(Exception, show_defect)
    for path, method, endpoint in (
        ("/", "GET", open_start),
        ("/docs", "GET", reference.show_reference),
        (SIGN_IN_PATH, "GET", show_form),
        (SIGN_IN_PATH, "POST", sign_in),
        (SIGN_OUT_PATH, "POST", sign_out),
        (f"{PAGES_PREFIX}{{rest:path}}", "GET", show_page),
        (f"{PAGES_PREFIX}{{rest:path}}", "POST", show_page),
        (f"{ASSETS_PREFIX}{{digest}}/{{name}}", "GET", send_asset),
    ):
        app.router.routes.append(Route(path, endpoint, methods=[method], include_in_schema=False))


async def send_asset(request: Request) -> Response:
    """Answer with a file that pages load; its address changes with its content, so browsers keep it."""
    name = request.path_params["name"]
    if name not in ASSETS or asset_address(name) != request.url.path:
        return show_error(request, NotFound("this file is of another version of hardwon: load the page again"))
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_asset(name), 200, headers, media_type=ASSETS[name])


async def show_page(request: Request) -> Response:
    """Answer with a page of a workspace, or with the page of what stands against it."""
    workspace = None
    try:
        refusal: HardwonError | None = request.scope.get(REFUSAL)
        if refusal is not None:
            raise refusal
        if request.method == "GET" and is_part_of_foreign_page(request.headers):
            raise AccessDenied("a page of another site loads this into itself: open it by its address")
        workspace, path = _split_path(request)
        knowledge = caller_knowledge(request, workspace)
        page = PageRequest(request=request, knowledge=knowledge, workspace=workspace, path=path)
        if path == ("",) and not request.url.path.endswith("/"):
            return RedirectResponse(page.address(), 303, HEADERS)
        view = _find_view(request.method, path)
        is_own = workspace in {DEFAULT_WORKSPACE, knowledge.principal.workspace}  # theirs need not be looked for
        if not is_own and not await knowledge.holds_anything():
            return await _show_unknown_workspace(page)
        return await view(page)
    except HardwonError as error:
        if isinstance(error, AccessDenied):
            log.info("page_denied", path=request.url.path)
            workspace = None if workspace is None else _own_workspace(request)
        if "application/json" in request.headers.get("accept", ""):
            return problem_response(error, headers=HEADERS)
        return show_error(request, error, workspace=workspace)


def _split_path(request: Request) -> tuple[str, tuple[str, ...]]:
    """Return the workspace of a path, and the segments behind it. Raises NotFound."""
    raw = request.scope.get("raw_path") or request.url.path.encode()
    encoded = raw.decode("latin-1").partition("?")[0].removeprefix(PAGES_PREFIX).split("/")
    try:
        workspace, *path = (unquote(part, errors="strict") for part in encoded)
        check_text("workspace", workspace)
    except (UnicodeDecodeError, InvalidInput) as error:
        raise NotFound("there is no workspace of this name") from error
    return workspace, tuple(path) or ("",)


def _find_view(method: str, path: Sequence[str]) -> View:
    """Return the view of a path. Raises NotFound."""
    for (own_method, own_path), view in VIEWS.items():
        if own_method == method and len(own_path) == len(path):
            pairs = zip(own_path, path, strict=True)
            if all(_matches(ours, theirs) for ours, theirs in pairs):
                return view
    raise NotFound("there is no page at this address")


def _matches(ours: str, theirs: str) -> bool:
    """Return whether a segment of a path is what a view takes there."""
    return ours == theirs or (ours == NAME and bool(theirs)) or (ours == ID and _is_id(theirs))


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _own_workspace(request: Request) -> str | None:
    """Return the workspace that a caller who was denied another one may see."""
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return None if principal is None else principal.workspace or DEFAULT_WORKSPACE


async def _show_unknown_workspace(page: PageRequest) -> Response:
    """Return the page of a workspace that holds nothing, with those that do."""
    others = await find_workspaces(page)
    return respond(
        "unknown_workspace.html",
        status=404,
        workspace=page.workspace,
        others=[(name, page_address(name)) for name in others if name != page.workspace],
        home=page_address(page.principal.workspace or DEFAULT_WORKSPACE),
    )


async def open_start(request: Request) -> Response:
    """Answer `/`: go to the workspace of the caller's key, else to the default one, or sign in first."""
    refusal: HardwonError | None = request.scope.get(REFUSAL)
    if refusal is not None:
        return show_error(request, refusal)
    principal: Principal = request.scope[PRINCIPAL]
    return RedirectResponse(page_address(principal.workspace or DEFAULT_WORKSPACE), 303, HEADERS)


async def show_form(request: Request) -> Response:
    """Answer `GET /session` with the form."""
    return show_sign_in(request)


async def sign_in(request: Request) -> Response:
    """Answer `POST /session`: begin a session with a key, or show the form again and say what is wrong."""
    try:
        form = await read_form(request)
        key = form.text("key").strip()
        following = safe_path(form.text("next"))
        if CHECK_KEY not in request.scope:  # the private socket asks for no key
            return RedirectResponse(following, 303, HEADERS)
        if not key:
            return show_sign_in(request, status=422, field_error="type or paste a key: it begins with hw_")
        if not key.isascii() or not key.isprintable():
            return show_sign_in(
                request, status=401, field_error="this is no key: one has only plain letters and digits"
            )
        principal = await _check_key(request, key)
    except Unauthenticated as error:
        return show_sign_in(request, status=401, field_error=str(error))
    except HardwonError as error:
        return show_error(request, error)
    response = RedirectResponse(following, 303, HEADERS)
    sealer: SessionSealer = request.scope[SEALER]
    if principal.trust is Trust.KEY and principal.key_id is not None:
        response.set_cookie(
            COOKIE,
            sealer.seal(principal.key_id),
            path="/",
            httponly=True,
            samesite="strict",
            secure=not is_local(request.url.hostname or ""),
        )
    return response


async def _check_key(request: Request, key: str) -> Principal:
    """Return the principal of a typed key; sign-in and refusal are audited. Raises Unauthenticated."""
    sessions: PageSessions = request.scope[SESSIONS]
    address = client_address(request.scope)
    try:
        principal: Principal = await request.scope[CHECK_KEY](key)
    except Unauthenticated:
        await sessions.record_refusal(key, address)
        raise
    if principal.key_id is not None:
        await sessions.record_sign_in(principal.key_id, address)
    return principal


async def sign_out(request: Request) -> Response:
    """Answer `POST /session/end`: end the session, so that a copy of its cookie opens nothing either."""
    try:
        check_origin(request)
        cookie = find_cookie(request.scope["headers"])
        session = None if cookie is None or SEALER not in request.scope else request.scope[SEALER].open(cookie)
        if session is not None:
            sessions: PageSessions = request.scope[SESSIONS]
            await sessions.end(
                session.session_id,
                key_id=session.key_id,
                ends_at=session.ends_at,
                address=client_address(request.scope),
            )
    except HardwonError as error:
        return show_error(request, error)
    response = RedirectResponse(SIGN_IN_PATH, 303, HEADERS)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response
