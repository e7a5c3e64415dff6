"""The recorder behind the integrations: it collects the tool calls of runs and sends them, from a thread of its own.

Nothing of it may slow or break an agent: what it holds is bounded, no error leaves it, and the only wait is the one for
a context after a failure, which has a deadline.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any

from hardwon.client.knowledge_client import KnowledgeClient
from hardwon.connection import connect
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.context.context_blocks import find_block
from hardwon.errors import HardwonError, Unavailable, reason_of
from hardwon.event_log import get_logger
from hardwon.models.ids import CONTEXT_SECONDS, DEFAULT_WORKSPACE
from hardwon.models.runs import ToolCall, ToolOutcome, is_trouble
from hardwon.models.tasks import Task
from hardwon.settings import ClientSettings
from hardwon.text.call_lines import describe_failure, show_call
from hardwon.text.truncation import escape_unstorable, truncate_middle

log = get_logger(__name__)

_SESSIONS = 200
_CALLS = 500
"""Latest calls of a session that are sent: those before it were told already."""
_TEXT_BYTES = 8 * 1024
_ARGUMENT_BYTES = 8 * 1024
_REQUEST_BYTES = 1024 * 1024
"""Half of the largest body of the server; ours."""
_CONTEXTS = 20
_PAUSE_SECONDS = 0.2
"""Pause before a run is sent, so that calls close together are told together; ours."""
_RETRY_SECONDS = 10.0
_EXIT_SECONDS = 2.0
_MAX_ID = 200


class AgentGuard:
    """The degrade boundary: log any error of a block as `event`, and go on behind it, as the agent would without us."""

    def __init__(self, event: str, **ids: object) -> None:
        self._event = event
        self._ids = ids

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Suppress an error, but no cancellation and no end of the program."""
        if not isinstance(error, Exception):
            return False
        log.info(self._event, **self._ids, reason=reason_of(error))
        return True


@dataclass(slots=True)
class _Run:
    """A session: its calls by id, the contexts that it was handed, and what was asked and shown already."""

    calls: OrderedDict[str, ToolCall] = field(default_factory=OrderedDict)
    contexts: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    changes: int = 0
    sent: int = 0


class RunRecorder:
    """Collects tool calls of runs in one workspace, and hands out contexts after failures. Thread-safe; never raises.

    `project`: by default that of the folder in which the program runs. `checks`: names of tools that check something
    though their names do not say so. `settings` replace variables of the environment, as those of `connect`.
    """

    def __init__(
        self,
        framework: str,
        *,
        project: str | None = None,
        workspace: str = DEFAULT_WORKSPACE,
        checks: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.framework = framework
        self.project = project
        self.checks = list(checks)
        self._connection = {"workspace": workspace, "settings": settings}
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._changed = threading.Condition()
        self._breaker = CircuitBreaker()
        self._knowledge: KnowledgeClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._pid: int | None = None

    def start(self) -> None:
        """Start the thread where it does not run yet, also in a process that was forked from this one."""
        if self._pid == os.getpid():
            return
        with contextlib.suppress(RuntimeError, OSError):  # the interpreter ends, or has no descriptor left
            self._pid, self._knowledge = os.getpid(), None
            self._changed = threading.Condition()
            self._loop, self._wake = asyncio.new_event_loop(), asyncio.Event()
            threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True).start()
            atexit.register(self.flush, _EXIT_SECONDS)

    def add(self, session: str, call: ToolCall) -> None:
        """Add a call of a session; one that is told again replaces what was told before."""
        with AgentGuard("call_not_recorded", framework=self.framework):
            self.start()
            call = _plain_call(call)
            with self._changed:
                run = self._run(session)
                run.calls[call.id] = call
                while len(run.calls) > _CALLS:
                    run.calls.popitem(last=False)
                run.changes += 1
            if self._loop is not None and self._wake is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._wake.set)

    def knows(self, session: str, call_id: str) -> bool:
        """Return whether a call of a session was told."""
        with self._changed:
            return session in self._runs and call_id[:_MAX_ID] in self._runs[session].calls

    def find_context(self, session: str, call: ToolCall) -> str:
        """Return the context for a failed call, empty where nothing is known in time."""
        future = None
        with AgentGuard("run_context_missed", framework=self.framework):
            future = self._ask(session, call)
            return "" if future is None else future.result(CONTEXT_SECONDS)
        return self._give_up(future)

    async def find_context_async(self, session: str, call: ToolCall) -> str:
        """Return the context for a failed call, empty where nothing is known in time."""
        future = None
        with AgentGuard("run_context_missed", framework=self.framework):
            future = self._ask(session, call)
            return "" if future is None else await asyncio.wait_for(asyncio.wrap_future(future), CONTEXT_SECONDS)
        return self._give_up(future)

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until what was collected is sent; return False where it was not in time."""
        if self._pid != os.getpid():
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not self._unsent(), seconds)

    def _run(self, session: str) -> _Run:
        run = self._runs.setdefault(session, _Run())
        self._runs.move_to_end(session)
        while len(self._runs) > _SESSIONS:
            self._runs.popitem(last=False)
        return run

    def _unsent(self) -> list[tuple[str, _Run]]:
        return [(session, run) for session, run in self._runs.items() if run.changes > run.sent]

    def _ask(self, session: str, call: ToolCall) -> Future[str] | None:
        """Return the context to come; None where no question is worth it, or nobody can answer now."""
        self.start()
        words = call.text.strip()[-_TEXT_BYTES:]
        if self._knowledge is None or self._loop is None or not words or call.outcome is not ToolOutcome.FAILED:
            return None
        with self._changed:
            run = self._run(session)
            if words in run.asked or self._breaker.refusal_reason() is not None:
                return None
        return self._submit(self._fetch_context(session, run, call, words))

    def _submit(self, work: Coroutine[Any, Any, str]) -> Future[str] | None:
        assert self._loop is not None  # noqa: S101 - for the checker
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            return None

    def _give_up(self, future: Future[str] | None) -> str:
        if future is not None:
            future.cancel()
        self._breaker.record_failure("run_context_missed")
        return ""

    async def _fetch_context(self, session: str, run: _Run, call: ToolCall, words: str) -> str:
        assert self._knowledge is not None  # noqa: S101 - for the checker
        text = truncate_middle(escape_unstorable(call.text), _TEXT_BYTES)
        task = Task(
            description=describe_failure(show_call(call.tool, call.arguments), text),
            type="bugfix",
            project_id=self.project,
            task_id=session[:_MAX_ID] if self.project else None,
            run_id=_reported_id(session),
            facts={"error": text},
        )
        context = await self._knowledge.build_context(task, "developer")
        self._breaker.record_success()
        if context.degraded is None or context.patterns:
            run.asked.add(words)
        block = find_block(context.text)
        shown = ",".join(sorted(str(each.pattern_id) for each in context.patterns))
        if not shown or block is None or shown in run.shown:
            return ""
        with self._changed:
            run.shown.add(shown)
            run.contexts = [*run.contexts, block][-_CONTEXTS:]
        return block

    async def _serve(self) -> None:
        """Connect, and send what changes, for as long as the process lives."""
        while True:
            with AgentGuard("run_not_told", framework=self.framework):
                async with connect(**self._connection) as knowledge:  # type: ignore[arg-type]
                    knowledge.settings = ClientSettings(query_deadline_ms=int(CONTEXT_SECONDS * 900))
                    self._knowledge = knowledge
                    await self._send_changes(knowledge)
            self._knowledge = None
            await asyncio.sleep(_RETRY_SECONDS)

    async def _send_changes(self, knowledge: KnowledgeClient) -> None:
        assert self._wake is not None  # noqa: S101 - for the checker
        while True:
            with self._changed:
                waiting = [(session, run, run.changes, list(run.calls.values())) for session, run in self._unsent()]
            for session, run, changes, calls in waiting:
                try:
                    await knowledge.runs.learn(**self._body(session, run, calls))
                except Unavailable:
                    raise
                except HardwonError as error:  # it was refused, and would be again
                    log.warning("run_not_told", framework=self.framework, reason=reason_of(error))
                with self._changed:
                    run.sent = max(run.sent, changes)
                    self._changed.notify_all()
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _body(self, session: str, run: _Run, calls: Sequence[ToolCall]) -> dict[str, Any]:
        sent: list[ToolCall] = []
        room = _REQUEST_BYTES
        for call in reversed(calls):
            room -= len(json.dumps(asdict(call)))
            if room < 0:
                break
            sent.append(call)
        return {
            "framework": self.framework,
            "session_id": _reported_id(session),
            "calls": sent[::-1],
            "folder": os.getcwd(),  # noqa: PTH109 - its text
            "project_id": self.project,
            "checks": self.checks or None,
            "contexts": list(run.contexts) or None,
        }


def _reported_id(session: str) -> str:
    return escape_unstorable(session).strip()[:_MAX_ID] or "unknown"


def _plain_call(call: ToolCall) -> ToolCall:
    """Return a call as it is kept and sent: texts without their middle where they are long, arguments as JSON has."""
    return ToolCall(
        id=escape_unstorable(call.id)[:_MAX_ID] or "unknown",
        tool=escape_unstorable(call.tool)[:_MAX_ID] or "unknown",
        arguments={_cut(str(name), _MAX_ID): _plain_value(value) for name, value in call.arguments.items()},
        outcome=call.outcome,
        text=_cut(call.text, _TEXT_BYTES),
        exit_code=call.exit_code,
        proposal=_cut(call.proposal, _TEXT_BYTES),
        by_person=call.by_person,
    )


def _plain_value(value: object) -> Any:
    shown = show_result(value)
    is_plain = not isinstance(value, str) and len(shown) <= _ARGUMENT_BYTES
    with contextlib.suppress(ValueError, RecursionError):
        if is_plain and (plain := json.loads(shown)) is not None:
            return plain
    return _cut(shown, _ARGUMENT_BYTES)


def _cut(text: str, limit: int) -> str:
    ends = text if len(text) <= 4 * limit else text[: 2 * limit] + text[-2 * limit :]
    return truncate_middle(escape_unstorable(ends), limit, "\n[...]\n")


def parse_arguments(arguments: object) -> dict[str, Any]:
    """Return the arguments of a call as a mapping, from one or from its JSON."""
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments or "{}")
    return dict(arguments) if isinstance(arguments, Mapping) else {"input": str(arguments)}


def show_result(value: object) -> str:
    """Return the result of a tool, or an argument, as text; whatever it is, this raises nothing."""
    if isinstance(value, str):
        return value
    with AgentGuard("result_not_shown"):  # what a program's own objects do when they are shown is theirs
        if isinstance(value, Mapping | list | tuple | bool | int | float):
            return json.dumps(value, default=str)
        return "" if value is None else str(value)
    return f"<{type(value).__name__}>"


def failed_call(call_id: str, tool: str, arguments: object, error: BaseException) -> ToolCall:
    """Return the call of a tool that raised: a failure, unless the error says that nothing was tried."""
    name = type(error).__name__
    outputs = [_decode(getattr(error, part, None)) for part in ("stdout", "stderr")]
    output = "\n".join(filter(None, outputs))
    exit_code = getattr(error, "returncode", None)
    is_call_trouble = any(is_trouble(each.__name__) for each in type(error).__mro__)
    return ToolCall(
        id=call_id,
        tool=tool,
        arguments=parse_arguments(arguments),
        outcome=ToolOutcome.TOOL_ERROR if is_call_trouble else ToolOutcome.FAILED,
        text=output or f"{name}: {show_result(error)}",
        exit_code=exit_code if isinstance(exit_code, int) else None,
    )


def finished_call(call_id: str, tool: str, arguments: object, result: object) -> ToolCall:
    """Return the call of a tool that returned."""
    return ToolCall(
        id=call_id,
        tool=tool,
        arguments=parse_arguments(arguments),
        outcome=ToolOutcome.OK,
        text=show_result(result),
    )


def _decode(output: object) -> str:
    if isinstance(output, bytes):
        return output.decode("utf-8", "replace")
    return output if isinstance(output, str) else ""
