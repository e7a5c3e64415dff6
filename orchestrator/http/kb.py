"""The routes of knowledge bases: documents, repositories, who may use them, and raw passages."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated

from fastapi import FastAPI, Query, Request

from knowledge.documents.library import AddedDocument
from knowledge.documents.models import NewDocument
from knowledge.documents.service import KnowledgeBases
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from orchestrator.client.kb import Count, RemoteKnowledgeBases
from orchestrator.client.table import ONE
from orchestrator.http.opened import performs
from orchestrator.http.principal import Bases
from orchestrator.http.rows import add_rows

log = get_logger(__name__)

_DOCUMENTS = "/api/kb/{kb}/{scope}/documents"


def scope_in(path: str) -> str | None:
    """Return the scope id that stands in a path, None for the one scope of a knowledge base that is one."""
    return None if path == ONE else path


def add_kb(app: FastAPI) -> None:
    """Add the routes of knowledge bases to an app."""
    app.state.indexing = {}  # the task of each workspace
    app.state.to_index = set()
    index_soon = functools.partial(_index_soon, app)
    changes = ("delete", "close_case", "delete_user", "forget_source", "sync")
    add_rows(app, RemoteKnowledgeBases, given=Bases, afterwards=dict.fromkeys(changes, index_soon))

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
        """Keep the file in the body, to be indexed."""
        new = NewDocument(
            uri=uri, content=await request.body(), title=title, category=category, tags=tuple(tag or ()), link=link
        )
        added = await bases.add(kb, scope_in(scope), new)
        if index:
            _index_soon(app, bases)
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
        """Have documents indexed now that failed or were put off."""
        again = await bases.retry(kb, scope_in(scope))
        if index:
            _index_soon(app, bases)
        return Count(documents=again)


def _index_soon(app: FastAPI, bases: KnowledgeBases) -> None:
    """Index what waits in the background, unless that is under way; what comes meanwhile is taken along."""
    workspace = bases.documents.workspace
    app.state.to_index.add(workspace)
    if workspace not in app.state.indexing:
        app.state.indexing[workspace] = asyncio.create_task(_indexed(app, bases))


async def stop_indexing(app: FastAPI) -> None:
    """End what goes on in the background of an app, before its stores are closed: what it held is free again."""
    tasks = list(app.state.indexing.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _indexed(app: FastAPI, bases: KnowledgeBases) -> None:
    """Index until nobody asked for it since the last run began, which may have been past what came meanwhile."""
    workspace = bases.documents.workspace
    try:
        while workspace in app.state.to_index:
            app.state.to_index.discard(workspace)
            await bases.documents.indexing.run()
    except HardwonError as error:  # the job comes to it
        log.warning("documents_not_indexed", reason=str(error))
    finally:
        app.state.indexing.pop(workspace)
