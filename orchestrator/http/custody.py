"""The routes of reviews, revocations and the audit log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response
from pydantic import BeforeValidator, StrictBool
from pydantic_core import PydanticCustomError

from knowledge.models import ContextId, Entry, EntryId
from knowledge.provenance import AffectedTask, ChainReport, Chosen, OftenShown, Revocation
from orchestrator.http.opened import Open, performs
from orchestrator.http.paging import LAST, Limit, link_next

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _as_written(told: object) -> object:
    """Refuse what would be read as seconds since 1970, or as midnight of some zone."""
    if not isinstance(told, str) or not _INSTANT.fullmatch(told):
        raise PydanticCustomError("instant", "give a time with its zone, such as 2026-03-02T09:30:00Z")
    return told


Instant = Annotated[datetime, BeforeValidator(_as_written)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeBody:
    """Which entries are taken back: all that is told must hold. `dry_run` says what would go."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    key_id: str | None = None
    project_id: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    entry_id: UUID | None = None
    dry_run: StrictBool = False


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
    @performs("revocations.revoke", problems=(404, 409))
    async def revoke_entries(body: RevokeBody, knowledge: Open) -> Revocation:
        """Delete what a key captured, of a project, in a time; say which tasks it had reached."""
        return await knowledge.revocations.revoke(_chosen(body), dry_run=body.dry_run)

    @app.get("/v1/affected", tags=["custody"])
    @performs("revocations.affected", problems=(404,))
    async def list_affected(
        knowledge: Open,
        request: Request,
        response: Response,
        *,
        entry_id: UUID | None = None,
        key_id: str | None = None,
        project_id: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 1000,
    ) -> list[AffectedTask]:
        """Return the tasks whose contexts held any of these entries, the latest first."""
        asked = RevokeBody(key_id=key_id, project_id=project_id, since=since, until=until, entry_id=entry_id)
        following = None if after is None else ContextId(after)
        found = await knowledge.revocations.affected(_chosen(asked), limit=limit, after=following)
        if len(found) == limit:
            link_next(request, response, after=found[-1].context_id, limit=limit)
        return found


def _add_reviews(app: FastAPI) -> None:
    @app.get("/v1/review/entries", tags=["review"])
    @performs("reviews.waiting", problems=(404,))
    async def list_waiting(
        knowledge: Open,
        request: Request,
        response: Response,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[Entry]:
        """Return entries that wait for a person, the oldest first, with what is suspicious about them."""
        found = await knowledge.reviews.waiting(limit=limit, after=None if after is None else EntryId(after))
        if len(found) == limit:
            link_next(request, response, after=found[-1].entry_id, limit=limit)
        return found

    @app.get("/v1/review/entries/{entry_id}", tags=["review"])
    @performs("reviews.show")
    async def show_waiting(entry_id: UUID, knowledge: Open) -> Entry:
        """Return an entry, whatever its status."""
        return await knowledge.reviews.show(EntryId(entry_id))

    @app.post("/v1/review/entries/{entry_id}/approve", tags=["review"])
    @performs("reviews.approve", problems=(409,))
    async def approve_entry(entry_id: UUID, knowledge: Open) -> Entry:
        """Let an entry go on to be embedded and shown."""
        return await knowledge.reviews.approve(EntryId(entry_id))

    @app.post("/v1/review/entries/{entry_id}/reject", status_code=204, tags=["review"])
    @performs("reviews.reject", problems=(409,))
    async def reject_entry(entry_id: UUID, knowledge: Open) -> None:
        """Delete an entry that waits."""
        await knowledge.reviews.reject(EntryId(entry_id))

    @app.get("/v1/review/alarms", tags=["review"])
    @performs("reviews.alarms")
    async def list_alarms(knowledge: Open) -> list[OftenShown]:
        """Return patterns that are shown for far more tasks than they ever worked for."""
        return await knowledge.reviews.alarms()


def _add_audit(app: FastAPI) -> None:
    @app.get("/v1/audit", tags=["custody"])
    @performs("audits.list")
    async def list_audit(
        knowledge: Open,
        request: Request,
        response: Response,
        *,
        after: Annotated[int | None, Query(ge=1, le=2**62, description=LAST)] = None,
        limit: Limit = 100,
        whole_store: bool = False,
    ) -> list[AuditRow]:
        """Return the last decisions, the latest first."""
        found = await knowledge.audits.list(limit=limit, after=after, whole_store=whole_store)
        if len(found) == limit:
            link_next(request, response, after=found[-1].number, limit=limit)
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
            for row in found
        ]

    @app.get("/v1/audit:verify", tags=["custody"])
    @performs("audits.verify")
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
