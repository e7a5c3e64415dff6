"""The grouping of patterns over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from knowledge.memory.grouping import MAX_SUGGESTIONS, PatternDetails, PatternPair
from knowledge.models import EntryId, Pattern, PatternId
from orchestrator.client.table import Operation, Service, Wire

_MAX_SPLIT = 1000


class RemoteGrouping(Service, name="grouping", tag="patterns", scopes=("review",)):
    """`PatternGroupingService` over HTTP."""

    @Operation("GET", "/v1/patterns:suggest", problems=(409,))
    async def suggest(self, *, limit: Annotated[int, Field(ge=1, le=MAX_SUGGESTIONS)] = 20) -> list[PatternPair]:
        """Return pairs of patterns that are likely the same, for a person to join, the likeliest first."""

    @Operation("GET", "/v1/patterns/{pattern_id}/details", problems=(409,))
    async def show(self, pattern_id: PatternId) -> PatternDetails:
        """Return a live pattern with its entries, likely twins and rivals."""

    @Operation("POST", "/v1/patterns/{pattern_id}/join", problems=(409,))
    async def join(self, keep: Annotated[PatternId, Wire(name="pattern_id")], other: PatternId) -> Pattern:
        """Join another pattern to one, for good; return the one that is kept."""

    @Operation("POST", "/v1/patterns:split", status=201, problems=(404, 409))
    async def split(self, entry_ids: Annotated[Sequence[EntryId], Field(max_length=_MAX_SPLIT)]) -> Pattern:
        """Move entries of a pattern, and those with the same words, to a new one, for good; return it."""
