"""Events and escalations of answers over HTTP."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from knowledge.documents.journal import Escalation, EscalationId, Event, EventId
from orchestrator.client.fields import LAST, LimitOrAll
from orchestrator.client.table import Operation, Service


class RemoteJournal(Service, name="journal", tag="answers", scopes=("admin",)):
    """`Journal` over HTTP, by the server's clock."""

    @Operation(
        "GET",
        "/api/events",
        operation_id="list_events",
        permission="documents.manage",
        problems=(404,),
        cursor="event_id",
        all_pages=True,
    )
    async def events(
        self,
        *,
        name: str | None = None,
        session: str | None = None,
        limit: LimitOrAll = 100,
        after: Annotated[EventId | None, LAST] = None,
    ) -> list[Event]:
        """Return the events of questions, the latest first."""

    @Operation("POST", "/api/events/{event_id}/review", operation_id="review_event", permission="documents.manage")
    async def review(self, event_id: EventId) -> None:
        """Mark an event as reviewed."""

    @Operation(
        "GET",
        "/api/escalations",
        operation_id="list_escalations",
        permission="documents.manage",
        problems=(404,),
        cursor="escalation_id",
        all_pages=True,
    )
    async def escalations(
        self,
        *,
        overdue: bool = False,
        limit: LimitOrAll = 100,
        after: Annotated[EscalationId | None, LAST] = None,
    ) -> list[Escalation]:
        """Return open escalations: questions that need better documents, the most urgent first."""

    @Operation(
        "POST", "/api/escalations/{escalation_id}/close", operation_id="close_escalation", permission="documents.manage"
    )
    async def close(self, escalation_id: EscalationId) -> None:
        """Close an escalation: the documents answer its question now."""

    @Operation(
        "POST",
        "/api/feedback",
        operation_id="give_feedback",
        permission="answering.ask",
        scopes=("documents",),
        problems=(404,),
    )
    async def feedback(
        self, answer_id: UUID, *, up: bool, comment: Annotated[str | None, Field(max_length=2_000)] = None
    ) -> None:
        """Record a user's opinion of an answer."""
