"""Composition root: open the stores and the embedder that the settings name, and build the services on them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.validation import check_text
from knowledge.access.authentication import Authenticator
from knowledge.access.keys import load_pepper
from knowledge.access.provenance import Auditor
from knowledge.access.sessions import PageSessions
from knowledge.adapters.clocks import SystemClock
from knowledge.adapters.embedding.switch import EmbedderSwitch
from knowledge.adapters.owner_lock import OwnerLock, owner_lock
from knowledge.adapters.postgres.admin.access import PostgresKeys, PostgresSessions
from knowledge.adapters.postgres.admin.audit import PostgresAudit
from knowledge.adapters.postgres.engine.migrate import migrate
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.ports import Clock, Embedder
from knowledge.settings import KnowledgeSettings
from knowledge.wiring.answering import make_models
from knowledge.wiring.documents import make_converter, open_passages
from knowledge.wiring.facade import SERVICES, Knowledge
from knowledge.wiring.model_adapters import chat_of, make_chat, make_embedder, warm_up
from knowledge.wiring.seal_wiring import open_seals
from knowledge.wiring.services import make_knowledge, make_stores
from knowledge.wiring.stores import (
    check_qdrant,
    connect_postgres,
    load_ownership,
    migration_scripts,
    open_collections,
    open_index,
)

__all__ = [
    "SERVICES",
    "Knowledge",
    "SystemClock",
    "make_chat",
    "make_embedder",
    "migrate_stores",
    "open_knowledge",
]


def _tell(lock: OwnerLock | None, stage: str) -> None:
    if lock is not None:
        lock.write(stage=stage)


async def migrate_stores(settings: KnowledgeSettings) -> bool:
    """Migrate the database schema to this version; return whether it changed. Needs neither index nor embedder."""
    async with AsyncExitStack() as stack:
        return await migrate(await connect_postgres(settings, stack), migration_scripts())


def _make_sessions(engine: AsyncEngine, clock: Clock) -> PageSessions:
    audit = Auditor(store=PostgresAudit(engine), clock=clock)
    return PageSessions(store=PostgresSessions(engine), clock=clock, audit=audit)


@asynccontextmanager
async def open_knowledge(
    settings: KnowledgeSettings | None = None,
    *,
    workspace: str = DEFAULT_WORKSPACE,
    clock: Clock | None = None,
    embedder: Embedder | None = None,
    lock: OwnerLock | None = None,
    warm: bool = True,
    throwaway: bool = False,
) -> AsyncIterator[Knowledge]:
    """Open the stores, migrate the schema and yield the services; everything is closed again at the end.

    With the embedded index this process owns the data directory meanwhile. Raises StoreInUse, naming the owner, if
    another process does; use `hardwon.connect` to work beside it. Also raises InvalidSetting, StorageUnavailable
    or StoreIncompatible; Unavailable while the system clock is not set. `clock` and `embedder` override the settings;
    `lock` is one that this process holds already, whose record tells what a start waits for. Unless `warm`, the
    embedding model and the embedded index are opened when first used. `throwaway`: nothing has to outlive a crash.
    """
    settings = settings or KnowledgeSettings()
    clock = clock or SystemClock().check_set()
    check_text("workspace", workspace)
    chat_of(settings)
    check_qdrant(settings)
    models = make_models(settings)
    async with AsyncExitStack() as stack:
        if lock is None and settings.has_embedded_index:
            stack.enter_context(owner_lock(settings.home))
        embedder = EmbedderSwitch(embedder or make_embedder(settings))
        stack.push_async_callback(embedder.aclose)
        stack.push_async_callback(models.aclose)
        loading = asyncio.create_task(warm_up(settings, embedder) if warm else asyncio.sleep(0))
        try:
            _tell(lock, "Postgres to start" if settings.has_embedded_postgres else "Postgres to answer")
            engine = await connect_postgres(settings, stack, throwaway=throwaway)
            _tell(lock, "the schema of the database")
            await migrate(engine, migration_scripts())
            await open_seals(settings, engine, clock)
            ownership = await load_ownership(settings, engine)
            index = open_index(settings, ownership)
            stack.push_async_callback(index.aclose)
            passages = open_passages(settings, ownership)
            stack.push_async_callback(passages.aclose)
            _tell(lock, "the embedding model to load")
        finally:
            await asyncio.gather(loading, return_exceptions=True)
        loading.result()
        authenticator = Authenticator(
            store=PostgresKeys(engine),
            sessions=_make_sessions(engine, clock),
            pepper=functools.cache(functools.partial(load_pepper, settings.home, settings.key_pepper)),
            clock=clock,
        )
        stack.push_async_callback(authenticator.aclose)
        stores = make_stores(settings, engine, workspace, index=index, embedder=embedder, clock=clock)
        embedder.recognise_by(stores.spaces)
        if warm and settings.qdrant_url is None:
            await open_collections(stores, passages)
        yield make_knowledge(
            settings, engine, stores, authenticator, passages=passages, converter=make_converter(), models=models
        )
