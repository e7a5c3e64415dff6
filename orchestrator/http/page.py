"""The web pages: static files, under a content security policy that runs only their own scripts.

Stored data reaches a page as JSON from the API, and is inserted as text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent
FILES = {
    "/": ("page/index.html", "text/html"),
    "/page.css": ("page/page.css", "text/css"),
    "/page.js": ("page/page.js", "text/javascript"),
    "/docs": ("page/reference.html", "text/html"),
    "/reference.js": ("page/reference.js", "text/javascript"),
    "/documents": ("documents_page/documents.html", "text/html"),
    "/documents/documents.css": ("documents_page/documents.css", "text/css"),
    "/documents/documents.js": ("documents_page/documents.js", "text/javascript"),
}
"""The paths of the pages; they hold no stored data, so they need no key."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Add the pages' files to an app."""
    for path, (name, kind) in FILES.items():
        app.router.routes.append(Route(path, _make_file_route(name, kind), include_in_schema=False))


def _make_file_route(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (_FOLDER / name).read_bytes()

    async def get_file(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return get_file
