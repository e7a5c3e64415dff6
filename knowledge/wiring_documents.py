"""Put the services of documents on open stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.document_indexing import PostgresIndexing
from knowledge.adapters.postgres.document_passages import PostgresPassages
from knowledge.adapters.postgres.documents import PostgresDocuments, PostgresGrants
from knowledge.documents.access import BASES, AccessPolicy
from knowledge.documents.indexing import DocumentIndexing, Room
from knowledge.documents.library import DocumentLibrary
from knowledge.documents.parsing import Unreadable
from knowledge.documents.ports import Converted, Converter, PassageIndex
from knowledge.documents.searching import DocumentSearch
from knowledge.documents.service import Documents
from knowledge.documents.summarising import MapReduceSummaries
from knowledge.errors import SpaceMismatch
from knowledge.memory.locality import Within
from knowledge.ports import ChatModel, Stores
from knowledge.search.calibration import shipped
from knowledge.search.lexical import DEFAULT_MEAN_TERMS
from knowledge.settings import KnowledgeSettings


def open_passages(settings: KnowledgeSettings) -> PassageIndex:
    """Return the index of passages; with the embedded engine this process owns its directory from now on."""
    if settings.qdrant_url is None:
        from knowledge.adapters.passages_edge import EdgePassages  # noqa: PLC0415

        return EdgePassages(settings.home / "documents")
    from knowledge.adapters.passages_server import connect  # noqa: PLC0415

    key = settings.qdrant_api_key
    return connect(settings.qdrant_url, key.get_secret_value() if key else None)


@dataclass(frozen=True, slots=True)
class _Rooms:
    """The embedding space of the store, which documents share with what was learned."""

    stores: Stores

    async def __call__(self) -> Room:
        """Return the space in use and what embeds in it, within what the workspace allows."""
        spaces, embedder = self.stores.spaces, self.stores.embedder
        bound = await spaces.bound()
        if bound is None:
            space = await embedder.space()
            calibration = shipped(space.model)
            bound = await spaces.bind(space, mean_terms=DEFAULT_MEAN_TERMS, calibration=calibration)
        fitting = await embedder.of_space(bound.space)
        asked = await fitting.space()
        if asked.fingerprint != bound.space.fingerprint:
            raise SpaceMismatch(bound.space, asked)
        return Room(space=bound.space, embedder=Within(self.stores, fitting))


class _NoConverter(Converter):
    async def convert(self, uri: str, content: bytes) -> Converted:  # noqa: ARG002 - it reads none
        """Refuse."""
        raise Unreadable("its format is read with the extra: pip install 'hardwon[documents]'")


def _remote_allowed(stores: Stores) -> Callable[[], Awaitable[bool]]:
    async def allowed() -> bool:
        return not await stores.spaces.local_only()

    return allowed


def make_documents(
    settings: KnowledgeSettings,
    engine: AsyncEngine,
    stores: Stores,
    index: PassageIndex,
    *,
    chat: Callable[[], ChatModel] | None,
) -> Documents:
    """Return the services of documents of one workspace."""
    workspace = stores.workspace
    room = _Rooms(stores)
    passages = PostgresPassages(engine, workspace)
    access = AccessPolicy(workspace, PostgresGrants(engine, workspace), BASES)
    return Documents(
        workspace=workspace,
        access=access,
        library=DocumentLibrary(
            documents=PostgresDocuments(engine, workspace),
            access=access,
            converter=_NoConverter(),
            redaction=settings.redaction,
        ),
        indexing=DocumentIndexing(
            store=PostgresIndexing(engine, workspace),
            index=index,
            room=room,
            clock=stores.clock,
            workspace=workspace,
            lease=settings.lease,
            summariser=None if chat is None else MapReduceSummaries(open_chat=chat, allowed=_remote_allowed(stores)),
        ),
        search=DocumentSearch(passages=passages, index=index, room=room),
        quotes=passages,
    )
