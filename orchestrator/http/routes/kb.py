"""The routes of knowledge bases: documents, repositories, members, and raw passages."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated

from fastapi import FastAPI, Query, Request

from hardwon.client.documents import Count, RemoteKnowledgeBases
from hardwon.client.operations import NO_SCOPE
from hardwon.errors import HardwonError
from hardwon.event_log import get_logger
from hardwon.models.documents import AddedDocument, NewDocument
from knowledge.documents.service import KnowledgeBases
from orchestrator.http.current_principal import Bases
from orchestrator.http.operation_route import performs
from orchestrator.http.table_routes import add_rows

log = get_logger(__name__)

_DOCUMENTS = "/api/kb/{kb}/{scope}/documents"


def parse_scope(path: str) -> str | None:
    """Return the scope id in a path, None for a knowledge base without scopes."""
    return None if path == NO_SCOPE else path


def add_kb(app: FastAPI) -> None:
    """Add the routes of knowledge bases to an app."""
    app.state.indexing = {}  # the task of each workspace
    app.state.to_index = set()
    start_indexing = functools.partial(_start_indexing, app)
    app.state.start_indexing = start_indexing  # the pages change documents, too
    changes = ("delete", "close_case", "delete_user", "forget_source", "sync")
    add_rows(app, RemoteKnowledgeBases, dependency=Bases, callbacks=dict.fromkeys(changes, start_indexing))

    @app.post(
        _DOCUMENTS,
        tags=["documents"],
        openapi_extra={
            "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    @performs("documents.for_principal")
    async def add_document(
        kb: str,
        scope: str,
        request: Request,
        bases: Bases,
        *,
        uri: Annotated[str, Query(description="Names the document; the same again is its next version.")],
        title: str | None = None,
        category: str | None = None,
        tag: Annotated[list[str] | None, Query()] = None,
        link: str | None = None,
        index: Annotated[bool, Query(description="Index it at once, in the background.")] = True,
    ) -> AddedDocument:
        """Store the file in the body, to be indexed."""
        new = NewDocument(
            uri=uri, content=await request.body(), title=title, category=category, tags=tuple(tag or ()), link=link
        )
        added = await bases.add(kb, parse_scope(scope), new)
        if index:
            _start_indexing(app, bases)
        return added

    @app.post("/api/kb/{kb}/{scope}/documents:retry", tags=["documents"])
    @performs("documents.for_principal")
    async def retry_documents(
        kb: str,
        scope: str,
        bases: Bases,
        *,
        index: Annotated[bool, Query(description="Index them at once, in the background.")] = True,
    ) -> Count:
        """Index documents now that failed or were postponed."""
        number = await bases.retry(kb, parse_scope(scope))
        if index:
            _start_indexing(app, bases)
        return Count(documents=number)


def _start_indexing(app: FastAPI, bases: KnowledgeBases) -> None:
    """Index waiting documents in the background; a task that already runs takes new ones along."""
    workspace = bases.documents.workspace
    app.state.to_index.add(workspace)
    if workspace not in app.state.indexing:
        app.state.indexing[workspace] = asyncio.create_task(_index_until_done(app, bases))


async def stop_indexing(app: FastAPI) -> None:
    """Cancel the background indexing of an app, before its stores are closed; its leases are released."""
    tasks = list(app.state.indexing.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _index_until_done(app: FastAPI, bases: KnowledgeBases) -> None:
    """Index until no request came since the last run began: that run may have missed what was added meanwhile."""
    workspace = bases.documents.workspace
    try:
        while workspace in app.state.to_index:
            app.state.to_index.discard(workspace)
            await bases.documents.indexing.run()
    except HardwonError as error:  # the scheduled job tries again
        log.warning("documents_not_indexed", reason=str(error))
    finally:
        app.state.indexing.pop(workspace)
