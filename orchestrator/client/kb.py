"""Knowledge bases over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from knowledge.documents.calibrating import CalibrationReport
from knowledge.documents.indexing import IndexReport
from knowledge.documents.library import AddedDocument
from knowledge.documents.models import Document, DocumentId, Finding, NewDocument, SourceId
from knowledge.documents.ports import Source
from knowledge.documents.syncing import NewSource, SyncReport
from knowledge.ports import Progress
from orchestrator.client.fields import LAST, Limit
from orchestrator.client.table import Operation, Service, Wire, Wrapped, base_path

_BASE = "/api/kb/{kb}/{scope}"
_Scope = Annotated[str, Wire(name="scope")]
_ScopeOrNone = Annotated[str | None, Wire(name="scope")]
_ASKS = "documents.for_principal"
_MANAGES = "documents.manage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Wrapped):
    """How many documents it was."""

    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Had(Wrapped):
    """Whether there was any access to take."""

    revoked: bool


class RemoteKnowledgeBases(Service, name="kb", tag="documents", scopes=("documents",)):
    """`KnowledgeBases` over HTTP: who asks is who the key names."""

    async def add(self, kb: str, scope_id: str | None, new: NewDocument) -> AddedDocument:
        """Read a file and keep it to be indexed; the same uri again is a newer version of it."""
        told = {"uri": new.uri, "title": new.title, "category": new.category, "link": new.link}
        params: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        params["index"] = "false"  # as in process: `index` does
        if new.tags:
            params["tag"] = list(new.tags)
        path = f"{base_path(kb, scope_id)}/documents"
        return await self._api.call("POST", path, AddedDocument, body=new.content, params=params, timeout_seconds=None)

    @Operation("POST", "/api/kb:index", operation_id="index_documents", permission=_ASKS)
    async def index(
        self, *, documents: Collection[DocumentId] | None = None, progress: Progress | None = None
    ) -> IndexReport:
        """Index all that waits in the workspace now, or these documents, and remove what nothing shows any more."""

    async def remove_stale(self) -> None:
        """Do nothing: the server removes from its index what is deleted, by itself."""

    @Operation("GET", f"{_BASE}/documents", operation_id="list_documents", permission=_ASKS, cursor="uri")
    async def list_documents(
        self, kb: str, scope_id: _ScopeOrNone, *, limit: Limit = 100, after: Annotated[str | None, LAST] = None
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""

    @Operation("DELETE", f"{_BASE}/documents", operation_id="delete_documents", permission=_ASKS, answer=Count)
    async def delete(
        self,
        kb: str,
        scope_id: _ScopeOrNone,
        document_ids: Annotated[Collection[DocumentId], Wire(name="document_id"), Field(max_length=1000)],
    ) -> int:
        """Delete documents for good; nothing shows them once this returns."""

    @Operation("POST", "/api/cases/{case_id}/close", permission=_ASKS, answer=Count)
    async def close_case(self, case_id: Annotated[str, Wire(field="scope_id")]) -> int:
        """Close a case: its documents go."""

    @Operation(
        "DELETE", "/api/users/{user_id}/kb", operation_id="delete_user_documents", permission=_ASKS, answer=Count
    )
    async def delete_user(self, user_id: Annotated[str, Wire(field="scope_id")]) -> int:
        """Delete the knowledge base of a user."""

    async def retry(self, kb: str, scope_id: str | None) -> int:
        """Have documents indexed now that failed or were put off; return how many."""
        path, params = f"{base_path(kb, scope_id)}/documents:retry", {"index": "false"}
        return (await self._api.call("POST", path, Count, params=params)).documents

    @Operation("GET", "/api/search", operation_id="search_passages", permission=_ASKS)
    async def search(
        self,
        question: Annotated[str, Wire(name="q"), Field(description="What to search for.")],
        *,
        kb: str | None = None,
        scope_id: _ScopeOrNone = None,
        k: Annotated[int, Field(ge=1, le=200)] = 5,
        documents: Annotated[Sequence[DocumentId], Wire(name="document_id")] = (),
        min_relevance: Annotated[float, Field(ge=0, le=1)] = 0.0,
    ) -> Finding:
        """Return raw passages, best first, of one knowledge base or of all that may be read."""

    @Operation(
        "POST",
        "/api/kb:calibrate",
        operation_id="calibrate_documents",
        permission=_MANAGES,
        scopes=("admin",),
        long=True,
    )
    async def calibrate(self) -> CalibrationReport:
        """Measure the scale of relevance on what is indexed."""

    @Operation("POST", f"{_BASE}/sources", permission=_MANAGES, scopes=("admin",))
    async def add_source(self, kb: str, scope_id: _ScopeOrNone, new: Annotated[NewSource, Wire(flat=True)]) -> Source:
        """Make a git repository a source of documents; nothing is fetched yet."""

    @Operation("GET", f"{_BASE}/sources", operation_id="list_sources", permission=_ASKS)
    async def sources(self, kb: str, scope_id: _ScopeOrNone) -> list[Source]:
        """Return the git repositories of a knowledge base."""

    @Operation("POST", f"{_BASE}/sync", operation_id="sync_sources", permission=_MANAGES, scopes=("admin",), long=True)
    async def sync(self, kb: str, scope_id: _ScopeOrNone) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base now, and take over what changed."""

    @Operation("DELETE", f"{_BASE}/sources/{{source_id}}", permission=_MANAGES, scopes=("admin",), answer=Count)
    async def forget_source(self, kb: str, scope_id: _ScopeOrNone, source_id: SourceId) -> int:
        """Forget a git repository, with its documents."""

    @Operation(
        "PUT", f"{_BASE}/members/{{principal}}", operation_id="grant_access", permission=_MANAGES, scopes=("admin",)
    )
    async def grant(self, kb: str, scope_id: _Scope, principal: str) -> None:
        """Give a principal access to a case or a team."""

    @Operation(
        "DELETE",
        f"{_BASE}/members/{{principal}}",
        operation_id="revoke_access",
        permission=_MANAGES,
        scopes=("admin",),
        answer=Had,
    )
    async def revoke(self, kb: str, scope_id: _Scope, principal: str) -> bool:
        """Take access away, from the next question on."""

    @Operation("GET", f"{_BASE}/members", operation_id="list_members", permission=_MANAGES, scopes=("admin",))
    async def grantees(self, kb: str, scope_id: _Scope) -> list[str]:
        """Return who was given access to a case or a team."""
