"""The routes of upkeep: long work, whose progress a caller may ask for by an id of its own (`operation`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from uuid import UUID

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message, Send

from hardwon.client.maintenance import Locality
from hardwon.client.transport import ARCHIVE_PATH, ARCHIVE_TYPE, ENTRIES_PATH, ENTRIES_TYPE, WorkProgress
from hardwon.errors import NotFound
from hardwon.event_log import get_logger
from hardwon.models.maintenance import ImportReport
from orchestrator.http import uvicorn
from orchestrator.http.operation_route import CallerKnowledge, ProgressCallback, performs

log = get_logger(__name__)


class _ReadTimeoutStream(StreamingResponse):
    """A stream that ends if the client reads nothing for `UNREAD_SECONDS`.

    Its source is closed then: it holds a snapshot of the database. Over TCP the system times out too; over a unix
    socket nothing else does.
    """

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(uvicorn.UNREAD_SECONDS):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            log.warning("answer_unread", seconds=uvicorn.UNREAD_SECONDS)
        finally:
            if isinstance(self.body_iterator, AsyncGenerator):
                await self.body_iterator.aclose()


def add_upkeep(app: FastAPI) -> None:
    """Add the routes of upkeep to an app."""
    app.state.under_way = {}
    _add_locality(app)
    _add_archives(app)

    @app.get("/v1/operations/{operation}", tags=["operations"])
    @performs("progress")
    async def progress(operation: UUID, knowledge: CallerKnowledge) -> WorkProgress:
        """Return the progress of a running request with this id."""
        found: WorkProgress | None = app.state.under_way.get((knowledge.workspace, operation))
        if found is None:
            raise NotFound(f"no operation {operation} is running here")
        return found


def _add_archives(app: FastAPI) -> None:
    @app.get(ARCHIVE_PATH, tags=["operations"], response_class=StreamingResponse)
    @performs("archives.export_archive")
    async def export_archive(knowledge: CallerKnowledge, progress: ProgressCallback) -> StreamingResponse:
        """Stream an archive of all workspaces as they are now. An incomplete one has no manifest."""
        pieces = knowledge.archives.export_archive(progress=progress)
        return await _stream(pieces, ARCHIVE_TYPE)

    @app.get(ENTRIES_PATH, tags=["operations"], response_class=StreamingResponse)
    @performs("archives.export_entries")
    async def export_entries(knowledge: CallerKnowledge, workspace: str) -> StreamingResponse:
        """Stream the entries of a workspace as JSON lines, which capture takes back."""
        return await _stream(knowledge.archives.export_entries(workspace), ENTRIES_TYPE)

    @app.post(
        ARCHIVE_PATH,
        tags=["operations"],
        openapi_extra={"requestBody": {"content": {ARCHIVE_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
    )
    @performs("archives.import_archive", problems=(404, 409, 502))
    async def import_archive(request: Request, knowledge: CallerKnowledge, progress: ProgressCallback) -> ImportReport:
        """Import an archive into this store with its ids; it may be repeated."""
        return await knowledge.archives.import_archive(request.stream(), progress=progress)


async def _stream(pieces: AsyncGenerator[bytes, None], media_type: str) -> StreamingResponse:
    """Return a streamed response; an error before the first piece becomes a problem, not a cut stream."""
    first = await anext(pieces, b"")

    async def stream() -> AsyncIterator[bytes]:
        async with aclosing(pieces):  # a reader that leaves early must not hold the snapshot open
            yield first
            async for piece in pieces:
                yield piece

    return _ReadTimeoutStream(stream(), media_type=media_type)


def _add_locality(app: FastAPI) -> None:
    @app.put("/v1/locality", tags=["operations"])
    @performs("upkeep.keep_local", problems=(409,))
    async def keep_local(body: Locality, knowledge: CallerKnowledge) -> Locality:
        """Keep all texts of the workspace from endpoints, or allow them again."""
        await knowledge.upkeep.keep_local(on=body.local_only)
        return body
