"""What an orchestrator and its agents may do through the Model Context Protocol: tools, as functions on open knowledge.

Each names the operation it is of, so that a key sees those only which it may use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from knowledge.access.operations import OPERATIONS
from knowledge.ends import truncate_middle
from knowledge.errors import AccessDenied, NotFound, Unavailable
from knowledge.models import (
    CheckpointReport,
    Context,
    ContextId,
    Entry,
    EntryId,
    EntryType,
    NewEntry,
    PatternId,
    Task,
)
from orchestrator.breaker import Breakers
from orchestrator.client.arguments import arguments_type, members_of, read_arguments
from orchestrator.client.capture import EntryCreated
from orchestrator.client.knowledge_client import services
from orchestrator.client.table import Operation, Tool, returned_by
from orchestrator.connection import AnyKnowledge
from orchestrator.context import OrchestratorContextBuilder
from orchestrator.entries import as_invalid_input, parse_entry, resolve_entry, text_to_resolve
from orchestrator.mcp.arguments import ContextOf, OpenOf, OutcomeTold, Reached, Resolution
from orchestrator.mcp.documents import ASKS, DocumentQuestion, answer_from, checked_scope
from orchestrator.tools.document_qa_tool import ToolAnswer
from orchestrator.tools.wrappers import TOOLS as DOCUMENT_TOOLS
from orchestrator.tools.wrappers import DocumentTool

_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_MOST_TOLD = 1000
"""Most bytes that a list shows of an entry that waits for its resolution."""
_ENTRY_FIELDS = {
    "entry_type": "failure_solution: something failed and was mended. gate_rejection: a person turned a proposal down."
    " gate_approval: a proposal passed at the first attempt.",
    "project_id": "The project it happened in.",
    "agent_type": "The type of the agent, such as backend. Required for a failure.",
    "task_type": "The kind of task, such as bugfix.",
    "technology": "Such as python.",
    "task_description": "What the task was.",
    "failure_description": "What failed. Required for a failure.",
    "error_message": "The error, as it was printed.",
    "solution_steps": "What mended it. Without it, and success_verified, the entry stays open until it is resolved.",
    "success_verified": "Whether it was seen to work. What was not is never handed out.",
    "verified_by": "What showed it, such as the name of a test.",
    "gate_type": "The gate, such as design_review. Required for a gate's decision.",
    "proposal": "What was proposed at the gate.",
    "human_feedback": "Why it was turned down. Required for a rejection.",
    "revision_approach": "The revision that was accepted. Without it the rejection stays open until it is resolved.",
    "approved_approach": "What was approved. Required for an approval.",
    "when_to_try": "When this is worth trying again.",
    "applies_when": "Facts without which it does not apply at all.",
    "task_id": "The task; a task and run count once.",
    "run_id": "The attempt at the task.",
    "idempotency_key": "A name of yours for this event: told again, nothing is stored twice.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An entry that waits for its resolution. `told`: what has to be resolved, of a long text both ends."""

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

    unresolved: list[Waiting]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeKept:
    """The record of a pattern after an outcome was reported; without counts where none of its entries is live."""

    success_count: int | None = None
    attempt_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose tools these are: open knowledge as the caller has it, and the operations it may ask for.

    `breakers` are those of all callers of a server: what failed for one is not tried for the next.
    """

    knowledge: AnyKnowledge
    may: Callable[[str], bool]
    breakers: Breakers = field(default_factory=Breakers)

    def sees(self, tool: KnowledgeTool) -> bool:
        """Return whether the caller may use a tool."""
        return all(self.may(operation) for operation in tool.operations)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeTool:
    """A tool: what it is called, the operation it is of, its arguments and answer as JSON schemas, what it does."""

    name: str
    title: str
    says: str
    operations: tuple[str, ...]
    arguments: Mapping[str, Any]
    answer: TypeAdapter[Any]
    call: Callable[[Caller, Mapping[str, Any]], Awaitable[Any]]
    reads: bool = False

    def answer_schema(self) -> dict[str, Any]:
        """Return the JSON schema of what it answers."""
        return self.answer.json_schema(mode="serialization")


def _read(kind: type[Any], told: Mapping[str, Any]) -> Any:
    """Return arguments as they are declared. Raises InvalidInput, naming the one that is wrong."""
    try:
        return TypeAdapter(kind).validate_json(_json(told))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise as_invalid_input(first["loc"] or ("arguments",), dict(first)) from error


def _json(told: Mapping[str, Any]) -> bytes:
    return TypeAdapter(dict[str, Any]).dump_json(dict(told))


async def _capture(caller: Caller, told: Mapping[str, Any]) -> EntryCreated:
    return EntryCreated(entry_id=await caller.knowledge.capture.capture(parse_entry(told)))


async def _resolve(caller: Caller, told: Mapping[str, Any]) -> EntryCreated:
    asked: Resolution = _read(Resolution, told)
    resolved = await resolve_entry(
        caller.knowledge.capture,
        EntryId(asked.entry_id),
        solution_steps=asked.solution_steps,
        revision_approach=asked.revision_approach,
        verified_by=asked.verified_by,
        when_to_try=asked.when_to_try,
        applies_when=asked.applies_when,
    )
    return EntryCreated(entry_id=resolved)


async def _unresolved(caller: Caller, told: Mapping[str, Any]) -> Unresolved:
    asked: OpenOf = _read(OpenOf, told)
    last = None if asked.after is None else EntryId(asked.after)
    found = await caller.knowledge.capture.unresolved(project_id=asked.project_id, limit=asked.limit, after=last)
    return Unresolved(unresolved=[_as_waiting(entry) for entry in found])


def _as_waiting(entry: Entry) -> Waiting:
    return Waiting(
        entry_id=entry.entry_id,
        entry_type=entry.entry_type,
        project_id=entry.project_id,
        task_id=entry.task_id,
        run_id=entry.run_id,
        gate_type=entry.gate_type,
        captured_at=entry.captured_at,
        told=truncate_middle(text_to_resolve(entry), _MOST_TOLD),
    )


async def _build_context(caller: Caller, told: Mapping[str, Any]) -> Context:
    asked: ContextOf = _read(ContextOf, told)
    if not caller.sees(TOOLS["build_context"]):  # the builder, which never fails, would answer without knowledge
        wanted = sorted({scope for name in TOOLS["build_context"].operations for scope in OPERATIONS[name].scopes})
        raise AccessDenied(f"this takes a key of scope {' and '.join(wanted)}, and this one has another")
    task = Task(
        description=asked.task_description,
        type=asked.task_type,
        technology=asked.technology,
        project_id=asked.project_id,
        task_id=asked.task_id,
        run_id=asked.run_id,
        facts=asked.facts,
    )
    breaker = caller.breakers.for_workspace(caller.knowledge.workspace)
    return await OrchestratorContextBuilder(caller.knowledge, breaker).build_context_for_task(task, asked.agent_type)


async def _checkpoint(caller: Caller, told: Mapping[str, Any]) -> CheckpointReport:
    asked: Reached = _read(Reached, told)
    return await caller.knowledge.checkpoints.process_checkpoint(asked.project_id, asked.checkpoint_type)


async def _record_outcome(caller: Caller, told: Mapping[str, Any]) -> OutcomeKept:
    asked: OutcomeTold = _read(OutcomeTold, told)
    counted = await caller.knowledge.outcomes.record_outcome(
        ContextId(asked.context_id),
        PatternId(asked.pattern_id),
        worked=asked.worked,
        project_id=asked.project_id,
        task_id=asked.task_id,
        run_id=asked.run_id,
    )
    with suppress(NotFound, Unavailable):  # it is kept by now, whatever there is to show of it
        pattern = await caller.knowledge.queries.get(counted)
        return OutcomeKept(success_count=pattern.success_count, attempt_count=pattern.attempt_count)
    return OutcomeKept()


def tool_of(row: Operation, tool: Tool) -> KnowledgeTool:
    """Return a row of the table of operations as a tool."""
    arguments = arguments_type(row)
    answer = tool.answer or returned_by(row)

    async def call(caller: Caller, told: Mapping[str, Any]) -> Any:
        asked = {} if arguments is None else members_of(_read(arguments, told))
        service = getattr(caller.knowledge, row.service) if row.service else caller.knowledge
        found = await getattr(service, row.method)(**read_arguments(row, asked))
        return found if tool.answer is None else tool.answer.wrap(found)

    return KnowledgeTool(
        name=row.operation_id,
        title=tool.title,
        says=row.help,
        operations=(row.permission,),
        arguments=_NOTHING if arguments is None else _schema(arguments),
        answer=TypeAdapter(answer),
        call=call,
        reads=tool.reads,
    )


def _asking(tool: type[DocumentTool]) -> KnowledgeTool:
    """Return a document tool of an agent as one of these, with its own name, description and arguments."""

    async def call(caller: Caller, told: Mapping[str, Any]) -> ToolAnswer:
        arguments = dict(told)
        scope_id = checked_scope(tool, arguments.pop(tool.scope_argument, None) if tool.scope_argument else None)
        asked: DocumentQuestion = _read(DocumentQuestion, arguments)
        return await answer_from(tool, caller.knowledge, scope_id, asked)

    return KnowledgeTool(
        name=tool.name,
        title=f"Ask the {tool.config.base.name} knowledge base",
        says=tool.description,
        operations=(ASKS,),
        arguments=tool.schema().parameters,
        answer=TypeAdapter(ToolAnswer),
        call=call,
        reads=True,
    )


def _entry_schema() -> dict[str, Any]:
    """Return the schema of an entry, each field described; the workspace is that of the door."""
    schema = TypeAdapter(NewEntry).json_schema()
    fields = schema["properties"]
    del fields["workspace"]
    for name, says in _ENTRY_FIELDS.items():
        fields[name] = {"description": says, **fields[name]}
        fields[name]["description"] = says
    return schema | {"additionalProperties": False}


def _schema(kind: type[Any]) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


TOOLS: dict[str, KnowledgeTool] = {
    tool.name: tool
    for tool in (
        KnowledgeTool(
            name="capture",
            title="Capture a learning moment",
            says="Keep a failure with its solution, or a gate's decision. Returns the entry's id.",
            operations=("capture.capture",),
            arguments=_entry_schema(),
            answer=TypeAdapter(EntryCreated),
            call=_capture,
        ),
        KnowledgeTool(
            name="resolve",
            title="Resolve an open entry",
            says="Give an open failure its verified solution, or an open rejection the revision that was accepted.",
            operations=("capture.resolve_failure", "capture.resolve_gate_rejection"),
            arguments=_schema(Resolution),
            answer=TypeAdapter(EntryCreated),
            call=_resolve,
        ),
        KnowledgeTool(
            name="list_unresolved",
            title="What waits for its resolution",
            says="Return open failures and rejections, the latest first: resolve takes the id of one.",
            operations=("capture.unresolved",),
            arguments=_schema(OpenOf),
            answer=TypeAdapter(Unresolved),
            call=_unresolved,
            reads=True,
        ),
        KnowledgeTool(
            name="build_context",
            title="The context of a task",
            says="Return the text to hand to an agent with its task, with what is known where any of it fits."
            " Tell what came of its patterns with record_outcome.",
            operations=("queries.query_for_task", "contexts.record"),
            arguments=_schema(ContextOf),
            answer=TypeAdapter(Context),
            call=_build_context,
        ),
        KnowledgeTool(
            name="checkpoint",
            title="Reach a checkpoint",
            says="Embed what a project has captured, so that it is found from now on.",
            operations=("checkpoints.process_checkpoint",),
            arguments=_schema(Reached),
            answer=TypeAdapter(CheckpointReport),
            call=_checkpoint,
        ),
        KnowledgeTool(
            name="record_outcome",
            title="Tell what came of a pattern",
            says="Tell whether a pattern of a context solved the task: what worked ranks higher from now on.",
            operations=("outcomes.record_outcome", "queries.get"),
            arguments=_schema(OutcomeTold),
            answer=TypeAdapter(OutcomeKept),
            call=_record_outcome,
        ),
        *(tool_of(row, row.tool) for service in services() for row in service.operations if row.tool),
        *map(_asking, DOCUMENT_TOOLS),
    )
}
