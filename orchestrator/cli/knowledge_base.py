"""One knowledge base, as the commands work on it: files and repositories added, fetched and indexed, with progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.errors import InvalidInput
from orchestrator.cli.folders import Found, contents_of, gone_from
from orchestrator.paging import paged

if TYPE_CHECKING:
    from knowledge.documents.indexing import IndexReport
    from knowledge.documents.library import AddedDocument
    from knowledge.documents.models import Document, DocumentId, NewDocument
    from knowledge.documents.service import KnowledgeBases
    from knowledge.documents.syncing import NewSource, SyncReport
    from orchestrator.client.kb import RemoteKnowledgeBases
    from orchestrator.progress import Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A knowledge base, here or on a server; `progress` shows how far each step is."""

    bases: KnowledgeBases | RemoteKnowledgeBases
    kb: str
    scope_id: str | None
    progress: Stages

    async def add(
        self, files: Sequence[Found], document: Callable[..., NewDocument]
    ) -> tuple[list[AddedDocument], list[str]]:
        """Add files; return what came of them, and of which no document could be made, with the reasons."""
        added, passed = [], []
        told = self.progress.stage("Reading") if files else None
        for number, found in enumerate(files, 1):
            content = contents_of(found.path)
            if isinstance(content, str):
                passed.append(f"{found.uri}: {content}")
                continue
            try:
                added.append(await self.bases.add(self.kb, self.scope_id, document(uri=found.uri, content=content)))
            except InvalidInput as error:
                if error.field != "uri":
                    raise  # what is said of all of them
                passed.append(f"{found.uri}: {error.reason}")
            if told:
                told(number, len(files))
        return added, passed

    async def gone(self, folders: Sequence[Path], taken: Collection[str]) -> dict[str, DocumentId]:
        """Return the documents that were added from these folders and whose files are gone, by name.

        `taken` are the names of the files there, as read and as kept: without their secrets.
        """
        every = await self._every()
        known = {each.uri: each.document_id for each in every if each.source_id is None and each.uri not in taken}
        return {uri: known[uri] for folder in folders for uri in gone_from(folder, known)}

    async def delete(self, documents: Iterable[DocumentId]) -> None:
        """Delete documents for good, from the index too."""
        await self.bases.delete(self.kb, self.scope_id, list(documents))
        await self.bases.remove_stale()

    async def add_repositories(self, sources: Iterable[NewSource]) -> list[SyncReport]:
        """Add repositories, then fetch all of the base."""
        for source in sources:
            await self.bases.add_source(self.kb, self.scope_id, source)
        return await self.sync()

    async def sync(self) -> list[SyncReport]:
        """Fetch the repositories of the base."""
        self.progress.stage("Fetching")
        return await self.bases.sync(self.kb, self.scope_id)

    async def retry(self) -> int:
        """Have documents indexed again that failed or were put off; return how many."""
        return await self.bases.retry(self.kb, self.scope_id)

    async def waiting(self) -> list[DocumentId]:
        """Return what waits of the base: what others add elsewhere meanwhile is none of the command's business."""
        return [each.document_id for each in await self._every() if each.waiting]

    async def index(self, documents: Collection[DocumentId], changed: int) -> IndexReport:
        """Index these documents; progress is of what changed, or of more where more waited."""
        told = self.progress.stage("Indexing")

        def report(done: int, _total: int | None) -> None:
            if told:
                told(done, max(done, changed))

        return await self.bases.index(documents=documents, progress=told and report)

    async def _every(self) -> list[Document]:
        return await paged(
            lambda last, most: self.bases.list_documents(self.kb, self.scope_id, limit=most, after=last),
            lambda each: each.uri,
        )
