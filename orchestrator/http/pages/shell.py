"""The frame of all pages: who asks, addresses, navigation, refusals in the same clothes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hardwon.errors import (
    AccessDenied,
    Conflict,
    HardwonError,
    InvalidInput,
    NotFound,
    Overloaded,
    StoreIncompatible,
    StoreInUse,
    Unavailable,
)
from hardwon.event_log import get_logger
from hardwon.models.deeds import Deed, DeedKind, DeedState
from knowledge.access.principals import Principal, Trust
from knowledge.wiring.open import Knowledge
from orchestrator.http.middleware.authentication import PRINCIPAL, Unauthenticated
from orchestrator.http.middleware.page_sessions import PAGES_PREFIX, SESSION, SIGN_IN_PATH, Session
from orchestrator.http.middleware.problems import REQUEST_ID, problem_details
from orchestrator.http.pages.rendering.environment import environment

log = get_logger(__name__)

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a browser sends forms with the Origin `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MAX_DEEDS: Final = 500
"""Decisions that are looked at which are not done yet; ours."""
_OF_ENTRIES: Final = frozenset({DeedKind.APPROVE, DeedKind.REJECT, DeedKind.DELETE_ENTRY})
MAX_WORKSPACES: Final = 50
"""Workspaces in the list of the switch, ours; another one is opened by its address."""


@dataclass(frozen=True, slots=True)
class NavEntry:
    """A page in the navigation: its path within a workspace, its name, and the letter behind `g` that opens it."""

    path: str
    name: str
    letter: str
    operation: str
    """A caller without the permission for it does not see the entry."""


NAVIGATION: Final[Sequence[tuple[str, Sequence[NavEntry]]]] = (
    (
        "Learned",
        (
            NavEntry("", "Overview", "o", "stats"),
            NavEntry("patterns", "Patterns", "p", "queries.get"),
            NavEntry("map", "Map", "m", "maps.show"),
            NavEntry("waiting", "Waiting", "w", "capture.unresolved"),
        ),
    ),
    (
        "Used",
        (
            NavEntry("contexts", "Contexts", "c", "contexts.list"),
            NavEntry("documents", "Documents", "d", "documents.for_principal"),
            NavEntry("ask", "Ask", "s", "answering.ask"),
        ),
    ),
    (
        "Kept",
        (
            NavEntry("health", "Health", "h", "stats"),
            NavEntry("keys", "Keys", "k", "keys.list"),
            NavEntry("audit", "Audit", "u", "audits.list"),
        ),
    ),
)


def page_address(workspace: str, path: str = "", /, **query: object) -> str:
    """Return the address of a page; parameters that are None or empty are left out."""
    chosen = {name: str(value) for name, value in query.items() if value not in {None, ""}}
    address = f"{PAGES_PREFIX}{quote(workspace, safe='')}/{path}"
    return f"{address}?{urlencode(chosen)}" if chosen else address


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page of a workspace, by a caller who may see it. `path`: the segments behind the workspace."""

    request: Request
    knowledge: Knowledge
    workspace: str
    path: tuple[str, ...]

    @property
    def principal(self) -> Principal:
        """The caller."""
        principal: Principal = self.request.scope[PRINCIPAL]
        return principal

    @property
    def session(self) -> Session | None:
        """The session that the caller began with a key, None where no key is needed or it came in a header."""
        session: Session | None = self.request.scope.get(SESSION)
        return session

    @property
    def now(self) -> datetime:
        """The time of the server."""
        return self.knowledge.stores.clock.now()

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the address; None where it is missing or blank."""
        return self.request.query_params.get(name, "").strip() or None

    def notice(self, notices: Mapping[str, str]) -> str | None:
        """Return the notice of the form that led to this page, None where none did."""
        return notices.get(self.parameter("done") or "")

    def segment_id(self, place: int) -> UUID:
        """Return an id of the path, which the table of views has checked to be one."""
        return UUID(self.path[place])

    def address(self, path: str = "", /, **query: object) -> str:
        """Return the address of a page of this workspace."""
        return page_address(self.workspace, path, **query)

    def address_with(self, **query: object) -> str:
        """Return the address of this page with some parameters changed, and without the place in the list."""
        kept = {
            name: value for name, value in self.request.query_params.items() if name not in {"after", "done", "deed"}
        }
        return self.address("/".join(quote(part, safe="") for part in self.path), **{**kept, **query})

    async def render(self, template: str, *, status: int = 200, here: str, **values: Any) -> Response:
        """Return a page of this workspace; `here` is the path of its entry in the navigation."""
        frame = await _frame(self)
        return respond(
            template, status=status, page=self, here=here, frame=frame, workspace_address=page_address, **values
        )

    @property
    def wants_json(self) -> bool:
        """True where the page's script asks, which shows the answer itself."""
        return "application/json" in self.request.headers.get("accept", "")

    def answer_deed(self, deed: Deed, path: str, *, done: str, **query: object) -> Response:
        """Return the answer to a decision that is done after a while: where it can be undone until then."""
        if self.wants_json:
            return JSONResponse({"undo": self.address(f"undo/{deed.deed_id}")}, headers=HEADERS)
        return self.redirect(path, done=done, deed=deed.deed_id, **query)

    def redirect(self, path: str = "", **query: object) -> Response:
        """Return the answer to a form that was done: the page to go to."""
        return RedirectResponse(self.address(path, **query), 303, HEADERS)


View = Callable[[PageRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The frame around a page: the navigation, the workspaces, the number of things that wait."""

    navigation: Sequence[tuple[str, Sequence[NavEntry]]]
    workspaces: Sequence[str]
    waiting: int | None
    form_token: str
    signed_in_as: str | None


async def _frame(page: PageRequest) -> Frame:
    principal = page.principal
    groups = [(name, [each for each in entries if principal.may(each.operation)]) for name, entries in NAVIGATION]
    waiting, workspaces = await asyncio.gather(count_waiting(page.knowledge), find_workspaces(page))
    session = page.session
    return Frame(
        navigation=[(name, entries) for name, entries in groups if entries],
        workspaces=workspaces,
        waiting=waiting,
        form_token="" if session is None else session.form_token,
        signed_in_as=None if session is None else principal.name or session.key_id,
    )


async def find_workspaces(page: PageRequest) -> Sequence[str]:
    """Return the workspaces that the caller may go to, this one included."""
    if page.principal.workspace is not None or not page.principal.may("workspaces"):
        return [page.workspace]
    return sorted({*await page.knowledge.workspaces(limit=MAX_WORKSPACES), page.workspace})


async def count_waiting(knowledge: Knowledge) -> int | None:
    """Return the number of entries that wait for a person, None for a caller who may not know it."""
    if not knowledge.principal.may("stats"):
        return None
    counts, decided = await asyncio.gather(knowledge.count_entries(), find_decided(knowledge))
    return max(0, counts.get("open", 0) + counts.get("quarantined", 0) - len(decided))


async def find_decided(knowledge: Knowledge) -> set[UUID]:
    """Return the entries that a decision was made on which is not done yet: they wait for nobody any more."""
    if not knowledge.principal.may("deeds.list"):
        return set()
    deeds = await knowledge.deeds.list(state=DeedState.WAITING, limit=MAX_DEEDS)
    return {deed.subject for deed in deeds if deed.kind in _OF_ENTRIES}


def respond(template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any) -> Response:
    """Return a rendered page with the headers that all have."""
    content = environment().get_template(template).render(**values)
    return Response(content, status, {**HEADERS, **(headers or {})}, media_type="text/html; charset=utf-8")


_ADVICE: Final[Mapping[type[HardwonError], tuple[str, str]]] = {
    Unauthenticated: ("Sign in", "Keys are made on the machine with the data: hardwon keys create --scope admin"),
    AccessDenied: ("Not with this key", "Sign in with a key that may, or ask whoever made yours."),
    NotFound: ("Not there", "It may have been deleted, joined with another, or have expired. The list shows all."),
    Conflict: ("That was decided already", "Somebody else was quicker, or it changed meanwhile. Look at it again."),
    InvalidInput: ("That cannot be", "Go back, and change it: what you typed is still there."),
    Overloaded: ("Too much at once", "Wait a moment, then load this page again."),
    StoreInUse: ("The data is in use", "Another process has it open: hardwon doctor says which."),
    StoreIncompatible: ("The store does not fit", "hardwon doctor says what differs, and what to do."),
    Unavailable: (
        "A store does not answer",
        "hardwon doctor says what is wrong. Load this page again when it is mended; nothing that was stored is lost.",
    ),
    HardwonError: ("hardwon failed", "That is a defect of its own: the server's log says more."),
}


def show_error(request: Request, error: HardwonError, *, workspace: str | None = None) -> Response:
    """Return the page of an error, which says what to do."""
    status, body = problem_details(error)
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        status = 401
        return show_sign_in(request, status=401, reason=str(error))
    if status in {429, 503}:
        headers["Retry-After"] = str(max(1, round(body.get("retry_after_seconds", 5))))
    title, advice = next(_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE)
    principal: Principal | None = request.scope.get(PRINCIPAL)
    return respond(
        "error.html",
        status=status,
        headers=headers,
        title=title,
        detail=body["detail"],
        advice=advice,
        retry=request.method == "GET" and status in {429, 503},
        home=None if workspace is None else page_address(workspace),
        may_sign_in=isinstance(error, AccessDenied) and principal is not None and principal.trust is Trust.KEY,
        request_id=REQUEST_ID.get(None),
    )


def show_sign_in(
    request: Request, *, status: int = 200, reason: str | None = None, field_error: str | None = None
) -> Response:
    """Return the form to sign in with a key; after it the browser goes on to the page that was asked for."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    following = request.query_params.get("next", "") if request.url.path == SIGN_IN_PATH else wanted
    return respond(
        "sign_in.html",
        status=status,
        reason=reason,
        field_error=field_error,
        following=safe_path(following),
        is_private=is_private(request),
    )


def safe_path(path: str) -> str:
    """Return the path of a page of this server, or the start for anything else."""
    is_ours = path.startswith(PAGES_PREFIX) and "\\" not in path and path.isprintable()
    return path if is_ours else "/"


def is_private(request: Request) -> bool:
    """Return whether a key that is typed here can be read by nobody on the way: by TLS, or on this machine alone."""
    host = request.url.hostname or ""
    forwarded = request.headers.get("x-forwarded-proto", request.url.scheme)
    return forwarded == "https" or is_local(host)


def is_local(host: str) -> bool:
    """Return whether a name is that of this machine itself, so that a cookie needs no TLS."""
    return host in {"localhost", "::1"} or host.startswith("127.")
