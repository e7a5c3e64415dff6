"""The HTTP API: parse, call one service method, answer. The same routes on TCP and on the owner's unix socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cachetools import LRUCache
from fastapi import FastAPI, Request

from knowledge.errors import (
    IndexUnavailable,
    SpaceMismatch,
    StorageUnavailable,
    StoreIncompatible,
)
from knowledge.models import Context, Task
from knowledge.wiring import Knowledge
from orchestrator.breaker import Breakers
from orchestrator.client.journal import RemoteJournal
from orchestrator.client.kb import RemoteKnowledgeBases
from orchestrator.client.knowledge_client import services
from orchestrator.context import OrchestratorContextBuilder
from orchestrator.deadline import run_within
from orchestrator.http.access import Doorway, GuardedDoor, OwnersDoor
from orchestrator.http.admission import Admission
from orchestrator.http.allowed import add_access
from orchestrator.http.answers import add_answers
from orchestrator.http.document import document_of
from orchestrator.http.entries import add_entries
from orchestrator.http.journal import add_journal
from orchestrator.http.kb import add_kb
from orchestrator.http.metrics import add_metrics
from orchestrator.http.opened import MOST_OPEN, Open, OperationRoute, free, performs
from orchestrator.http.operations import add_operations
from orchestrator.http.outcomes import add_outcomes
from orchestrator.http.page import add_page
from orchestrator.http.problems import Problem, tell_problems
from orchestrator.http.rows import add_rows
from orchestrator.http.upkeep import add_upkeep

READY_SECONDS = 10.0
"""After which a server whose stores have not answered is not ready; ours."""

_WITH_MORE = frozenset({RemoteJournal, RemoteKnowledgeBases})
"""What is got in another way than from `Knowledge`, each by a module of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBody:
    """A task and the type of the agent that gets it."""

    # that of a hook has the same name, so the document names both by their modules: it changes if this one moves
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    task: Task
    agent_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """That all is well."""

    status: Literal["ok"]


def make_app(knowledge: Knowledge, *, doorway: Doorway | None = None) -> FastAPI:
    """Return the app over open stores, which stay the caller's. Without a doorway whoever reaches it may do all."""
    app = FastAPI(
        title="hardwon",
        summary="The learning memory of a multi-agent orchestrator.",
        version="1",
        docs_url=None,  # FastAPI's would load scripts from elsewhere: `page` has our own
        redoc_url=None,
        redirect_slashes=False,  # a client that does not follow would take an empty answer for one
        responses={500: {"model": Problem, "description": "A defect of hardwon's own."}},
    )
    app.router.route_class = OperationRoute
    app.state.knowledge = knowledge
    app.state.breakers = Breakers()
    app.state.opened = LRUCache(MOST_OPEN)
    settings = knowledge.settings
    app.add_middleware(Admission, concurrent=settings.max_concurrent, waiting=settings.max_waiting)
    if doorway is None:
        app.add_middleware(OwnersDoor)
    else:
        app.add_middleware(GuardedDoor, doorway=doorway)
    tell_problems(app)
    for service in services():
        if service not in _WITH_MORE:
            add_rows(app, service)
    add_entries(app)
    _add_contexts(app)
    add_outcomes(app)
    add_operations(app)
    add_upkeep(app)
    add_metrics(app)
    add_access(app)
    add_page(app)
    add_kb(app)
    add_answers(app)
    add_journal(app)
    _add_health(app)
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign] # FastAPI's own way to change it
    return app


def _add_contexts(app: FastAPI) -> None:
    @app.post("/v1/contexts", tags=["queries"])
    @performs("contexts.record", problems=(409,))
    async def build_context(body: ContextBody, knowledge: Open) -> Context:
        """The context of a task, with the block of patterns where any fits."""
        breaker = app.state.breakers.for_workspace(knowledge.workspace)
        return await OrchestratorContextBuilder(knowledge, breaker).build_context_for_task(body.task, body.agent_type)


def _add_health(app: FastAPI) -> None:
    @app.head("/healthz", include_in_schema=False)  # as `wget --spider` and balancers look
    @app.get("/healthz", tags=["health"])
    @free()
    async def healthz() -> Health:
        """Say that the process is up."""
        return Health(status="ok")

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", tags=["health"])
    @free(problems=(503,))
    async def readyz(request: Request) -> Health:
        """Say whether Postgres and the index answer, take changes, and are in the space of this server's model."""
        knowledge: Knowledge = request.app.state.knowledge
        try:
            await run_within(READY_SECONDS, knowledge.ready())
        except TimeoutError as error:
            raise StorageUnavailable(f"the stores have not answered within {READY_SECONDS:.0f} s") from error
        except SpaceMismatch as error:
            raise IndexUnavailable(
                "this process is set to another embedding model than the store is in: `hardwon doctor` says to which;"
                " set HARDWON_EMBEDDING_MODEL to that of the store, and restart"
            ) from error
        except (IndexUnavailable, StoreIncompatible) as error:  # whoever asks needs no key, and is told no address
            raise IndexUnavailable(
                "the vector index does not answer, holds what is not this store's (`hardwon doctor` says which), or has"
                " lost its collection: `hardwon rebuild` makes it anew"
            ) from error
        return Health(status="ok")
