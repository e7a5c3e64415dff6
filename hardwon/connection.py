"""Connections to the memory: of a server, or of the owner process of a data directory, which is started if need be."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.client.transport import prepare
from hardwon.errors import InvalidSetting
from hardwon.event_log import get_logger
from hardwon.models.ids import DEFAULT_WORKSPACE
from hardwon.models.tasks import Context
from hardwon.owner.environment import OwnerSettings
from hardwon.owner.launch import OwnerLink
from hardwon.owner.requests import OwnerTransport
from hardwon.settings import ClientSettings, check_http

_SOCKET_URL = "http://hardwon"
log = get_logger(__name__)


@asynccontextmanager
async def connect(
    *,
    workspace: str = DEFAULT_WORKSPACE,
    settings: Mapping[str, str] | None = None,
    on_wait: Callable[[str], None] | None = None,
    patience: float = 0.0,
    warm: bool = True,
) -> AsyncIterator[KnowledgeClient]:
    """Yield the services of a workspace.

    With HARDWON_API_URL they are those of that server, else those of the owner process of the data directory
    (HARDWON_HOME), which is started, detached, where none runs; it is ready when this yields. `settings` replace
    variables of the environment, by name. `on_wait` gets a sentence if a start is slow, or if a server has no keys, so
    that HARDWON_API_KEY opens nothing; by default it is logged. `patience`: seconds to wait for an owner that is too
    busy to answer, before that is an error; 20 without it. Unless `warm`, the first context waits for what its answer
    is parsed with. Raises InvalidSetting, also where an owner has other stores than the settings say,
    StorageUnavailable, StoreInUse or StoreIncompatible where no owner can start.
    """
    environment = {**os.environ, **(settings or {})}
    context_settings = ClientSettings.from_environment(environment)
    if warm:
        await asyncio.to_thread(prepare, Context)
    if url := environment.get("HARDWON_API_URL", "").strip():
        try:
            check_http(url)
        except ValueError as error:
            raise InvalidSetting("HARDWON_API_URL", str(error)) from None
        key = environment.get("HARDWON_API_KEY", "").strip() or None
        bound = None if workspace == DEFAULT_WORKSPACE else workspace  # a key has a default workspace of its own

        def note_unused_key() -> None:
            what = f"HARDWON_API_KEY is ignored: {url} has no keys, so whoever reaches it may do everything there"
            if on_wait is None:
                log.warning("key_ignored", reason=what)
            else:
                on_wait(what)

        async with KnowledgeClient(
            url, key, workspace=bound, settings=context_settings, on_unused_key=note_unused_key
        ) as client:
            yield client
        return
    link = OwnerLink(OwnerSettings.from_environment(environment), patience=patience)
    if on_wait is not None:
        link.on_wait = on_wait
    try:
        await link.find()
        async with KnowledgeClient(
            _SOCKET_URL,
            workspace=workspace,
            settings=context_settings,
            transport=OwnerTransport(link),
            place=f"the owner of {link.settings.home}",
        ) as client:
            yield client
    finally:
        await link.aclose()
