"""The routes of the answer journal: events, escalations, feedback and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, FastAPI

from hardwon.client.documents import RemoteJournal
from hardwon.models.answers import Escalation, EscalationId, Event, EventId
from knowledge.documents.access import Principal
from knowledge.documents.answer_service import Answering
from orchestrator.http.current_principal import DocumentPrincipal, Operator, check_operator
from orchestrator.http.operation_route import CallerKnowledge, performs
from orchestrator.http.table_routes import add_rows
from orchestrator.qa.telemetry import AnswerMetrics, metrics_of

_MAX_METRIC_EVENTS = 1_000


@dataclass(frozen=True, slots=True)
class _CallerJournal:
    """The journal as its caller may use it, by the server's clock."""

    answering: Answering
    principal: Principal

    async def events(self, *, name: str | None, session: str | None, limit: int, after: EventId | None) -> list[Event]:
        check_operator(self.principal)
        return await self.answering.journal.events(name=name, session=session, limit=limit, after=after)

    async def review(self, event_id: EventId) -> None:
        check_operator(self.principal)
        await self.answering.journal.review(event_id)

    async def escalations(self, *, overdue: bool, limit: int, after: EscalationId | None) -> list[Escalation]:
        check_operator(self.principal)
        now = self.answering.clock.now()
        return await self.answering.journal.escalations(now, overdue=overdue, limit=limit, after=after)

    async def close(self, escalation_id: EscalationId) -> None:
        check_operator(self.principal)
        await self.answering.journal.close(escalation_id, self.answering.clock.now())

    async def feedback(self, answer_id: UUID, *, up: bool, comment: str | None) -> None:
        now = self.answering.clock.now()
        await self.answering.journal.feedback(answer_id, up=up, comment=comment, now=now)


async def _journal(knowledge: CallerKnowledge, principal: DocumentPrincipal) -> _CallerJournal:
    return _CallerJournal(knowledge.answering, principal)


def add_journal(app: FastAPI) -> None:
    """Add the routes of the journal of answers to an app."""
    add_rows(app, RemoteJournal, dependency=Annotated[_CallerJournal, Depends(_journal)])

    @app.get("/api/answer-metrics", tags=["answers"])
    @performs("documents.manage")
    async def answer_metrics(knowledge: CallerKnowledge, _: Operator) -> AnswerMetrics:
        """Return metrics of the last thousand answers."""
        return metrics_of(await knowledge.answering.journal.events(name="question_answered", limit=_MAX_METRIC_EVENTS))
