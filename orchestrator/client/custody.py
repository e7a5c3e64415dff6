"""Reviews, revocations and the audit log over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

import builtins
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from knowledge.forms import as_id
from knowledge.memory.revoking import MOST_AFFECTED
from knowledge.models import ContextId, Entry, EntryId
from knowledge.provenance import AffectedTask, AuditEntry, ChainReport, Chosen, OftenShown, Revocation
from orchestrator.client.calls import REJECTION, Api, given
from orchestrator.paging import paged


@dataclass(frozen=True, slots=True)
class RemoteReviews:
    """`ReviewService` over HTTP."""

    api: Api

    async def waiting(self, *, limit: int = 100, after: EntryId | None = None) -> list[Entry]:
        """Return entries that wait for a review, the oldest first, from behind `after` on, each with its suspicions."""
        return await self.api.call("GET", "/v1/review/entries", list[Entry], params=given(limit=limit, after=after))

    async def show(self, entry_id: EntryId) -> Entry:
        """Return an entry, whatever its status."""
        return await self.api.call("GET", f"/v1/review/entries/{as_id('entry_id', entry_id)}", Entry)

    async def approve(self, entry_id: EntryId) -> Entry:
        """Let an entry go on, as one that a person vouches for; return it."""
        return await self.api.call("POST", f"/v1/review/entries/{as_id('entry_id', entry_id)}/approve", Entry)

    async def reject(self, entry_id: EntryId) -> None:
        """Delete an entry that waits."""
        await self.api.send("POST", f"/v1/review/entries/{as_id('entry_id', entry_id)}{REJECTION}")

    async def alarms(self) -> list[OftenShown]:
        """Return patterns that were lately shown for far more tasks than they ever worked for."""
        return await self.api.call("GET", "/v1/review/alarms", list[OftenShown])


@dataclass(frozen=True, slots=True)
class RemoteRevocations:
    """`RevocationService` over HTTP."""

    api: Api

    async def revoke(self, chosen: Chosen, *, dry_run: bool = False) -> Revocation:
        """Delete the entries that are meant from both stores."""
        body = _told(chosen) | {"dry_run": dry_run}
        return await self.api.call("POST", "/v1/revocations", Revocation, body=body, timeout_seconds=None)

    async def affected(
        self, chosen: Chosen, *, limit: int = MOST_AFFECTED, after: ContextId | None = None
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of the entries that are meant, the latest first."""

        async def page(last: ContextId | None, at_most: int) -> list[AffectedTask]:
            asked = _told(chosen) | given(limit=at_most, after=last or after)
            return await self.api.call("GET", "/v1/affected", list[AffectedTask], params=asked)

        return await paged(page, lambda task: task.context_id, most=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AuditRow:
    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    hash: str


@dataclass(frozen=True, slots=True)
class RemoteAudits:
    """`AuditService` over HTTP."""

    api: Api

    async def list(
        self, *, limit: int = 100, after: int | None = None, whole_store: bool = False
    ) -> builtins.list[AuditEntry]:
        """Return the last decisions, the latest first; the hash of the row before is not told."""
        asked = given(limit=limit, after=after, whole_store=whole_store)
        rows = await self.api.call("GET", "/v1/audit", builtins.list[_AuditRow], params=asked)
        return [AuditEntry(**asdict(row) | {"hash": bytes.fromhex(row.hash), "before": b""}) for row in rows]

    async def verify(self, *, head: str | None = None, whole_store: bool = False) -> ChainReport:
        """Look at each row of the chain."""
        asked: dict[str, Any] = {"whole_store": whole_store} | ({} if head is None else {"head": head})
        return await self.api.call("GET", "/v1/audit:verify", ChainReport, params=asked)


def _told(chosen: Chosen) -> dict[str, Any]:
    told = {name: value for name, value in asdict(chosen).items() if value is not None}
    return {name: value.isoformat() if isinstance(value, datetime) else str(value) for name, value in told.items()}
