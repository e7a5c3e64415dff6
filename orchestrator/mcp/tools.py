"""The tools of the Model Context Protocol, as functions on open knowledge.

Each names its operations, so that a key is shown only the tools that it may use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from hardwon.client.arguments import (
    arguments_type,
    context_arguments,
    field_values,
    parse_arguments,
    read_context_request,
)
from hardwon.client.entries import EntryCreated
from hardwon.client.knowledge_client import services
from hardwon.client.operations import Operation, Tool, return_type
from hardwon.coercion import coerce, shape_of
from hardwon.errors import AccessDenied, NotFound, Unavailable
from hardwon.models.answers import ToolAnswer
from hardwon.text.truncation import truncate_middle
from knowledge.access.permissions import operations
from knowledge.models import (
    CheckpointReport,
    Context,
    Entry,
    EntryId,
    EntryType,
    NewEntry,
)
from orchestrator.connection import AnyKnowledge
from orchestrator.context.builders import ContextBuilders
from orchestrator.entries import as_invalid_input, parse_entry, resolve_entry, text_to_resolve
from orchestrator.mcp.arguments import (
    ASK_PERMISSION,
    CheckpointArguments,
    DocumentQuestion,
    OutcomeArguments,
    ResolutionArguments,
    UnresolvedArguments,
    answer_from,
    check_scope,
)
from orchestrator.qa.wrappers import TOOLS as DOCUMENT_TOOLS
from orchestrator.qa.wrappers import DocumentTool

_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_MAX_TEXT_BYTES = 1000
"""Longest text of an unresolved entry in a list."""
_ENTRY_FIELDS = {
    "entry_type": "failure_solution: something failed and was fixed. gate_rejection: a person rejected a proposal."
    " gate_approval: a proposal passed at the first attempt.",
    "project_id": "The project it happened in.",
    "agent_type": "The type of the agent, such as backend. Required for a failure.",
    "task_type": "The kind of task, such as bugfix.",
    "technology": "Such as python.",
    "task_description": "What the task was.",
    "failure_description": "What failed. Required for a failure.",
    "error_message": "The error, as it was printed.",
    "solution_steps": "The solution. Without it, and success_verified, the entry stays open until it is resolved.",
    "success_verified": "Whether it was seen to work. Other solutions are never handed out.",
    "verified_by": "What showed it, such as the name of a test.",
    "gate_type": "The gate, such as design_review. Required for a gate's decision.",
    "proposal": "What was proposed at the gate.",
    "human_feedback": "The reason of the rejection. Required for a rejection.",
    "revision_approach": "The revision that was accepted. Without it the rejection stays open until it is resolved.",
    "approved_approach": "What was approved. Required for an approval.",
    "when_to_try": "When this is worth trying again.",
    "applies_when": "Facts without which it does not apply at all.",
    "dead_ends": "What was tried before and did not help, a text each.",
    "outside_text": "Whether the run had read text from outside before, such as a web page.",
    "task_id": "The task; a task and run count once.",
    "run_id": "The attempt at the task.",
    "idempotency_key": "Your name for this event: repeated, nothing is stored twice.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedEntry:
    """An entry that waits for its resolution. `told`: the text to resolve, a long one shortened to both ends."""

    entry_id: EntryId
    entry_type: EntryType
    project_id: str
    task_id: str | None
    run_id: str | None
    gate_type: str | None
    captured_at: datetime
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """Entries that wait for their resolution, the latest first."""

    unresolved: list[UnresolvedEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """The record of a pattern after an outcome was reported; without counts where none of its entries is live."""

    success_count: int | None = None
    attempt_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of tools: open knowledge with its permissions, and a check of its operations.

    `contexts` makes the builders of all callers of a server: what failed for one is not tried for the next.
    """

    knowledge: AnyKnowledge
    may: Callable[[str], bool]
    contexts: ContextBuilders = field(default_factory=ContextBuilders)

    def sees(self, tool: KnowledgeTool) -> bool:
        """Return whether the caller may use a tool."""
        return all(self.may(operation) for operation in tool.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeTool:
    """A tool: its name, description and operations, its arguments and answer as JSON schemas, and its function."""

    name: str
    title: str
    description: str
    operations: tuple[str, ...]
    arguments: Mapping[str, Any]
    answer: TypeAdapter[Any]
    call: Callable[[Caller, Mapping[str, Any]], Awaitable[Any]]
    read_only: bool = False

    def answer_schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the answer, None where there is none: the protocol takes objects only."""
        schema = self.answer.json_schema(mode="serialization")
        return None if schema.get("type") == "null" else schema


_JSON: Final = TypeAdapter(dict[str, Any])
_adapter: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)
"""The parser of a type: making one takes milliseconds."""


def _parse(kind: type[Any], payload: Mapping[str, Any]) -> Any:
    """Return arguments as their declared type. Raises InvalidInput with the name of the first invalid one."""
    arguments = coerce(shape_of(kind), payload)
    try:
        return _adapter(kind).validate_json(_JSON.dump_json(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise as_invalid_input(first["loc"] or ("arguments",), dict(first)) from error


async def _capture(caller: Caller, payload: Mapping[str, Any]) -> EntryCreated:
    return EntryCreated(entry_id=await caller.knowledge.capture.capture(parse_entry(payload)))


async def _resolve(caller: Caller, payload: Mapping[str, Any]) -> EntryCreated:
    fields = field_values(_parse(ResolutionArguments, payload))
    return EntryCreated(entry_id=await resolve_entry(caller.knowledge.capture, fields.pop("entry_id"), **fields))


async def _list_unresolved(caller: Caller, payload: Mapping[str, Any]) -> Unresolved:
    found = await caller.knowledge.capture.unresolved(**field_values(_parse(UnresolvedArguments, payload)))
    return Unresolved(unresolved=[_make_unresolved(entry) for entry in found])


def _make_unresolved(entry: Entry) -> UnresolvedEntry:
    return UnresolvedEntry(
        entry_id=entry.entry_id,
        entry_type=entry.entry_type,
        project_id=entry.project_id,
        task_id=entry.task_id,
        run_id=entry.run_id,
        gate_type=entry.gate_type,
        captured_at=entry.captured_at,
        told=truncate_middle(text_to_resolve(entry), _MAX_TEXT_BYTES),
    )


async def _build_context(caller: Caller, payload: Mapping[str, Any]) -> Context:
    request = read_context_request(payload)
    if not caller.sees(TOOLS["build_context"]):  # the builder, which never fails, would answer without knowledge
        scopes = sorted({scope for name in TOOLS["build_context"].operations for scope in operations()[name].scopes})
        raise AccessDenied(f"this takes a key of scope {' and '.join(scopes)}, and this one has another")
    builder = caller.contexts.make(caller.knowledge, caller.knowledge.workspace)
    return await builder.build_context_for_task(request.task, request.agent_type)


async def _checkpoint(caller: Caller, payload: Mapping[str, Any]) -> CheckpointReport:
    return await caller.knowledge.checkpoints.process_checkpoint(**field_values(_parse(CheckpointArguments, payload)))


async def _record_outcome(caller: Caller, payload: Mapping[str, Any]) -> OutcomeRecord:
    pattern_id = await caller.knowledge.outcomes.record_outcome(**field_values(_parse(OutcomeArguments, payload)))
    with suppress(NotFound, Unavailable):  # the outcome is stored, even if the pattern cannot be shown
        pattern = await caller.knowledge.queries.get(pattern_id)
        return OutcomeRecord(success_count=pattern.success_count, attempt_count=pattern.attempt_count)
    return OutcomeRecord()


def tool_of(row: Operation, tool: Tool) -> KnowledgeTool:
    """Return a row of the table of operations as a tool."""
    arguments = arguments_type(row)
    answer = tool.answer or return_type(row)

    async def call(caller: Caller, payload: Mapping[str, Any]) -> Any:
        fields = {} if arguments is None else field_values(_parse(arguments, payload))
        result = await row.method_of(caller.knowledge)(**parse_arguments(row, fields))
        return result if tool.answer is None else tool.answer.wrap(result)

    return KnowledgeTool(
        name=row.operation_id,
        title=tool.title,
        description=row.help,
        operations=(row.permission,),
        arguments=_NOTHING if arguments is None else _schema(arguments),
        answer=TypeAdapter(answer),
        call=call,
        read_only=tool.read_only,
    )


def _document_tool(tool: type[DocumentTool]) -> KnowledgeTool:
    """Return a document tool of an agent as an MCP tool, with its own name, description and arguments."""

    async def call(caller: Caller, payload: Mapping[str, Any]) -> ToolAnswer:
        arguments = dict(payload)
        scope_id = check_scope(tool, arguments.pop(tool.scope_argument, None) if tool.scope_argument else None)
        return await answer_from(tool, caller.knowledge, scope_id, _parse(DocumentQuestion, arguments))

    return KnowledgeTool(
        name=tool.name,
        title=f"Ask the {tool.config.base.name} knowledge base",
        description=tool.description,
        operations=(ASK_PERMISSION,),
        arguments=tool.schema().parameters,
        answer=TypeAdapter(ToolAnswer),
        call=call,
        read_only=True,
    )


def _entry_schema() -> dict[str, Any]:
    """Return the schema of an entry, each field described, without the workspace, which the server sets."""
    schema = TypeAdapter(NewEntry).json_schema()
    fields = schema["properties"]
    del fields["workspace"]
    for name, description in _ENTRY_FIELDS.items():
        fields[name] = {"description": description, **fields[name]}
        fields[name]["description"] = description
    return schema | {"additionalProperties": False}


def _schema(kind: type[Any]) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


TOOLS: dict[str, KnowledgeTool] = {
    tool.name: tool
    for tool in (
        KnowledgeTool(
            name="capture",
            title="Capture a learning moment",
            description="Keep a failure with its solution, or a gate's decision. Returns the entry's id.",
            operations=("capture.capture",),
            arguments=_entry_schema(),
            answer=TypeAdapter(EntryCreated),
            call=_capture,
        ),
        KnowledgeTool(
            name="resolve",
            title="Resolve an open entry",
            description="Give an open failure its verified solution, or an open rejection the revision that was"
            " accepted.",
            operations=("capture.resolve_failure", "capture.resolve_gate_rejection"),
            arguments=_schema(ResolutionArguments),
            answer=TypeAdapter(EntryCreated),
            call=_resolve,
        ),
        KnowledgeTool(
            name="list_unresolved",
            title="What waits for its resolution",
            description="Return open failures and rejections, the latest first: resolve takes the id of one.",
            operations=("capture.unresolved",),
            arguments=_schema(UnresolvedArguments),
            answer=TypeAdapter(Unresolved),
            call=_list_unresolved,
            read_only=True,
        ),
        KnowledgeTool(
            name="build_context",
            title="The context of a task",
            description="Return the text to hand to an agent with its task, with what is known where any of it fits."
            " Tell what came of its patterns with record_outcome.",
            operations=("queries.query_for_task", "contexts.record"),
            arguments=_schema(context_arguments()),
            answer=TypeAdapter(Context),
            call=_build_context,
        ),
        KnowledgeTool(
            name="checkpoint",
            title="Reach a checkpoint",
            description="Embed what a project has captured, so that it is found from now on.",
            operations=("checkpoints.process_checkpoint",),
            arguments=_schema(CheckpointArguments),
            answer=TypeAdapter(CheckpointReport),
            call=_checkpoint,
        ),
        KnowledgeTool(
            name="record_outcome",
            title="Tell what came of a pattern",
            description="Tell whether a pattern of a context solved the task: what worked ranks higher from now on.",
            operations=("outcomes.record_outcome", "queries.get"),
            arguments=_schema(OutcomeArguments),
            answer=TypeAdapter(OutcomeRecord),
            call=_record_outcome,
        ),
        *(tool_of(row, row.tool) for service in services() for row in service.operations if row.tool),
        *map(_document_tool, DOCUMENT_TOOLS),
    )
}
