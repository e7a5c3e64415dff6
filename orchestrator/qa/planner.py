"""The documentation subagent for planners: it takes their steps if enabled, and answers each result key once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from cachetools import LRUCache

from knowledge.documents.access import Principal
from knowledge.documents.llm import Tool
from orchestrator.qa.documentation import (
    TOOL_NAME,
    DocumentationQASubagent,
    DocumentationRequest,
    DocumentationResponse,
    claims_step,
)
from orchestrator.qa.telemetry import Telemetry
from orchestrator.qa.tool_loop import Arguments

if TYPE_CHECKING:
    from knowledge.wiring.open import Knowledge

_MAX_RESULTS = 1_000
_MAX_TAIL_TURNS = 6

Key = tuple[object, ...]


@dataclass(slots=True)
class PlannerResults:
    """Cache of responses by session and result key: steps with the same key and question get the same response.

    A change of the documents makes its entries unreachable, and callers never share them.
    """

    _responses: LRUCache[Key, DocumentationResponse] = field(default_factory=lambda: LRUCache(_MAX_RESULTS))
    _locks: WeakValueDictionary[Key, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def answer(
        self, subagent: DocumentationQASubagent, request: DocumentationRequest, principal: Principal
    ) -> DocumentationResponse:
        """Return the cached response for the key in this session, else ask; errors are not cached."""
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
        lock = self._locks.setdefault(key, asyncio.Lock())  # concurrent steps ask once, too
        async with lock:
            if key in self._responses:
                return {**self._responses[key], "step_id": request.step_id}
            response = await subagent.answer(request, principal)
            if response["status"] != "error":
                self._responses[key] = response
            return response


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSteps:
    """Takes the documentation steps of a planner if `enabled`; the subagent itself answers regardless."""

    subagent: DocumentationQASubagent
    enabled: bool
    results: PlannerResults = field(default_factory=PlannerResults)

    @classmethod
    def of(cls, knowledge: Knowledge) -> Self:
        """Return the steps for a planner in the same process, enabled or not by the settings."""
        answering = knowledge.answering
        return cls(
            subagent=DocumentationQASubagent(answering, Telemetry(answering.journal, answering.clock)),
            enabled=knowledge.settings.enable_documentation_qa_subagent,
        )

    async def take(self, step: Mapping[str, Any], principal: Principal) -> DocumentationResponse | None:
        """Return the response to a step; None if it is not for this subagent, or the subagent is disabled."""
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
        """Return the function schema for a model."""
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
                        "description": "The subject of the question, such as module or workflow.",
                        "additionalProperties": {"type": "string"},
                    },
                },
                "required": ["question"],
                "additionalProperties": False,
            },
        )

    async def call(self, arguments: Arguments, conversation: list[dict[str, str]]) -> DocumentationResponse:
        """Answer a call by a model. Raises ValueError without a question."""
        question, focus = arguments.get("question"), arguments.get("focus")
        if not isinstance(question, str) or not question.strip():
            raise ValueError("question required")
        request = DocumentationRequest(
            question=question,
            conversation_tail=conversation[-_MAX_TAIL_TURNS:],
            focus=focus if isinstance(focus, Mapping) else {},
        )
        return await self.subagent.answer(request, self.principal)
