"""The grouping of patterns over HTTP, with the names and arguments it has in process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.forms import as_id
from knowledge.memory.grouping import PatternDetails, PatternPair
from knowledge.models import EntryId, Pattern, PatternId
from orchestrator.client.calls import Api


@dataclass(frozen=True, slots=True)
class RemoteGrouping:
    """`PatternGroupingService` over HTTP."""

    api: Api

    async def suggest(self, *, limit: int = 20) -> list[PatternPair]:
        """Return patterns that are likely the same, for a person to join, the likeliest first."""
        return await self.api.call("GET", "/v1/patterns:suggest", list[PatternPair], params={"limit": limit})

    async def show(self, pattern_id: PatternId) -> PatternDetails:
        """Return a live pattern with its entries, likely twins and rivals."""
        return await self.api.call("GET", f"/v1/patterns/{as_id('pattern_id', pattern_id)}/details", PatternDetails)

    async def join(self, keep: PatternId, other: PatternId) -> Pattern:
        """Make two patterns one, for good; returns the one that is kept."""
        keep, other = PatternId(as_id("keep", keep)), PatternId(as_id("other", other))
        return await self.api.call("POST", f"/v1/patterns/{keep}/join", Pattern, body={"other": str(other)})

    async def split(self, entry_ids: Sequence[EntryId]) -> Pattern:
        """Give entries of a pattern, and those with the same words, one of their own, for good; return it."""
        body = {"entry_ids": [str(as_id("entry_ids", entry_id)) for entry_id in entry_ids]}
        return await self.api.call("POST", "/v1/patterns:split", Pattern, body=body)
