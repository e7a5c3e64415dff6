"""Redaction of the journal: every record of a question is stored without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from knowledge.documents.journal import Escalation, EscalationId, Event, EventId, Journal, NewEscalation
from knowledge.redaction import redact


class RedactingJournal(Journal):
    """Redacts texts, at any depth of a payload, before they are stored. Ids of sessions and steps stay."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def record(self, event: Event) -> None:
        await self._journal.record(replace(event, payload=_redact(event.payload)))

    async def events(
        self, *, name: str | None = None, session: str | None = None, limit: int = 100, after: EventId | None = None
    ) -> list[Event]:
        return await self._journal.events(name=name, session=session, limit=limit, after=after)

    async def review(self, event_id: EventId) -> None:
        await self._journal.review(event_id)

    async def escalate(self, new: NewEscalation, now: datetime) -> Escalation:
        redacted = replace(
            new,
            question=redact(new.question).text,
            transcript=[_redact(turn) for turn in new.transcript],
            suggested_fix=redact(new.suggested_fix).text,
        )
        return await self._journal.escalate(redacted, now)

    async def escalations(
        self, now: datetime, *, overdue: bool = False, limit: int = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        return await self._journal.escalations(now, overdue=overdue, limit=limit, after=after)

    async def close(self, escalation_id: EscalationId, now: datetime) -> None:
        await self._journal.close(escalation_id, now)

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None, now: datetime) -> None:
        comment = None if comment is None else redact(comment).text
        await self._journal.feedback(answer_id, up=up, comment=comment, now=now)

    async def feedback_of(self, answer_id: UUID) -> tuple[bool, str | None] | None:
        return await self._journal.feedback_of(answer_id)

    async def prune(self, before: datetime, *, limit: int) -> int:
        return await self._journal.prune(before, limit=limit)


def _redact(value: Any) -> Any:
    """Return a payload with its texts redacted, keys included."""
    match value:
        case str():
            return redact(value).text
        case Mapping():
            return {_redact(key): _redact(part) for key, part in value.items()}
        case list() | tuple():
            return [_redact(each) for each in value]
        case _:
            return value
