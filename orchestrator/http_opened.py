"""Whose knowledge a request is about, and who is told how far its work is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import unquote_to_bytes
from uuid import UUID

from fastapi import Depends, Header, Query, Request

from knowledge.errors import InvalidInput
from knowledge.models import DEFAULT_WORKSPACE
from knowledge.ports import Progress
from knowledge.wiring import Knowledge
from orchestrator.calls import WORKSPACE_HEADER, Done


def opened(request: Request, workspace: Annotated[str | None, Header(alias=WORKSPACE_HEADER)] = None) -> Knowledge:
    """Return the services as whoever sent a request has them. Raises InvalidInput for no name of a workspace."""
    knowledge: Knowledge = request.app.state.knowledge
    if workspace is None:
        return knowledge.in_workspace(DEFAULT_WORKSPACE)
    try:
        named = unquote_to_bytes(workspace.encode("latin-1")).decode()  # percent-encoded, or UTF-8 as it is
    except UnicodeDecodeError as error:
        raise InvalidInput("workspace", f"is not UTF-8 in the header {WORKSPACE_HEADER}") from error
    return knowledge.in_workspace(named)


Open = Annotated[Knowledge, Depends(opened)]


async def _told(
    request: Request,
    operation: Annotated[UUID | None, Query(description="An id of the caller's, to ask how far the work is.")] = None,
) -> AsyncIterator[Progress | None]:
    """Give what long work tells its progress to, while the request lasts, if the caller gave it a name to ask by."""
    if operation is None:
        yield None
        return
    under_way: dict[UUID, Done] = request.app.state.under_way

    def told(done: int, total: int | None) -> None:
        under_way[operation] = Done(done=done, total=total)

    told(0, None)
    try:
        yield told
    finally:
        under_way.pop(operation, None)


Told = Annotated[Progress | None, Depends(_told)]
