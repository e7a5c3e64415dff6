"""The arguments of the MCP tools that are not in the table of operations, for their JSON schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field, StrictBool

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.errors import InvalidInput
from hardwon.models.answers import ToolAnswer
from knowledge.documents.requesters import asker
from knowledge.models import AppliesWhen, CheckpointType
from orchestrator.connection import AnyKnowledge
from orchestrator.qa.document_qa_tool import DEFAULT_K, MAX_K
from orchestrator.qa.wrappers import DocumentTool

_FORBID: dict[str, Any] = {"extra": "forbid"}
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionArguments:
    """The resolution of an open entry."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    entry_id: Annotated[UUID, Field(description="The id of the open entry, from capture or list_unresolved.")]
    solution_steps: Annotated[str | None, Field(description="For a failure: the solution.")] = None
    revision_approach: Annotated[str | None, Field(description="For a rejection: the accepted revision.")] = None
    verified_by: Annotated[str | None, Field(description="The proof that it works. Required for a failure.")] = None
    when_to_try: Annotated[str | None, Field(description="When this is worth trying again.")] = None
    applies_when: Annotated[AppliesWhen | None, Field(description="Facts without which it does not apply at all.")] = (
        None
    )
    dead_ends: Annotated[tuple[str, ...], Field(description="What was tried before and did not help.")] = ()
    outside_text: Annotated[StrictBool, Field(description="Whether the run had read text from outside before.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointArguments:
    """A checkpoint that a project has reached."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Annotated[Text, Field(description="The project that reached a checkpoint.")]
    checkpoint_type: Annotated[
        CheckpointType,
        Field(description="The kind of checkpoint. A complete or cancelled project gives up its open entries."),
    ] = CheckpointType.PHASE_COMPLETION


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeArguments:
    """The outcome of a pattern of a context."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    context_id: Annotated[UUID, Field(description="The id of the context, from build_context.")]
    pattern_id: Annotated[UUID, Field(description="The id of the pattern that was tried.")]
    worked: Annotated[StrictBool, Field(description="Whether it solved the task.")]
    project_id: Annotated[str | None, Field(description="The task's project, unless the context has it.")] = None
    task_id: Annotated[str | None, Field(description="The task's id, unless the context has it.")] = None
    run_id: Annotated[str | None, Field(description="The attempt; an attempt counts once.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedArguments:
    """A page of open entries."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID
    project_id: Annotated[Text | None, Field(description="Only those of this project.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="At most so many.")] = 20
    after: Annotated[UUID | None, Field(description="The last entry listed before, for those behind it.")] = None


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
