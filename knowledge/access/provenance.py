"""Provenance of entries, and the audit log: for reviews, revocations and verification."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hardwon.models.access import AffectedTask, AuditEntry, EntryFilter, FrequentPattern, KeyAlarm
from knowledge.models import ContextId, Entry, EntryId
from knowledge.ports import Clock

GENESIS_HASH = bytes(32)
"""The hash that the first row of a chain refers to."""
MAX_RECENT_ROWS = 1000
"""Rows of a chain that are searched for earlier records."""
AuditDetail = str | int | bool | None
"""A detail in the audit log: an id, number or name; never the text of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChainFilter(EntryFilter):
    """Filter by all keys of one rotation chain."""

    chain: tuple[str, ...]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of all keys of the chain."""
        return self.chain


class ProvenanceStore(Protocol):
    """Queries of entries by their provenance, in one workspace."""

    async def find_quarantined(self, *, limit: int, after: EntryId | None = None) -> list[Entry]:
        """Return quarantined entries, oldest first, starting after `after`. Raises NotFound if that one is gone."""

    async def approve(self, entry: Entry, by: str) -> Entry | None:
        """Release a quarantined entry as approved by a person; return None if it is not quarantined or has changed."""

    async def find_entries(self, selection: EntryFilter, *, limit: int) -> list[EntryId]:
        """Return the ids of up to `limit` matching entries."""

    async def count(self, selection: EntryFilter) -> int:
        """Return the number of matching entries."""

    async def count_outcomes(self, selection: EntryFilter) -> int:
        """Return the number of matching outcomes; none for a filter by entry id."""

    async def delete_outcomes(self, selection: EntryFilter, *, limit: int) -> int:
        """Delete up to `limit` matching outcomes and recount their patterns; return the number deleted."""

    async def affected_tasks(
        self, selection: EntryFilter, *, limit: int, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the contexts that were based on any matching entry, latest first, starting after `after`.

        With a filter by entry id, the entry may be deleted by now. Raises NotFound if the context `after` is gone.
        """

    async def tasks_of(self, context_ids: Sequence[ContextId]) -> list[AffectedTask]:
        """Return the tasks of those contexts that still exist."""

    async def find_frequent(self, *, since: datetime, least: int, times: int) -> list[FrequentPattern]:
        """Return patterns in at least `least` contexts, and in `times` times more than they have successes."""

    async def find_key_alarms(self, *, since: datetime, repeats: int, failures: int) -> list[KeyAlarm]:
        """Return the agents' keys that reported at least so many repeats, or failed so often, or contradicted at all.

        Those with the most reports come first.
        """


class AuditStore(Protocol):
    """Append-only hash chains of decisions."""

    async def append(self, workspace: str, *, at: datetime, who: str, what: str, details: str) -> AuditEntry:
        """Append a row to a workspace's chain, under an exclusive lock; "" is the chain of the whole store."""

    async def latest(self, workspace: str, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        """Return the last rows of a chain, latest first; those before the row with number `after`."""

    def rows(self, workspace: str) -> AsyncIterator[Sequence[AuditEntry]]:
        """Yield a chain in batches, from the first row on."""

    def is_keyed(self, row: AuditEntry) -> bool | None:
        """Return whether the hash of a row is one by a key, or a plain one; None where it is neither."""

    @property
    def has_keys(self) -> bool:
        """True where rows are hashed with a key now."""


@dataclass(frozen=True, slots=True)
class Auditor:
    """Writes decisions to the audit log with their author; does nothing without a store."""

    store: AuditStore | None = None
    clock: Clock | None = None
    workspace: str = ""
    who: str = "owner"

    async def record(self, what: str, **details: AuditDetail) -> None:
        """Append a decision to the log. Raises StorageUnavailable."""
        if self.store is not None and self.clock is not None:
            given: Mapping[str, AuditDetail] = {name: value for name, value in details.items() if value is not None}
            await self.store.append(
                self.workspace,
                at=self.clock.now(),
                who=self.who,
                what=what,
                details=json.dumps(given, sort_keys=True, ensure_ascii=True),
            )

    async def recent_details(self, what: str) -> list[dict[str, AuditDetail]]:
        """Return the details of the recent rows of one kind of decision, latest first."""
        if self.store is None:
            return []
        rows = await self.store.latest(self.workspace, limit=MAX_RECENT_ROWS)
        return [json.loads(row.details) for row in rows if row.what == what]


NO_AUDIT = Auditor()
"""Records nothing; for services that are constructed by hand."""
