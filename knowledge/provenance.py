"""Provenance of entries, and the audit log: for reviews, revocations and verification."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Protocol

from knowledge.models import ContextId, Entry, EntryId, PatternId
from knowledge.ports import Clock

GENESIS_HASH = bytes(32)
"""The hash that the first row of a chain refers to."""

MAX_RECENT_ROWS = 1000
"""Rows of a chain that are searched for earlier records."""

AuditDetail = str | int | bool | None
"""A detail in the audit log: an id, number or name; never the text of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Filter of entries and outcomes; all conditions must hold.

    `key_id`: captured, resolved or recorded with that key. `since`, `until`: the time of capture or recording.
    """

    key_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    entry_id: EntryId | None = None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the selected keys; empty without a condition on the key."""
        return () if self.key_id is None else (self.key_id,)

    @property
    def matches_all(self) -> bool:
        """True without any condition."""
        return self == EntryFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChainFilter(EntryFilter):
    """Filter by all keys of one rotation chain."""

    chain: tuple[str, ...]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of all keys of the chain."""
        return self.chain


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedTask:
    """A context that was handed out and based on some of the entries, with its agent's task."""

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    agent_type: str | None
    handed_out_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentPattern:
    """A pattern in far more contexts than it has successes; it may have been crafted to match every query."""

    pattern_id: PatternId
    contexts: int
    tasks: int
    success_count: int


class ProvenanceStore(Protocol):
    """Queries of entries by their provenance, in one workspace."""

    async def find_quarantined(self, *, limit: int, after: EntryId | None = None) -> list[Entry]:
        """Return quarantined entries, oldest first, starting after `after`. Raises NotFound if that one is gone."""
        ...

    async def approve(self, entry: Entry, by: str) -> Entry | None:
        """Release a quarantined entry as approved by a person; return None if it is not quarantined or has changed."""
        ...

    async def find_entries(self, selection: EntryFilter, *, limit: int) -> list[EntryId]:
        """Return the ids of up to `limit` matching entries."""
        ...

    async def count(self, selection: EntryFilter) -> int:
        """Return the number of matching entries."""
        ...

    async def count_outcomes(self, selection: EntryFilter) -> int:
        """Return the number of matching outcomes; none for a filter by entry id."""
        ...

    async def delete_outcomes(self, selection: EntryFilter, *, limit: int) -> int:
        """Delete up to `limit` matching outcomes and recount their patterns; return the number deleted."""
        ...

    async def affected_tasks(
        self, selection: EntryFilter, *, limit: int, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the contexts that were based on any matching entry, latest first, starting after `after`.

        With a filter by entry id, the entry may be deleted by now. Raises NotFound if the context `after` is gone.
        """
        ...

    async def tasks_of(self, context_ids: Sequence[ContextId]) -> list[AffectedTask]:
        """Return the tasks of those contexts that still exist."""
        ...

    async def find_frequent(self, *, since: datetime, least: int, times: int) -> list[FrequentPattern]:
        """Return patterns in at least `least` contexts, and in `times` times more than they have successes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One row of a hash chain. `hash` covers all other fields, including the hash of the previous row (`before`)."""

    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    before: bytes
    hash: bytes = b""

    def compute_hash(self) -> bytes:
        """Return the SHA-256 of the other fields."""
        row = [self.workspace, self.number, self.at.isoformat(), self.who, self.what, self.details, self.before.hex()]
        return sha256(json.dumps(row, ensure_ascii=True).encode()).digest()


class AuditStore(Protocol):
    """Append-only hash chains of decisions."""

    async def append(self, workspace: str, *, at: datetime, who: str, what: str, details: str) -> AuditEntry:
        """Append a row to a workspace's chain, under an exclusive lock; "" is the chain of the whole store."""
        ...

    async def latest(self, workspace: str, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        """Return the last rows of a chain, latest first; those before the row with number `after`."""
        ...

    def rows(self, workspace: str) -> AsyncIterator[Sequence[AuditEntry]]:
        """Yield a chain in batches, from the first row on."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Result of a revocation: what it removed, or would remove, and the tasks that had been shown it."""

    entries: int
    outcomes: int
    affected: tuple[AffectedTask, ...]
    dry_run: bool = False
    settled: bool = True
    """The index is cleaned up, too; if not, the next checkpoint or prune does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """Result of verifying a chain. `head` identifies its last row; keep it elsewhere to verify against it later."""

    rows: int
    head: str
    problems: tuple[str, ...] = field(default=())

    @property
    def is_intact(self) -> bool:
        """True if no problem was found."""
        return not self.problems
