"""`/mcp`: the MCP server over streamable HTTP, next to the API and behind the same authentication."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardwon.client.transport import MAX_MCP_BYTES, MCP_PATH
from hardwon.errors import AccessDenied, HardwonError, NotFound, Unavailable
from hardwon.event_log import get_logger
from knowledge.wiring.open import Knowledge
from orchestrator.http.middleware.problems import problem_response
from orchestrator.http.operation_route import caller_knowledge

log = get_logger(__name__)


class McpApp:
    """ASGI app: answers each request by itself, without sessions, so that any replica can answer the next one.

    The SDK is loaded with the first request. Pages of other sites are refused, even with a valid key.
    """

    def __init__(self) -> None:
        self._manager: Any = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._one_by_one = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if foreign := _foreign_origin(scope):
            await problem_response(AccessDenied(foreign))(scope, receive, send)
            return
        if scope["method"] != "POST":  # without sessions nothing is ever sent on a stream, which would only stay open
            error = HardwonError(f"{scope['method']} {MCP_PATH}: this server has no sessions, and opens no streams")
            await problem_response(error, status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})(
                scope, receive, send
            )
            return
        if importlib.util.find_spec("mcp") is None:
            await problem_response(
                NotFound(
                    "this server has no MCP: it takes the extra `mcp`, and hardwon doctor there tells how to install it"
                )
            )(scope, receive, send)
            return
        body = await _read_body(receive)
        app: ASGIApp = (await self._start_manager()).asgi_app
        await app(scope, _replay(body, receive), send)

    async def _start_manager(self) -> Any:
        async with self._one_by_one:
            if self._manager is None:
                manager = await asyncio.to_thread(_make_manager)
                started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._run(manager, started))
                try:
                    await started
                except BaseException:  # a cancellation too: the next request makes another manager
                    self._task.cancel()
                    raise
                self._manager = manager
        return self._manager

    async def _run(self, manager: Any, started: asyncio.Future[None]) -> None:
        try:
            async with manager.run():  # entered and left by one task, as its task group requires
                started.set_result(None)
                await self._ended.wait()
        except Exception as error:
            if started.done():
                log.exception("mcp_ended")
                self._manager = None  # the next request makes another manager
                return
            log.exception("mcp_not_begun")
            failure = Unavailable("MCP cannot be started: the server's log says more")
            failure.__cause__ = error
            started.set_exception(failure)

    async def aclose(self) -> None:
        """Stop the session manager."""
        self._ended.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def serve_mcp(app: FastAPI) -> AsyncIterator[None]:
    """Add MCP to an app for a block."""
    async with contextlib.aclosing(McpApp()) as mcp:
        for path in (MCP_PATH, f"{MCP_PATH}/"):  # many client configurations have the slash
            app.router.routes.append(Route(path, mcp, include_in_schema=False))
        yield


def _make_manager() -> Any:
    server = importlib.import_module("orchestrator.mcp.server")
    tools = importlib.import_module("orchestrator.mcp.tools")
    sdk = importlib.import_module("mcp.server.streamable_http_manager")

    async def caller(context: Any) -> Any:
        request: Request = context.request
        knowledge: Knowledge = caller_knowledge(request)
        return tools.Caller(knowledge=knowledge, may=knowledge.principal.may, contexts=request.app.state.contexts)

    return sdk.StreamableHTTPSessionManager(
        app=server.make_server(caller), json_response=True, stateless=True, max_request_body_size=MAX_MCP_BYTES
    )


async def _read_body(receive: Receive) -> bytes:
    """Return a body. Raises ClientDisconnect where the client disconnects before its end.

    The SDK would read it itself, but takes a disconnect for a defect, and logs a trace.
    """
    pieces, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was already read, and then the messages that follow."""
    given = False

    async def receive_body() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


def _foreign_origin(scope: Scope) -> str | None:
    """Return why the origin of a request is refused, None if it is not: only pages of this server may call it."""
    headers = [(name, value.decode("latin-1").lower()) for name, value in scope["headers"]]
    hosts = {value for name, value in headers if name == b"host"}
    for origin in (value for name, value in headers if name == b"origin"):
        if urlsplit(origin).netloc not in hosts:
            return f"pages of {origin!r} may not use this server"
    return None
