"""Events and escalations of answers over HTTP, with the names and arguments they have in process."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from knowledge.documents.journal import Escalation, EscalationId, Event, EventId
from knowledge.forms import as_id
from orchestrator.client.calls import Api, given
from orchestrator.paging import paged


@dataclass(frozen=True, slots=True)
class RemoteJournal:
    """`Journal` over HTTP: what a person asks of it, by the server's clock."""

    api: Api

    async def events(
        self,
        *,
        name: str | None = None,
        session: str | None = None,
        limit: int | None = 100,
        after: EventId | None = None,
    ) -> list[Event]:
        """Return events, the latest first, from behind `after` on, at most so many. Raises NotFound for a lost one."""

        async def page(last: EventId | None, at_most: int) -> list[Event]:
            params = given(name=name, session=session, after=last or after, limit=at_most)
            return await self.api.call("GET", "/api/events", list[Event], params=params)

        return await paged(page, lambda event: event.event_id, most=limit)

    async def review(self, event_id: EventId) -> None:
        """Note that a person looked at an event. Raises NotFound."""
        await self.api.send("POST", f"/api/events/{as_id('event_id', event_id)}/review")

    async def escalations(
        self, *, overdue: bool = False, limit: int | None = 100, after: EscalationId | None = None
    ) -> list[Escalation]:
        """Return open escalations, the most urgent first, from behind `after` on, at most so many. Raises NotFound."""

        async def page(last: EscalationId | None, at_most: int) -> list[Escalation]:
            params = given(overdue=overdue, after=last or after, limit=at_most)
            return await self.api.call("GET", "/api/escalations", list[Escalation], params=params)

        return await paged(page, lambda escalation: escalation.escalation_id, most=limit)

    async def close(self, escalation_id: EscalationId) -> None:
        """Note that the documents answer a question now. Raises NotFound."""
        await self.api.send("POST", f"/api/escalations/{as_id('escalation_id', escalation_id)}/close")

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None = None) -> None:
        """Keep what somebody thinks of an answer. Raises NotFound."""
        body = {"answer_id": str(as_id("answer_id", answer_id)), "up": up, "comment": comment}
        await self.api.send("POST", "/api/feedback", body=body)
