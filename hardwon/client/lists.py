"""Lists for people over HTTP: entries and patterns filtered, sorted and counted."""

from __future__ import annotations

import builtins
from datetime import datetime
from typing import Annotated

from pydantic import Field

from hardwon.client.fields import LAST, Limit
from hardwon.client.operations import Operation, Service, Wire
from hardwon.models.entries import Entry
from hardwon.models.ids import EntryId

_Project = Annotated[str | None, Wire(name="project", field="project"), Field(description="Only of this project.")]
_Agent = Annotated[
    str | None, Wire(name="agent", field="agent"), Field(description="Only those of this type of agent.")
]
_Technology = Annotated[str | None, Field(description="Only those of this technology.")]
_Words = Annotated[
    str | None, Field(description="Words that each occur in the stored texts, in any case; at most eight.")
]


class RemoteLists(Service, name="lists", tag="lists", scopes=("query",)):
    """`ListService` over HTTP."""

    @Operation("GET", "/v1/entries", operation_id="list_entries", problems=(404,), cursor="entry_id")
    async def entries(
        self,
        *,
        project_id: _Project = None,
        status: Annotated[str | None, Field(description="open, staged, embedded, dead or abandoned.")] = None,
        entry_type: Annotated[
            str | None,
            Wire(name="type", field="type"),
            Field(description="failure_solution, gate_rejection or gate_approval."),
        ] = None,
        technology: _Technology = None,
        agent_type: _Agent = None,
        q: _Words = None,
        since: Annotated[datetime | None, Field(description="Captured at this time or later.")] = None,
        until: Annotated[datetime | None, Field(description="Captured before this time.")] = None,
        limit: Limit = 50,
        after: Annotated[EntryId | None, LAST] = None,
    ) -> builtins.list[Entry]:
        """Return entries, the latest first; what waits for a review is not among them."""
