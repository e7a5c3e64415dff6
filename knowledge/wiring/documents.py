"""Build the document services on open stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.models.documents import SourceId
from knowledge.adapters.embedding.local import is_english
from knowledge.adapters.postgres.documents.answers import PostgresAnswers
from knowledge.adapters.postgres.documents.documents import PostgresDocuments, PostgresGrants
from knowledge.adapters.postgres.documents.indexing import PostgresIndexing
from knowledge.adapters.postgres.documents.logs import PostgresLogs
from knowledge.adapters.postgres.documents.passages import PostgresPassages
from knowledge.adapters.postgres.documents.reindex import PostgresMoving
from knowledge.adapters.postgres.documents.rewriting import PostgresRewriting
from knowledge.adapters.postgres.documents.sources import PostgresSources
from knowledge.adapters.qdrant.payloads import Ownership
from knowledge.documents.access import BASES, AccessPolicy
from knowledge.documents.ingestion.calibration import ScaleCalibration
from knowledge.documents.ingestion.document_redaction import DocumentRedactionService
from knowledge.documents.ingestion.git_sync import GitSync
from knowledge.documents.ingestion.queue import ActiveSpace, DocumentIndexing
from knowledge.documents.ingestion.reconcile import DocumentUpkeep
from knowledge.documents.ingestion.reindex import DocumentMoves
from knowledge.documents.ingestion.service import DocumentLibrary, MapReduceSummaries
from knowledge.documents.logs.service import LogEvidence
from knowledge.documents.ports import Converter, DocumentStore, PassageIndex, Repositories, Repository, Source
from knowledge.documents.retrieval.search import DocumentSearch
from knowledge.documents.service import Documents
from knowledge.memory.index.residency import WorkspaceEmbedder
from knowledge.ports import ChatModel, Stores
from knowledge.retrieval.calibration import default_calibration
from knowledge.retrieval.space_mismatch import space_mismatch
from knowledge.settings import KnowledgeSettings
from knowledge.text.bm25 import DEFAULT_MEAN_TERMS
from knowledge.wiring.stores import index_layout


def open_passages(settings: KnowledgeSettings, ownership: Ownership) -> PassageIndex:
    """Return the index of passages; with the embedded engine, this process owns its directory from now on."""
    if settings.qdrant_url is None:
        from knowledge.adapters.qdrant.passages_edge import EdgePassages  # noqa: PLC0415

        return EdgePassages(settings.home / "documents")
    from knowledge.adapters.qdrant.passages_server import connect  # noqa: PLC0415

    key = settings.qdrant_api_key
    secret = key.get_secret_value() if key else None
    return connect(settings.qdrant_urls, secret, ownership, index_layout(settings))


@dataclass(frozen=True, slots=True)
class _OpenRoom:
    """Callable for the embedding space of the store, which documents share with the learned patterns."""

    stores: Stores

    async def __call__(self) -> ActiveSpace:
        """Return the space in use and its embedder, limited to what the workspace allows."""
        spaces, embedder = self.stores.spaces, self.stores.embedder
        bound = await spaces.bound()
        if bound is None:
            space = await embedder.space()
            calibration = default_calibration(space.model)
            bound = await spaces.bind(space, mean_terms=DEFAULT_MEAN_TERMS, calibration=calibration)
            await self.stores.index.ensure(bound.space)  # as the first checkpoint does; queries need a collection
        embedder_of_space = await embedder.embedder_for(bound.space)
        actual = await embedder_of_space.space()
        if actual.fingerprint != bound.space.fingerprint:
            raise space_mismatch(bound.space, actual)
        return ActiveSpace(space=bound.space, embedder=WorkspaceEmbedder(self.stores, embedder_of_space))


def make_converter() -> Converter:
    """Return the converter of formats other than text, which runs in subprocesses; shared by all workspaces."""
    from knowledge.adapters.files.conversion import SubprocessConverter  # noqa: PLC0415

    return SubprocessConverter()


@dataclass(frozen=True, slots=True)
class _Repositories(Repositories):
    """Git repositories; their library is loaded when the first one is fetched."""

    settings: KnowledgeSettings

    def fetch(self, source: Source) -> AbstractAsyncContextManager[tuple[str, Repository]]:
        """Fetch a source."""
        return self._repositories().fetch(source)

    async def forget(self, source_id: SourceId) -> None:
        """Delete the fetched copy of a source."""
        await self._repositories().forget(source_id)

    def _repositories(self) -> Repositories:
        from knowledge.adapters.files.git_repositories import GitRepositories  # noqa: PLC0415

        return GitRepositories(self.settings.home / "git", inside=self.settings.fetch_inside)


def _may_use_endpoints(stores: Stores) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return not await stores.spaces.local_only()

    return check


def make_documents(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    stores: Stores,
    index: PassageIndex,
    converter: Converter,
    *,
    chat: Callable[[], ChatModel] | None,
) -> Documents:
    """Return the document services of one workspace."""
    workspace = stores.workspace
    room = _OpenRoom(stores)
    passages = PostgresPassages(engine, workspace)
    store = PostgresDocuments(engine, workspace)
    library = DocumentLibrary(
        documents=store,
        access=AccessPolicy(workspace, PostgresGrants(engine, workspace), BASES),
        converter=converter,
        clock=stores.clock,
        redaction=settings.redaction,
        case_retention=timedelta(days=settings.case_retention_days),
    )
    indexing = _make_indexing(engine, stores, index, room, chat=chat)
    return Documents(
        workspace=workspace,
        access=library.access,
        library=library,
        indexing=indexing,
        search=DocumentSearch(
            passages=passages,
            index=index,
            active_space=room,
            is_word=is_english,
        ),
        evidence=LogEvidence(logs=PostgresLogs(engine, workspace), passages=passages),
        quotes=passages,
        calibration=ScaleCalibration(passages=passages, active_space=room),
        syncing=_make_sync(settings, engine, workspace, store, library),
        upkeep=DocumentUpkeep(
            indexing=indexing,
            library=library,
            spaces=stores.spaces,
            answers=PostgresAnswers(engine, workspace, stores.clock),
        ),
    )


def _make_indexing(
    engine: AsyncEngine,
    stores: Stores,
    index: PassageIndex,
    room: _OpenRoom,
    *,
    chat: Callable[[], ChatModel] | None,
) -> DocumentIndexing:
    return DocumentIndexing(
        store=PostgresIndexing(engine, stores.workspace),
        index=index,
        active_space=room,
        clock=stores.clock,
        workspace=stores.workspace,
        summariser=None if chat is None else MapReduceSummaries(open_chat=chat, allowed=_may_use_endpoints(stores)),
    )


def _make_sync(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    workspace: str,
    documents: DocumentStore,
    library: DocumentLibrary,
) -> GitSync:
    return GitSync(
        store=PostgresSources(engine, workspace),
        documents=documents,
        library=library,
        repositories=_Repositories(settings),
        allowed=settings.fetch_from,
    )


def make_document_redaction(engine: AsyncEngine, workspace: str, documents: Documents) -> DocumentRedactionService:
    """Return the service that redacts the stored documents of one workspace again."""
    return DocumentRedactionService(store=PostgresRewriting(engine, workspace), indexing=documents.indexing)


def make_moves(engine: AsyncEngine, stores: Stores, documents: Documents) -> DocumentMoves:
    """Return the service that rebuilds, re-embeds or imports the documents of one workspace."""
    return DocumentMoves(
        store=PostgresMoving(engine, stores.workspace),
        upkeep=documents.upkeep,
        within=lambda embedder: WorkspaceEmbedder(stores, embedder),
    )
