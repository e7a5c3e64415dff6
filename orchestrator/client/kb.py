"""Knowledge bases over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from knowledge.documents.calibrating import Calibrated
from knowledge.documents.indexing import IndexReport
from knowledge.documents.library import Added
from knowledge.documents.models import Document, DocumentId, Finding, NewDocument, SourceId
from knowledge.documents.ports import Source
from knowledge.documents.syncing import NewSource, SyncReport
from knowledge.ports import Progress
from orchestrator.client.calls import Api, base_path, in_path, watched


@dataclass(frozen=True, slots=True)
class RemoteKnowledgeBases:
    """`KnowledgeBases` over HTTP: who asks is who the key names."""

    api: Api

    async def add(self, kb: str, scope_id: str | None, new: NewDocument) -> Added:
        """Read a file and keep it to be indexed; the same uri again is a newer version of it."""
        told = {"uri": new.uri, "title": new.title, "category": new.category, "link": new.link}
        params: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
        params["index"] = "false"  # as in process: `index` does
        if new.tags:
            params["tag"] = list(new.tags)
        path = f"{base_path(kb, scope_id)}/documents"
        return await self.api.call("POST", path, Added, body=new.content, params=params, timeout_seconds=None)

    async def index(
        self, *, documents: Collection[DocumentId] | None = None, progress: Progress | None = None
    ) -> IndexReport:
        """Index all that waits in the workspace now, or these documents, and remove what nothing shows any more."""
        body = None if documents is None else {"documents": [str(each) for each in documents]}
        async with watched(self.api, progress) as named:
            return await self.api.call(
                "POST", "/api/kb:index", IndexReport, body=body, params=named, timeout_seconds=None
            )

    async def let_go(self) -> None:
        """Do nothing: the server removes from its index what is deleted, by itself."""

    async def listed(
        self, kb: str, scope_id: str | None, *, limit: int = 100, after: str | None = None
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""
        params = {"limit": limit} | ({} if after is None else {"after": after})
        return await self.api.call("GET", f"{base_path(kb, scope_id)}/documents", list[Document], params=params)

    async def delete(self, kb: str, scope_id: str | None, document_ids: Collection[DocumentId]) -> int:
        """Delete documents for good; nothing shows them once this returns."""
        params = {"document_id": [str(each) for each in document_ids]}
        return await self.api.removed(f"{base_path(kb, scope_id)}/documents", "documents", params=params)

    async def close_case(self, case_id: str) -> int:
        """Close a case; its documents go."""
        path = f"/api/cases/{in_path('scope_id', case_id)}/close"
        return (await self.api.call("POST", path, dict[str, int]))["documents"]

    async def delete_user(self, user_id: str) -> int:
        """Delete the knowledge base of a user."""
        return await self.api.removed(f"/api/users/{in_path('scope_id', user_id)}/kb", "documents")

    async def retry(self, kb: str, scope_id: str | None) -> int:
        """Have documents indexed now that failed or were put off; return how many."""
        path, params = f"{base_path(kb, scope_id)}/documents:retry", {"index": "false"}
        return (await self.api.call("POST", path, dict[str, int], params=params))["documents"]

    async def search(
        self,
        question: str,
        *,
        kb: str | None = None,
        scope_id: str | None = None,
        k: int = 5,
        documents: Sequence[DocumentId] = (),
        min_relevance: float = 0.0,
    ) -> Finding:
        """Return the best passages of a knowledge base, or of all that the principal may read."""
        told = {"q": question, "kb": kb, "scope": scope_id, "k": k, "min_relevance": min_relevance}
        params: dict[str, object] = {name: value for name, value in told.items() if value is not None}
        if documents:
            params["document_id"] = [str(each) for each in documents]
        return await self.api.call("GET", "/api/search", Finding, params=params)

    async def calibrate(self) -> Calibrated:
        """Measure the scale of relevance on what is indexed."""
        return await self.api.call("POST", "/api/kb:calibrate", Calibrated, timeout_seconds=None)

    async def add_source(self, kb: str, scope_id: str | None, new: NewSource) -> Source:
        """Make a git repository a source of documents; nothing is fetched yet."""
        body = asdict(new) | {"globs": list(new.globs)}
        return await self.api.call("POST", f"{base_path(kb, scope_id)}/sources", Source, body=body)

    async def sources(self, kb: str, scope_id: str | None) -> list[Source]:
        """Return the git repositories of a knowledge base."""
        return await self.api.call("GET", f"{base_path(kb, scope_id)}/sources", list[Source])

    async def sync(self, kb: str, scope_id: str | None) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base, and take over what changed."""
        return await self.api.call("POST", f"{base_path(kb, scope_id)}/sync", list[SyncReport], timeout_seconds=None)

    async def forget_source(self, kb: str, scope_id: str | None, source_id: SourceId) -> int:
        """Forget a git repository, with its documents."""
        return await self.api.removed(f"{base_path(kb, scope_id)}/sources/{source_id}", "documents")

    async def grant(self, kb: str, scope_id: str, principal: str) -> None:
        """Give a principal access to a case or a team."""
        await self.api.send("PUT", f"{base_path(kb, scope_id)}/members/{in_path('principal', principal)}")

    async def revoke(self, kb: str, scope_id: str, principal: str) -> bool:
        """Take access away, from the next question on."""
        path = f"{base_path(kb, scope_id)}/members/{in_path('principal', principal)}"
        return (await self.api.call("DELETE", path, dict[str, bool]))["revoked"]

    async def granted(self, kb: str, scope_id: str) -> list[str]:
        """Return who was given access to a case or a team."""
        return await self.api.call("GET", f"{base_path(kb, scope_id)}/members", list[str])
