"""All that one workspace's documents offer, in one place, and what of it a principal may ask for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from knowledge.documents.access import AccessPolicy, Permission, Principal, Scope
from knowledge.documents.calibrating import Calibrated, ScaleCalibration
from knowledge.documents.evidence import LogEvidence
from knowledge.documents.indexing import DocumentIndexing, IndexReport
from knowledge.documents.library import Added, DocumentLibrary
from knowledge.documents.models import Document, DocumentId, Finding, NewDocument, Query, SourceId
from knowledge.documents.ports import PassageStore, Source
from knowledge.documents.searching import DocumentSearch
from knowledge.documents.syncing import GitSync, NewSource, SyncReport
from knowledge.documents.upkeep import DocumentUpkeep
from knowledge.errors import InvalidInput, NoAccess
from knowledge.forms import as_id
from knowledge.ports import Progress

LOCAL = Principal(name="local", admin=True)
"""Whoever can open the data directory may do everything in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The services of documents of one workspace. A scope of `access` opens each of them."""

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

    def asked_by(self, principal: Principal) -> KnowledgeBases:
        """Return what a principal may do."""
        return KnowledgeBases(documents=self, principal=principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBases:
    """The knowledge bases of one workspace, for one principal: each call looks anew whether it may."""

    documents: Documents
    principal: Principal

    async def add(self, kb: str, scope_id: str | None, new: NewDocument) -> Added:
        """Read a file and keep it to be indexed; the same uri again is a newer version of it."""
        return await self.documents.library.add(new, await self._writable(kb, scope_id))

    async def index(
        self, *, documents: Collection[DocumentId] | None = None, progress: Progress | None = None
    ) -> IndexReport:
        """Index all that waits in the workspace now, remove what nothing shows any more, and put back what was lost.

        `documents`: these alone are indexed and waited for, whatever else waits. Only an administrator is told of all
        of it, others of what they may read. `progress`: how many are done.
        """
        told_of = None
        if not self.principal.admin:
            told_of = (await self.documents.access.everything(self.principal)).partitions
        report = await self.documents.indexing.run(wait=True, only=documents, told_of=told_of, progress=progress)
        await self.documents.upkeep.put_back()
        return report

    async def let_go(self) -> None:
        """Remove from the index what nothing shows any more; what waits to be indexed is not waited for."""
        await self.documents.indexing.remove_stale()

    async def listed(
        self, kb: str, scope_id: str | None, *, limit: int = 100, after: str | None = None
    ) -> list[Document]:
        """Return documents with their states, ascending by uri."""
        scope = await self.documents.access.scope(self.principal, kb, scope_id)
        return await self.documents.library.listed(scope, limit=limit, after=after)

    async def delete(self, kb: str, scope_id: str | None, document_ids: Collection[DocumentId]) -> int:
        """Delete documents for good; nothing shows them once this returns."""
        return await self.documents.library.delete(await self._writable(kb, scope_id), document_ids)

    async def close_case(self, case_id: str) -> int:
        """Close a case; its documents go, and its sources with what was fetched of them."""
        closed = await self.documents.library.close_case(self.principal, case_id)
        await self.documents.syncing.forget_closed()
        return closed

    async def delete_user(self, user_id: str) -> int:
        """Delete the knowledge base of a user, with its sources and what was fetched of them."""
        syncing = self.documents.syncing
        sources = await syncing.sources(await self._writable("user", user_id))
        deleted = await self.documents.library.delete_user(self.principal, user_id)
        for source in sources:
            await syncing.repositories.forget(source.source_id)
        return deleted

    async def retry(self, kb: str, scope_id: str | None) -> int:
        """Have documents indexed now that failed or were put off; return how many."""
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

        Raises InvalidInput for a scope id without its knowledge base: all would be searched, where one was meant.
        """
        if kb is None and scope_id is not None:
            raise InvalidInput("kb", f"name the knowledge base that {scope_id} is of")
        access = self.documents.access
        scope = await (access.everything(self.principal) if kb is None else access.scope(self.principal, kb, scope_id))
        named = frozenset(DocumentId(as_id("documents", each)) for each in documents) or None
        query = Query(question=question, k=k, documents=named, min_relevance=min_relevance)
        return await self.documents.search.search(query, scope)

    async def calibrate(self) -> Calibrated:
        """Measure the scale of relevance on what is indexed."""
        if not self.principal.admin:
            raise NoAccess("only an administrator calibrates")
        measured = await self.documents.calibration.calibrate()
        await self.documents.indexing.store.renew()  # every threshold is on that scale
        return measured

    async def add_source(self, kb: str, scope_id: str | None, new: NewSource) -> Source:
        """Make a git repository a source of documents; nothing is fetched yet."""
        return await self.documents.syncing.add(new, await self._writable(kb, scope_id))

    async def sources(self, kb: str, scope_id: str | None) -> list[Source]:
        """Return the git repositories of a knowledge base."""
        scope = await self.documents.access.scope(self.principal, kb, scope_id)
        return await self.documents.syncing.sources(scope)

    async def sync(self, kb: str, scope_id: str | None) -> list[SyncReport]:
        """Fetch the git repositories of a knowledge base, and take over what changed."""
        return await self.documents.syncing.sync(await self._writable(kb, scope_id))

    async def forget_source(self, kb: str, scope_id: str | None, source_id: SourceId) -> int:
        """Forget a git repository, with its documents."""
        source_id = SourceId(as_id("source_id", source_id))
        return await self.documents.syncing.forget(await self._writable(kb, scope_id), source_id)

    async def grant(self, kb: str, scope_id: str, principal: str) -> None:
        """Give a principal access to a case or a team."""
        await self.documents.library.grant(self.principal, kb, scope_id, principal)

    async def revoke(self, kb: str, scope_id: str, principal: str) -> bool:
        """Take access away, from the next question on."""
        return await self.documents.library.revoke(self.principal, kb, scope_id, principal)

    async def granted(self, kb: str, scope_id: str) -> list[str]:
        """Return who was given access to a case or a team."""
        return await self.documents.library.granted(self.principal, kb, scope_id)

    async def _writable(self, kb: str, scope_id: str | None) -> Scope:
        return await self.documents.access.scope(self.principal, kb, scope_id, permission=Permission.WRITE)
