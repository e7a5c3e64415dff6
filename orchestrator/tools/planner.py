"""What a planner has of the documentation subagent: its steps taken where that is switched on, each result key once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from cachetools import LRUCache

from knowledge.documents.access import Principal
from knowledge.documents.language_model import Tool
from orchestrator.tools.documentation import (
    TOOL_NAME,
    DocumentationQASubagent,
    DocumentationRequest,
    DocumentationResponse,
    claims_step,
)
from orchestrator.tools.telemetry import Telemetry
from orchestrator.tools.tool_loop import Arguments

if TYPE_CHECKING:
    from knowledge.wiring import Knowledge

_KEPT_RESULTS = 1_000
_KEPT_TAIL = 6

Key = tuple[object, ...]


@dataclass(slots=True)
class PlannerResults:
    """What was answered in sessions, by result key: two steps with the same key and question ask once.

    Nothing of it outlives a change of the documents, nor goes to another asker.
    """

    _kept: LRUCache[Key, DocumentationResponse] = field(default_factory=lambda: LRUCache(_KEPT_RESULTS))
    _asked: WeakValueDictionary[Key, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def answer(
        self, subagent: DocumentationQASubagent, request: DocumentationRequest, principal: Principal
    ) -> DocumentationResponse:
        """Return what was answered under the key in this session, else ask; errors are not kept."""
        if request.result_key is None or request.session_id is None:
            return await subagent.answer(request, principal)
        scope = await subagent.answering.access.scope(principal, "global")
        key = (
            subagent.answering.workspace,
            principal.name,
            str(request.session_id),
            request.result_key,
            request.question,
            await subagent.answering.answerer.quotes.versions(scope),
        )
        turn = self._asked.setdefault(key, asyncio.Lock())  # steps side by side ask once, too
        async with turn:
            if key in self._kept:
                return {**self._kept[key], "step_id": request.step_id}
            response = await subagent.answer(request, principal)
            if response["status"] != "error":
                self._kept[key] = response
            return response


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSteps:
    """Takes a planner's documentation steps where `enabled`; asked itself, the subagent answers regardless."""

    subagent: DocumentationQASubagent
    enabled: bool
    results: PlannerResults = field(default_factory=PlannerResults)

    @classmethod
    def of(cls, knowledge: Knowledge) -> Self:
        """Return what a planner beside open stores hands its steps to, enabled where the settings say so."""
        answering = knowledge.answering
        return cls(
            subagent=DocumentationQASubagent(answering, Telemetry(answering.journal, answering.clock)),
            enabled=knowledge.settings.enable_documentation_qa_subagent,
        )

    async def take(self, step: Mapping[str, Any], principal: Principal) -> DocumentationResponse | None:
        """Return the answer to a step in the planner's form; None for one that is not for this subagent, or not now."""
        payload: Mapping[str, Any] = step.get("planner_payload") or {}
        if not self.enabled or not claims_step({**step, **payload}):
            return None
        context: Mapping[str, Any] = step.get("context") or {}
        request = DocumentationRequest(
            question=str(step.get("question") or ""),
            session_id=step.get("session_id"),
            step_id=step.get("step_id"),
            conversation_tail=context.get("conversation_tail") or (),
            focus=context.get("focus") or {},
            result_key=payload.get("result_key"),
        )
        return await self.results.answer(self.subagent, request, principal)


@dataclass(frozen=True, slots=True)
class DocumentationTool:
    """The subagent as a tool of the main agent, which plans its own steps."""

    subagent: DocumentationQASubagent
    principal: Principal
    name = TOOL_NAME

    def schema(self) -> Tool:
        """Return what a model is told of the tool."""
        return Tool(
            name=self.name,
            description=(
                "Answer a question on how the product is used from its documentation, naming labels exactly.\n\n"
                "Returns: the answer with the sections it is from, or guidance where the documentation does not say."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The question, self-contained."},
                    "focus": {
                        "type": "object",
                        "description": "What it is about, such as module or workflow.",
                        "additionalProperties": {"type": "string"},
                    },
                },
                "required": ["question"],
                "additionalProperties": False,
            },
        )

    async def asked(self, arguments: Arguments, said: list[dict[str, str]]) -> DocumentationResponse:
        """Answer what a model asks. Raises ValueError for what is no question."""
        question, focus = arguments.get("question"), arguments.get("focus")
        if not isinstance(question, str) or not question.strip():
            raise ValueError("question required")
        request = DocumentationRequest(
            question=question,
            conversation_tail=said[-_KEPT_TAIL:],
            focus=focus if isinstance(focus, Mapping) else {},
        )
        return await self.subagent.answer(request, self.principal)
