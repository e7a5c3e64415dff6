"""The routes of knowledge bases: documents, repositories, who may use them, and raw passages."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response

from knowledge.documents.calibrating import Calibrated
from knowledge.documents.indexing import IndexReport
from knowledge.documents.library import Added
from knowledge.documents.models import Document, DocumentId, Finding, NewDocument, SourceId
from knowledge.documents.ports import Source
from knowledge.documents.service import KnowledgeBases
from knowledge.documents.syncing import NewSource, SyncReport
from knowledge.errors import HardwonError
from knowledge.logs import get_logger
from orchestrator.client.calls import ONE
from orchestrator.http.opened import Told, performs
from orchestrator.http.paging import LAST, Limit, link_next
from orchestrator.http.principal import Bases

log = get_logger(__name__)

_DOCUMENTS = "/api/kb/{kb}/{scope}/documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBody:
    """The documents to index and to wait for."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    documents: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBody:
    """A git repository to fetch documents from."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    url: str
    branch: str | None = None
    subdir: str = ""
    globs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many documents it was."""

    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Had:
    """Whether there was any access to take."""

    revoked: bool


def scope_in(path: str) -> str | None:
    """Return the scope id that stands in a path, None for the one scope of a knowledge base that is one."""
    return None if path == ONE else path


def add_kb(app: FastAPI) -> None:
    """Add the routes of knowledge bases to an app."""
    app.state.indexing = {}  # the task of each workspace
    app.state.to_index = set()
    _add_documents(app)
    _add_ends(app)
    _add_sources(app)
    _add_members(app)

    @app.get("/api/search", tags=["documents"])
    @performs("documents.asked_by")
    async def search_passages(
        bases: Bases,
        *,
        q: Annotated[str, Query(description="What to search for.")],
        kb: str | None = None,
        scope: str | None = None,
        k: Annotated[int, Query(ge=1, le=200)] = 5,
        document_id: Annotated[list[UUID] | None, Query()] = None,
        min_relevance: Annotated[float, Query(ge=0, le=1)] = 0.0,
    ) -> Finding:
        """Return raw passages, best first, of one knowledge base or of all that may be read."""
        return await bases.search(
            q,
            kb=kb,
            scope_id=scope,
            k=k,
            documents=[DocumentId(each) for each in document_id or ()],
            min_relevance=min_relevance,
        )

    @app.post("/api/kb:index", tags=["documents"])
    @performs("documents.asked_by")
    async def index_documents(bases: Bases, told: Told, named: IndexBody | None = None) -> IndexReport:
        """Index all that waits now, or the documents that are named."""
        documents = None if named is None else named.documents
        ours = None if documents is None else [DocumentId(each) for each in documents]
        return await bases.index(documents=ours, progress=told)

    @app.post("/api/kb:calibrate", tags=["documents"])
    @performs("documents.manage")
    async def calibrate_documents(bases: Bases) -> Calibrated:
        """Measure the scale of relevance on what is indexed."""
        return await bases.calibrate()


def _add_documents(app: FastAPI) -> None:
    @app.get(_DOCUMENTS, tags=["documents"])
    @performs("documents.asked_by")
    async def list_documents(
        kb: str,
        scope: str,
        bases: Bases,
        request: Request,
        response: Response,
        *,
        limit: Limit = 100,
        after: Annotated[str | None, Query(description=LAST)] = None,
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""
        found = await bases.listed(kb, scope_in(scope), limit=limit, after=after)
        if len(found) == limit:
            link_next(request, response, after=found[-1].uri, limit=limit)
        return found

    @app.post(
        _DOCUMENTS,
        tags=["documents"],
        openapi_extra={
            "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    @performs("documents.asked_by")
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
    ) -> Added:
        """Keep the file in the body, to be indexed."""
        new = NewDocument(
            uri=uri, content=await request.body(), title=title, category=category, tags=tuple(tag or ()), link=link
        )
        added = await bases.add(kb, scope_in(scope), new)
        if index:
            _index_soon(app, bases)
        return added

    @app.delete(_DOCUMENTS, tags=["documents"])
    @performs("documents.asked_by")
    async def delete_documents(
        kb: str, scope: str, bases: Bases, document_id: Annotated[list[UUID], Query(max_length=1000)]
    ) -> Count:
        """Delete documents for good."""
        deleted = await bases.delete(kb, scope_in(scope), [DocumentId(each) for each in document_id])
        _index_soon(app, bases)
        return Count(documents=deleted)

    @app.post("/api/kb/{kb}/{scope}/documents:retry", tags=["documents"])
    @performs("documents.asked_by")
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


def _add_ends(app: FastAPI) -> None:
    @app.post("/api/cases/{case_id}/close", tags=["documents"])
    @performs("documents.asked_by")
    async def close_case(case_id: str, bases: Bases) -> Count:
        """Close a case: its documents go."""
        closed = await bases.close_case(case_id)
        _index_soon(app, bases)
        return Count(documents=closed)

    @app.delete("/api/users/{user_id}/kb", tags=["documents"])
    @performs("documents.asked_by")
    async def delete_user_documents(user_id: str, bases: Bases) -> Count:
        """Delete the knowledge base of a user."""
        deleted = await bases.delete_user(user_id)
        _index_soon(app, bases)
        return Count(documents=deleted)


def _add_sources(app: FastAPI) -> None:
    @app.get("/api/kb/{kb}/{scope}/sources", tags=["documents"])
    @performs("documents.asked_by")
    async def list_sources(kb: str, scope: str, bases: Bases) -> list[Source]:
        """Return the git repositories of a knowledge base."""
        return await bases.sources(kb, scope_in(scope))

    @app.post("/api/kb/{kb}/{scope}/sources", tags=["documents"])
    @performs("documents.manage")
    async def add_source(kb: str, scope: str, body: SourceBody, bases: Bases) -> Source:
        """Make a git repository a source of documents."""
        new = NewSource(url=body.url, branch=body.branch, subdir=body.subdir, globs=body.globs)
        return await bases.add_source(kb, scope_in(scope), new)

    @app.delete("/api/kb/{kb}/{scope}/sources/{source_id}", tags=["documents"])
    @performs("documents.manage")
    async def forget_source(kb: str, scope: str, source_id: UUID, bases: Bases) -> Count:
        """Forget a git repository with its documents."""
        deleted = await bases.forget_source(kb, scope_in(scope), SourceId(source_id))
        _index_soon(app, bases)
        return Count(documents=deleted)

    @app.post("/api/kb/{kb}/{scope}/sync", tags=["documents"])
    @performs("documents.manage")
    async def sync_sources(kb: str, scope: str, bases: Bases) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base now."""
        reports = await bases.sync(kb, scope_in(scope))
        _index_soon(app, bases)
        return reports


def _add_members(app: FastAPI) -> None:
    @app.get("/api/kb/{kb}/{scope}/members", tags=["documents"])
    @performs("documents.manage")
    async def list_members(kb: str, scope: str, bases: Bases) -> list[str]:
        """Return who was given access to a case or a team."""
        return await bases.granted(kb, scope)

    @app.put("/api/kb/{kb}/{scope}/members/{principal}", status_code=204, tags=["documents"])
    @performs("documents.manage")
    async def grant_access(kb: str, scope: str, principal: str, bases: Bases) -> None:
        """Give access to a case or a team."""
        await bases.grant(kb, scope, principal)

    @app.delete("/api/kb/{kb}/{scope}/members/{principal}", tags=["documents"])
    @performs("documents.manage")
    async def revoke_access(kb: str, scope: str, principal: str, bases: Bases) -> Had:
        """Take access away, from the next question on."""
        return Had(revoked=await bases.revoke(kb, scope, principal))


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
