"""The Python client of the HTTP API: the same services, method names, arguments and errors as in process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import httpx

from hardwon.client.fields import LAST, LimitOrAll
from hardwon.client.http_environment import check_http_environment, enable_keepalive
from hardwon.client.operations import Envelope, Operation, Service, Wire, shorten_text
from hardwon.client.transport import DEADLINE_HEADER, KEY_HEADER, LIMITS, UNUSED_KEY, Api
from hardwon.errors import InvalidInput, OwnerUnavailable
from hardwon.models.ids import DEFAULT_WORKSPACE
from hardwon.models.maintenance import JobState
from hardwon.models.reports import WorkspaceStats
from hardwon.models.tasks import Context, Task
from hardwon.settings import ClientSettings, ContextSettings
from hardwon.validation import check_text

if TYPE_CHECKING:
    from hardwon.client.curation import (
        RemoteAudits,
        RemoteCorrections,
        RemoteDeeds,
        RemoteGrouping,
        RemoteReviews,
        RemoteRevocations,
    )
    from hardwon.client.documents import RemoteAnswers, RemoteJournal, RemoteKnowledgeBases
    from hardwon.client.entries import RemoteCapture
    from hardwon.client.events import RemoteContextLog, RemoteEvents, RemoteOutcomes
    from hardwon.client.keys import RemoteKeys
    from hardwon.client.lists import RemoteLists, RemoteMaps
    from hardwon.client.maintenance import (
        RemoteArchives,
        RemotePruning,
        RemoteRedaction,
        RemoteStoreUpkeep,
        RemoteUpkeep,
    )
    from hardwon.client.queries import RemoteCheckpoints, RemoteQueries
    from hardwon.client.runs import RemoteRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer(Envelope):
    """The number of items that a job dealt with; null if its slot was run already."""

    dealt_with: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceAnswer:
    """A workspace, and whether it holds anything: a project, or documents."""

    workspace: str
    holds_anything: bool


@dataclass(frozen=True, slots=True)
class _AccessAnswer:
    operations: list[str]


_SERVER_SHARE: Final = 0.9
"""Share of a caller's deadline that the server has; ours: the rest is for the way there and back."""
_MAX_TASK_BYTES: Final = 320 * 1024
"""JSON writes a byte in six at most, and the server takes 2 MiB."""
SERVICES: Final = {
    "answers": ("hardwon.client.documents", "RemoteAnswers"),
    "archives": ("hardwon.client.maintenance", "RemoteArchives"),
    "audits": ("hardwon.client.curation", "RemoteAudits"),
    "capture": ("hardwon.client.entries", "RemoteCapture"),
    "checkpoints": ("hardwon.client.queries", "RemoteCheckpoints"),
    "contexts": ("hardwon.client.events", "RemoteContextLog"),
    "corrections": ("hardwon.client.curation", "RemoteCorrections"),
    "deeds": ("hardwon.client.curation", "RemoteDeeds"),
    "events": ("hardwon.client.events", "RemoteEvents"),
    "grouping": ("hardwon.client.curation", "RemoteGrouping"),
    "journal": ("hardwon.client.documents", "RemoteJournal"),
    "kb": ("hardwon.client.documents", "RemoteKnowledgeBases"),
    "keys": ("hardwon.client.keys", "RemoteKeys"),
    "lists": ("hardwon.client.lists", "RemoteLists"),
    "maps": ("hardwon.client.lists", "RemoteMaps"),
    "outcomes": ("hardwon.client.events", "RemoteOutcomes"),
    "pruning": ("hardwon.client.maintenance", "RemotePruning"),
    "queries": ("hardwon.client.queries", "RemoteQueries"),
    "redaction": ("hardwon.client.maintenance", "RemoteRedaction"),
    "reviews": ("hardwon.client.curation", "RemoteReviews"),
    "revocations": ("hardwon.client.curation", "RemoteRevocations"),
    "runs": ("hardwon.client.runs", "RemoteRuns"),
    "store_upkeep": ("hardwon.client.maintenance", "RemoteStoreUpkeep"),
    "upkeep": ("hardwon.client.maintenance", "RemoteUpkeep"),
}
"""The module and class of each service of a client; loaded on first use, since the types of their answers take longer
to load than most requests take."""


def services() -> list[type[Service]]:
    """Return the services of a client and the client itself, whose rows are the table of operations."""
    classes: list[type[Service]] = [getattr(import_module(module), name) for module, name in SERVICES.values()]
    return [*classes, KnowledgeClient]


async def _trace_connections(request: httpx.Request) -> None:
    """Enable TCP keepalive on the connection that a request opens, also to a proxy: long calls have no timeout.

    A transport of our own with these socket options would ignore the proxies of the environment.
    """
    request.extensions["trace"] = _enable_keepalive


async def _enable_keepalive(event: str, info: Mapping[str, Any]) -> None:
    if event.endswith("connect_tcp.complete"):
        enable_keepalive(info["return_value"].get_extra_info("socket"))


def _call_once_for_unused_key(on_unused_key: Callable[[], None]) -> Callable[[httpx.Response], Awaitable[None]]:
    """Return a hook that calls back at the first response of a server that needed no key."""
    pending = [on_unused_key]

    async def check(response: httpx.Response) -> None:
        if pending and response.headers.get(KEY_HEADER) == UNUSED_KEY:
            pending.pop()()

    return check


class KnowledgeClient(Service, tag="operations", scopes=("query",)):
    """Every service of one workspace behind a hardwon server; an async context manager.

    Without a `workspace` it is that of the key. `place` names the server in errors. `on_unused_key` is called once if
    the server has no keys, and so ignores the one that is sent. Errors are those of `hardwon.errors`, as in process.
    Raises InvalidInput for an invalid `url`.
    """

    answers: RemoteAnswers
    archives: RemoteArchives
    audits: RemoteAudits
    capture: RemoteCapture
    checkpoints: RemoteCheckpoints
    contexts: RemoteContextLog
    corrections: RemoteCorrections
    deeds: RemoteDeeds
    events: RemoteEvents
    grouping: RemoteGrouping
    journal: RemoteJournal
    kb: RemoteKnowledgeBases
    keys: RemoteKeys
    lists: RemoteLists
    maps: RemoteMaps
    outcomes: RemoteOutcomes
    pruning: RemotePruning
    queries: RemoteQueries
    redaction: RemoteRedaction
    reviews: RemoteReviews
    revocations: RemoteRevocations
    runs: RemoteRuns
    store_upkeep: RemoteStoreUpkeep
    upkeep: RemoteUpkeep

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        workspace: str | None = None,
        settings: ContextSettings | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        place: str | None = None,
        on_unused_key: Callable[[], None] | None = None,
    ) -> None:
        url, api_key = url.strip(), (api_key or "").strip()  # as read from files and secrets
        headers = {b"Authorization": b"Bearer " + api_key.encode()} if api_key else {}
        if transport is None:
            check_http_environment()
        try:
            http = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                transport=transport,
                trust_env=transport is None,
                limits=LIMITS,
                event_hooks={
                    "request": [_trace_connections] if transport is None else [],
                    "response": [_call_once_for_unused_key(on_unused_key)] if api_key and on_unused_key else [],
                },
            )
        except httpx.InvalidURL as error:
            raise InvalidInput("url", f"{url} is not the address of a server, such as http://127.0.0.1:8420") from error
        self._configure(
            Api(http=http, workspace=workspace, server=place or url), settings or ClientSettings.from_environment()
        )

    def _configure(self, api: Api, settings: ContextSettings) -> None:
        if api.workspace is not None:
            check_text("workspace", api.workspace)
        self._api = api
        self.workspace = api.workspace or DEFAULT_WORKSPACE
        self.settings = settings

    if not TYPE_CHECKING:  # mypy is to know only the services declared above

        def __getattr__(self, name: str) -> object:
            """Create a service on its first use."""
            if name not in SERVICES:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            module, kind = SERVICES[name]
            service = getattr(import_module(module), kind)(self._api)
            setattr(self, name, service)
            return service

    def in_workspace(self, workspace: str) -> KnowledgeClient:
        """Return a client of another workspace over the same connection."""
        other = object.__new__(KnowledgeClient)
        other._configure(replace(self._api, workspace=workspace), self.settings)
        return other

    def report_as(self, reporter: str) -> KnowledgeClient:
        """Return a client over the same connection whose captures are an agent's word, of low trust.

        `reporter` names the agent: letters, digits, `.`, `_` and `-`, at most 80 of them.
        """
        other = object.__new__(KnowledgeClient)
        other._configure(replace(self._api, reporter=reporter), self.settings)
        return other

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task, built by the server; a task beyond 320 KiB is sent, and shown, by its ends."""
        description = shorten_text("description", task.description, _MAX_TASK_BYTES)
        sent = asdict(replace(task, description=description))
        body = {"task": {name: value for name, value in sent.items() if value is not None}, "agent_type": agent_type}
        deadline_ms = max(1, int(self.settings.query_deadline_ms * _SERVER_SHARE))
        headers = {DEADLINE_HEADER: str(deadline_ms)}
        return await self._api.call("POST", "/v1/contexts", Context, body=body, headers=headers)

    @Operation("GET", "/v1/stats", problems=(409,))
    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts."""

    async def ready(self) -> None:
        """Raise StorageUnavailable or IndexUnavailable where the server's stores do not work."""
        await self._api.call("GET", "/readyz", dict[str, str])

    async def holds_anything(self) -> bool:
        """Return whether the workspace holds anything: a mistyped name gives an empty one without an error."""
        return (await self._api.call("GET", "/v1/workspace", WorkspaceAnswer)).holds_anything

    @Operation("GET", "/v1/workspaces", scopes=("admin",), whole_store=True, cursor="", all_pages=True)
    async def workspaces(self, *, after: Annotated[str | None, LAST] = None, limit: LimitOrAll = None) -> list[str]:
        """Return the workspaces that hold anything, ascending; those after `after`, at most `limit`."""

    async def allowed(self) -> list[str]:
        """Return the operations that this client's key allows."""
        return (await self._api.call("GET", "/v1/access", _AccessAnswer)).operations

    @Operation(
        "POST",
        "/v1/jobs/{name}",
        operation_id="run_one_job",
        scopes=("admin",),
        whole_store=True,
        problems=(409, 502),
        answer=JobAnswer,
        in_query=True,
        long=True,
    )
    async def run_job(self, name: Annotated[str, Wire(field="job")], *, once_per_slot: bool = False) -> int | None:
        """Run a job of the scheduler now; with `once_per_slot`, null if another process runs or ran this slot."""

    @Operation("GET", "/v1/jobs", scopes=("admin",), whole_store=True)
    async def list_jobs(self) -> list[JobState]:
        """Return the jobs of the scheduler with their schedules, last runs and next times."""

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
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.aclose()
