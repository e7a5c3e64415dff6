"""Asking documents by the tools of an agent, under their own names, for whoever calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from knowledge.documents.askers import asker
from knowledge.errors import InvalidInput
from orchestrator.client.knowledge_client import KnowledgeClient
from orchestrator.connection import AnyKnowledge
from orchestrator.tools.document_qa_tool import DEFAULT_K, MAX_K, ToolAnswer
from orchestrator.tools.wrappers import DocumentTool

ASKS = "answering.ask"
"""The operation of every document tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuestion:
    """A question to one knowledge base; what names the base stands beside it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    question: str
    k: Annotated[int, Field(ge=1, le=MAX_K, strict=True)] = DEFAULT_K


def checked_scope(tool: type[DocumentTool], told: Any) -> str | None:
    """Return the id that a tool was given of its scope.

    Raises InvalidInput, by the name that the tool has for it, for one that is missing or cannot be one.
    """
    try:
        tool.config.base.partition(told)
    except InvalidInput as error:
        raise InvalidInput(tool.scope_argument or error.field, error.reason) from error
    scope_id: str | None = told
    return scope_id


async def answer_from(
    tool: type[DocumentTool], knowledge: AnyKnowledge, scope_id: str | None, asked: DocumentQuestion
) -> ToolAnswer:
    """Answer from one knowledge base, as far as whoever asks may read it: in process, or by the server asked.

    Raises AccessDenied, NoAccess or InvalidInput.
    """
    if isinstance(knowledge, KnowledgeClient):
        return await knowledge.answers.ask_base(tool.config.base.name, scope_id, asked.question, asked.k)
    knowledge.principal.require(ASKS)
    mine = tool(knowledge.answering, asker(knowledge.principal))
    return await mine.ask(scope_id, asked.question, asked.k, None)
