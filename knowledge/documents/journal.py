"""Journal of questions for people: events, escalations with a due date, feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from hardwon.models.answers import Escalation, EscalationId, Event, EventId

SATURDAY = 5
WEEK = timedelta(days=7)
MAX_OCCURRENCES = 1000
"""Maximum stored times of a repeated question; ours. A planner in a loop repeats it without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEscalation:
    """An unanswered question, to be escalated."""

    question: str
    transcript: Sequence[Mapping[str, str]]
    passage_ids: Sequence[UUID]
    suggested_fix: str


class Journal(Protocol):
    """Events, escalations and feedback of one workspace."""

    async def record(self, event: Event) -> None:
        """Store an event."""

    async def events(
        self, *, name: str | None = None, session: str | None = None, limit: int = 100, after: EventId | None = None
    ) -> list[Event]:
        """Return events after `after`, the latest first. Raises NotFound if `after` was deleted."""

    async def review(self, event_id: EventId) -> None:
        """Mark an event as reviewed. Raises NotFound."""

    async def escalate(self, new: NewEscalation, now: datetime) -> Escalation:
        """Store an unanswered question; the same again within seven days raises the priority of the first."""

    async def escalations(
        self, now: datetime, *, overdue: bool = False, limit: int = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        """Return open escalations, the most urgent first; `overdue`: only those that were due before now.

        Begins after `after`, which may be closed by now. Raises NotFound if `after` was deleted.
        """

    async def close(self, escalation_id: EscalationId, now: datetime) -> None:
        """Mark a gap as closed; the first time counts. Raises NotFound."""

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None, now: datetime) -> None:
        """Store feedback on an answer; later feedback on the same answer replaces it.

        Raises NotFound if there is no event of such an answer, or it was deleted.
        """

    async def feedback_of(self, answer_id: UUID) -> tuple[bool, str | None] | None:
        """Return the feedback on an answer: up or down, and the comment; None if there is none."""

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete records from before a moment, at most `limit` of each kind, except open ones; return their number."""


def one_business_day_after(moment: datetime) -> datetime:
    """Return the same time on the next day that is neither Saturday nor Sunday."""
    due = moment + timedelta(days=1)
    while due.weekday() >= SATURDAY:
        due += timedelta(days=1)
    return due


def question_hash(question: str) -> str:
    """Return the hash of a question without case, white space and punctuation."""
    words = " ".join("".join(sign if sign.isalnum() else " " for sign in question.casefold()).split())
    return hashlib.sha256(words.encode()).hexdigest()
