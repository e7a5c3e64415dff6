"""Connections for callers that have a settings object: the names that `orchestrator` had before `hardwon.connect`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from hardwon import connection
from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.models.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from knowledge.settings import KnowledgeSettings
    from knowledge.wiring.open import Knowledge

AnyKnowledge: TypeAlias = "Knowledge | KnowledgeClient"
"""The services, in process or over HTTP, with the same methods."""


@asynccontextmanager
async def connect(
    settings: KnowledgeSettings | None = None, *, workspace: str = DEFAULT_WORKSPACE
) -> AsyncIterator[KnowledgeClient]:
    """Yield the services of a workspace, as `hardwon.connect` does, for the stores that the settings name."""
    given = None if settings is None else settings.to_environment()
    async with connection.connect(workspace=workspace, settings=given) as client:
        yield client
