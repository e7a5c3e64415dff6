"""The Python client of the HTTP API: the same services, method names, arguments and errors as in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import httpx
from pydantic import TypeAdapter

from knowledge import errors
from knowledge.errors import HardwonError, InvalidInput, OwnerUnavailable
from knowledge.models import (
    DEFAULT_WORKSPACE,
    Captured,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    NewEntry,
    Pattern,
    PatternId,
    PruneReport,
    Task,
    WorkspaceStats,
)
from knowledge.ports import Progress
from knowledge.settings import KnowledgeSettings
from orchestrator.entries import write_entry

WORKSPACE_HEADER = "Hardwon-Workspace"
_BATCH = 500
_QUICK = 60.0
_ANSWER = TypeVar("_ANSWER")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    """Requests of one workspace; problem details come back as the errors they were."""

    http: httpx.AsyncClient
    workspace: str
    place: str

    async def call(
        self,
        method: str,
        path: str,
        answer: type[_ANSWER],
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        timeout_seconds: float | None = _QUICK,
    ) -> _ANSWER:
        response = await self.send(method, path, body=body, params=params, timeout_seconds=timeout_seconds)
        return TypeAdapter(answer).validate_json(response.content)

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: dict[str, Any] | None = None,
        timeout_seconds: float | None = _QUICK,
    ) -> httpx.Response:
        headers = {WORKSPACE_HEADER: self.workspace}
        try:
            response = await self.http.request(
                method,
                path,
                json=body,
                params=params,
                headers=headers,
                timeout=httpx.Timeout(timeout_seconds, connect=5),
            )
        except httpx.HTTPError as error:
            raise OwnerUnavailable(
                f"hardwon at {self.place} does not answer ({type(error).__name__}); is it running?"
            ) from error
        if response.is_error:
            raise _error(response, self.place)
        return response


def _error(response: httpx.Response, place: str) -> HardwonError:
    try:
        told = response.json()
        kind: type[HardwonError] = getattr(errors, told["title"])
        detail = str(told["detail"])
        if issubclass(kind, InvalidInput):
            return kind(str(told["field"]), detail)
        if kind is errors.SpaceMismatch:
            return errors.Conflict(detail)
        if issubclass(kind, HardwonError):
            return kind(detail)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return OwnerUnavailable(f"hardwon at {place} answers {response.status_code}: is it a hardwon server?")


@dataclass(frozen=True, slots=True)
class RemoteCapture:
    """`KnowledgeCaptureService` over HTTP."""

    api: _Api

    async def capture_failure_solution(self, **told: Any) -> EntryId:
        """Capture a failed test or task; as in process."""
        return await self.capture(NewEntry(entry_type=EntryType.FAILURE_SOLUTION, **told))

    async def capture_gate_rejection(self, **told: Any) -> EntryId:
        """Capture that a human turned a proposal down; as in process."""
        return await self.capture(NewEntry(entry_type=EntryType.GATE_REJECTION, **told))

    async def capture_gate_approval(self, **told: Any) -> EntryId:
        """Capture a proposal that passed its gate at the first attempt; as in process."""
        return await self.capture(NewEntry(entry_type=EntryType.GATE_APPROVAL, **told))

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
        answer = await self.api.send("POST", f"/v1/entries/{entry_id}/resolution", body=told)
        return EntryId(UUID(answer.json()["entry_id"]))

    async def capture(self, entry: NewEntry) -> EntryId:
        """Capture one entry of any type."""
        answer = await self.api.send("POST", "/v1/entries", body=write_entry(entry))
        return EntryId(UUID(answer.json()["entry_id"]))

    async def capture_all(self, entries: Sequence[NewEntry]) -> list[Captured]:
        """Capture many entries, each on its own, in order."""
        answers: list[Captured] = []
        for start in range(0, len(entries), _BATCH):
            body = {"entries": [write_entry(entry) for entry in entries[start : start + _BATCH]]}
            told = await self.api.call("POST", "/v1/entries:batch", dict[str, list[Captured]], body=body)
            answers += told["answers"]
        return answers

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry."""
        return await self.api.call("GET", f"/v1/entries/{entry_id}", Entry)

    async def delete(self, entry_id: EntryId) -> None:
        """Delete an entry everywhere."""
        await self.api.send("DELETE", f"/v1/entries/{entry_id}")


@dataclass(frozen=True, slots=True)
class RemoteCheckpoints:
    """`CheckpointEmbeddingService` over HTTP. Progress is what the counts of staged entries say, twice a second."""

    api: _Api

    async def process_checkpoint(
        self, project_id: str, checkpoint_type: CheckpointType | str, *, progress: Progress | None = None
    ) -> CheckpointReport:
        """Embed what a project has staged."""
        return await self._process({"project_id": project_id, "checkpoint_type": checkpoint_type}, progress)

    async def process_all(self, *, progress: Progress | None = None) -> CheckpointReport:
        """Embed what all projects have staged."""
        return await self._process({}, progress)

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return the report of a checkpoint."""
        return await self.api.call("GET", f"/v1/checkpoints/{checkpoint_id}", CheckpointReport)

    async def _process(self, body: dict[str, Any], progress: Progress | None) -> CheckpointReport:
        async with _watching(self.api, progress):
            return await self.api.call("POST", "/v1/checkpoints", CheckpointReport, body=body, timeout_seconds=None)


@asynccontextmanager
async def _watching(api: _Api, progress: Progress | None) -> AsyncIterator[None]:
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
class RemoteQueries:
    """`RAGQueryService` over HTTP."""

    api: _Api

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        min_relevance: float | None = None,
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
        )

    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        max_results: int = 3,
        *,
        min_relevance: float | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved, best first."""
        return await self._query(
            "failure",
            failure_description=failure_description,
            error_message=error_message,
            agent_type=agent_type,
            task_type=task_type,
            max_results=max_results,
            min_relevance=min_relevance,
        )

    async def get(self, pattern_id: PatternId) -> Pattern:
        """Return a live pattern."""
        return await self.api.call("GET", f"/v1/patterns/{pattern_id}", Pattern)

    async def _query(self, kind: str, **body: Any) -> list[Pattern]:
        answer = await self.api.send("POST", f"/v1/queries/{kind}", body=body)
        return TypeAdapter(list[Pattern]).validate_python(answer.json()["patterns"])


@dataclass(frozen=True, slots=True)
class RemotePruning:
    """`KnowledgePruningService` over HTTP."""

    api: _Api

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


class KnowledgeClient:
    """Every service of one workspace behind a hardwon server; an async context manager.

    `place` is how errors name the server. Errors are those of `knowledge.errors`, as in process.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        settings: KnowledgeSettings | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        place: str | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport)
        self._use(_Api(http=http, workspace=workspace, place=place or url), settings or KnowledgeSettings())

    def _use(self, api: _Api, settings: KnowledgeSettings) -> None:
        self._api = api
        self.workspace = api.workspace
        self.settings = settings
        self.capture = RemoteCapture(api)
        self.checkpoints = RemoteCheckpoints(api)
        self.queries = RemoteQueries(api)
        self.pruning = RemotePruning(api)

    def in_workspace(self, workspace: str) -> KnowledgeClient:
        """Return a client of another workspace over the same connection."""
        other = object.__new__(KnowledgeClient)
        other._use(_Api(http=self._api.http, workspace=workspace, place=self._api.place), self.settings)
        return other

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task, built by the server in one hop."""
        return await self._api.call(
            "POST", "/v1/contexts", Context, body={"task": asdict(task), "agent_type": agent_type}
        )

    async def stats(self) -> WorkspaceStats:
        """Return the workspace's counts."""
        return await self._api.call("GET", "/v1/stats", WorkspaceStats)

    async def workspaces(self) -> list[str]:
        """Return the workspaces that hold anything."""
        return await self._api.call("GET", "/v1/workspaces", list[str])

    async def run_job(self, name: str, *, once_per_slot: bool) -> int | None:
        """Have the server run a job now; None if its slot was run already."""
        answer = await self._api.send(
            "POST", f"/v1/jobs/{name}", params={"once_per_slot": once_per_slot}, timeout_seconds=None
        )
        done: int | None = answer.json()["dealt_with"]
        return done

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
