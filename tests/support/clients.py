"""Clients of an app in this process, with a key and without: no socket is opened."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import FastAPI

from hardwon.client.transport import WORKSPACE_HEADER
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.wiring.open import Knowledge
from orchestrator.client import KnowledgeClient
from orchestrator.http.app import make_app
from orchestrator.http.middleware.authentication import AuthConfig


def http_of(app: FastAPI | Knowledge, **more: Any) -> httpx.AsyncClient:
    """Return a client of HTTP, of the workspace of these services; a defect is an answer, as it is over a socket."""
    if isinstance(app, Knowledge):
        if app.workspace != DEFAULT_WORKSPACE:
            more["headers"] = {WORKSPACE_HEADER: app.workspace} | dict(more.get("headers", {}))
        app = make_app(app)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, **{"base_url": "http://hardwon"} | more)


def client_of(knowledge: Knowledge, app: FastAPI | None = None) -> KnowledgeClient:
    """Return a client of the same stores and workspace, with the settings it would have beside them."""
    transport = httpx.ASGITransport(app=app or make_app(knowledge), raise_app_exceptions=False)
    return KnowledgeClient(
        "http://hardwon", workspace=knowledge.workspace, transport=transport, settings=knowledge.settings
    )


def auth_of(knowledge: Knowledge, **more: Any) -> AuthConfig:
    """Return the door of a server with keys, of as many requests a second as anybody has."""
    told: dict[str, Any] = {"operator_key": None, "host": "hardwon", "requests_per_second": 1e6}
    return AuthConfig(authenticator=knowledge.authenticator, **told | more)
