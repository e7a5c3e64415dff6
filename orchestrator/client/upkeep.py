"""Upkeep over HTTP: the methods an operator calls, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict, dataclass

from knowledge.memory.archiving import ImportReport
from knowledge.memory.store_upkeep import ModelChoice, ReembedReport
from knowledge.memory.upkeep import RebuildReport, VerifyReport
from knowledge.models import DeadEntry, EntryId
from knowledge.ports import Progress
from orchestrator.client.calls import ARCHIVE_PATH, ENTRIES_PATH, Api, given, watched


@dataclass(frozen=True, slots=True)
class RemoteUpkeep:
    """`KnowledgeUpkeepService` over HTTP, but for its parts."""

    api: Api

    async def verify(self, *, repair: bool = False, progress: Progress | None = None) -> VerifyReport:
        """Compare every point with Postgres; with `repair` put right what differs."""
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/v1/verify", VerifyReport, params={**named, "repair": repair}, timeout_seconds=None
            )

    async def retry_dead(self) -> int:
        """Stage dead entries again, for the next checkpoint; return how many."""
        return (await self.api.call("POST", "/v1/dead:retry", dict[str, int]))["staged"]

    async def local_only(self) -> bool:
        """Return whether no text of the workspace may go to an endpoint."""
        return (await self.api.call("GET", "/v1/locality", dict[str, bool]))["local_only"]

    async def keep_local(self, *, on: bool) -> None:
        """Have no text of the workspace go to an endpoint from now on, or allow it again."""
        await self.api.call("PUT", "/v1/locality", dict[str, bool], body={"local_only": on})

    async def dead(self, limit: int = 20, *, after: EntryId | None = None) -> list[DeadEntry]:
        """Return dead entries with their reasons, the latest first, from behind `after` on."""
        return await self.api.call("GET", "/v1/dead", list[DeadEntry], params=given(limit=limit, after=after))


@dataclass(frozen=True, slots=True)
class RemoteStoreUpkeep:
    """`StoreUpkeepService` over HTTP, but for what takes an embedder of this process."""

    api: Api

    async def rebuild(self, *, dry_run: bool = False, progress: Progress | None = None) -> RebuildReport:
        """Drop the collection in use and put everything back from Postgres, or say what that would cost."""
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/v1/rebuild", RebuildReport, params={**named, "dry_run": dry_run}, timeout_seconds=None
            )

    async def reembed_to(
        self,
        choice: ModelChoice,
        *,
        force: bool = False,
        forget_old: bool = False,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Embed everything with another model, then switch to it; a model without an address is the server's."""
        told = asdict(choice) | {"force": force, "forget_old": forget_old}
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/v1/reembed", ReembedReport, body=told, params=named, timeout_seconds=None
            )


@dataclass(frozen=True, slots=True)
class RemoteArchives:
    """`ArchiveService` over HTTP."""

    api: Api

    async def export_archive(self, *, progress: Progress | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of an archive of all workspaces, as they are now."""
        async with (
            watched(self.api, progress) as named,
            aclosing(self.api.download(ARCHIVE_PATH, **named)) as pieces,
        ):
            async for piece in pieces:
                yield piece

    async def export_entries(self, workspace: str) -> AsyncGenerator[bytes, None]:
        """Yield the entries of a workspace as JSON lines that capture takes."""
        async with aclosing(self.api.download(ENTRIES_PATH, workspace=workspace)) as pieces:
            async for piece in pieces:
                yield piece

    async def import_archive(self, chunks: AsyncIterator[bytes], *, progress: Progress | None = None) -> ImportReport:
        """Write an archive into the store, ids kept, and its points into the index."""
        async with watched(self.api, progress) as named:
            return await self.api.upload(ARCHIVE_PATH, chunks, ImportReport, **named)
