"""Lists for people: entries and patterns filtered and sorted, and counts by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple, Protocol

from hardwon.models.lists import Attempt, PatternFacets, PatternSort, TrustLevel
from knowledge.models import Entry, EntryId, EntryStatus, EntryType, Evidence, PatternId


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryQuery:
    """Conditions on entries, all of which must hold; `words` begin words of their texts, in any case and order.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternQuery:
    """Conditions on patterns, all of which must hold; `words` begin words of one of its entries."""

    entry_type: EntryType | None = None
    technology: str | None = None
    agent_type: str | None = None
    project_id: str | None = None
    trust: TrustLevel | None = None
    tag: str | None = None
    words: tuple[str, ...] = ()


class PatternRow(NamedTuple):
    """A pattern of a list, with its last attempts as `ListedPattern` has them."""

    evidence: Evidence
    last_seen_at: datetime
    outcomes: str
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternPage:
    """A page of patterns, and, if requested, the counts of all; `is_capped`: there are more than were counted."""

    rows: Sequence[PatternRow]
    total: int | None = None
    is_capped: bool = False
    facets: PatternFacets | None = None


DayKey = tuple[date, str | None, str]
"""A day (UTC), a project or None, and the name of a count."""
DayCounts = Mapping[DayKey, int]


class ListStore(Protocol):
    """Lists of one workspace. A page begins behind an item of the page before."""

    async def entries(self, query: EntryQuery, *, after: EntryId | None, limit: int) -> list[Entry]:
        """Return entries, the latest first. Raises NotFound for an `after` that is gone."""
        ...

    async def patterns(
        self,
        query: PatternQuery,
        *,
        sort: PatternSort,
        after: PatternId | None,
        limit: int,
        now: datetime,
        with_facets: bool = False,
    ) -> PatternPage:
        """Return live patterns in an order. Raises NotFound for an `after` that is gone."""
        ...

    async def attempts(self, pattern_id: PatternId, *, limit: int) -> list[Attempt]:
        """Return the attempts at a pattern, the latest first; none for one that is not there."""
        ...

    async def day_counts(self, since: datetime) -> DayCounts:
        """Return counts by day from a time on.

        `captured`, and by results of first attempts `hinted_worked`, `hinted_failed`, `held_out_worked` and
        `held_out_failed`, have their project; `embedded`, and by contexts `given`, `silent`, `held_out` and `degraded`,
        have none.
        """
        ...
