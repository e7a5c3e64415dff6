"""The routes of upkeep: long work, which a caller may give a name (`operation`) and ask how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field, StrictBool
from starlette.types import Message, Send

from knowledge.errors import NotFound
from knowledge.logs import get_logger
from knowledge.memory.archiving import ImportReport
from knowledge.memory.store_upkeep import ModelChoice, ReembedReport
from knowledge.memory.upkeep import RebuildReport, VerifyReport
from knowledge.models import DeadEntry, Entry, EntryId
from orchestrator.client.calls import ARCHIVE_PATH, ARCHIVE_TYPE, ENTRIES_PATH, ENTRIES_TYPE, Done
from orchestrator.http import serving
from orchestrator.http.opened import Open, Told, performs
from orchestrator.http.paging import LAST, Limit, link_next

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedBody:
    """The model to change to; what is not told is as the server's settings say.

    A `base_url` is called with the `api_key` given here, never with the server's own.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    model: str
    dims: Annotated[int | None, Field(ge=2, le=65536, strict=True)] = None
    revision: str | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    force: StrictBool = False
    forget_old: StrictBool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """Whether no text of a workspace may go to an endpoint."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    local_only: StrictBool


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """How many dead entries are staged again."""

    staged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """How many entries went."""

    entries: int


class _WhileRead(StreamingResponse):
    """Pieces that are sent while somebody reads them; cut off where nobody does for `UNREAD_SECONDS`.

    What they come from is closed then: it holds a snapshot of the database. Over TCP the system cuts as well, over a
    socket of this machine nothing else does.
    """

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(serving.UNREAD_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.warning("answer_unread", seconds=serving.UNREAD_SECONDS)
        finally:
            if isinstance(self.body_iterator, AsyncGenerator):
                await self.body_iterator.aclose()


def add_upkeep(app: FastAPI) -> None:
    """Add the routes of upkeep to an app."""
    app.state.under_way = {}
    _add_index(app)
    _add_locality(app)
    _add_entries(app)
    _add_archives(app)

    @app.get("/v1/operations/{operation}", tags=["operations"])
    @performs("progress")
    async def progress(operation: UUID, knowledge: Open) -> Done:
        """Say how far a request is that was given this id and is not answered yet."""
        told: Done | None = app.state.under_way.get((knowledge.workspace, operation))
        if told is None:
            raise NotFound(f"no operation {operation} is under way here")
        return told


def _add_archives(app: FastAPI) -> None:
    @app.get(ARCHIVE_PATH, tags=["operations"], response_class=StreamingResponse)
    @performs("archives.export_archive")
    async def export_archive(knowledge: Open, told: Told) -> StreamingResponse:
        """Stream an archive of all workspaces as they are now. One that is cut off lacks its manifest."""
        pieces = knowledge.archives.export_archive(progress=told)
        return await _stream(pieces, ARCHIVE_TYPE)

    @app.get(ENTRIES_PATH, tags=["operations"], response_class=StreamingResponse)
    @performs("archives.export_entries")
    async def export_entries(knowledge: Open, workspace: str) -> StreamingResponse:
        """Stream the entries of a workspace as JSON lines, which capture takes back."""
        return await _stream(knowledge.archives.export_entries(workspace), ENTRIES_TYPE)

    @app.post(
        ARCHIVE_PATH,
        tags=["operations"],
        openapi_extra={"requestBody": {"content": {ARCHIVE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
    )
    @performs("archives.import_archive", problems=(404, 409, 502))
    async def import_archive(request: Request, knowledge: Open, told: Told) -> ImportReport:
        """Write an archive into this store, ids kept; repeated, it ends the same."""
        return await knowledge.archives.import_archive(request.stream(), progress=told)


async def _stream(pieces: AsyncGenerator[bytes, None], media_type: str) -> StreamingResponse:
    """Return a response of pieces; an error before the first one is a problem and not a cut stream."""
    first = await anext(pieces, b"")

    async def stream() -> AsyncIterator[bytes]:
        async with aclosing(pieces):  # a reader that leaves early must not hold the snapshot open
            yield first
            async for piece in pieces:
                yield piece

    return _WhileRead(stream(), media_type=media_type)


def _add_index(app: FastAPI) -> None:
    @app.post("/v1/verify", tags=["operations"])
    @performs("upkeep.verify", problems=(409, 502))
    async def verify(knowledge: Open, told: Told, *, repair: Annotated[bool, Query()] = False) -> VerifyReport:
        """Compare every point of the workspace with Postgres; put right what differs, if asked to."""
        return await knowledge.upkeep.verify(repair=repair, progress=told)

    @app.post("/v1/rebuild", tags=["operations"])
    @performs("store_upkeep.rebuild", problems=(409, 502))
    async def rebuild(knowledge: Open, told: Told, *, dry_run: Annotated[bool, Query()] = False) -> RebuildReport:
        """Drop the index of the store and put everything back from Postgres, or say what that would cost."""
        return await knowledge.store_upkeep.rebuild(dry_run=dry_run, progress=told)

    @app.post("/v1/reembed", tags=["operations"])
    @performs("store_upkeep.reembed_to", problems=(409, 502))
    async def reembed(body: ReembedBody, knowledge: Open, told: Told) -> ReembedReport:
        """Embed everything of the store with another model, then switch to it; queries and captures go on."""
        choice = ModelChoice(
            model=body.model,
            dims=body.dims,
            revision=body.revision,
            query_prefix=body.query_prefix,
            document_prefix=body.document_prefix,
            base_url=body.base_url,
            api_key=body.api_key,
        )
        return await knowledge.store_upkeep.reembed_to(
            choice, force=body.force, forget_old=body.forget_old, progress=told
        )


def _add_locality(app: FastAPI) -> None:
    @app.get("/v1/locality", tags=["operations"])
    @performs("upkeep.local_only", problems=(409,))
    async def locality(knowledge: Open) -> Locality:
        """Say whether no text of the workspace may go to an endpoint."""
        return Locality(local_only=await knowledge.upkeep.local_only())

    @app.put("/v1/locality", tags=["operations"])
    @performs("upkeep.keep_local", problems=(409,))
    async def keep_local(body: Locality, knowledge: Open) -> Locality:
        """Have no text of the workspace go to an endpoint, or allow it again."""
        await knowledge.upkeep.keep_local(on=body.local_only)
        return body


def _add_entries(app: FastAPI) -> None:
    @app.get("/v1/dead", tags=["operations"])
    @performs("upkeep.dead", problems=(404, 409))
    async def dead(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 20,
    ) -> list[DeadEntry]:
        """Return entries that the embedder refused, with the reasons, the latest first."""
        found = await knowledge.upkeep.dead(limit, after=None if after is None else EntryId(after))
        if len(found) == limit:
            link_next(request, response, after=found[-1].entry_id, limit=limit)
        return found

    @app.post("/v1/dead:retry", tags=["operations"])
    @performs("upkeep.retry_dead", problems=(409,))
    async def retry_dead(knowledge: Open) -> Staged:
        """Stage dead entries again, for the next checkpoint."""
        return Staged(staged=await knowledge.upkeep.retry_dead())

    @app.get("/v1/unresolved", tags=["entries"])
    @performs("capture.unresolved", problems=(404,))
    async def list_unresolved(
        knowledge: Open,
        request: Request,
        response: Response,
        *,
        project_id: str | None = None,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 20,
    ) -> list[Entry]:
        """Return entries that wait for their resolution, of a project or of all, the latest first."""
        last = None if after is None else EntryId(after)
        found = await knowledge.capture.unresolved(project_id=project_id, limit=limit, after=last)
        if len(found) == limit:
            link_next(request, response, after=found[-1].entry_id, limit=limit)
        return found

    # in the query, since an id of a project may hold whatever a path may not
    @app.delete("/v1/projects", tags=["entries"])
    @performs("capture.delete_project", problems=(404, 409))
    async def delete_project(project_id: str, knowledge: Open, told: Told) -> Deleted:
        """Delete a project everywhere, with its entries and all that rests on them alone."""
        return Deleted(entries=await knowledge.capture.delete_project(project_id, progress=told))
