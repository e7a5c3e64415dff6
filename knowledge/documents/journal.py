"""What was asked and what came of it, kept for people: events, escalations with a due date, feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NewType, Protocol
from uuid import UUID

EventId = NewType("EventId", UUID)
EscalationId = NewType("EscalationId", UUID)

SATURDAY = 5
WEEK = timedelta(days=7)
MOST_COUNTED = 1000
"""Of how many times that a question was asked it is kept when; ours. A planner in a loop asks without end."""


class Priority(StrEnum):
    """How soon a gap in the documents should be closed."""

    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a question. `reviewed`: a person looked at it since."""

    event_id: EventId
    name: str
    happened_at: datetime
    session: str | None = None
    step: str | None = None
    payload: Mapping[str, Any]
    reviewed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """A question that the documents did not answer, as work with a due date. `occurrences`: in the last seven days.

    Of those that were asked last: `MOST_COUNTED` at most.
    """

    escalation_id: EscalationId
    question: str
    transcript: tuple[Mapping[str, str], ...]
    passage_ids: tuple[UUID, ...]
    suggested_fix: str
    created_at: datetime
    due_at: datetime
    occurrences: int
    priority: Priority
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEscalation:
    """What is known of a question that was not answered."""

    question: str
    transcript: Sequence[Mapping[str, str]]
    passage_ids: Sequence[UUID]
    suggested_fix: str


class Journal(Protocol):
    """Events, escalations and feedback of one workspace."""

    async def record(self, event: Event) -> None:
        """Keep an event."""
        ...

    async def events(
        self, *, name: str | None = None, session: str | None = None, limit: int = 100, after: EventId | None = None
    ) -> list[Event]:
        """Return events, the latest first, from behind `after` on. Raises NotFound where that one is gone."""
        ...

    async def review(self, event_id: EventId) -> None:
        """Note that a person looked at an event. Raises NotFound."""
        ...

    async def escalate(self, new: NewEscalation, now: datetime) -> Escalation:
        """Keep a question that was not answered; the same again within seven days raises the priority of the first."""
        ...

    async def escalations(
        self, now: datetime, *, overdue: bool = False, limit: int = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        """Return open escalations, the most urgent first; `overdue`: those only that were due before now.

        From behind `after` on, which may be closed by now. Raises NotFound where that one is gone.
        """
        ...

    async def close(self, escalation_id: EscalationId, now: datetime) -> None:
        """Note that a gap is closed; the first time counts. Raises NotFound."""
        ...

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None, now: datetime) -> None:
        """Keep what somebody thought of an answer; a second word about the same one replaces the first.

        Raises NotFound for one that is not on record as an event: no answer has such an id here, or its event is gone.
        """
        ...

    async def feedback_of(self, answer_id: UUID) -> tuple[bool, str | None] | None:
        """Return what was thought of an answer."""
        ...

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete what was told before a moment, so many of each kind at most; return how many. What is open stays."""
        ...


def one_business_day_after(moment: datetime) -> datetime:
    """Return the same time on the next day that is neither Saturday nor Sunday."""
    due = moment + timedelta(days=1)
    while due.weekday() >= SATURDAY:
        due += timedelta(days=1)
    return due


def question_hash(question: str) -> str:
    """Return what two questions share that differ in case, blanks and points only."""
    words = " ".join("".join(sign if sign.isalnum() else " " for sign in question.casefold()).split())
    return hashlib.sha256(words.encode()).hexdigest()
