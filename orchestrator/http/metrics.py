"""`GET /metrics`, and the middleware that has the process's metrics told of each request and of what it does."""

from __future__ import annotations

import asyncio
import time
from http import HTTPMethod
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client.exposition import choose_encoder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.errors import Unavailable
from knowledge.logs import get_logger
from knowledge.steps import observe
from knowledge.wiring import Knowledge
from orchestrator.http.opened import Open, performs
from orchestrator.metrics import Metrics, metrics_of_process

log = get_logger(__name__)

COUNT_SECONDS = 5.0
"""What counting staged entries may take: a scraper waits ten."""
KEEP_SECONDS = 10.0
"""How long a count of staged entries is told again, however often it is asked for."""
_METHODS = frozenset(HTTPMethod)
_OTHER = "other"


class _Staged:
    """How many entries wait for a checkpoint, in all workspaces; counted when asked for, now and then."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._next = 0.0
        self._one_by_one = asyncio.Lock()

    async def tell(self, metrics: Metrics) -> None:
        """Set the gauges; not a number where Postgres does not answer in time."""
        async with self._one_by_one:
            if time.monotonic() < self._next:
                return
            staged = workspaces = float("nan")
            try:
                async with asyncio.timeout(COUNT_SECONDS):
                    workspaces = float(len(await self._knowledge.workspaces()))
                    staged = float(await self._knowledge.jobs.count_staged())
            except (TimeoutError, Unavailable) as error:
                log.warning("staged_not_counted", reason=str(error) or "too slow")
            metrics.staged.set(staged)
            metrics.workspaces.set(workspaces)
            self._next = time.monotonic() + KEEP_SECONDS


class MetricsWatch:
    """ASGI middleware: counts requests, and has the steps of each watched."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with observe(self._metrics):
                await self._app(scope, receive, noting)
        finally:
            self._metrics.count_request(_known(scope["method"]), _route(scope), status, time.perf_counter() - began)


def _known(method: str) -> str:
    return method if method in _METHODS else _OTHER


def _route(scope: Scope) -> str:
    """Return the path of the route as it was declared: what a caller wrote in its place would be without number."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", None) or _OTHER)


def add_metrics(app: FastAPI) -> None:
    """Add the route and the middleware to an app."""
    metrics = metrics_of_process()
    staged = _Staged(app.state.knowledge)
    app.add_middleware(MetricsWatch, metrics=metrics)

    @app.get("/metrics", tags=["health"], response_class=Response)
    @performs("workspaces")
    async def tell_metrics(request: Request, knowledge: Open) -> Response:
        """Return the metrics of this process, as Prometheus scrapes them: of all workspaces."""
        knowledge.principal.require("workspaces")
        await staged.tell(metrics)
        metrics.breakers.set(app.state.breakers.count_open())
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(metrics.registry), media_type=content_type)
