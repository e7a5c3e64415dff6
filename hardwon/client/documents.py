"""Knowledge bases over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from hardwon.client.fields import LAST, Limit, LimitOrAll
from hardwon.client.operations import Envelope, Operation, Service, Wire, base_path
from hardwon.models.answers import (
    Escalation,
    EscalationId,
    Event,
    EventId,
    KBQueryResponse,
    SelectionResponse,
    ToolAnswer,
)
from hardwon.models.documents import (
    AddedDocument,
    CalibrationReport,
    Document,
    DocumentId,
    Finding,
    IndexReport,
    NewDocument,
    NewSource,
    Source,
    SourceId,
    SyncReport,
)
from hardwon.models.log_query import LogQuery, log_query_json
from hardwon.models.reports import Progress

TIMEOUT_SECONDS = 300.0
"""Longest wait for an answer that a model writes."""
Turns = Sequence[Mapping[str, str]]


class RemoteAnswers(Service):
    """Answers of a server, for the principal of the key."""

    async def ask(self, question: str, conversation: Turns = ()) -> SelectionResponse:
        """Answer from all documents that the caller may read."""
        body = {"question": question, "conversation": [dict(turn) for turn in conversation]}
        return await self._api.call("POST", "/api/ask", SelectionResponse, body=body, timeout_seconds=TIMEOUT_SECONDS)

    async def ask_base(
        self, kb: str, scope_id: str | None, question: str, k: int = 5, *, logs: LogQuery | None = None
    ) -> ToolAnswer:
        """Answer from one knowledge base; `logs`: the query of logs."""
        path = f"{base_path(kb, scope_id)}/ask"
        body: dict[str, Any] = {"question": question, "k": k}
        if logs is not None:
            body["logs"] = log_query_json(logs)
        return await self._api.call("POST", path, ToolAnswer, body=body, timeout_seconds=TIMEOUT_SECONDS)

    async def query_knowledge_base(self, query: str) -> KBQueryResponse:
        """Answer from the strict knowledge base."""
        body = {"query": query}
        return await self._api.call(
            "POST", "/api/kb/query", KBQueryResponse, body=body, timeout_seconds=TIMEOUT_SECONDS
        )


class RemoteJournal(Service, name="journal", tag="answers", scopes=("admin",)):
    """`Journal` over HTTP, by the server's clock."""

    @Operation(
        "GET",
        "/api/events",
        operation_id="list_events",
        permission="documents.manage",
        problems=(404,),
        cursor="event_id",
        all_pages=True,
    )
    async def events(
        self,
        *,
        name: str | None = None,
        session: str | None = None,
        limit: LimitOrAll = 100,
        after: Annotated[EventId | None, LAST] = None,
    ) -> list[Event]:
        """Return the events of questions, the latest first."""

    @Operation("POST", "/api/events/{event_id}/review", operation_id="review_event", permission="documents.manage")
    async def review(self, event_id: EventId) -> None:
        """Mark an event as reviewed."""

    @Operation(
        "GET",
        "/api/escalations",
        operation_id="list_escalations",
        permission="documents.manage",
        problems=(404,),
        cursor="escalation_id",
        all_pages=True,
    )
    async def escalations(
        self,
        *,
        overdue: bool = False,
        limit: LimitOrAll = 100,
        after: Annotated[EscalationId | None, LAST] = None,
    ) -> list[Escalation]:
        """Return open escalations: questions that need better documents, the most urgent first."""

    @Operation(
        "POST", "/api/escalations/{escalation_id}/close", operation_id="close_escalation", permission="documents.manage"
    )
    async def close(self, escalation_id: EscalationId) -> None:
        """Close an escalation: the documents answer its question now."""

    @Operation(
        "POST",
        "/api/feedback",
        operation_id="give_feedback",
        permission="answering.ask",
        scopes=("documents",),
        problems=(404,),
    )
    async def feedback(
        self, answer_id: UUID, *, up: bool, comment: Annotated[str | None, Field(max_length=2_000)] = None
    ) -> None:
        """Record a user's opinion of an answer."""


_BASE = "/api/kb/{kb}/{scope}"
_Scope = Annotated[str, Wire(name="scope")]
_ScopeOrNone = Annotated[str | None, Wire(name="scope")]
_ASK_PERMISSION = "documents.for_principal"
_MANAGE_PERMISSION = "documents.manage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Envelope):
    """A number of documents."""

    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRevocation(Envelope):
    """The result of a revocation: false if there was no access to revoke."""

    revoked: bool


class RemoteKnowledgeBases(Service, name="kb", tag="documents", scopes=("documents",)):
    """`KnowledgeBases` over HTTP, for the principal of the key."""

    async def add(self, kb: str, scope_id: str | None, new: NewDocument) -> AddedDocument:
        """Add a file, to be indexed; a repeated uri is a newer version of the document."""
        fields = {"uri": new.uri, "title": new.title, "category": new.category, "link": new.link}
        params: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        params["index"] = "false"  # as in process: `index` does
        if new.tags:
            params["tag"] = list(new.tags)
        path = f"{base_path(kb, scope_id)}/documents"
        return await self._api.call("POST", path, AddedDocument, body=new.content, params=params, timeout_seconds=None)

    @Operation("POST", "/api/kb:index", operation_id="index_documents", permission=_ASK_PERMISSION)
    async def index(
        self, *, documents: Collection[DocumentId] | None = None, progress: Progress | None = None
    ) -> IndexReport:
        """Index all waiting documents of the workspace, or these, and remove stale points."""

    async def remove_stale(self) -> None:
        """Do nothing: the server itself removes deleted documents from its index."""

    @Operation("GET", f"{_BASE}/documents", operation_id="list_documents", permission=_ASK_PERMISSION, cursor="uri")
    async def list_documents(
        self, kb: str, scope_id: _ScopeOrNone, *, limit: Limit = 100, after: Annotated[str | None, LAST] = None
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""

    @Operation(
        "DELETE", f"{_BASE}/documents", operation_id="delete_documents", permission=_ASK_PERMISSION, answer=Count
    )
    async def delete(
        self,
        kb: str,
        scope_id: _ScopeOrNone,
        document_ids: Annotated[Collection[DocumentId], Wire(name="document_id"), Field(max_length=1000)],
    ) -> int:
        """Delete documents for good; no answer shows them once this returns."""

    @Operation("POST", "/api/cases/{case_id}/close", permission=_ASK_PERMISSION, answer=Count)
    async def close_case(self, case_id: Annotated[str, Wire(field="scope_id")]) -> int:
        """Close a case and delete its documents."""

    @Operation(
        "DELETE",
        "/api/users/{user_id}/kb",
        operation_id="delete_user_documents",
        permission=_ASK_PERMISSION,
        answer=Count,
    )
    async def delete_user(self, user_id: Annotated[str, Wire(field="scope_id")]) -> int:
        """Delete the knowledge base of a user."""

    async def retry(self, kb: str, scope_id: str | None) -> int:
        """Index documents now that failed or were postponed; return their number."""
        path, params = f"{base_path(kb, scope_id)}/documents:retry", {"index": "false"}
        return (await self._api.call("POST", path, Count, params=params)).documents

    @Operation("GET", "/api/search", operation_id="search_passages", permission=_ASK_PERMISSION)
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
        """Return raw passages, best first, of one knowledge base or of all that the caller may read."""

    @Operation(
        "POST",
        "/api/kb:calibrate",
        operation_id="calibrate_documents",
        permission=_MANAGE_PERMISSION,
        scopes=("admin",),
        long=True,
    )
    async def calibrate(self) -> CalibrationReport:
        """Measure the scale of relevance on the indexed passages."""

    @Operation("POST", f"{_BASE}/sources", permission=_MANAGE_PERMISSION, scopes=("admin",))
    async def add_source(self, kb: str, scope_id: _ScopeOrNone, new: Annotated[NewSource, Wire(flat=True)]) -> Source:
        """Add a git repository as a source of documents; nothing is fetched yet."""

    @Operation("GET", f"{_BASE}/sources", operation_id="list_sources", permission=_ASK_PERMISSION)
    async def sources(self, kb: str, scope_id: _ScopeOrNone) -> list[Source]:
        """Return the git repositories of a knowledge base."""

    @Operation(
        "POST",
        f"{_BASE}/sync",
        operation_id="sync_sources",
        permission=_MANAGE_PERMISSION,
        scopes=("admin",),
        long=True,
    )
    async def sync(self, kb: str, scope_id: _ScopeOrNone) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base now, and update the changed documents."""

    @Operation(
        "DELETE", f"{_BASE}/sources/{{source_id}}", permission=_MANAGE_PERMISSION, scopes=("admin",), answer=Count
    )
    async def forget_source(self, kb: str, scope_id: _ScopeOrNone, source_id: SourceId) -> int:
        """Delete a git repository, with its documents."""

    @Operation(
        "PUT",
        f"{_BASE}/members/{{principal}}",
        operation_id="grant_access",
        permission=_MANAGE_PERMISSION,
        scopes=("admin",),
    )
    async def grant(self, kb: str, scope_id: _Scope, principal: str) -> None:
        """Give a principal access to a case or a team."""

    @Operation(
        "DELETE",
        f"{_BASE}/members/{{principal}}",
        operation_id="revoke_access",
        permission=_MANAGE_PERMISSION,
        scopes=("admin",),
        answer=AccessRevocation,
    )
    async def revoke(self, kb: str, scope_id: _Scope, principal: str) -> bool:
        """Revoke access, from the next question on."""

    @Operation("GET", f"{_BASE}/members", operation_id="list_members", permission=_MANAGE_PERMISSION, scopes=("admin",))
    async def grantees(self, kb: str, scope_id: _Scope) -> list[str]:
        """Return the principals with access to a case or a team."""
