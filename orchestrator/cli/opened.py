"""The workspace that a command asks of: one that holds nothing may be mistyped, and reads as if all were well."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from knowledge.errors import AccessDenied, NotFound
from knowledge.names import DEFAULT_WORKSPACE
from orchestrator.cli.terminal import also_in_json, notes
from orchestrator.connection import AnyKnowledge, connect


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
    with suppress(AccessDenied, NotFound):  # a key that may not know it; a server of before
        return await knowledge.holds_anything()
    return True
