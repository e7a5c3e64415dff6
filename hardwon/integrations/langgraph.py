"""Learning from the tools of LangGraph: `ToolNode` in the place of the framework's, and a store over the memory.

from hardwon.integrations.langgraph import ToolNode

builder.add_node("tools", ToolNode([run_tests, write_file]))
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables.config import RunnableConfig, ensure_config, merge_configs
from langgraph import prebuilt
from langgraph.errors import GraphInterrupt
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

from hardwon.blocking import BlockingKnowledge, connect_sync
from hardwon.errors import InvalidInput, NotFound
from hardwon.integrations.recorder import (
    AgentGuard,
    RunRecorder,
    failed_call,
    finished_call,
    parse_arguments,
    show_result,
)
from hardwon.models.ids import DEFAULT_WORKSPACE, PatternId
from hardwon.models.patterns import MAX_RESULTS, Pattern
from hardwon.models.runs import ToolCall, ToolOutcome

FRAMEWORK = "langgraph"
_SCRATCHPAD = "__pregel_scratchpad"
"""Key of a config where LangGraph keeps the answers to the interrupts of a task."""
_VERDICTS = ("ok", "approved", "approve", "accepted", "accept", "allowed", "allow", "confirmed", "confirm", "yes")
_DECISIONS = ("type", "decision", "action", "status", "answer")
_REJECTED = frozenset({"reject", "rejected", "deny", "denied", "decline", "declined", "refuse", "refused", "no"})
_REASONS = ("why", "reason", "message", "feedback", "comment", "explanation", "args")
_QUESTIONS = ("proposal", "question", "message", "description", "action", "prompt")


class _Calls(BaseCallbackHandler):
    """The tool calls of one invocation of a node, as the framework's callbacks tell them."""

    run_inline = True  # in the order in which they happen

    def __init__(self, recorder: RunRecorder, session: str) -> None:
        self.recorder = recorder
        self.session = session
        self.begun: dict[UUID, tuple[str, str, dict[str, Any]]] = {}
        self.ended: dict[str, ToolCall] = {}
        self.asked: dict[str, str] = {}
        """What a person is asked, by the call that waits for the answer."""

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **told: Any) -> None:
        """Note a call that begins."""
        name = told.get("name") or (serialized or {}).get("name") or "tool"
        arguments = told.get("inputs")
        call_id = str(told.get("tool_call_id") or run_id)
        self.begun[run_id] = call_id, str(name), parse_arguments(input_str if arguments is None else arguments)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Note a call that has ended."""
        if run_id not in self.begun:
            return
        call_id, name, arguments = self.begun.pop(run_id)
        content = output.content if isinstance(output, ToolMessage) else output
        call = finished_call(call_id, name, arguments, content)
        if isinstance(output, ToolMessage) and output.status == "error":  # a ToolException that the tool handles
            call = ToolCall(
                id=call_id, tool=name, arguments=arguments, outcome=ToolOutcome.FAILED, text=show_result(content)
            )
        self._add(call)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Note a call that failed, or that waits for a person."""
        if run_id not in self.begun:
            return
        call_id, name, arguments = self.begun.pop(run_id)
        if isinstance(error, GraphInterrupt):
            self.asked[call_id] = _question(error)
        else:
            self._add(failed_call(call_id, name, arguments, error))

    def _add(self, call: ToolCall) -> None:
        self.ended[call.id] = call
        self.recorder.add(self.session, call)


class ToolNode(prebuilt.ToolNode):
    """The framework's `ToolNode`, which learns from the calls of its tools.

    What a tool raised is learned as it was, whatever `handle_tool_errors` makes of it. Where it makes a message of it,
    the message ends with what is known of such a failure. A person's answer to an `interrupt` of a tool that turns the
    call down is a rejection.

    `project`, `workspace`, `checks`, `settings`: see `RunRecorder`. `recorder`: one that several nodes share.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        project: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        checks: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        recorder: RunRecorder | None = None,
        **options: Any,
    ) -> None:
        super().__init__(tools, **options)
        self.recorder = recorder or RunRecorder(
            FRAMEWORK, project=project, workspace=workspace, checks=checks, settings=settings
        )
        self._questions: dict[tuple[str, str], str] = {}
        self._default_session = str(uuid4())

    def invoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002 - the framework's name
        """Run the tools that a model called."""
        self.recorder.start()
        config = ensure_config(config)
        calls = _Calls(self.recorder, self._session(config))
        try:
            result = super().invoke(input, merge_configs(config, {"callbacks": [calls]}), **more)
        finally:
            self._note_questions(calls)
        with AgentGuard("rejections_not_told", framework=FRAMEWORK):  # such as in another version of the framework
            self._note_answers(calls, config)
        for message, call in _failures(result, calls):
            _append(message, self.recorder.find_context(calls.session, call))
        return result

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **more: Any) -> Any:  # noqa: A002
        """Run the tools that a model called."""
        self.recorder.start()
        config = ensure_config(config)
        calls = _Calls(self.recorder, self._session(config))
        try:
            result = await super().ainvoke(input, merge_configs(config, {"callbacks": [calls]}), **more)
        finally:
            self._note_questions(calls)
        with AgentGuard("rejections_not_told", framework=FRAMEWORK):  # such as in another version of the framework
            self._note_answers(calls, config)
        for message, call in _failures(result, calls):
            _append(message, await self.recorder.find_context_async(calls.session, call))
        return result

    def _session(self, config: RunnableConfig) -> str:
        return str(config.get("configurable", {}).get("thread_id") or self._default_session)

    def _note_questions(self, calls: _Calls) -> None:
        for call_id, question in calls.asked.items():
            self._questions[calls.session, call_id] = question
        while len(self._questions) > 1000:
            self._questions.pop(next(iter(self._questions)))

    def _note_answers(self, calls: _Calls, config: RunnableConfig) -> None:
        """Note the call that a person turned down: the one that asked, or the only one that was run again."""
        answers = list(getattr(config.get("configurable", {}).get(_SCRATCHPAD), "resume", None) or ())
        rejections = [reason for answer in answers if (reason := _rejection(answer)) is not None]
        ended = {call_id: self._questions.pop((calls.session, call_id), None) for call_id in calls.ended}
        waiting = [call_id for call_id, question in ended.items() if question is not None] or list(ended)
        if len(rejections) != 1 or len(waiting) != 1:
            return
        call = calls.ended[waiting[0]]
        denied = ToolCall(
            id=call.id,
            tool=call.tool,
            arguments=call.arguments,
            outcome=ToolOutcome.DENIED,
            text=rejections[0],
            proposal=ended[call.id] or "",
            by_person=True,
        )
        self.recorder.add(calls.session, denied)


def _failures(result: Any, calls: _Calls) -> list[tuple[ToolMessage, ToolCall]]:
    """Return the messages of calls that failed, with their calls."""
    messages = result.get("messages", ()) if isinstance(result, Mapping) else result
    if not isinstance(messages, list | tuple):
        return []
    found = ((each, calls.ended.get(each.tool_call_id)) for each in messages if isinstance(each, ToolMessage))
    return [
        (message, call)
        for message, call in found
        if call is not None and call.outcome is ToolOutcome.FAILED and isinstance(message.content, str)
    ]


def _append(message: ToolMessage, context: str) -> None:
    if context:
        message.content = f"{message.content}\n\n{context}"


def _question(error: GraphInterrupt) -> str:
    """Return what a person is asked by an interrupt."""
    interrupts = error.args[0] if error.args else ()
    value = interrupts[0].value if interrupts else ""
    if isinstance(value, Mapping):
        value = next((value[name] for name in _QUESTIONS if isinstance(value.get(name), str)), value)
    return show_result(value)


def _rejection(answer: object) -> str | None:
    """Return the reason of an answer that turns something down, empty without one; None for any other answer."""
    if isinstance(answer, Mapping) and isinstance(answer.get("decisions"), list) and len(answer["decisions"]) == 1:
        answer = answer["decisions"][0]
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if answer is False:
        return ""
    if not isinstance(answer, Mapping):
        return None
    says_no = any(answer.get(name) is False for name in _VERDICTS) or any(
        isinstance(answer.get(name), str) and answer[name].strip().lower() in _REJECTED for name in _DECISIONS
    )
    if not says_no:
        return None
    return next((answer[name] for name in _REASONS if isinstance(answer.get(name), str)), "")


class MemoryStore(BaseStore):
    """The memory as a store of LangGraph, for the nodes that orchestrate: patterns are searched, entries are put.

    `search(("patterns",), query=..., filter={"agent_type": ...})` finds patterns; `("failures",)` takes the query as an
    error. `put((project,), key, entry)` captures an entry, `key` is its idempotency key. What was learned is taken back
    by `hardwon revoke`: nothing is deleted here. A context manager; connects at its first use.
    """

    def __init__(self, *, workspace: str = DEFAULT_WORKSPACE, settings: Mapping[str, str] | None = None) -> None:
        self._workspace = workspace
        self._settings = settings
        self._open = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._connected: BlockingKnowledge | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations one after the other, and wait."""
        knowledge = self._knowledge()
        return [_do(knowledge, op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do operations one after the other."""
        return await asyncio.to_thread(self.batch, list(ops))

    def close(self) -> None:
        """Close the connection."""
        self._connected = None
        self._open.close()

    def __enter__(self) -> Self:
        """Use it for a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def _knowledge(self) -> BlockingKnowledge:
        with self._lock:
            if self._connected is None:
                connection = connect_sync(workspace=self._workspace, settings=self._settings)
                self._connected = self._open.enter_context(connection)
            return self._connected


_PATTERNS, _FAILURES = ("patterns",), ("failures",)


def _do(knowledge: BlockingKnowledge, op: Op) -> Result:
    match op:
        case SearchOp():
            return _search(knowledge, op)
        case GetOp(namespace=namespace, key=key):
            return _get(knowledge, namespace, key)
        case PutOp():
            _put(knowledge, op)
            return None
        case ListNamespacesOp(limit=limit, offset=offset):
            namespaces: list[tuple[str, ...]] = [_PATTERNS, _FAILURES]
            return namespaces[offset : offset + limit]
    raise InvalidInput("op", f"{type(op).__name__} is not an operation of this store")


def _search(knowledge: BlockingKnowledge, op: SearchOp) -> list[SearchItem]:
    if not op.query or op.namespace_prefix not in {(), _PATTERNS, _FAILURES}:
        return []
    wanted = {name: value for name, value in (op.filter or {}).items() if name in {"agent_type", "task_type"}}
    most = min(op.limit + op.offset, MAX_RESULTS)
    if op.namespace_prefix == _FAILURES:
        found = knowledge.queries.query_for_failure(op.query, op.query, max_results=most, **wanted)
    else:
        technology = (op.filter or {}).get("technology")
        found = knowledge.queries.query_for_task(op.query, technology=technology, max_results=most, **wanted)
    return [SearchItem(**_fields(each), score=each.relevance) for each in found[op.offset :]]


def _get(knowledge: BlockingKnowledge, namespace: tuple[str, ...], key: str) -> Item | None:
    if namespace not in {_PATTERNS, _FAILURES}:
        return None
    try:
        return _item(knowledge.queries.get(PatternId(UUID(key))))
    except (NotFound, ValueError):
        return None


def _put(knowledge: BlockingKnowledge, op: PutOp) -> None:
    if op.value is None:
        raise InvalidInput("value", "is required: what was learned is taken back with `hardwon revoke`")
    if op.namespace in {_PATTERNS, _FAILURES} or len(op.namespace) != 1:
        raise InvalidInput("namespace", "must be the project of the entry: patterns are made of entries")
    knowledge.capture.capture({"project_id": op.namespace[0], "idempotency_key": op.key, **op.value})


def _item(pattern: Pattern) -> Item:
    return Item(**_fields(pattern))


def _fields(pattern: Pattern) -> dict[str, Any]:
    value = {
        "problem": pattern.problem,
        "solution": pattern.solution,
        "when_to_try": pattern.when_to_try,
        "success_count": pattern.success_count,
        "attempt_count": pattern.attempt_count,
        "entry_type": str(pattern.entry_type),
    }
    at = pattern.founded_at
    return {
        "namespace": _PATTERNS,
        "key": str(pattern.pattern_id),
        "value": value,
        "created_at": at,
        "updated_at": at,
    }
