"""The HTTP API, with the same routes on TCP and on the owner's unix socket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

import httpx
from cachetools import LRUCache
from fastapi import FastAPI, Header, Request

from hardwon.client.arguments import context_request
from hardwon.client.documents import RemoteJournal, RemoteKnowledgeBases
from hardwon.client.knowledge_client import services
from hardwon.client.runs import RemoteRuns
from hardwon.client.transport import DEADLINE_HEADER
from hardwon.context.deadline import run_within
from hardwon.errors import IndexUnavailable, SpaceMismatch, StorageUnavailable, StoreIncompatible
from hardwon.models.tasks import ContextRequest
from knowledge.models import Context
from knowledge.wiring.open import Knowledge
from orchestrator.context.builders import ContextBuilders
from orchestrator.http.middleware.admission import Admission
from orchestrator.http.middleware.authentication import AuthConfig, KeyAuthentication, OwnerAuthentication
from orchestrator.http.middleware.problems import Problem, add_problem_handlers
from orchestrator.http.openapi.document import openapi_document
from orchestrator.http.operation_route import MAX_CACHED_SERVICES, CallerKnowledge, OperationRoute, performs, public
from orchestrator.http.pages.site import add_pages
from orchestrator.http.routes.allowed import add_access
from orchestrator.http.routes.answers import add_answers
from orchestrator.http.routes.entries import add_entries
from orchestrator.http.routes.hook_contexts import add_hook_contexts
from orchestrator.http.routes.journal import add_journal
from orchestrator.http.routes.kb import add_kb
from orchestrator.http.routes.maintenance import add_upkeep
from orchestrator.http.routes.metrics import add_metrics
from orchestrator.http.routes.operations import add_operations
from orchestrator.http.routes.otlp import add_otlp
from orchestrator.http.routes.outcomes import add_outcomes
from orchestrator.http.routes.runs import add_runs
from orchestrator.http.table_routes import add_rows

READY_SECONDS = 10.0
"""Longest wait for the stores before the server counts as not ready; ours."""

_ADDED_BY_MODULES = frozenset({RemoteJournal, RemoteKnowledgeBases, RemoteRuns})
"""Services that are not attributes of `Knowledge`: a module of each adds its routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A healthy state."""

    status: Literal["ok"]


def make_app(knowledge: Knowledge, *, auth: AuthConfig | None = None) -> FastAPI:
    """Return the app over open stores, which the caller closes. Without `auth` every caller may do everything."""
    app = FastAPI(
        title="hardwon",
        summary="The learning memory of a multi-agent orchestrator.",
        version="1",
        docs_url=None,  # FastAPI's page loads scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,  # a client that does not follow redirects would read an empty answer
        responses={500: {"model": Problem, "description": "A defect of hardwon's own."}},
    )
    app.router.route_class = OperationRoute
    app.state.knowledge = knowledge
    app.state.contexts = ContextBuilders()
    app.state.opened = LRUCache(MAX_CACHED_SERVICES)
    settings = knowledge.settings
    app.add_middleware(Admission, concurrent=settings.max_concurrent, waiting=settings.max_waiting)
    if auth is None:
        app.add_middleware(OwnerAuthentication)
    else:
        app.add_middleware(KeyAuthentication, auth=auth)
    add_problem_handlers(app)
    for service in services():
        if service not in _ADDED_BY_MODULES:
            add_rows(app, service)
    add_entries(app)
    _add_contexts(app)
    add_outcomes(app)
    add_hook_contexts(app)
    add_otlp(app)
    add_runs(app)
    add_operations(app)
    add_upkeep(app)
    add_metrics(app)
    add_access(app)
    add_pages(app)
    add_kb(app)
    add_answers(app)
    add_journal(app)
    _add_health(app)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign] # FastAPI's own way to change it
    return app


async def warm_up(app: FastAPI) -> None:
    """Answer one query, so that the first caller does not wait for what a path loads and connects at first use.

    Its errors are those of the next query. Endpoints, which count tokens, are not called.
    """
    if not app.state.knowledge.settings.uses_local_model:
        return
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://hardwon") as client:
        await client.post("/v1/queries/task", json={"task_description": "warm up"})


def _add_contexts(app: FastAPI) -> None:
    @app.post("/v1/contexts", tags=["queries"])
    @performs("contexts.record", problems=(409,))
    async def build_context(
        body: Annotated[ContextRequest, context_request],
        knowledge: CallerKnowledge,
        deadline_ms: Annotated[
            int | None,
            Header(
                alias=DEADLINE_HEADER,
                ge=1,
                le=600_000,
                description="Milliseconds that the caller waits; without it, HARDWON_QUERY_DEADLINE_MS.",
            ),
        ] = None,
    ) -> Context:
        """Return the context of a task, with the block of patterns where any fits."""
        deadline = None if deadline_ms is None else timedelta(milliseconds=deadline_ms)
        builder = app.state.contexts.make(knowledge, knowledge.workspace, deadline)
        context: Context = await builder.build_context_for_task(body.task, body.agent_type)
        return context


def _add_health(app: FastAPI) -> None:
    @app.head("/healthz", include_in_schema=False)  # for `wget --spider` and load balancers
    @app.get("/healthz", tags=["health"])
    @public()
    async def healthz() -> Health:
        """Say that the process is up."""
        return Health(status="ok")

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", tags=["health"])
    @public(problems=(503,))
    async def readyz(request: Request) -> Health:
        """Check that Postgres and the index answer, accept writes, and hold vectors of this server's model."""
        knowledge: Knowledge = request.app.state.knowledge
        try:
            await run_within(READY_SECONDS, knowledge.ready())
        except TimeoutError as error:
            raise StorageUnavailable(f"the stores have not answered within {READY_SECONDS:.0f} s") from error
        except SpaceMismatch as error:
            raise IndexUnavailable(
                "this process has another embedding model than the store: `hardwon doctor` names both;"
                " set HARDWON_EMBEDDING_MODEL to that of the store, and restart"
            ) from error
        except (IndexUnavailable, StoreIncompatible) as error:  # callers need no key here, so they get no address
            raise IndexUnavailable(
                "the vector index does not answer, holds another store's data (`hardwon doctor` says which), or has"
                " lost its collection: `hardwon rebuild` creates it again"
            ) from error
        return Health(status="ok")
