"""The documentation subagent, called by the documentation steps of a planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired

from typing_extensions import TypedDict

from hardwon.errors import Unavailable
from hardwon.models.answers import CitationJson
from hardwon.models.documents import Passage
from knowledge.documents.access import Principal
from knowledge.documents.answer_service import Answering
from knowledge.documents.answering.pipeline import Request, check_request
from knowledge.documents.answering.rendering import GUIDANCE, render_with_guidance
from knowledge.documents.journal import NewEscalation
from knowledge.documents.models import Answer, AnswerStatus, Profile
from orchestrator.qa.citations import citation_json, nearest_json, turns_of
from orchestrator.qa.telemetry import QUESTION_ANSWERED, Telemetry

TOOL_NAME = "documentation_qa"
LOOKUP_TYPE = "documentation_lookup"
STARTED = "subagent_invocation_started"
COMPLETED = "subagent_invocation_completed"

COVERAGE_TARGET = (2, 0.55)
"""The search ends at this number of passages above this relevance."""
MIN_MEAN_RELEVANCE = 0.45
MAX_QUERIES = 2
LATENCY_BUDGET_MS = 2_000
"""Latency target of an answer with a remote model, at the 95th percentile; slower ones are logged as over budget."""

DOCUMENTATION_PROMPT = """You answer questions about a product from its documentation.

- Adhere to the retrieved documentation only.
- Name the labels of the user interface exactly as the documentation does.
- Refuse where the documentation is insufficient: found is false.
- Continue the conversation: do not repeat what was said before."""

PROFILE = Profile(
    name="documentation",
    system_prompt=DOCUMENTATION_PROMPT,
    k=6,
    gate_mean=MIN_MEAN_RELEVANCE,
    coverage=COVERAGE_TARGET,
    max_queries=MAX_QUERIES,
    render=render_with_guidance,
)

Identifier = str | int
"""As the planner sends it; the response has the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentationRequest:
    """A step of a planner, in the form of the planner's contract."""

    question: str
    session_id: Identifier | None = None
    step_id: str | None = None
    conversation_tail: Sequence[Mapping[str, str]] = ()
    focus: Mapping[str, Any] = field(default_factory=dict)
    result_key: str | None = None


class ErrorJson(TypedDict):
    """An error, and its trace id in the log."""

    message: str
    trace_id: str


class MetricsJson(TypedDict):
    """The latency, and the number of passages retrieved."""

    latency_ms: int
    retrieval_count: int


class DocumentationResponse(TypedDict):
    """The response for a planner; `error` is present only if the status is error."""

    step_id: str | None
    status: str
    answer: str
    citations: list[CitationJson]
    reasoning: str
    metrics: MetricsJson
    result_key: str | None
    answer_id: str
    extractive: bool
    coverage_score: float
    missing_words: list[str]
    degraded: str | None
    nearest: CitationJson | None
    error: NotRequired[ErrorJson]


def claims_step(step: Mapping[str, Any]) -> bool:
    """Return whether a planner's step is for this subagent, by its exact tool name or lookup type."""
    return step.get("tool_name") == TOOL_NAME or step.get("lookup_type") == LOOKUP_TYPE


@dataclass(frozen=True, slots=True)
class DocumentationQASubagent:
    """Answers from the documentation, the global knowledge base of the workspace."""

    answering: Answering
    telemetry: Telemetry

    async def answer(self, request: DocumentationRequest, principal: Principal) -> DocumentationResponse:
        """Return the answer in the planner's contract. Raises InvalidInput or NoAccess."""
        scope = await self.answering.access.scope(principal, "global")
        query = Request(
            question=request.question,
            conversation=turns_of(request.conversation_tail),
            focus=_focus_hints(request.focus),
        )
        check_request(query)  # before the event, so that every invocation that started also completes
        session = None if request.session_id is None else str(request.session_id)
        step = None if request.step_id is None else str(request.step_id)
        await self.telemetry.log_event(
            STARTED,
            {"question": request.question, "focus": dict(request.focus)},
            session=session,
            step=step,
        )
        answer = await self.answering.answerer.answer(query, scope, PROFILE, self.answering.by_queries)
        response = _response(request, answer)
        payload = {
            "question": request.question,
            "focus": dict(request.focus),
            "status": response["status"],
            "coverage_score": response["coverage_score"],
            "retrieval_count": response["metrics"]["retrieval_count"],
            "latency_ms": response["metrics"]["latency_ms"],
            "over_budget": response["metrics"]["latency_ms"] > LATENCY_BUDGET_MS,
            "searched": list(answer.searched),
            "passages": [_passage_summary(passage) for passage in answer.found],
            "error": answer.error,
            "trace_id": _trace_id(answer),
        }
        event_id = await self.telemetry.log_event(COMPLETED, payload, session=session, step=step)
        answered = {**answer.metrics, **payload, "system": "documentation", "status": answer.status.value}
        await self.telemetry.log_event(QUESTION_ANSWERED, answered, session=session)
        response["answer_id"] = str(event_id)
        if response["status"] == "no_answer" and answer.status is not AnswerStatus.INDEXING:
            await self._escalate(request, answer)
        return response

    async def _escalate(self, request: DocumentationRequest, answer: Answer) -> None:
        nearest = answer.found[0] if answer.found else None
        place = _place(nearest) if nearest else None
        fix = f"Answer it in the documentation; nearest is {place}." if place else "Add documentation: nothing is near."
        await self.telemetry.escalate(
            NewEscalation(
                question=request.question,
                transcript=[*map(dict, request.conversation_tail), {"role": "user", "content": request.question}],
                passage_ids=[each for passage in answer.found for each, _ in passage.chunks()],
                suggested_fix=fix,
            )
        )

    async def best_effort(self, question: str, principal: Principal) -> str:
        """Return a provisional reply for an operator to send: a caveat, and the nearest passages, word for word.

        Raises Unavailable if the documents cannot be searched.
        """
        scope = await self.answering.access.scope(principal, "global")
        answer = await self.answering.answerer.answer(
            Request(question=question), scope, PROFILE, self.answering.by_queries
        )
        if answer.status is AnswerStatus.ERROR:
            raise Unavailable(answer.error or "The documentation cannot be searched now: try again.")
        if answer.status is AnswerStatus.ANSWERED:
            places = dict.fromkeys(f"From: {each.title} ({each.link or each.uri})" for each in answer.citations)
            return "\n".join([answer.text, *places])
        lines = ["Not a confirmed answer: the documentation does not answer this with certainty, and is being checked."]
        for passage in answer.found[:3]:
            name = f"{passage.title}, {passage.section}" if passage.section else passage.title
            lines.append(f"May help: {name} ({passage.link or passage.uri}): {' '.join(passage.text.split())[:300]}")
        return "\n".join(lines)


def _passage_summary(passage: Passage) -> dict[str, object]:
    return {
        "id": str(passage.passage_id),
        "title": passage.title,
        "section": passage.section,
        "score": round(passage.relevance, 4),
    }


def _trace_id(answer: Answer) -> str | None:
    return next((each.removeprefix("trace id ") for each in answer.trace if each.startswith("trace id ")), None)


_STATUS = {AnswerStatus.ANSWERED: "success", AnswerStatus.ERROR: "error"}


def _focus_hints(focus: Mapping[str, Any]) -> dict[str, str]:
    """Return the focus as texts by name: empty values are dropped, lists are joined."""
    hints: dict[str, str] = {}
    for name, value in focus.items():
        words = [str(each) for each in (value if isinstance(value, list | tuple) else [value]) if each is not None]
        if any(words):
            hints[name] = " ".join(words)
    return hints


def _place(passage: Passage) -> str:
    """Return the title and section of a passage; the section alone if it begins with the title."""
    if not passage.section or passage.section.startswith(passage.title):
        return passage.section or passage.title
    return f"{passage.title}, {passage.section}"


def _response(request: DocumentationRequest, answer: Answer) -> DocumentationResponse:
    status = _STATUS.get(answer.status, "no_answer")
    sections = dict.fromkeys(each.section or each.title for each in answer.citations)
    response = DocumentationResponse(
        step_id=request.step_id,
        status=status,
        answer="" if status == "error" else answer.text or GUIDANCE,
        citations=[citation_json(citation) for citation in answer.citations],
        reasoning=(
            f"Summarized available guidance from {', '.join(sections)}"
            if sections
            else f"Searched {len(answer.searched)} times: {answer.status.value.replace('_', ' ')}"
        ),
        metrics=MetricsJson(
            latency_ms=round(answer.metrics.get("latency_ms", 0)),
            retrieval_count=round(answer.metrics.get("retrieval_count", 0)),
        ),
        result_key=request.result_key,
        answer_id="",
        extractive=answer.extractive,
        coverage_score=answer.coverage or 0.0,
        missing_words=list(answer.lacking),
        degraded=answer.degraded,
        nearest=nearest_json(answer),
    )
    if status == "error":
        response["error"] = ErrorJson(message=answer.error or "unknown", trace_id=_trace_id(answer) or "")
    return response
