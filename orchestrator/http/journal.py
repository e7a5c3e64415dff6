"""The routes of what is told and thought of answers: events, escalations, feedback and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response
from pydantic import Field, StrictBool

from knowledge.documents.journal import Escalation, EscalationId, Event, EventId
from orchestrator.http.opened import Open, performs
from orchestrator.http.paging import LAST, Limit, link_next
from orchestrator.http.principal import Asking, Operator
from orchestrator.tools.telemetry import AnswerMetrics, metrics_of

_METRICS_OF = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackBody:
    """What somebody thinks of an answer."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    answer_id: UUID
    up: StrictBool
    comment: Annotated[str | None, Field(max_length=2_000)] = None


def add_journal(app: FastAPI) -> None:
    """Add the routes of the journal of answers to an app."""

    @app.get("/api/events", tags=["answers"])
    @performs("documents.manage", problems=(404,))
    async def list_events(
        knowledge: Open,
        _: Operator,
        request: Request,
        response: Response,
        *,
        name: str | None = None,
        session: str | None = None,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[Event]:
        """Return what happened to questions, the latest first."""
        following = None if after is None else EventId(after)
        found = await knowledge.answering.journal.events(name=name, session=session, limit=limit, after=following)
        if len(found) == limit:
            link_next(request, response, after=found[-1].event_id, limit=limit)
        return found

    @app.post("/api/events/{event_id}/review", status_code=204, tags=["answers"])
    @performs("documents.manage")
    async def review_event(event_id: UUID, knowledge: Open, _: Operator) -> None:
        """Note that a person looked at an event."""
        await knowledge.answering.journal.review(EventId(event_id))

    @app.get("/api/escalations", tags=["answers"])
    @performs("documents.manage", problems=(404,))
    async def list_escalations(
        knowledge: Open,
        _: Operator,
        request: Request,
        response: Response,
        *,
        overdue: bool = False,
        after: Annotated[UUID | None, Query(description=LAST)] = None,
        limit: Limit = 100,
    ) -> list[Escalation]:
        """Return questions that wait for better documents, the most urgent first."""
        found = await knowledge.answering.journal.escalations(
            knowledge.answering.clock.now(),
            overdue=overdue,
            limit=limit,
            after=None if after is None else EscalationId(after),
        )
        if len(found) == limit:
            link_next(request, response, after=found[-1].escalation_id, limit=limit)
        return found

    @app.post("/api/escalations/{escalation_id}/close", status_code=204, tags=["answers"])
    @performs("documents.manage")
    async def close_escalation(escalation_id: UUID, knowledge: Open, _: Operator) -> None:
        """Note that the documents answer a question now."""
        await knowledge.answering.journal.close(EscalationId(escalation_id), knowledge.answering.clock.now())

    @app.post("/api/feedback", status_code=204, tags=["answers"])
    @performs("answering.ask", problems=(404,))
    async def give_feedback(body: FeedbackBody, knowledge: Open, _: Asking) -> None:
        """Keep what somebody thinks of an answer."""
        await knowledge.answering.journal.feedback(
            body.answer_id, up=body.up, comment=body.comment, now=knowledge.answering.clock.now()
        )

    @app.get("/api/answer-metrics", tags=["answers"])
    @performs("documents.manage")
    async def answer_metrics(knowledge: Open, _: Operator) -> AnswerMetrics:
        """Return figures of the last thousand answers."""
        return metrics_of(await knowledge.answering.journal.events(name="question_answered", limit=_METRICS_OF))
