"""The Python client of the HTTP API: the same services, method names, arguments and errors as in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote

import httpx

from knowledge.errors import InvalidInput, OwnerUnavailable
from knowledge.memory.capture import KnowledgeCaptureService
from knowledge.memory.validation import check_text, validate
from knowledge.models import (
    DEFAULT_WORKSPACE,
    Captured,
    CaptureOutcome,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    Entry,
    EntryId,
    EntryStatus,
    NewEntry,
    Pattern,
    PatternId,
    PruneReport,
    Task,
    WorkspaceStats,
)
from knowledge.ports import Progress
from knowledge.settings import KnowledgeSettings
from orchestrator.calls import MAX_BODY_BYTES, Api, given, watched
from orchestrator.client_answers import RemoteAnswers
from orchestrator.client_custody import RemoteAudits, RemoteReviews, RemoteRevocations
from orchestrator.client_events import RemoteEvents
from orchestrator.client_kb import RemoteKnowledgeBases
from orchestrator.client_keys import RemoteKeys
from orchestrator.client_patterns import RemoteGrouping
from orchestrator.client_upkeep import RemoteArchives, RemoteStoreUpkeep, RemoteUpkeep
from orchestrator.entries import write_entry
from orchestrator.paging import paged

_BATCH = 500
_BATCH_BYTES = 8 * 1024 * 1024
"""Half of what the server takes in a body."""
_RETURNED = TypeVar("_RETURNED")
_TOLD = ParamSpec("_TOLD")


def _as_in_process(
    method: Callable[Concatenate[KnowledgeCaptureService, _TOLD], _RETURNED],
) -> Callable[Concatenate[Any, _TOLD], _RETURNED]:
    """Return a method that only makes an entry and calls `capture`, which is what differs over HTTP."""
    return method


@dataclass(frozen=True, slots=True)
class RemoteCapture:
    """`KnowledgeCaptureService` over HTTP."""

    api: Api

    capture_failure_solution = _as_in_process(KnowledgeCaptureService.capture_failure_solution)
    capture_gate_rejection = _as_in_process(KnowledgeCaptureService.capture_gate_rejection)
    capture_gate_approval = _as_in_process(KnowledgeCaptureService.capture_gate_approval)

    async def resolve_failure(
        self, entry_id: EntryId, *, solution_steps: str, verified_by: str, when_to_try: str | None = None
    ) -> EntryId:
        """Give an open failure its verified solution."""
        told = {"solution_steps": solution_steps, "verified_by": verified_by, "when_to_try": when_to_try}
        return await self._resolve(entry_id, told)

    async def resolve_gate_rejection(
        self,
        entry_id: EntryId,
        *,
        revision_approach: str,
        verified_by: str | None = None,
        when_to_try: str | None = None,
    ) -> EntryId:
        """Give an open rejection the revision that was accepted."""
        told = {"revision_approach": revision_approach, "verified_by": verified_by, "when_to_try": when_to_try}
        return await self._resolve(entry_id, told)

    async def _resolve(self, entry_id: EntryId, told: dict[str, str | None]) -> EntryId:
        answer = await self.api.call("POST", f"/v1/entries/{entry_id}/resolution", dict[str, EntryId], body=told)
        return answer["entry_id"]

    async def capture(self, entry: NewEntry) -> EntryId:
        """Capture one entry of any type."""
        validate(entry)
        told = write_entry(entry)
        if len(json.dumps(told)) > MAX_BODY_BYTES:  # a batch may be larger than what comes alone
            (stored,) = await self.capture_all([entry])
            if stored.entry_id is None:
                raise InvalidInput(stored.field or "entry", stored.error or "is refused")
            return stored.entry_id
        answer = await self.api.call("POST", "/v1/entries", dict[str, EntryId], body=told)
        return answer["entry_id"]

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[Captured]:
        """Capture many entries, each on its own, in order. What is refused whatever is stored never leaves."""
        answers = [_refusal(entry) for entry in entries]
        stored: list[Captured] = []
        good = (write_entry(entry) for entry, answer in zip(entries, answers, strict=True) if answer is None)
        for batch in _batches(good):
            told = await self.api.call("POST", "/v1/entries:batch", dict[str, list[Captured]], body={"entries": batch})
            stored += told["answers"]
        following = iter(stored)
        return [answer or next(following) for answer in answers]

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry."""
        return await self.api.call("GET", f"/v1/entries/{entry_id}", Entry)

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry everywhere."""
        await self.api.send("DELETE", f"/v1/entries/{entry_id}")

    async def delete_project(self, project_id: str, *, progress: Progress | None = None) -> int:
        """Delete a project everywhere; return how many entries went."""
        async with watched(self.api, progress) as named:
            params = {**named, "project_id": project_id}
            response = await self.api.send("DELETE", "/v1/projects", params=params, timeout_seconds=None)
        if response.status_code == httpx.codes.NO_CONTENT:  # asked twice, and the first one that was cut had done it
            return 0
        return self.api.read(response, dict[str, int])["entries"]


def _refusal(entry: NewEntry) -> Captured | None:
    try:
        validate(entry)
    except InvalidInput as error:
        return Captured(outcome=CaptureOutcome.REFUSED, field=error.field, error=error.reason)
    return None


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in order, in batches that the server takes."""
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        weight = len(json.dumps(row))
        if batch and (len(batch) >= _BATCH or size + weight > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class RemoteCheckpoints:
    """`CheckpointEmbeddingService` over HTTP. Progress is what the counts of staged entries say, twice a second."""

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
        body = {"staged_for_seconds": staged_for.total_seconds()}
        return await self.api.call("POST", "/v1/sweeps", list[CheckpointReport], body=body, timeout_seconds=None)

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint."""
        return await self.api.call("GET", f"/v1/checkpoints/{checkpoint_id}", CheckpointReport)

    async def _process(self, body: dict[str, Any], progress: Progress | None, *, distill: bool) -> CheckpointReport:
        if distill:  # else left out: a server of the release before does not know it
            body = {**body, "distill": True}
        async with _watching(self.api, progress):
            return await self.api.call("POST", "/v1/checkpoints", CheckpointReport, body=body, timeout_seconds=None)


@asynccontextmanager
async def _watching(api: Api, progress: Progress | None) -> AsyncIterator[None]:
    async def staged() -> int:
        stats = await api.call("GET", "/v1/stats", WorkspaceStats)
        return stats.entries.get(EntryStatus.STAGED, 0)

    async def watch(report: Progress) -> None:
        total = await staged()
        while True:
            report(max(0, total - await staged()), total)
            await asyncio.sleep(0.5)

    watcher = asyncio.create_task(watch(progress)) if progress else None
    try:
        yield
    finally:
        if watcher:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)


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
        facts: Mapping[str, str] | None = None,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned, best first."""
        return await self._query(
            "task",
            task_description=task_description,
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
        facts: Mapping[str, str] | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved, best first."""
        return await self._query(
            "failure",
            failure_description=failure_description,
            error_message=error_message,
            agent_type=agent_type,
            task_type=task_type,
            technology=technology,
            max_results=max_results,
            min_relevance=min_relevance,
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
            proposal=proposal,
            project_id=project_id,
            max_results=max_results,
            min_relevance=min_relevance,
        )

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern."""
        return await self.api.call("GET", f"/v1/patterns/{pattern_id}", Pattern)

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
    ) -> None:
        """As in process."""
        body = {
            "context_id": str(context_id),
            "pattern_id": str(pattern_id),
            "worked": worked,
            "project_id": project_id,
            "task_id": task_id,
            "run_id": run_id,
        }
        await self.api.send("POST", "/v1/outcomes", body=body)


@dataclass(frozen=True, slots=True)
class RemotePruning:
    """`KnowledgePruningService` over HTTP."""

    api: Api

    async def prune_old_knowledge(self) -> int:
        """Delete expired knowledge from both stores; return how many entries went."""
        return (await self.prune()).entries

    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> PruneReport:
        """Delete what is past its year, or say what would go."""
        report = await self.api.call(
            "POST", "/v1/prune", PruneReport, params={"dry_run": dry_run}, timeout_seconds=None
        )
        if progress:
            progress(report.entries, report.entries)
        return report


@dataclass(frozen=True, slots=True)
class _Allowed:
    operations: list[str]


class KnowledgeClient:
    """Every service of one workspace behind a hardwon server; an async context manager.

    Without a `workspace` it is that of the key. `place` is how errors name the server. Errors are those of
    `knowledge.errors`, as in process. Raises InvalidInput for a `url` that is no address.
    """

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
        try:
            http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport)
        except httpx.InvalidURL as error:
            raise InvalidInput("url", f"{url} is no address of a server, such as http://127.0.0.1:8420") from error
        self._use(Api(http=http, workspace=workspace, place=place or url), settings or KnowledgeSettings())

    def _use(self, api: Api, settings: KnowledgeSettings) -> None:
        if api.workspace is not None:
            check_text("workspace", api.workspace)
        self._api = api
        self.workspace = api.workspace or DEFAULT_WORKSPACE
        self.settings = settings
        self.capture = RemoteCapture(api)
        self.checkpoints = RemoteCheckpoints(api)
        self.queries = RemoteQueries(api)
        self.outcomes = RemoteOutcomes(api)
        self.events = RemoteEvents(api)
        self.pruning = RemotePruning(api)
        self.grouping = RemoteGrouping(api)
        self.reviews = RemoteReviews(api)
        self.revocations = RemoteRevocations(api)
        self.audits = RemoteAudits(api)
        self.upkeep = RemoteUpkeep(api)
        self.store_upkeep = RemoteStoreUpkeep(api)
        self.archives = RemoteArchives(api)
        self.keys = RemoteKeys(api)
        self.kb = RemoteKnowledgeBases(api)
        self.answers = RemoteAnswers(api)

    def in_workspace(self, workspace: str) -> KnowledgeClient:
        """Return a client of another workspace over the same connection."""
        other = object.__new__(KnowledgeClient)
        other._use(Api(http=self._api.http, workspace=workspace, place=self._api.place), self.settings)
        return other

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task, built by the server in one hop."""
        told = {name: value for name, value in asdict(task).items() if value is not None}
        return await self._api.call("POST", "/v1/contexts", Context, body={"task": told, "agent_type": agent_type})

    async def delete_pattern(self, pattern_id: PatternId) -> None:
        """Delete a pattern with all the entries that are evidence for it."""
        await self._api.send("DELETE", f"/v1/patterns/{pattern_id}")

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts."""
        return await self._api.call("GET", "/v1/stats", WorkspaceStats)

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
        path = f"/v1/jobs/{quote(name, safe='')}"
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
