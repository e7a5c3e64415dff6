"""Reviews by a person: quarantined entries, patterns that are shown suspiciously often, agents' keys to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from hardwon.errors import Conflict, NotFound
from hardwon.models.access import FrequentPattern, KeyAlarm
from hardwon.validation import as_id, as_integer
from knowledge.access.provenance import NO_AUDIT, Auditor, ProvenanceStore
from knowledge.memory.capture.injection import CONTEXT_FIELDS
from knowledge.models import Entry, EntryId, EntryStatus
from knowledge.ports import Stores

MAX_WAITING = 1000
MIN_CONTEXTS = 20
"""Contexts from which a pattern may be shown suspiciously often; ours."""
MIN_TASKS_PER_SUCCESS = 10
"""Tasks shown per success from which a pattern is shown suspiciously often; ours."""
MIN_REPEATS = 5
"""Solutions of one situation, or situations left out near one task, from which a key is named; ours."""
MIN_FAILURES = 3
"""Failures of what a key captured from which it is named; ours."""
ALARM_PERIOD = timedelta(days=30)
_REJECTED = "entry rejected"


def id_of_texts(entry: Entry) -> UUID:
    """Return an id of what a person reads of an entry, to find out whether it was changed since."""
    texts = [getattr(entry, name) for name in CONTEXT_FIELDS]
    read = json.dumps([texts, entry.dead_ends, repr(entry.applies_when)])
    return UUID(bytes=sha256(read.encode()).digest()[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewService:
    """Reviews in one workspace."""

    stores: Stores
    provenance: ProvenanceStore
    audit: Auditor = NO_AUDIT

    async def waiting(self, *, limit: int = 100, after: EntryId | None = None) -> list[Entry]:
        """Return quarantined entries with their suspicions, oldest first, starting after `after`."""
        limit = as_integer("limit", limit, least=1, most=MAX_WAITING)
        after = None if after is None else EntryId(as_id("after", after))
        return await self.provenance.find_quarantined(limit=limit, after=after)

    async def show(self, entry_id: EntryId) -> Entry:
        """Return an entry, whatever its status. Raises NotFound."""
        return await self.stores.entries.get(EntryId(as_id("entry_id", entry_id)))

    async def approve(self, entry_id: EntryId) -> Entry:
        """Release a quarantined entry that a person vouches for; return it. Raises NotFound or Conflict.

        Idempotent, so that a call whose response was lost can be retried.
        """
        return await self.approve_seen(await self.show(entry_id))

    async def approve_seen(self, entry: Entry) -> Entry:
        """Release an entry as it was read; return it. Raises Conflict where its texts were changed since."""
        if entry.status is EntryStatus.QUARANTINED:
            approved = await self.provenance.approve(entry, self.audit.who)
        elif entry.suspicions and not entry.low_trust:
            approved = entry
        else:
            raise _not_waiting(entry)
        if approved is None:
            raise Conflict(f"entry {entry.entry_id} was changed meanwhile: look at it again")
        await self.audit.record("entry approved", entry=str(entry.entry_id), suspicions=", ".join(entry.suspicions))
        return approved

    async def reject(self, entry_id: EntryId) -> None:
        """Delete a quarantined entry. Raises NotFound, or Conflict for one that is not quarantined.

        Idempotent, so that a call whose response was lost can be retried.
        """
        entry_id = EntryId(as_id("entry_id", entry_id))
        try:
            entry = await self.stores.entries.get(entry_id)
        except NotFound:
            if str(entry_id) in [row.get("entry") for row in await self.audit.recent_details(_REJECTED)]:
                return
            raise
        if entry.status is not EntryStatus.QUARANTINED:
            raise _not_waiting(entry)
        await self.stores.entries.delete(entry_id, while_it_is=EntryStatus.QUARANTINED)
        await self.audit.record(
            _REJECTED, entry=str(entry_id), captured_by=entry.captured_by, suspicions=", ".join(entry.suspicions)
        )

    async def alarms(self) -> list[FrequentPattern]:
        """Return patterns recently shown for far more tasks than they ever worked for, worst first."""
        since = self.stores.clock.now() - ALARM_PERIOD
        return await self.provenance.find_frequent(since=since, least=MIN_CONTEXTS, times=MIN_TASKS_PER_SUCCESS)

    async def key_alarms(self) -> list[KeyAlarm]:
        """Return agents' keys that recently worked against what is trusted, those with the most reports first.

        A key that spoke once against a trusted solution is named: it may be right, and a person decides. See
        `AlarmKind`.
        """
        since = self.stores.clock.now() - ALARM_PERIOD
        return await self.provenance.find_key_alarms(since=since, repeats=MIN_REPEATS, failures=MIN_FAILURES)


def _not_waiting(entry: Entry) -> Conflict:
    return Conflict(f"entry {entry.entry_id} is {entry.status}: it does not wait for a review")
