"""`hardwon serve`: the API on TCP, the scheduler, and, with embedded stores, the owner of the data directory."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket as sockets
import sys

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.scheduler import scheduling
from knowledge.errors import AccessDenied, InvalidInput, StoreInUse
from knowledge.settings import KnowledgeSettings
from orchestrator.connection import Membership
from orchestrator.http_api import make_app, problem
from orchestrator.serving import serve_on

GRACE_SECONDS = 30
_OPEN_PATHS = {"/healthz", "/readyz"}


async def run_service(settings: KnowledgeSettings, *, host: str, port: int) -> None:
    """Serve until cancelled; requests in flight and running jobs may finish.

    Raises InvalidInput for a port in use or an address beyond loopback without a key, StoreInUse where another process
    owns the data directory.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and not _loopback(host):
        raise InvalidInput(
            "--host", f"{host} is beyond this machine: set HARDWON_API_KEY, which callers must then send"
        )
    with _listen(host, port) as listener:
        async with Membership(settings) as membership:
            knowledge = membership.knowledge
            if knowledge is None:
                raise StoreInUse(f"{settings.home} is in use by another process: stop it first")
            app = make_app(knowledge)
            if key is not None:
                app.add_middleware(_KeyCheck, key=key)
            async with scheduling(knowledge), serve_on(app, listener, grace_seconds=GRACE_SECONDS):
                sys.stderr.write(f"hardwon serves on http://{host}:{port} (docs at /docs); stop it with Ctrl-C\n")
                await asyncio.Event().wait()


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> sockets.socket:
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    listener = sockets.socket(family, sockets.SOCK_STREAM)
    listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidInput("--port", f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


class _KeyCheck:
    """ASGI middleware: every request but health checks carries the key."""

    def __init__(self, app: ASGIApp, *, key: str) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS or hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        _, body = problem(AccessDenied("this server needs its key: Authorization: Bearer ..."))
        answer = JSONResponse(body | {"status": 401}, 401, media_type="application/problem+json")
        await answer(scope, receive, send)
