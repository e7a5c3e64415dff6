"""Open Postgres and the vector index that the settings name, embedded or on servers."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sqlalchemy.ext.asyncio import AsyncEngine

from hardwon.errors import HardwonError, InvalidSetting
from knowledge.adapters.postgres.engine.database import identity, make_engine
from knowledge.adapters.qdrant.payloads import SOLE_USER, Ownership
from knowledge.documents.ports import PassageIndex
from knowledge.ports import Stores, VectorIndex
from knowledge.settings import KnowledgeSettings

if TYPE_CHECKING:
    from knowledge.adapters.qdrant.cluster.layout import Layout


async def connect_postgres(
    settings: KnowledgeSettings, stack: AsyncExitStack, *, throwaway: bool = False
) -> AsyncEngine:
    """Connect to the configured database, or start the embedded server; both are released with the stack.

    `throwaway`: nothing in an embedded server has to outlive a crash.
    """
    if settings.database_url is not None:
        address = settings.database_url.get_secret_value()
        engine = make_engine(address, connections=settings.database_connections)
    else:
        from knowledge.adapters.postgres.engine.embedded_server import (  # noqa: PLC0415
            THROWAWAY,
            EmbeddedPostgres,
        )

        server = EmbeddedPostgres(settings.home, settings=THROWAWAY if throwaway else None, keep=settings.pg_keep)
        cancelled = await _run_to_end(server.__enter__)
        stack.push_async_callback(_stop, server)
        if cancelled is not None:
            raise cancelled
        engine = make_engine(server.dsn, revive=server.ensure)
    stack.push_async_callback(engine.dispose)
    return engine


async def _run_to_end(work: Callable[[], object]) -> asyncio.CancelledError | None:
    """Run blocking work in a thread to its end; return the cancellation that arrived meanwhile, if any.

    A thread cannot be cancelled, and the caller must clean up what it started. Raises the errors of `work`.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    future.result()
    return cancelled


async def _stop(server: AbstractContextManager[object]) -> None:
    cancelled = await _run_to_end(lambda: server.__exit__(None, None, None))
    if cancelled is not None:
        raise cancelled


def check_qdrant(settings: KnowledgeSettings) -> None:
    """Raise InvalidSetting for a remote Qdrant without a key: anyone who can reach it could read and delete all."""
    if settings.qdrant_api_key is not None or settings.open_qdrant:
        return
    for address in settings.qdrant_urls:
        if _on_this_machine(urlsplit(address).hostname or ""):
            continue
        raise InvalidSetting(
            "HARDWON_QDRANT_API_KEY",
            f"{address} is on another machine, so give it a key (QDRANT__SERVICE__API_KEY of the server)"
            " and set it here, or set HARDWON_OPEN_QDRANT=true to go without one",
        )


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


async def load_ownership(settings: KnowledgeSettings, engine: AsyncEngine) -> Ownership:
    """Return the owner of the collections, which only matters on a Qdrant server."""
    if settings.qdrant_url is None:
        return SOLE_USER
    return Ownership(store=await identity(engine), prefix=settings.qdrant_prefix)


def open_index(settings: KnowledgeSettings, ownership: Ownership) -> VectorIndex:
    """Return the vector index; with the embedded engine, this process owns its directory from now on."""
    if settings.qdrant_url is None:
        from knowledge.adapters.qdrant.edge import QdrantEdgeIndex  # noqa: PLC0415

        return QdrantEdgeIndex(settings.home / "index")
    from knowledge.adapters.qdrant.server import connect as connect_qdrant  # noqa: PLC0415

    key = settings.qdrant_api_key
    secret = key.get_secret_value() if key else None
    return connect_qdrant(settings.qdrant_urls, secret, ownership, index_layout(settings))


def index_layout(settings: KnowledgeSettings) -> Layout:
    """Return the layout of the collections on a Qdrant server that the settings ask for."""
    from knowledge.adapters.qdrant.cluster.layout import Layout, Quantization  # noqa: PLC0415 - heavy

    return Layout(
        replication=settings.qdrant_replication,
        shards=settings.qdrant_shards,
        quantization=Quantization(settings.qdrant_quantization),
        on_disk=settings.qdrant_on_disk,
    )


async def open_collections(stores: Stores, passages: PassageIndex) -> None:
    """Open the collections of the embedded engine, so that the first queries do not wait for it.

    It blocks the process for 0.1 s with 20,000 points, longer after a kill (measured). Errors are ignored here; queries
    report them.
    """
    bound = await stores.spaces.bound()
    if bound is None:
        return
    for index in (stores.index, passages):
        with suppress(HardwonError):
            await index.count(bound.space, stores.workspace)


def migration_scripts() -> Path:
    """Return the folder of the Alembic scripts as installed."""
    spec = find_spec("migrations")
    assert spec is not None and spec.origin is not None  # noqa: S101, PT018 - it is a package of this distribution
    return Path(spec.origin).parent
