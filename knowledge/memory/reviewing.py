"""What a person looks at: entries that are held back, patterns that stand near every question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from knowledge.errors import Conflict, NotFound
from knowledge.forms import as_id, as_whole
from knowledge.models import Entry, EntryId, EntryStatus
from knowledge.ports import Stores
from knowledge.provenance import UNHEARD, Auditor, OftenShown, ProvenanceStore

MAX_WAITING = 1000
OFTEN = 20
"""A pattern in fewer contexts is not near everything; ours."""
TIMES_ITS_SUCCESSES = 10
"""A pattern that is shown for so many times more tasks than it worked for; ours."""
LATELY = timedelta(days=30)
_REJECTED = "entry rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewService:
    """Reviews in one workspace."""

    stores: Stores
    provenance: ProvenanceStore
    audit: Auditor = UNHEARD

    async def waiting(self, *, limit: int = 100, after: EntryId | None = None) -> list[Entry]:
        """Return entries that wait for a review, the oldest first, from behind `after` on, each with its suspicions."""
        limit = as_whole("limit", limit, least=1, most=MAX_WAITING)
        after = None if after is None else EntryId(as_id("after", after))
        return await self.provenance.waiting(limit=limit, after=after)

    async def show(self, entry_id: EntryId) -> Entry:
        """Return an entry, whatever its status. Raises NotFound."""
        return await self.stores.entries.get(EntryId(as_id("entry_id", entry_id)))

    async def approve(self, entry_id: EntryId) -> Entry:
        """Let an entry go on, as one that a person vouches for; return it. Raises NotFound, or Conflict.

        One that was approved stays so: a call whose answer was lost may be repeated.
        """
        entry_id = EntryId(as_id("entry_id", entry_id))
        entry = await self.stores.entries.get(entry_id)
        if entry.status is EntryStatus.QUARANTINED:
            approved = await self.provenance.approve(entry, self.audit.who)
        elif entry.suspicions and not entry.low_trust:
            approved = entry
        else:
            raise _waits_for_none(entry)
        if approved is None:
            raise Conflict(f"entry {entry_id} was changed meanwhile: look at it again")
        await self.audit.note("entry approved", entry=str(entry_id), suspicions=", ".join(entry.suspicions))
        return approved

    async def reject(self, entry_id: EntryId) -> None:
        """Delete an entry that waits. Raises NotFound, or Conflict for one that does not wait.

        One that was rejected lately stays so: a call whose answer was lost may be repeated.
        """
        entry_id = EntryId(as_id("entry_id", entry_id))
        try:
            entry = await self.stores.entries.get(entry_id)
        except NotFound:
            if str(entry_id) in [row.get("entry") for row in await self.audit.noted(_REJECTED)]:
                return
            raise
        if entry.status is not EntryStatus.QUARANTINED:
            raise _waits_for_none(entry)
        await self.stores.entries.delete(entry_id, while_it_is=EntryStatus.QUARANTINED)
        await self.audit.note(
            _REJECTED, entry=str(entry_id), captured_by=entry.captured_by, suspicions=", ".join(entry.suspicions)
        )

    async def alarms(self) -> list[OftenShown]:
        """Return patterns that were lately shown for far more tasks than they ever worked for, the worst first."""
        since = self.stores.clock.now() - LATELY
        return await self.provenance.often_shown(since=since, least=OFTEN, times=TIMES_ITS_SUCCESSES)


def _waits_for_none(entry: Entry) -> Conflict:
    return Conflict(f"entry {entry.entry_id} is {entry.status}: it waits for no review")
