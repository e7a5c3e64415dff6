"""The operations of commands on one knowledge base, with progress: add, fetch and index files and repositories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from hardwon.client.paging import fetch_pages
from hardwon.errors import InvalidInput
from hardwon.models.documents import Document, DocumentId
from orchestrator.cli.files.folders import SourceFile, find_deleted, read_contents

if TYPE_CHECKING:
    from hardwon.client.documents import RemoteKnowledgeBases
    from hardwon.models.documents import (
        AddedDocument,
        Document,
        DocumentId,
        IndexReport,
        NewDocument,
        NewSource,
        SyncReport,
    )
    from knowledge.documents.service import KnowledgeBases
    from orchestrator.observability.progress import Stages

_PARTS = 100
"""Steps of the progress of one document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A knowledge base, in process or on a server; `progress` shows the progress of each step."""

    bases: KnowledgeBases | RemoteKnowledgeBases
    kb: str
    scope_id: str | None
    progress: Stages

    async def add(
        self, files: Sequence[SourceFile], document: Callable[..., NewDocument]
    ) -> tuple[list[AddedDocument], list[str]]:
        """Add files; return the results, and the errors of files that could not become documents."""
        added, errors = [], []
        report = self.progress.stage("Reading") if files else None
        for number, found in enumerate(files, 1):
            content = read_contents(found.path)
            if isinstance(content, str):
                errors.append(f"{found.uri}: {content}")
                continue
            try:
                added.append(await self.bases.add(self.kb, self.scope_id, document(uri=found.uri, content=content)))
            except InvalidInput as error:
                if error.field != "uri":
                    raise  # the same for all of them
                errors.append(f"{found.uri}: {error.reason}")
            if report:
                report(number, len(files))
        return added, errors

    async def find_deleted(self, folders: Sequence[Path], taken: Collection[str]) -> dict[str, DocumentId]:
        """Return the documents that were added from these folders and whose files do not exist any more, by name.

        `taken` are the names of the files that do exist, as read and as stored, with secrets redacted.
        """
        documents = await self._list_documents()
        candidates = {
            each.uri: each.document_id for each in documents if each.source_id is None and each.uri not in taken
        }
        return {uri: candidates[uri] for folder in folders for uri in find_deleted(folder, candidates)}

    async def delete(self, documents: Iterable[DocumentId]) -> None:
        """Delete documents permanently, also from the index."""
        await self.bases.delete(self.kb, self.scope_id, list(documents))
        await self.bases.remove_stale()

    async def add_repositories(self, sources: Iterable[NewSource]) -> list[SyncReport]:
        """Add repositories, then fetch all repositories of the base."""
        for source in sources:
            await self.bases.add_source(self.kb, self.scope_id, source)
        return await self.sync()

    async def sync(self) -> list[SyncReport]:
        """Fetch the repositories of the base."""
        self.progress.stage("Fetching")
        return await self.bases.sync(self.kb, self.scope_id)

    async def retry(self) -> int:
        """Queue documents again that failed or were postponed; return their number."""
        return await self.bases.retry(self.kb, self.scope_id)

    async def list_waiting(self) -> list[DocumentId]:
        """Return the documents of this base that wait to be indexed."""
        return [each.document_id for each in await self._list_documents() if each.waiting]

    async def index(self, documents: Collection[DocumentId], changed: int) -> IndexReport:
        """Index these documents; the progress is in hundredths of `changed`, or of more if more were waiting."""
        progress = self.progress.stage("Indexing")

        def report(done: int, _total: int | None) -> None:
            if progress:
                progress(done, max(done, _PARTS * changed))

        return await self.bases.index(documents=documents, progress=progress and report)

    async def _list_documents(self) -> list[Document]:
        return await fetch_pages(
            lambda last, most: self.bases.list_documents(self.kb, self.scope_id, limit=most, after=last),
            lambda each: each.uri,
        )


class DocumentList(Protocol):
    """The list of the documents of a base, in process or on a server."""

    async def list_documents(self, kb: str, scope_id: str | None, *, limit: int, after: str | None) -> list[Document]:
        """Return documents ordered by name."""


async def document_ids(kb: DocumentList, base: str, scope_id: str | None, names: Iterable[str]) -> list[DocumentId]:
    """Return the ids of documents, each once. Raises InvalidInput for an unknown name."""
    names = list(dict.fromkeys(names))
    found = {name: document_id for name in names if (document_id := _parse_id(name)) is not None}
    if len(found) < len(names):
        every = await fetch_pages(
            lambda last, most: kb.list_documents(base, scope_id, limit=most, after=last), lambda each: each.uri
        )
        by_name = {each.uri: each.document_id for each in every}
        for name in names:
            if name not in found:
                if name not in by_name:
                    raise InvalidInput("document", f"there is no {name} here: hardwon kb list shows ids and names")
                found[name] = by_name[name]
    return list(dict.fromkeys(found.values()))


def _parse_id(name: str) -> DocumentId | None:
    try:
        return DocumentId(UUID(name))
    except ValueError:
        return None


async def delete_everything(kb: KnowledgeBases | RemoteKnowledgeBases, base: str, scope_id: str | None) -> int:
    """Delete all documents of a base, and its repositories; return their number. The base takes new ones."""
    deleted = 0
    for source in await kb.sources(base, scope_id):
        deleted += await kb.forget_source(base, scope_id, source.source_id)
    while found := await kb.list_documents(base, scope_id, limit=500, after=None):
        deleted += await kb.delete(base, scope_id, [each.document_id for each in found])
    return deleted
