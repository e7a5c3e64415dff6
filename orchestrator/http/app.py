"""The HTTP API: parse, call one service method, answer. The same routes on TCP and on the owner's unix socket."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from fastapi import FastAPI, Header, Query, Request, Response
from pydantic import Field, StrictBool

from jobs.table import run_job
from knowledge.errors import (
    IndexUnavailable,
    InvalidInput,
    StorageUnavailable,
    StoreIncompatible,
)
from knowledge.models import (
    Captured,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    Entry,
    EntryId,
    NewEntry,
    Pattern,
    PatternId,
    PruneReport,
    Task,
    WorkspaceStats,
)
from knowledge.wiring import Knowledge
from orchestrator.breaker import Breakers
from orchestrator.context import OrchestratorContextBuilder
from orchestrator.deadline import within
from orchestrator.entries import capture_rows, resolve_entry
from orchestrator.http.access import Doorway, GuardedDoor, OwnersDoor
from orchestrator.http.admission import Admission, Lines, Overflow
from orchestrator.http.allowed import add_access
from orchestrator.http.answers import add_answers
from orchestrator.http.bodies import BodyCap
from orchestrator.http.custody import add_custody
from orchestrator.http.document import document_of
from orchestrator.http.events import add_events
from orchestrator.http.kb import add_kb
from orchestrator.http.keys import add_keys
from orchestrator.http.metrics import add_metrics
from orchestrator.http.opened import Open, OperationRoute, Told, free, performs
from orchestrator.http.page import add_page
from orchestrator.http.paging import LAST, Limit, link_next
from orchestrator.http.patterns import add_patterns
from orchestrator.http.problems import Problem, tell_problems
from orchestrator.http.upkeep import add_upkeep

MAX_BATCH = 1000
READY_SECONDS = 10.0
"""After which a server whose stores have not answered is not ready; ours."""

_FORBID: dict[str, Any] = {"extra": "forbid"}

IdempotencyKey = Annotated[
    str | None,
    Header(max_length=200, description="A name of the caller's for this event; repeated, nothing is stored."),
]
MaxResults = Annotated[int, Field(strict=True)]
Relevance = Annotated[float | None, Field(ge=0, le=1, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBody:
    """Entries to capture, as `POST /v1/entries` takes them, each on its own."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    entries: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionBody:
    """What worked: `solution_steps` and `verified_by` for a failure, `revision_approach` for a rejection."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    solution_steps: str | None = None
    revision_approach: str | None = None
    verified_by: str | None = None
    when_to_try: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBody:
    """Which project reached which checkpoint; no project: a manual checkpoint of all.

    `distill`: have the chat model of the settings describe the patterns that are due for it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: str | None = None
    checkpoint_type: str = CheckpointType.MANUAL
    distill: StrictBool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepBody:
    """Projects with something staged for this long."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    staged_for_seconds: Annotated[float, Field(ge=0, le=1e9, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueryBody:
    """A task about to be assigned."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task_description: str
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    max_results: MaxResults = 5
    min_relevance: Relevance = None
    only_if_sure: StrictBool = False
    facts: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureQueryBody:
    """A failure that just happened."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    failure_description: str
    error_message: str | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    max_results: MaxResults = 3
    min_relevance: Relevance = None
    only_if_sure: StrictBool = False
    facts: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQueryBody:
    """A proposal about to go to a gate."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    gate_type: str
    proposal: str
    project_id: str | None = None
    max_results: MaxResults = 5
    min_relevance: Relevance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBody:
    """A task and the type of the agent that gets it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    task: Task
    agent_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeBody:
    """What came of a pattern of a context; what is not given is taken from the context."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    context_id: UUID
    pattern_id: UUID
    worked: StrictBool
    project_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCreated:
    """The id of a captured entry; of a repeated event, the one it already has."""

    entry_id: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """Patterns, best first. `degraded` is null: a query that fails is an error."""

    patterns: list[Pattern]
    degraded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAnswer:
    """One answer an entry, in order."""

    answers: list[Captured]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """How many things a job dealt with; null if its slot was run already."""

    dealt_with: int | None


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
    app.state.opened = OrderedDict()
    settings = knowledge.settings
    lines = Lines(at_work=settings.max_concurrent, waiting=settings.max_waiting)
    app.add_middleware(Admission, lines=lines)
    app.add_middleware(BodyCap)
    if doorway is None:
        app.add_middleware(OwnersDoor)
    else:
        app.add_middleware(GuardedDoor, doorway=doorway)
    tell_problems(app)
    _add_entries(app)
    _add_queries(app)
    add_events(app)
    add_patterns(app)
    add_custody(app)
    _add_operations(app)
    _add_counts(app)
    add_upkeep(app)
    count_refused = add_metrics(app)
    app.add_middleware(Overflow, lines=lines, refused=count_refused)  # the last is the first that a request meets
    add_access(app)
    add_page(app)
    add_keys(app)
    add_kb(app)
    add_answers(app)
    _add_health(app)
    app.openapi = lambda: document_of(app)  # type: ignore[method-assign] # FastAPI's own way to change it
    return app


def _add_entries(app: FastAPI) -> None:
    @app.post("/v1/entries", status_code=201, tags=["entries"])
    @performs("capture.capture", problems=(409,))
    async def capture(entry: NewEntry, knowledge: Open, idempotency_key: IdempotencyKey = None) -> EntryCreated:
        """Capture one entry. An Idempotency-Key stands for the field `idempotency_key`: repeated, it stores nothing."""
        if idempotency_key is not None:
            entry = _with_key(entry, idempotency_key)
        return EntryCreated(entry_id=await knowledge.capture.capture(entry))

    @app.post("/v1/entries:batch", tags=["entries"])
    @performs("capture.capture_all")
    async def capture_all(body: BatchBody, knowledge: Open) -> BatchAnswer:
        """Capture up to 1000 entries, each on its own: a refused one says why and stops no other."""
        if len(body.entries) > MAX_BATCH:
            raise InvalidInput("entries", f"holds {len(body.entries)}, more than the {MAX_BATCH} allowed at a time")
        return BatchAnswer(answers=await capture_rows(knowledge.capture, body.entries))

    @app.post("/v1/entries/{entry_id}/resolution", tags=["entries"])
    @performs("capture.resolve_failure", problems=(409,))
    async def resolve(entry_id: UUID, body: ResolutionBody, knowledge: Open) -> EntryCreated:
        """Give an open entry its resolution and stage it."""
        resolved = await resolve_entry(
            knowledge.capture,
            EntryId(entry_id),
            solution_steps=body.solution_steps,
            revision_approach=body.revision_approach,
            verified_by=body.verified_by,
            when_to_try=body.when_to_try,
        )
        return EntryCreated(entry_id=resolved)

    @app.get("/v1/entries/{entry_id}", tags=["entries"])
    @performs("capture.get")
    async def get_entry(entry_id: UUID, knowledge: Open) -> Entry:
        """Return an entry."""
        return await knowledge.capture.get(EntryId(entry_id))

    @app.delete("/v1/entries/{entry_id}", status_code=204, tags=["entries"])
    @performs("capture.delete", problems=(409,))
    async def delete_entry(entry_id: UUID, knowledge: Open) -> None:
        """Delete an entry everywhere."""
        await knowledge.capture.delete(EntryId(entry_id))


def _with_key(entry: NewEntry, idempotency_key: str) -> NewEntry:
    if entry.idempotency_key not in {None, idempotency_key}:
        raise InvalidInput("idempotency_key", "differs from the header Idempotency-Key: give one of them")
    return replace(entry, idempotency_key=idempotency_key)


def _add_queries(app: FastAPI) -> None:
    @app.post("/v1/queries/task", tags=["queries"])
    @performs("queries.query_for_task", problems=(409, 502))
    async def query_for_task(body: TaskQueryBody, knowledge: Open) -> Patterns:
        """What to know before a task is assigned."""
        found = await knowledge.queries.query_for_task(
            body.task_description,
            body.agent_type,
            body.task_type,
            body.technology,
            body.max_results,
            min_relevance=body.min_relevance,
            only_if_sure=body.only_if_sure,
            facts=body.facts,
        )
        return Patterns(patterns=found)

    @app.post("/v1/queries/failure", tags=["queries"])
    @performs("queries.query_for_failure", problems=(409, 502))
    async def query_for_failure(body: FailureQueryBody, knowledge: Open) -> Patterns:
        """How failures like this one were solved."""
        found = await knowledge.queries.query_for_failure(
            body.failure_description,
            body.error_message,
            body.agent_type,
            body.task_type,
            body.max_results,
            technology=body.technology,
            min_relevance=body.min_relevance,
            only_if_sure=body.only_if_sure,
            facts=body.facts,
        )
        return Patterns(patterns=found)

    @app.post("/v1/queries/gate", tags=["queries"])
    @performs("queries.query_for_gate", problems=(409, 502))
    async def query_for_gate(body: GateQueryBody, knowledge: Open) -> Patterns:
        """What people objected to in proposals like this one, and what passed at once."""
        found = await knowledge.queries.query_for_gate(
            body.gate_type,
            body.proposal,
            project_id=body.project_id,
            max_results=body.max_results,
            min_relevance=body.min_relevance,
        )
        return Patterns(patterns=found)

    @app.post("/v1/contexts", tags=["queries"])
    @performs("contexts.record", problems=(409,))
    async def build_context(body: ContextBody, knowledge: Open) -> Context:
        """The context of a task, with the block of patterns where any fits."""
        breaker = app.state.breakers.of(knowledge.workspace)
        return await OrchestratorContextBuilder(knowledge, breaker).build_context_for_task(body.task, body.agent_type)

    @app.post("/v1/outcomes", status_code=204, tags=["queries"])
    @performs("outcomes.record_outcome", problems=(404,))
    async def record_outcome(body: OutcomeBody, knowledge: Open, response: Response) -> None:
        """Keep whether a pattern of a context worked: a distinct (project, task, run) is one attempt.

        Location is the pattern whose attempt it is: another one, where that of the context was joined to it since.
        """
        pattern_id = await knowledge.outcomes.record_outcome(
            ContextId(body.context_id),
            PatternId(body.pattern_id),
            worked=body.worked,
            project_id=body.project_id,
            task_id=body.task_id,
            run_id=body.run_id,
        )
        response.headers["Location"] = f"/v1/patterns/{pattern_id}"


def _add_operations(app: FastAPI) -> None:
    @app.post("/v1/checkpoints", status_code=201, tags=["operations"])
    @performs("checkpoints.process_checkpoint", problems=(409, 502))
    async def process_checkpoint(body: CheckpointBody, knowledge: Open, told: Told) -> CheckpointReport:
        """Embed what is staged."""
        if body.project_id is not None:
            return await knowledge.checkpoints.process_checkpoint(
                body.project_id, body.checkpoint_type, distill=body.distill, progress=told
            )
        if body.checkpoint_type != CheckpointType.MANUAL:
            raise InvalidInput("project_id", f"is required for a {body.checkpoint_type}")
        return await knowledge.checkpoints.process_all(distill=body.distill, progress=told)

    @app.post("/v1/sweeps", tags=["operations"])
    @performs("checkpoints.sweep", problems=(409, 502))
    async def sweep(body: SweepBody, knowledge: Open) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long."""
        return await knowledge.checkpoints.sweep(staged_for=timedelta(seconds=body.staged_for_seconds))

    @app.get("/v1/checkpoints/{checkpoint_id}", tags=["operations"])
    @performs("checkpoints.get")
    async def get_checkpoint(checkpoint_id: UUID, knowledge: Open) -> CheckpointReport:
        """Return the report of a checkpoint."""
        return await knowledge.checkpoints.get(CheckpointId(checkpoint_id))

    @app.post("/v1/prune", tags=["operations"])
    @performs("pruning.prune", problems=(409,))
    async def prune(knowledge: Open, told: Told, *, dry_run: Annotated[bool, Query()] = False) -> PruneReport:
        """Delete what is past its year, or say what would go; refused where the clock is ahead of that of Postgres."""
        return await knowledge.pruning.prune(dry_run=dry_run, progress=told)

    @app.post("/v1/jobs/{name}", tags=["operations"])
    @performs("run_job", problems=(409, 502))
    async def run_one_job(name: str, knowledge: Open, *, once_per_slot: bool = True) -> JobAnswer:
        """Run a job of the scheduler now."""
        return JobAnswer(dealt_with=await run_job(knowledge, name, once_per_slot=once_per_slot))


def _add_counts(app: FastAPI) -> None:
    @app.get("/v1/stats", tags=["operations"])
    @performs("stats", problems=(409,))
    async def stats(knowledge: Open) -> WorkspaceStats:
        """Return the workspace's counts."""
        return await knowledge.stats()

    @app.get("/v1/workspaces", tags=["operations"])
    @performs("workspaces")
    async def workspaces(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[str | None, Query(description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[str]:
        """Return the workspaces that hold anything, ascending."""
        found = await knowledge.workspaces(after=after, limit=limit)
        if len(found) == limit:
            link_next(request, response, after=found[-1], limit=limit)
        return found


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
        """Say whether Postgres answers and takes changes, and the index answers and has what it is asked in."""
        knowledge: Knowledge = request.app.state.knowledge
        try:
            await within(READY_SECONDS, knowledge.ready())
        except TimeoutError as error:
            raise StorageUnavailable(f"the stores have not answered within {READY_SECONDS:.0f} s") from error
        except (IndexUnavailable, StoreIncompatible) as error:  # whoever asks needs no key, and is told no address
            raise IndexUnavailable(
                "the vector index does not answer, holds what is not this store's (`hardwon doctor` says which), or has"
                " lost its collection: `hardwon rebuild` makes it anew"
            ) from error
        return Health(status="ok")
