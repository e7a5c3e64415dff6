"""`GET /metrics`, and the middleware that records each request and its spans in the metrics of the process."""

from __future__ import annotations

import asyncio
import time
from http import HTTPMethod
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client.exposition import choose_encoder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hardwon.errors import Unavailable
from hardwon.event_log import get_logger
from knowledge.runtime.instrumentation import observe
from knowledge.wiring.open import Knowledge
from orchestrator.http.operation_route import CallerKnowledge, performs
from orchestrator.observability.metrics import Metrics, metrics_of_process

log = get_logger(__name__)

COUNT_SECONDS = 5.0
"""Longest count of staged entries: a scraper waits ten seconds."""
CACHE_SECONDS = 10.0
"""Time that a count of staged entries is cached."""
_METHODS = frozenset(HTTPMethod)
_OTHER = "other"


class _StagedGauges:
    """Gauges of the entries that wait for a checkpoint, in all workspaces, and of the workspaces; cached."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._next = 0.0
        self._one_by_one = asyncio.Lock()

    async def update(self, metrics: Metrics) -> None:
        """Set the gauges; NaN where Postgres does not answer in time."""
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
            metrics.altered.set(self._knowledge.integrity.seals.altered)
            self._next = time.monotonic() + CACHE_SECONDS


class MetricsMiddleware:
    """ASGI middleware: counts requests, and measures their spans."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with observe(self._metrics):
                await self._app(scope, receive, send_and_record)
        finally:
            self._metrics.count_request(
                _method_label(scope["method"]), _route_label(scope), status, time.perf_counter() - began
            )


def _method_label(method: str) -> str:
    return method if method in _METHODS else _OTHER


def _route_label(scope: Scope) -> str:
    """Return the path of the route as it is declared: the paths that callers send have no bound."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", None) or _OTHER)


def add_metrics(app: FastAPI) -> None:
    """Add the route and the middleware to an app."""
    metrics = metrics_of_process()
    staged = _StagedGauges(app.state.knowledge)
    app.add_middleware(MetricsMiddleware, metrics=metrics)

    @app.get("/metrics", tags=["health"], response_class=Response)
    @performs("workspaces")
    async def tell_metrics(request: Request, knowledge: CallerKnowledge) -> Response:
        """Return the metrics of this process, as Prometheus scrapes them: of all workspaces."""
        knowledge.principal.require("workspaces")
        await staged.update(metrics)
        metrics.breakers.set(app.state.contexts.count_open())
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(metrics.registry), media_type=content_type)
