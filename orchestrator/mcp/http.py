"""`/mcp`: the MCP server over streamable HTTP, beside the API and behind the same door."""

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

from knowledge.errors import AccessDenied, HardwonError, NotFound, Unavailable
from knowledge.logs import get_logger
from knowledge.wiring import Knowledge
from orchestrator.client.calls import MAX_MCP_BYTES, MCP_PATH
from orchestrator.http.opened import opened
from orchestrator.http.problems import answer

log = get_logger(__name__)


class McpDoor:
    """ASGI app: answers each request by itself, without sessions, so that any replica can answer the next one.

    The SDK is loaded with the first request. A page of another site is refused, whatever key it sends.
    """

    def __init__(self) -> None:
        self._manager: Any = None
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._one_by_one = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if foreign := _foreign(scope):
            await answer(AccessDenied(foreign))(scope, receive, send)
            return
        if scope["method"] != "POST":  # without sessions nothing is ever sent on a stream: one would only stay at work
            told = HardwonError(f"{scope['method']} {MCP_PATH}: this server keeps no sessions, and opens no stream")
            await answer(told, status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})(scope, receive, send)
            return
        if importlib.util.find_spec("mcp") is None:
            await answer(NotFound("this server has no MCP: pip install 'hardwon[mcp]'"))(scope, receive, send)
            return
        body = await _read(receive)
        app: ASGIApp = (await self._opened()).asgi_app
        await app(scope, _again(body, receive), send)

    async def _opened(self) -> Any:
        async with self._one_by_one:
            if self._manager is None:
                manager = await asyncio.to_thread(_make_manager)
                begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._run(manager, begun))
                try:
                    await begun
                except BaseException:  # one that is cancelled too: the next request makes another one
                    self._task.cancel()
                    raise
                self._manager = manager
        return self._manager

    async def _run(self, manager: Any, begun: asyncio.Future[None]) -> None:
        try:
            async with manager.run():  # entered and left by one task, as its task group asks
                begun.set_result(None)
                await self._ended.wait()
        except Exception as error:
            if begun.done():
                log.exception("mcp_ended")
                self._manager = None  # the next request makes another one
                return
            log.exception("mcp_not_begun")
            told = Unavailable(f"MCP cannot be started ({type(error).__name__}): the server's log says more")
            told.__cause__ = error
            begun.set_exception(told)

    async def aclose(self) -> None:
        """End what was opened."""
        self._ended.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def serving_mcp(app: FastAPI) -> AsyncIterator[None]:
    """Add the door to an app for a block."""
    async with contextlib.aclosing(McpDoor()) as door:
        for path in (MCP_PATH, f"{MCP_PATH}/"):  # which many configurations have
            app.router.routes.append(Route(path, door, include_in_schema=False))
        yield


def _make_manager() -> Any:
    ours = importlib.import_module("orchestrator.mcp.server")
    tools = importlib.import_module("orchestrator.mcp.tools")
    sdk = importlib.import_module("mcp.server.streamable_http_manager")

    async def caller(context: Any) -> Any:
        request: Request = context.request
        knowledge: Knowledge = opened(request)
        return tools.Caller(knowledge=knowledge, may=knowledge.principal.may, breakers=request.app.state.breakers)

    return sdk.StreamableHTTPSessionManager(
        app=ours.make_server(caller), json_response=True, stateless=True, max_request_body_size=MAX_MCP_BYTES
    )


async def _read(receive: Receive) -> bytes:
    """Return a body. Raises ClientDisconnect where its caller went before all of it had come.

    The SDK, which would read it itself, takes that for a defect, and logs a trace.
    """
    pieces, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and then what else comes."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


def _foreign(scope: Scope) -> str | None:
    """Return what is wrong with where a request comes from: a browser says so, and only our own pages may."""
    headers = [(name, value.decode("latin-1").lower()) for name, value in scope["headers"]]
    hosts = {value for name, value in headers if name == b"host"}
    for origin in (value for name, value in headers if name == b"origin"):
        if urlsplit(origin).netloc not in hosts:
            return f"no page of {origin!r} may use this server"
    return None
