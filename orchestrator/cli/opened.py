"""The workspace that a command asks of: one that holds nothing may be mistyped, and reads as if all were well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from knowledge.errors import HardwonError
from knowledge.names import DEFAULT_WORKSPACE
from orchestrator.cli.terminal import also_in_json, notes
from orchestrator.connection import AnyKnowledge, connect

_MOST_SECONDS = 1.0
"""What a command waits for that answer, which is no part of its own; ours."""


@asynccontextmanager
async def opened(workspace: str, *, as_json: bool, warm: bool = True) -> AsyncIterator[AnyKnowledge]:
    """Connect for a command that finds what is there; tell first where the workspace that was named holds nothing.

    On standard error, or in the JSON document. It is no error, as nothing is stored yet where somebody begins.
    """
    async with connect(workspace=workspace, warm=warm) as knowledge:
        if workspace != DEFAULT_WORKSPACE and not await _holds_anything(knowledge):
            if as_json:
                also_in_json(empty_workspace=workspace)
            else:
                text = f"workspace {workspace} holds nothing: hardwon workspace list names those that hold anything"
                notes.print(text, markup=False)
        yield knowledge


async def _holds_anything(knowledge: AnyKnowledge) -> bool:
    with suppress(HardwonError, TimeoutError):  # the command itself says what is wrong, and a context is never late
        async with asyncio.timeout(_MOST_SECONDS):
            return await knowledge.holds_anything()
    return True
