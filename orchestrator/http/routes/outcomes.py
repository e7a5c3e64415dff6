"""The route of outcomes, which answers with a header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from fastapi import FastAPI, Response
from pydantic import StrictBool

from hardwon.client.arguments import field_values, lenient
from orchestrator.http.operation_route import CallerKnowledge, performs

_FORBID: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeBody:
    """The outcome of a pattern of a context; missing fields are taken from the context."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    context_id: UUID
    pattern_id: UUID
    worked: StrictBool
    project_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None


def add_outcomes(app: FastAPI) -> None:
    """Add the route of outcomes to an app."""

    @app.post("/v1/outcomes", status_code=204, tags=["queries"])
    @performs("outcomes.record_outcome", problems=(404,))
    async def record_outcome(
        body: Annotated[OutcomeBody, lenient(OutcomeBody)], knowledge: CallerKnowledge, response: Response
    ) -> None:
        """Record whether a pattern of a context worked: a distinct (project, task, run) is one attempt.

        Location is the pattern that counts the attempt: another one, where that of the context was joined to it since.
        """
        pattern_id = await knowledge.outcomes.record_outcome(**field_values(body))
        response.headers["Location"] = f"/v1/patterns/{pattern_id}"
