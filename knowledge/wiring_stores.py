"""Open Postgres and the index, of this machine or of servers, as the settings say."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, suppress
from urllib.parse import urlsplit

from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.database import make_engine
from knowledge.adapters.postgres.identity import identity
from knowledge.adapters.qdrant_points import NOBODY_ELSE, Ownership
from knowledge.documents.ports import PassageIndex
from knowledge.errors import HardwonError, InvalidSetting
from knowledge.ports import Stores, VectorIndex
from knowledge.settings import KnowledgeSettings


async def connect_postgres(settings: KnowledgeSettings, stack: AsyncExitStack) -> AsyncEngine:
    """Connect to the database of the settings, or to a server of our own, until the end of the stack."""
    if settings.database_url is not None:
        address = settings.database_url.get_secret_value()
        engine = make_engine(address, connections=settings.database_connections)
    else:
        from knowledge.adapters.postgres.embedded import EmbeddedPostgres  # noqa: PLC0415

        server = EmbeddedPostgres(settings.home, keep=settings.pg_keep)
        cancelled = await _to_its_end(server.__enter__)
        stack.push_async_callback(_leave, server)
        if cancelled is not None:
            raise cancelled
        engine = make_engine(server.dsn, revive=server.ensure)
    stack.push_async_callback(engine.dispose)
    return engine


async def _to_its_end(work: Callable[[], object]) -> asyncio.CancelledError | None:
    """Run blocking work in a thread; return the cancellation that came meanwhile, if any.

    A thread goes on whatever becomes of those who wait for it, who have to know what it started. Raises what it raises.
    """
    ended = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled = None
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError as error:
            cancelled = error
    ended.result()
    return cancelled


async def _leave(server: AbstractContextManager[object]) -> None:
    cancelled = await _to_its_end(lambda: server.__exit__(None, None, None))
    if cancelled is not None:
        raise cancelled


def check_qdrant(settings: KnowledgeSettings) -> None:
    """Raise InvalidSetting for a Qdrant beyond this machine without a key: whoever reaches it reads and deletes all."""
    if settings.qdrant_url is None or settings.qdrant_api_key is not None or settings.open_qdrant:
        return
    if not _on_this_machine(urlsplit(settings.qdrant_url).hostname or ""):
        raise InvalidSetting(
            "HARDWON_QDRANT_API_KEY",
            f"{settings.qdrant_url} is beyond this machine, so give it a key (QDRANT__SERVICE__API_KEY of the server)"
            " and set it here; HARDWON_OPEN_QDRANT=true goes without",
        )


def _on_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


async def ownership_of(settings: KnowledgeSettings, engine: AsyncEngine) -> Ownership:
    """Return whose collections the indexes are, which matters on a Qdrant server alone."""
    if settings.qdrant_url is None:
        return NOBODY_ELSE
    return Ownership(store=await identity(engine), prefix=settings.qdrant_prefix)


def open_index(settings: KnowledgeSettings, ownership: Ownership) -> VectorIndex:
    """Return the index; with the embedded engine this process owns its directory from now on."""
    if settings.qdrant_url is None:
        from knowledge.adapters.qdrant_edge import QdrantEdgeIndex  # noqa: PLC0415

        return QdrantEdgeIndex(settings.home / "index")
    from knowledge.adapters.qdrant_server import connect as connect_qdrant  # noqa: PLC0415

    key = settings.qdrant_api_key
    return connect_qdrant(settings.qdrant_url, key.get_secret_value() if key else None, ownership)


async def collections_opened(stores: Stores, passages: PassageIndex) -> None:
    """Open what the embedded engine has on its disk, so that no question waits for it, and nobody beside it.

    It stops the process for 0.1 s with 20,000 points, for more after a kill (measured). Where it cannot be opened, or
    there is nothing yet, whoever asks it is told.
    """
    bound = await stores.spaces.bound()
    if bound is None:
        return
    for index in (stores.index, passages):
        with suppress(HardwonError):
            await index.count(bound.space, stores.workspace)
