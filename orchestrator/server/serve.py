"""`hardwon serve`: the API on TCP, the scheduler, and, with embedded stores, the owner of the data directory."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket as sockets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from fastapi import FastAPI

from hardwon.errors import InvalidInput, InvalidSetting, StoreInUse
from hardwon.owner.launch import end_owner
from hardwon.owner.record import read_owner
from jobs.scheduler import run_scheduler
from knowledge.adapters.owner_lock import OwnerLock, owner_lock
from knowledge.runtime.instrumentation import observe
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.open import Knowledge
from orchestrator.http.app import make_app
from orchestrator.http.middleware.authentication import AuthConfig
from orchestrator.http.routes.kb import stop_indexing
from orchestrator.http.uvicorn import UNREAD_SECONDS, raise_file_limit, serve_on
from orchestrator.importers.sessions.checks import split_named
from orchestrator.mcp.http import serve_mcp
from orchestrator.observability.metrics import metrics_of_process
from orchestrator.observability.otel import tracing
from orchestrator.server.owner import describe_owner, open_owner, serve_socket
from orchestrator.server.session_learning import learn_from_hooks

GRACE_SECONDS = 30
_BAD_ADDRESS_ERRNOS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
"""Errors of binding to another machine's address, to an unsupported family, and to a link-local one without a link."""
_TAKEOVERS = 20
"""Owners that callers started, and that are ended, until the directory is free: a caller may start the next one."""
MIN_KEY_CHARS = 32
"""For a key that was not generated here, and so may be a word; ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """The address of the API, its data directory and its process. `without_keys`: no key is needed on this machine.

    `dead_keys`: number of live keys that do not work, as they were created with another pepper.
    """

    url: str
    home: str
    pid: int
    without_keys: bool
    dead_keys: int = 0


async def run_service(
    settings: KnowledgeSettings, *, host: str, port: int, on_start: Callable[[ServiceInfo], None] = lambda _: None
) -> None:
    """Serve until cancelled; requests in flight and running jobs may finish. `on_start` is called once it answers.

    Raises InvalidInput for a port in use or an address beyond loopback without a key, StoreInUse if another process
    owns the data directory.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else None
    raise_file_limit()
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(_listen(host, port))
        lock = await _take_lock(settings, stack)
        knowledge, on_socket = await stack.enter_async_context(open_owner(settings, lock))
        if not _is_loopback(listener):
            await _require_keys(knowledge, host, key)
        auth = AuthConfig(
            authenticator=knowledge.authenticator,
            operator_key=key,
            host=host,
            requests_per_second=settings.key_requests_per_second,
            context_timeout_seconds=settings.query_deadline_ms / 1000,
        )
        app = make_app(knowledge, auth=auth)
        stack.enter_context(observe(metrics_of_process(), *stack.enter_context(tracing(os.environ))))
        without_keys = key is None and not await knowledge.authenticator.has_any_key()
        dead_keys = await knowledge.keys.count_unusable()
        await stack.enter_async_context(_serve(knowledge, app, listener))
        if lock is not None:
            await stack.enter_async_context(serve_socket(on_socket, lock, settings.home))
            checks = split_named(settings.check_commands)
            await stack.enter_async_context(learn_from_hooks(knowledge, settings.home, checks=checks))
        bracketed = f"[{host}]" if ":" in host else host
        on_start(
            ServiceInfo(
                url=f"http://{bracketed}:{port}",
                home=str(settings.home),
                pid=os.getpid(),
                without_keys=without_keys,
                dead_keys=dead_keys,
            )
        )
        await asyncio.Event().wait()


async def _take_lock(settings: KnowledgeSettings, stack: contextlib.AsyncExitStack) -> OwnerLock | None:
    """Own the data directory, in place of an owner that a caller started.

    Where the stores are behind servers, several processes may serve one directory: None for all but the first.
    Raises StoreInUse for another server.
    """
    for _ in range(_TAKEOVERS):
        owner = read_owner(settings.home)
        if owner is not None and owner.detached and owner.is_alive():
            await end_owner(settings.home, owner)
        try:
            record = describe_owner(detached=False)
            return stack.enter_context(owner_lock(settings.home, stage="its modules to load", **record))
        except StoreInUse:
            if not settings.has_embedded_index:
                return None
            owner = read_owner(settings.home)
            if owner is not None and not owner.detached:
                raise
    raise StoreInUse(f"the data directory {settings.home} is taken by one new process after the other: try again")


@contextlib.asynccontextmanager
async def _serve(knowledge: Knowledge, app: FastAPI, listener: sockets.socket) -> AsyncIterator[None]:
    """Run the jobs and answer requests for a block; background work ends with it."""
    try:
        async with run_scheduler(knowledge), serve_mcp(app), serve_on(app, listener, grace_seconds=GRACE_SECONDS):
            yield
    finally:
        await stop_indexing(app)


def _is_loopback(listener: sockets.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


async def _require_keys(knowledge: Knowledge, host: str, operator_key: str | None) -> None:
    """Raise InvalidInput unless a key is needed on an address that other machines reach."""
    if operator_key is None and not await knowledge.authenticator.has_any_key():
        raise InvalidInput(
            "--host",
            f"other machines reach {host!r}, and there is no key yet: create one with `hardwon keys create --scope"
            " capture --scope query`, or set HARDWON_API_KEY, the key of the server's operator",
        )
    if operator_key is not None and len(operator_key) < MIN_KEY_CHARS:
        raise InvalidSetting(
            "HARDWON_API_KEY",
            f"has fewer than {MIN_KEY_CHARS} characters, too few where other machines reach it: generate one with"
            " openssl rand -hex 32",
        )


def _listen(host: str, port: int) -> sockets.socket:
    """Listen on an address."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    # asyncio switches Nagle's algorithm off only if the protocol is given: else a response takes 44 ms (measured)
    listener = sockets.socket(family, sockets.SOCK_STREAM, sockets.IPPROTO_TCP)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        if hasattr(sockets, "TCP_USER_TIMEOUT"):  # Linux; else a client that reads nothing keeps its slot for good
            listener.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_USER_TIMEOUT, 1000 * UNREAD_SECONDS)
        try:
            listener.bind((host, port))
            listener.listen()  # bind alone does not fail for a port that another process has bound
        except (sockets.gaierror, UnicodeError, TypeError) as error:  # the last for bytes that are not text
            raise InvalidInput("--host", f"{host!r} is not an address of this machine: give one that is") from error
        except OSError as error:
            if error.errno in _BAD_ADDRESS_ERRNOS:
                raise InvalidInput(
                    "--host",
                    f"{host} is not an address of this machine ({error.strerror}): use 127.0.0.1, or 0.0.0.0 for all",
                ) from error
            raise InvalidInput(
                "--port", f"cannot listen on {host}:{port} ({error.strerror}): give another --port, or another --host"
            ) from error
        undo.pop_all()
    return listener
