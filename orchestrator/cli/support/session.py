"""The workspace of a command that reads, with a warning if it is empty: its name may be mistyped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from hardwon import connection
from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import HardwonError
from hardwon.models.ids import DEFAULT_WORKSPACE
from orchestrator.cli.support.terminal import add_to_json, notes

_TIMEOUT_SECONDS = 1.0
"""Seconds that a command waits for this check, which is not part of its own work; ours."""

_PATIENCE_SECONDS = 120.0
"""Seconds that a command waits for an owner that is busy; whoever typed it sees what it waits for, and can end it."""


@asynccontextmanager
async def connect(workspace: str = DEFAULT_WORKSPACE) -> AsyncIterator[KnowledgeClient]:
    """Connect for a command, which waits until there is an answer, and says so if that takes seconds."""
    async with connection.connect(
        workspace=workspace, on_wait=_tell, patience=_PATIENCE_SECONDS, warm=False
    ) as knowledge:
        yield knowledge


def _tell(what: str) -> None:
    notes.print(f"hardwon: {what}")


@asynccontextmanager
async def open_workspace(workspace: str, *, as_json: bool) -> AsyncIterator[KnowledgeClient]:
    """Connect for a command that reads; warn first if the named workspace is empty.

    The warning is on standard error, or in the JSON document. It is not an error: a new workspace is empty.
    """
    async with connect(workspace=workspace) as knowledge:
        if workspace != DEFAULT_WORKSPACE and not await _holds_anything(knowledge):
            if as_json:
                add_to_json(empty_workspace=workspace)
            else:
                text = f"workspace {workspace} is empty: hardwon workspace list names those that are not"
                notes.print(text)
        yield knowledge


async def _holds_anything(knowledge: KnowledgeClient) -> bool:
    with suppress(HardwonError, TimeoutError):  # the command reports errors itself, and a context must not be late
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return await knowledge.holds_anything()
    return True
