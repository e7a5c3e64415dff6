"""Upkeep over HTTP: the methods an operator calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import StrictBool

from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Envelope, Operation, Service, Wire
from hardwon.client.transport import ARCHIVE_PATH, ENTRIES_PATH, watch_progress
from hardwon.models.ids import EntryId
from hardwon.models.maintenance import (
    ImportReport,
    IndexHealth,
    ModelChoice,
    RebuildReport,
    RecallReport,
    RedactionReport,
    ReembedReport,
    VerifyReport,
)
from hardwon.models.reports import DeadEntry, Progress, PruneReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality(Envelope):
    """The locality of a workspace: with `local_only` none of its texts may go to an endpoint."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    local_only: StrictBool


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Envelope):
    """The number of dead entries that are staged again."""

    staged: int


class RemoteUpkeep(Service, name="upkeep", tag="operations", scopes=("admin",)):
    """`KnowledgeUpkeepService` over HTTP, but for its parts."""

    @Operation("POST", "/v1/verify", problems=(409, 502), in_query=True)
    async def verify(
        self, *, repair: bool = False, recall: bool = False, progress: Progress | None = None
    ) -> VerifyReport:
        """Compare every point of the workspace with Postgres; with `repair`, correct the differences.

        With `recall` also compare what searches find with what an exact one finds.
        """

    @Operation("POST", "/v1/recall", problems=(409, 502), in_query=True)
    async def measure_recall(self, limit: Limit = 50) -> RecallReport:
        """Search for stored situations as queries do and exactly, and compare what they find."""

    @Operation("GET", "/v1/index", problems=(409, 502))
    async def index_health(self) -> IndexHealth:
        """Return the state of the vector index: nodes, replicas, what would be lost, what to do."""

    @Operation("POST", "/v1/dead:retry", problems=(409,), answer=Staged)
    async def retry_dead(self) -> int:
        """Stage dead entries again, for the next checkpoint; return their number."""

    @Operation("GET", "/v1/locality", operation_id="locality", problems=(409,), answer=Locality)
    async def local_only(self) -> bool:
        """Return whether no text of the workspace may go to an endpoint."""

    async def keep_local(self, *, on: bool) -> None:
        """Keep all texts of the workspace from endpoints from now on, or allow them again."""
        await self._api.call("PUT", "/v1/locality", Locality, body={"local_only": on})

    @Operation("GET", "/v1/dead", problems=(404, 409), cursor="entry_id")
    async def dead(self, limit: Limit = 20, *, after: Annotated[EntryId | None, LAST] = None) -> list[DeadEntry]:
        """Return entries that the embedder rejected, with the reasons, the latest first."""


_Model = Annotated[ModelChoice, Wire(flat=True)]


class RemoteStoreUpkeep(Service, name="store_upkeep", tag="operations", scopes=("admin",), whole_store=True):
    """`StoreUpkeepService` over HTTP, without the methods that take an embedder of this process."""

    @Operation("POST", "/v1/rebuild", problems=(409, 502), in_query=True)
    async def rebuild(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Drop the index of the store and fill it again from Postgres, or return the cost of it."""

    @Operation("POST", "/v1/layout", problems=(409, 502), in_query=True)
    async def rebuild_layout(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Give the collections of a Qdrant server the layout of the settings, without a moment without answers."""

    @Operation("POST", "/v1/reembed", operation_id="reembed", problems=(409, 502))
    async def reembed_to(
        self,
        choice: _Model,
        *,
        force: bool = False,
        forget_old: bool = False,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Embed everything of the store with another model, then switch to it; queries and captures go on.

        Missing fields of the model come from the server's settings; a `base_url` is called with the `api_key` of this
        request, never with the server's own.
        """


class RemoteRedaction(Service, name="redaction", tag="operations", scopes=("admin",)):
    """`StoredSecretsService` over HTTP."""

    @Operation("POST", "/v1/redactions", problems=(409, 502), in_query=True)
    async def redact_again(self, *, dry_run: bool = False, progress: Progress | None = None) -> RedactionReport:
        """Redact all stored texts of the workspace by today's rules and embed again what changed, or count it."""


class RemotePruning(Service, name="pruning", tag="operations", scopes=("admin",)):
    """`KnowledgePruningService` over HTTP."""

    async def prune_old_knowledge(self) -> int:
        """Delete expired knowledge from both stores; return the number of entries."""
        return (await self.prune()).entries

    @Operation("POST", "/v1/prune", problems=(409,), in_query=True)
    async def prune(self, *, dry_run: bool = False, progress: Progress | None = None) -> PruneReport:
        """Delete expired knowledge, or count it; refused where the clock is ahead of that of Postgres."""


class RemoteArchives(Service):
    """`ArchiveService` over HTTP."""

    async def export_archive(self, *, progress: Progress | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an archive of all workspaces, as they are now."""
        async with (
            watch_progress(self._api, progress) as operation,
            aclosing(self._api.download(ARCHIVE_PATH, **operation)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def export_entries(self, workspace: str) -> AsyncGenerator[bytes, None]:
        """Yield the entries of a workspace as JSON lines that capture takes."""
        async with aclosing(self._api.download(ENTRIES_PATH, workspace=workspace)) as pieces:
            async for piece in pieces:
                yield piece

    async def import_archive(self, chunks: AsyncIterator[bytes], *, progress: Progress | None = None) -> ImportReport:
        """Import an archive into the store with its ids, and its points into the index."""
        async with watch_progress(self._api, progress) as operation:
            return await self._api.upload(ARCHIVE_PATH, chunks, ImportReport, **operation)
