"""Sign in with a key: it is taken once, and a sealed cookie stands for it until the key or the session ends."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hardwon.errors import HardwonError
from knowledge.access.principals import Principal, Trust
from knowledge.models import DEFAULT_WORKSPACE
from orchestrator.http.middleware.authentication import PRINCIPAL, Unauthenticated
from orchestrator.http.middleware.page_sessions import (
    CHECK_KEY,
    COOKIE,
    REFUSAL,
    SEALER,
    SIGN_IN_PATH,
    SessionSealer,
)
from orchestrator.http.pages.forms import check_origin, read_form
from orchestrator.http.pages.shell import HEADERS, is_local, page_address, safe_path, show_error, show_sign_in


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
        principal: Principal = await request.scope[CHECK_KEY](key)
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


async def sign_out(request: Request) -> Response:
    """Answer `POST /session/end`: forget the session."""
    try:
        check_origin(request)
    except HardwonError as error:
        return show_error(request, error)
    response = RedirectResponse(SIGN_IN_PATH, 303, HEADERS)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response
