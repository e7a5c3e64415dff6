"""The routes of reviews, revocations and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query

from knowledge.memory.auditing import MAX_LISTED
from knowledge.memory.reviewing import MAX_WAITING
from knowledge.models import Entry, EntryId
from knowledge.provenance import AffectedTask, ChainReport, Chosen, OftenShown, Revocation
from orchestrator.http_opened import Open


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeBody:
    """Which entries are taken back: all that is told must hold. `dry_run` says what would go."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    key_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    entry_id: UUID | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One decision. `details` are ids, numbers and names, as JSON; `hash` in hexadecimal digits."""

    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    hash: str


def add_custody(app: FastAPI) -> None:
    """Add the routes to an app."""
    _add_reviews(app)
    _add_audit(app)

    @app.post("/v1/revocations", tags=["custody"])
    async def revoke_entries(body: RevokeBody, knowledge: Open) -> Revocation:
        """Delete what a key captured, of a project, in a time; say which tasks it had reached."""
        return await knowledge.revocations.revoke(_chosen(body), dry_run=body.dry_run)

    @app.get("/v1/affected", tags=["custody"])
    async def list_affected(
        knowledge: Open,
        *,
        entry_id: UUID | None = None,
        key_id: str | None = None,
        project_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of these entries, the latest first."""
        asked = RevokeBody(key_id=key_id, project_id=project_id, since=since, until=until, entry_id=entry_id)
        return await knowledge.revocations.affected(_chosen(asked))


def _add_reviews(app: FastAPI) -> None:
    @app.get("/v1/review/entries", tags=["review"])
    async def list_waiting(knowledge: Open, limit: Annotated[int, Query(ge=1, le=MAX_WAITING)] = 100) -> list[Entry]:
        """Return entries that wait for a person, the oldest first, with what is suspicious about them."""
        return await knowledge.reviews.waiting(limit=limit)

    @app.get("/v1/review/entries/{entry_id}", tags=["review"])
    async def show_waiting(entry_id: UUID, knowledge: Open) -> Entry:
        """Return an entry, whatever its status."""
        return await knowledge.reviews.show(EntryId(entry_id))

    @app.post("/v1/review/entries/{entry_id}/approve", tags=["review"])
    async def approve_entry(entry_id: UUID, knowledge: Open) -> Entry:
        """Let an entry go on to be embedded and shown."""
        return await knowledge.reviews.approve(EntryId(entry_id))

    @app.post("/v1/review/entries/{entry_id}/reject", status_code=204, tags=["review"])
    async def reject_entry(entry_id: UUID, knowledge: Open) -> None:
        """Delete an entry that waits."""
        await knowledge.reviews.reject(EntryId(entry_id))

    @app.get("/v1/review/alarms", tags=["review"])
    async def list_alarms(knowledge: Open) -> list[OftenShown]:
        """Return patterns that are shown for far more tasks than they ever worked for."""
        return await knowledge.reviews.alarms()


def _add_audit(app: FastAPI) -> None:
    @app.get("/v1/audit", tags=["custody"])
    async def list_audit(
        knowledge: Open, *, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100, whole_store: bool = False
    ) -> list[AuditRow]:
        """Return the last decisions, the latest first."""
        return [
            AuditRow(
                workspace=row.workspace,
                number=row.number,
                at=row.at,
                who=row.who,
                what=row.what,
                details=row.details,
                hash=row.hash.hex(),
            )
            for row in await knowledge.audits.list(limit=limit, whole_store=whole_store)
        ]

    @app.get("/v1/audit:verify", tags=["custody"])
    async def verify_audit(knowledge: Open, *, head: str | None = None, whole_store: bool = False) -> ChainReport:
        """Look whether the audit log is what was written."""
        return await knowledge.audits.verify(head=head, whole_store=whole_store)


def _chosen(told: RevokeBody) -> Chosen:
    return Chosen(
        key_id=told.key_id,
        project_id=told.project_id,
        since=told.since,
        until=told.until,
        entry_id=None if told.entry_id is None else EntryId(told.entry_id),
    )
