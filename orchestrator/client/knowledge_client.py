"""The Python client of the HTTP API: the same services, method names, arguments and errors as in process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID

import httpx

from knowledge.characters import check_unicode
from knowledge.ends import both_ends
from knowledge.errors import InvalidInput, OwnerUnavailable
from knowledge.forms import as_id, check_span
from knowledge.kept_alive import keep_alive
from knowledge.memory.limits import check_text
from knowledge.models import (
    DEFAULT_WORKSPACE,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    FactsTold,
    Pattern,
    PatternId,
    PruneReport,
    Task,
    WorkspaceStats,
)
from knowledge.ports import Progress
from knowledge.settings import KnowledgeSettings
from knowledge.surroundings import check_surroundings
from orchestrator.client.calls import LIMITS, Api, given, in_path, watched
from orchestrator.paging import paged

if TYPE_CHECKING:
    from orchestrator.client.answers import RemoteAnswers
    from orchestrator.client.capture import RemoteCapture
    from orchestrator.client.custody import RemoteAudits, RemoteReviews, RemoteRevocations
    from orchestrator.client.events import RemoteEvents
    from orchestrator.client.journal import RemoteJournal
    from orchestrator.client.kb import RemoteKnowledgeBases
    from orchestrator.client.keys import RemoteKeys
    from orchestrator.client.patterns import RemoteGrouping
    from orchestrator.client.upkeep import RemoteArchives, RemoteStoreUpkeep, RemoteUpkeep


@dataclass(frozen=True, slots=True)
class RemoteCheckpoints:
    """`CheckpointEmbeddingService` over HTTP."""

    api: Api

    async def process_checkpoint(
        self,
        project_id: str,
        checkpoint_type: CheckpointType | str,
        *,
        distill: bool = False,
        progress: Progress | None = None,
    ) -> CheckpointReport:
        """Embed what a project has staged."""
        body = {"project_id": project_id, "checkpoint_type": checkpoint_type}
        return await self._process(body, progress, distill=distill)

    async def process_all(self, *, distill: bool = False, progress: Progress | None = None) -> CheckpointReport:
        """Embed what all projects have staged."""
        return await self._process({}, progress, distill=distill)

    async def sweep(self, *, staged_for: timedelta) -> list[CheckpointReport]:
        """Run a manual checkpoint for each project with something staged for that long."""
        check_span("staged_for", staged_for, least=timedelta(0))
        body = {"staged_for_seconds": staged_for.total_seconds()}
        return await self.api.call("POST", "/v1/sweeps", list[CheckpointReport], body=body, timeout_seconds=None)

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint."""
        return await self.api.call("GET", f"/v1/checkpoints/{as_id('checkpoint_id', checkpoint_id)}", CheckpointReport)

    async def _process(self, body: dict[str, Any], progress: Progress | None, *, distill: bool) -> CheckpointReport:
        if distill:  # else left out: a server of the release before does not know it
            body = {**body, "distill": True}
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/v1/checkpoints", CheckpointReport, body=body, params=named, timeout_seconds=None
            )


_MOST_ASKED_BYTES = 128 * 1024
"""What is sent of a text that is asked for, so that two of them fit a request whatever is in them. More than the server
makes use of: 16,000 characters of it, its beginning and its end, as in process."""


def _sent(field: str, text: Any) -> Any:
    """Return a text that is asked for, of a very long one both ends; what is none the server refuses.

    Raises InvalidInput for half a character.
    """
    if not isinstance(text, str) or len(text) <= _MOST_ASKED_BYTES // 4:
        return text
    check_unicode(field, text)
    return both_ends(text, _MOST_ASKED_BYTES)


@dataclass(frozen=True, slots=True)
class _Found:
    patterns: list[Pattern]


@dataclass(frozen=True, slots=True)
class RemoteQueries:
    """`RAGQueryService` over HTTP."""

    api: Api

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: FactsTold | None = None,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned, best first."""
        return await self._query(
            "task",
            task_description=_sent("task_description", task_description),
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            max_results=max_results,
            min_relevance=min_relevance,
            only_if_sure=only_if_sure,
            facts=facts,
        )

    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        max_results: int = 3,
        *,
        technology: str | None = None,
        min_relevance: float | None = None,
        only_if_sure: bool = False,
        facts: FactsTold | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved, best first."""
        return await self._query(
            "failure",
            failure_description=_sent("failure_description", failure_description),
            error_message=None if error_message is None else _sent("error_message", error_message),
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            max_results=max_results,
            min_relevance=min_relevance,
            only_if_sure=only_if_sure,
            facts=facts,
        )

    async def query_for_gate(
        self,
        gate_type: str,
        proposal: str,
        *,
        project_id: str | None = None,
        max_results: int = 5,
        min_relevance: float | None = None,
    ) -> list[Pattern]:
        """Return what people decided on proposals like this one at such a gate, best first."""
        return await self._query(
            "gate",
            gate_type=gate_type,
            proposal=_sent("proposal", proposal),
            project_id=project_id,
            max_results=max_results,
            min_relevance=min_relevance,
        )

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern."""
        return await self.api.call("GET", f"/v1/patterns/{as_id('pattern_id', pattern_id)}", Pattern)

    async def browse(self, *, after: PatternId | None = None, limit: int = 20) -> list[Pattern]:
        """Return live patterns in the order of their ids, from behind `after` on."""
        params = {"limit": limit, **({"after": str(after)} if after else {})}
        return (await self.api.call("GET", "/v1/patterns", _Found, params=params)).patterns

    async def _query(self, kind: str, **body: Any) -> list[Pattern]:
        told = {name: value for name, value in body.items() if value is not None}
        return (await self.api.call("POST", f"/v1/queries/{kind}", _Found, body=told)).patterns


@dataclass(frozen=True, slots=True)
class RemoteOutcomes:
    """`OutcomeService` over HTTP."""

    api: Api

    async def record_outcome(
        self,
        context_id: ContextId,
        pattern_id: PatternId,
        *,
        worked: bool,
        project_id: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
    ) -> PatternId:
        """As in process."""
        body = {
            "context_id": str(as_id("context_id", context_id)),
            "pattern_id": str(as_id("pattern_id", pattern_id)),
            "worked": worked,
            "project_id": project_id,
            "task_id": task_id,
            "run_id": run_id,
        }
        response = await self.api.send("POST", "/v1/outcomes", body=body)
        with suppress(ValueError):
            return PatternId(UUID(response.headers.get("Location", "").rpartition("/")[-1]))
        return PatternId(as_id("pattern_id", pattern_id))  # a server of the release before does not say


@dataclass(frozen=True, slots=True)
class RemotePruning:
    """`KnowledgePruningService` over HTTP."""

    api: Api

    async def prune_old_knowledge(self) -> int:
        """Delete expired knowledge from both stores; return how many entries went."""
        return (await self.prune()).entries

    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> PruneReport:
        """Delete what is past its year, or say what would go."""
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/v1/prune", PruneReport, params={**named, "dry_run": dry_run}, timeout_seconds=None
            )


@dataclass(frozen=True, slots=True)
class _Allowed:
    operations: list[str]


@dataclass(frozen=True, slots=True)
class _Workspace:
    holds_anything: bool


_SERVICES: Final = {
    "answers": ("orchestrator.client.answers", "RemoteAnswers"),
    "archives": ("orchestrator.client.upkeep", "RemoteArchives"),
    "audits": ("orchestrator.client.custody", "RemoteAudits"),
    "capture": ("orchestrator.client.capture", "RemoteCapture"),
    "checkpoints": (__name__, "RemoteCheckpoints"),
    "events": ("orchestrator.client.events", "RemoteEvents"),
    "grouping": ("orchestrator.client.patterns", "RemoteGrouping"),
    "journal": ("orchestrator.client.journal", "RemoteJournal"),
    "kb": ("orchestrator.client.kb", "RemoteKnowledgeBases"),
    "keys": ("orchestrator.client.keys", "RemoteKeys"),
    "outcomes": (__name__, "RemoteOutcomes"),
    "pruning": (__name__, "RemotePruning"),
    "queries": (__name__, "RemoteQueries"),
    "reviews": ("orchestrator.client.custody", "RemoteReviews"),
    "revocations": ("orchestrator.client.custody", "RemoteRevocations"),
    "store_upkeep": ("orchestrator.client.upkeep", "RemoteStoreUpkeep"),
    "upkeep": ("orchestrator.client.upkeep", "RemoteUpkeep"),
}
"""Where each service of a client is: they are loaded when they are asked for, for what they answer with takes longer
to load than most questions take to answer."""


async def _kept_alive(request: httpx.Request) -> None:
    """Have the connection that a request opens, to a proxy too, notice that nobody is there.

    Long calls have no deadline. A transport of our own with these options would leave out the environment's proxies.
    """
    request.extensions["trace"] = _noticing


async def _noticing(event: str, told: Mapping[str, Any]) -> None:
    if event.endswith("connect_tcp.complete"):
        keep_alive(told["return_value"].get_extra_info("socket"))


class KnowledgeClient:
    """Every service of one workspace behind a hardwon server; an async context manager.

    Without a `workspace` it is that of the key. `place` is how errors name the server. Errors are those of
    `knowledge.errors`, as in process. Raises InvalidInput for a `url` that is no address.
    """

    answers: RemoteAnswers
    archives: RemoteArchives
    audits: RemoteAudits
    capture: RemoteCapture
    checkpoints: RemoteCheckpoints
    events: RemoteEvents
    grouping: RemoteGrouping
    journal: RemoteJournal
    kb: RemoteKnowledgeBases
    keys: RemoteKeys
    outcomes: RemoteOutcomes
    pruning: RemotePruning
    queries: RemoteQueries
    reviews: RemoteReviews
    revocations: RemoteRevocations
    store_upkeep: RemoteStoreUpkeep
    upkeep: RemoteUpkeep

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        workspace: str | None = None,
        settings: KnowledgeSettings | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        place: str | None = None,
    ) -> None:
        headers = {b"Authorization": b"Bearer " + api_key.encode()} if api_key else {}
        if transport is None:
            check_surroundings()
        try:
            http = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                transport=transport,
                limits=LIMITS,
                event_hooks={"request": [_kept_alive]} if transport is None else None,
            )
        except httpx.InvalidURL as error:
            raise InvalidInput("url", f"{url} is no address of a server, such as http://127.0.0.1:8420") from error
        self._use(Api(http=http, workspace=workspace, place=place or url), settings or KnowledgeSettings())

    def _use(self, api: Api, settings: KnowledgeSettings) -> None:
        if api.workspace is not None:
            check_text("workspace", api.workspace)
        self._api = api
        self.workspace = api.workspace or DEFAULT_WORKSPACE
        self.settings = settings

    if not TYPE_CHECKING:  # for the checker the services are those declared above, and nothing else

        def __getattr__(self, name: str) -> object:
            """Make a service when it is first asked for."""
            if name not in _SERVICES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            module, kind = _SERVICES[name]
            service = getattr(import_module(module), kind)(self._api)
            setattr(self, name, service)
            return service

    def in_workspace(self, workspace: str) -> KnowledgeClient:
        """Return a client of another workspace over the same connection."""
        other = object.__new__(KnowledgeClient)
        other._use(replace(self._api, workspace=workspace), self.settings)
        return other

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task, built by the server in one hop; of a very long task it is sent both ends."""
        sent = replace(task, description=_sent("description", task.description))
        told = {name: value for name, value in asdict(sent).items() if value is not None}
        body = {"task": told, "agent_type": agent_type}
        context = await self._api.call("POST", "/v1/contexts", Context, body=body)
        if sent == task:
            return context
        from orchestrator.block import basic_context  # noqa: PLC0415 - few tasks are so long

        before = basic_context(sent)
        if not context.text.startswith(before):
            return context
        return replace(context, text=basic_context(task) + context.text[len(before) :])  # whole, as in process

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts."""
        return await self._api.call("GET", "/v1/stats", WorkspaceStats)

    async def ready(self) -> None:
        """Raise StorageUnavailable or IndexUnavailable where the server's stores do not do what they are for."""
        await self._api.call("GET", "/readyz", dict[str, str])

    async def holds_anything(self) -> bool:
        """Return whether the workspace holds anything: one whose name was mistyped reads as if all were well."""
        return (await self._api.call("GET", "/v1/workspace", _Workspace)).holds_anything

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that hold anything, ascending; from behind `after` on, at most so many."""

        async def page(last: str | None, at_most: int) -> list[str]:
            params = given(after=last or after, limit=at_most)
            return await self._api.call("GET", "/v1/workspaces", list[str], params=params)

        return await paged(page, str, most=limit)

    async def allowed(self) -> list[str]:
        """Return the operations that this client's key may ask for."""
        return (await self._api.call("GET", "/v1/access", _Allowed)).operations

    async def run_job(self, name: str, *, once_per_slot: bool) -> int | None:
        """Have the server run a job now; None if its slot was run already."""
        params = {"once_per_slot": once_per_slot}
        path = f"/v1/jobs/{in_path('job', name)}"
        answer = await self._api.call("POST", path, dict[str, int | None], params=params, timeout_seconds=None)
        return answer["dealt_with"]

    async def healthy(self) -> bool:
        """Return whether the server answers at all."""
        try:
            await self._api.send("GET", "/healthz", timeout_seconds=2)
        except OwnerUnavailable:
            return False
        return True

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.http.aclose()

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it after the block."""
        await self.aclose()
