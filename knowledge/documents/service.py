"""Services of the documents of one workspace, and a facade that authorises each call of a principal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hardwon.errors import InvalidInput, NoAccess
from hardwon.models.documents import (
    AddedDocument,
    CalibrationReport,
    Document,
    DocumentId,
    Finding,
    IndexReport,
    NewDocument,
    NewSource,
    SourceId,
    SyncReport,
)
from hardwon.validation import as_id
from knowledge.documents.access import AccessPolicy, Permission, Principal, Scope
from knowledge.documents.ingestion.calibration import ScaleCalibration
from knowledge.documents.ingestion.git_sync import GitSync
from knowledge.documents.ingestion.queue import DocumentIndexing
from knowledge.documents.ingestion.reconcile import DocumentUpkeep
from knowledge.documents.ingestion.service import DocumentLibrary
from knowledge.documents.logs.service import LogEvidence
from knowledge.documents.models import Query
from knowledge.documents.ports import PassageStore, Source
from knowledge.documents.retrieval.search import DocumentSearch
from knowledge.ports import Progress

LOCAL = Principal(name="local", admin=True)
"""The principal of a local process: one that can open the data directory may do everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Services of the documents of one workspace. Each call needs a scope of `access`."""

    workspace: str
    access: AccessPolicy
    library: DocumentLibrary
    indexing: DocumentIndexing
    search: DocumentSearch
    evidence: LogEvidence
    quotes: PassageStore
    calibration: ScaleCalibration
    syncing: GitSync
    upkeep: DocumentUpkeep

    def for_principal(self, principal: Principal) -> KnowledgeBases:
        """Return the knowledge bases as a principal may use them."""
        return KnowledgeBases(documents=self, principal=principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBases:
    """Knowledge bases of one workspace for one principal, authorised anew at each call."""

    documents: Documents
    principal: Principal

    async def add(self, kb: str, scope_id: str | None, new: NewDocument) -> AddedDocument:
        """Parse a file and store it to be indexed; the same uri again is a newer version of it."""
        return await self.documents.library.add(new, await self._writable(kb, scope_id))

    async def index(
        self, *, documents: Collection[DocumentId] | None = None, progress: Progress | None = None
    ) -> IndexReport:
        """Index all waiting documents of the workspace, remove stale generations, and restore missing points.

        `documents`: index and wait for these alone. The report covers the partitions that the principal may read, all
        of them for an administrator. `progress` gets hundredths of indexed documents.
        """
        visible = None
        if not self.principal.admin:
            visible = (await self.documents.access.everything(self.principal)).partitions
        report = await self.documents.indexing.run(
            wait=True, only=documents, visible_partitions=visible, progress=progress
        )
        await self.documents.upkeep.restore_missing()
        return report

    async def remove_stale(self) -> None:
        """Remove stale generations from the index, without waiting for documents to be indexed."""
        await self.documents.indexing.remove_stale()

    async def list_documents(
        self, kb: str, scope_id: str | None, *, limit: int = 100, after: str | None = None
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""
        scope = await self.documents.access.scope(self.principal, kb, scope_id)
        return await self.documents.library.list_documents(scope, limit=limit, after=after)

    async def delete(self, kb: str, scope_id: str | None, document_ids: Collection[DocumentId]) -> int:
        """Delete documents for good, hidden once this returns; return their number."""
        return await self.documents.library.delete(await self._writable(kb, scope_id), document_ids)

    async def close_case(self, case_id: str) -> int:
        """Close a case; delete its documents, and its sources with their local copies."""
        closed = await self.documents.library.close_case(self.principal, case_id)
        await self.documents.syncing.forget_closed()
        return closed

    async def delete_user(self, user_id: str) -> int:
        """Delete the knowledge base of a user, with its sources and their local copies."""
        syncing = self.documents.syncing
        sources = await syncing.sources(await self._writable("user", user_id))
        deleted = await self.documents.library.delete_user(self.principal, user_id)
        for source in sources:
            await syncing.repositories.forget(source.source_id)
        return deleted

    async def retry(self, kb: str, scope_id: str | None) -> int:
        """Queue failed and postponed documents again; return their number."""
        return await self.documents.library.retry(await self._writable(kb, scope_id))

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
        """Return the best passages of a knowledge base, or of all that the principal may read.

        Raises InvalidInput for a scope id without its knowledge base, rather than searching all of them.
        """
        if kb is None and scope_id is not None:
            raise InvalidInput("kb", f"name the knowledge base of {scope_id}")
        access = self.documents.access
        scope = await (access.everything(self.principal) if kb is None else access.scope(self.principal, kb, scope_id))
        named = frozenset(DocumentId(as_id("documents", each)) for each in documents) or None
        query = Query(question=question, k=k, documents=named, min_relevance=min_relevance)
        return await self.documents.search.search(query, scope)

    async def calibrate(self) -> CalibrationReport:
        """Measure the scale of relevance on the indexed passages."""
        if not self.principal.admin:
            raise NoAccess("only an administrator calibrates")
        measured = await self.documents.calibration.calibrate()
        await self.documents.indexing.store.renew()  # every threshold depends on that scale
        return measured

    async def add_source(self, kb: str, scope_id: str | None, new: NewSource) -> Source:
        """Make a git repository a source of documents; nothing is fetched yet."""
        return await self.documents.syncing.add(new, await self._writable(kb, scope_id))

    async def sources(self, kb: str, scope_id: str | None) -> list[Source]:
        """Return the git repositories of a knowledge base."""
        scope = await self.documents.access.scope(self.principal, kb, scope_id)
        return await self.documents.syncing.sources(scope)

    async def sync(self, kb: str, scope_id: str | None) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base, and sync changed files."""
        return await self.documents.syncing.sync(await self._writable(kb, scope_id))

    async def forget_source(self, kb: str, scope_id: str | None, source_id: SourceId) -> int:
        """Delete a git repository as a source, with its documents; return their number."""
        source_id = SourceId(as_id("source_id", source_id))
        return await self.documents.syncing.forget(await self._writable(kb, scope_id), source_id)

    async def grant(self, kb: str, scope_id: str, principal: str) -> None:
        """Give a principal access to a case or a team."""
        await self.documents.library.grant(self.principal, kb, scope_id, principal)

    async def revoke(self, kb: str, scope_id: str, principal: str) -> bool:
        """Revoke access, from the next request on; return whether there was any."""
        return await self.documents.library.revoke(self.principal, kb, scope_id, principal)

    async def grantees(self, kb: str, scope_id: str) -> list[str]:
        """Return the principals that have access to a case or a team."""
        return await self.documents.library.grantees(self.principal, kb, scope_id)

    async def _writable(self, kb: str, scope_id: str | None) -> Scope:
        return await self.documents.access.scope(self.principal, kb, scope_id, permission=Permission.WRITE)
