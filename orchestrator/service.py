"""`hardwon serve`: the API on TCP, the scheduler, and, with embedded stores, the owner of the data directory."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import os
import re
import socket as sockets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from jobs.scheduler import scheduling
from knowledge.adapters.owner_lock import read_owner
from knowledge.errors import AccessDenied, InvalidInput, StoreInUse
from knowledge.settings import KnowledgeSettings
from knowledge.steps import watched_by
from orchestrator.connection import Membership
from orchestrator.http_api import make_app
from orchestrator.http_page import FILES
from orchestrator.mcp_http import serving_mcp
from orchestrator.metrics import metrics_of_process
from orchestrator.problems import answer
from orchestrator.serving import serve_on
from orchestrator.tracing import tracing

GRACE_SECONDS = 30
_OPEN_PATHS = {"/healthz", "/readyz", *FILES}
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(?::[0-9]+)?")
"""A Host header: a name or an address, and perhaps a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where the API is served, over which data directory, by which process."""

    url: str
    home: str
    pid: int


async def run_service(
    settings: KnowledgeSettings, *, host: str, port: int, on_start: Callable[[Serving], None] = lambda _: None
) -> None:
    """Serve until cancelled; requests in flight and running jobs may finish. `on_start` is told once it answers.

    Raises InvalidInput for a port in use or an address beyond loopback without a key, StoreInUse where another process
    owns the data directory.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else None
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(host, port, with_key=key is not None))
        async with Membership(settings) as membership:
            knowledge = membership.knowledge
            if knowledge is None:
                raise StoreInUse(
                    f"the data directory {settings.home} is in use by {read_owner(settings.home) or 'another process'}:"
                    " stop it, or set HARDWON_HOME to another directory"
                )
            app = make_app(knowledge)
            if key is not None:
                app.add_middleware(_KeyCheck, key=key)
            else:
                app.add_middleware(_PageCheck, host=host)
            stack.enter_context(watched_by(metrics_of_process(), *stack.enter_context(tracing(os.environ))))
            async with scheduling(knowledge), serving_mcp(app), serve_on(app, listener, grace_seconds=GRACE_SECONDS):
                shown = f"[{host}]" if ":" in host else host
                on_start(Serving(url=f"http://{shown}:{port}", home=str(settings.home), pid=os.getpid()))
                await asyncio.Event().wait()


def _listen(host: str, port: int, *, with_key: bool) -> sockets.socket:
    """Listen on an address; beyond this machine only where callers need a key."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is told: else an answer takes 44 ms (measured)
    listener = sockets.socket(family, sockets.SOCK_STREAM, sockets.IPPROTO_TCP)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            if not with_key and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
                raise InvalidInput(
                    "--host", f"{host!r} is beyond this machine: set HARDWON_API_KEY, which callers must then send"
                )
            listener.listen()  # two that only bind can have the same port
        except (sockets.gaierror, UnicodeError) as error:
            raise InvalidInput("--host", f"there is no host {host!r} here: give an address of this machine") from error
        except OSError as error:
            raise InvalidInput(
                "--port", f"cannot listen on {host}:{port} ({error.strerror}): give another --port, or another --host"
            ) from error
        undo.pop_all()
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
        denied = AccessDenied("this server needs its key: Authorization: Bearer ...")
        told = answer(denied, status=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        await told(scope, receive, send)


class _PageCheck:
    """ASGI middleware for a server without a key: no page of another site reaches it through a browser here.

    A page may post anywhere, and then says where it comes from (Origin); or have its own name resolve to this machine,
    and is then asked for by that name (Host).
    """

    def __init__(self, app: ASGIApp, *, host: str) -> None:
        self._app = app
        self._names = {"localhost", _name_of(host)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (foreign := self._foreign(scope["headers"])):
            await answer(AccessDenied(foreign))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _foreign(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return what is foreign about a request, None if nothing is."""
        given = [(name, value.decode("latin-1").lower()) for name, value in headers]
        hosts = [value for name, value in given if name == b"host"]
        for host in hosts:
            if not self._ours(host):
                return (
                    f"this server has no key, so it answers to its own names only, not to {host!r}: set HARDWON_API_KEY"
                )
        for origin in (value for name, value in given if name == b"origin"):
            if origin not in {f"http://{host}" for host in hosts}:
                return f"this server has no key, so it answers no page of {origin!r}: set HARDWON_API_KEY"
        return None

    def _ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].strip("[]")
        try:
            return name in self._names or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def _name_of(host: str) -> str:
    """Return a host as a Host header has it: an address of IPv6 without its zone."""
    return host.lower().partition("%")[0]
