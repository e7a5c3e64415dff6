"""Lists for people: entries and patterns filtered and sorted, and counts by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from knowledge.models import Entry, EntryId, EntryStatus, EntryType


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryQuery:
    """Conditions on entries, all of which must hold; `words` occur in their texts, in any case and order.

    Without a status all entries but those that wait for a review. `until` is exclusive.
    """

    project_id: str | None = None
    status: EntryStatus | None = None
    entry_type: EntryType | None = None
    technology: str | None = None
    agent_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    words: tuple[str, ...] = ()


class ListStore(Protocol):
    """Lists of one workspace. A page begins behind an item of the page before."""

    async def entries(self, query: EntryQuery, *, after: EntryId | None, limit: int) -> list[Entry]:
        """Return entries, the latest first. Raises NotFound for an `after` that is gone."""
        ...
