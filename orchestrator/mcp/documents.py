"""The document tools of an agent, offered over MCP under their own names."""

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

ASK_PERMISSION = "answering.ask"
"""The operation of every document tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuestion:
    """A question to one knowledge base; the tool has a further argument for its scope."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    question: str
    k: Annotated[int, Field(ge=1, le=MAX_K, strict=True)] = DEFAULT_K


def check_scope(tool: type[DocumentTool], scope_id: Any) -> str | None:
    """Return the scope id of a tool call.

    Raises InvalidInput, with the tool's name for the argument, for an id that is missing or invalid.
    """
    try:
        tool.config.base.partition(scope_id)
    except InvalidInput as error:
        raise InvalidInput(tool.scope_argument or error.field, error.reason) from error
    checked: str | None = scope_id
    return checked


async def answer_from(
    tool: type[DocumentTool], knowledge: AnyKnowledge, scope_id: str | None, body: DocumentQuestion
) -> ToolAnswer:
    """Answer from one knowledge base, within the caller's permissions: in process, or on the server.

    Raises AccessDenied, NoAccess or InvalidInput.
    """
    if isinstance(knowledge, KnowledgeClient):
        return await knowledge.answers.ask_base(tool.config.base.name, scope_id, body.question, body.k)
    knowledge.principal.require(ASK_PERMISSION)
    return await tool(knowledge.answering, asker(knowledge.principal)).ask(scope_id, body.question, body.k, None)
