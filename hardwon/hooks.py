"""Hooks for the events of an orchestrator; no error in here ever reaches it.

An event is stored before its hook returns, so a failure may be reported before a restart and its solution after it, or
by another process. Only checkpoints run in the background.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

from hardwon.client.events import RemoteEvents
from hardwon.coercion import as_text_id, coerce_call, shape_of_call
from hardwon.context.builder import ContextBuilder
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.context.deadline import run_within
from hardwon.errors import Conflict, InvalidInput, NotFound, Unavailable, reason_of
from hardwon.event_log import get_logger
from hardwon.models.ids import CheckpointType
from hardwon.models.reports import EventResult
from hardwon.models.tasks import Context, Task
from hardwon.text.truncation import escape_unstorable, truncate_middle
from hardwon.validation import MAX_DURATION, MAX_TEXT_BYTES, as_id, check_duration

log = get_logger(__name__)

DEADLINE = timedelta(seconds=5)
"""Time limit for storing an event; ours. On real stores it takes milliseconds."""
CLOSE_TIMEOUT = timedelta(minutes=1)
"""Time that the end of a block waits for checkpoints; entries they leave stay staged for the next one."""
MAX_CHECKPOINT_DURATION = timedelta(minutes=30)
"""Time limit of a checkpoint, ours: those after it wait for it. Entries it leaves stay staged for the next one."""

_EVIDENCE_FIELDS = frozenset(
    {
        "task_description",
        "failure_description",
        "error_message",
        "solution_steps",
        "when_to_try",
        "proposal",
        "approach",
        "human_feedback",
    }
)
"""Texts that people, agents and programs wrote; cut if too long, as most of a lesson is better than none of it."""

_MAX_SENT_BYTES = 4 * MAX_TEXT_BYTES
"""Bytes of a text that are sent. The service fits it into its field, after it has removed secrets: half a secret would
not be recognised."""

_ID_FIELDS = {"tried": "a pattern", "failures": "an entry"}

_Arguments = ParamSpec("_Arguments")
_Event = Callable[Concatenate[RemoteEvents, _Arguments], Coroutine[Any, Any, EventResult]]


def _make_hook(
    event: _Event[_Arguments],
) -> Callable[Concatenate[Hooks, _Arguments], Coroutine[Any, Any, EventResult]]:
    """Return the hook of an event, with its name and arguments."""

    @functools.wraps(event)
    async def hook(self: Hooks, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> EventResult:
        problems: list[str] = []

        async def work() -> EventResult:
            arguments = coerce_call(shape_of_call(event), args, _wrap_single_ids(kwargs))
            fitted = {name: _fit_text(text) if name in _EVIDENCE_FIELDS else text for name, text in arguments.items()}
            problems.extend(_remove_invalid_ids(fitted))
            result: EventResult = await getattr(self.knowledge.events, event.__name__)(**fitted)
            return result

        result = await self.run_event(event.__name__, work)
        return (
            self._with_invalid_ids(event.__name__, result, problems) if problems and result.degraded is None else result
        )

    hook.__doc__ = (event.__doc__ or "").partition("\n")[0] + " Never raises."
    return hook


def _wrap_single_ids(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with a list in place of one id, whatever it is: agents make some up, and the rest is valid."""
    return {
        name: [value]
        if name in _ID_FIELDS and value is not None and not isinstance(value, str | list | tuple | set | frozenset)
        else value
        for name, value in arguments.items()
    }


def _fit_text(text: object) -> object:
    """Return a text as it can be sent: unstorable characters escaped, a very long one without its middle."""
    return truncate_middle(escape_unstorable(text), _MAX_SENT_BYTES) if isinstance(text, str) else text


def _remove_invalid_ids(arguments: dict[str, Any]) -> list[str]:
    """Remove invalid ids from `tried` and `failures`, as agents make some up; return a message for each field.

    The rest of the event is valid.
    """
    return [message for name, what in _ID_FIELDS.items() if (message := _remove_invalid_ids_of(arguments, name, what))]


def _remove_invalid_ids_of(arguments: dict[str, Any], name: str, what: str) -> str | None:
    ids = arguments.get(name) or ()
    invalid = [each for each in ids if not _is_id(each)]
    if invalid:
        arguments[name] = [each for each in ids if _is_id(each)]
    shown = ", ".join(repr(each)[:50] for each in invalid)
    return f"{name}: ignored, not an id of {what}: {shown}" if invalid else None


def _is_id(value: object) -> bool:
    with suppress(InvalidInput):
        as_id("tried", value)
        return True
    return False


class Hooks:
    """Hooks for the events of an orchestrator, over the services of a workspace; an async context manager.

    `knowledge` is what `connect` yields. `deadline` is a timedelta or seconds; anything else raises InvalidInput.
    No hook raises, and none takes longer than `deadline`: an event that could not be stored is logged, counted, and
    reported in `degraded` of the result. `counts` has the number of events by name, and, by the name followed by
    `_degraded`, the number of those that could not be stored.
    """

    def __init__(
        self, knowledge: Any, *, deadline: timedelta | float = DEADLINE, contexts: ContextBuilder | None = None
    ) -> None:
        self.knowledge = knowledge
        self.counts: Counter[str] = Counter()
        self._contexts = contexts or ContextBuilder(knowledge)
        self._deadline = _as_duration(deadline)
        self._breaker = CircuitBreaker()
        self._checkpoints: set[asyncio.Task[None]] = set()
        self._waiting: set[tuple[str, CheckpointType]] = set()
        self._one_by_one = asyncio.Lock()

    async def task_started(self, task: Task | Any, agent_type: str) -> Context:
        """Return the context for a task, to be given to its agent: see `ContextBuilder`.

        If the task has a `project_id`, a `task_id` and, where it runs several times, a `run_id`, its result becomes an
        outcome of the patterns in the context.
        """
        self.counts["task_started"] += 1
        context = await self._contexts.build_context_for_task(task, agent_type)
        if context.degraded is not None:
            self.counts["task_started_degraded"] += 1
        return context

    task_failed = _make_hook(RemoteEvents.task_failed)
    task_solved = _make_hook(RemoteEvents.task_solved)
    gate_decided = _make_hook(RemoteEvents.gate_decided)

    async def phase_completed(self, project_id: str) -> None:
        """Start a checkpoint of a project and return at once; one that is queued already serves both calls."""
        self._start_checkpoint("phase_completed", project_id, CheckpointType.PHASE_COMPLETION)

    async def project_completed(self, project_id: str) -> None:
        """Start the last checkpoint of a project and return at once; open entries are abandoned."""
        self._start_checkpoint("project_completed", project_id, CheckpointType.PROJECT_COMPLETION)

    async def project_cancelled(self, project_id: str) -> None:
        """As `project_completed`, but of the staged entries only verified ones and decisions of people are embedded."""
        self._start_checkpoint("project_cancelled", project_id, CheckpointType.CANCELLATION)

    async def run_event(self, event: str, work: Callable[[], Awaitable[EventResult]]) -> EventResult:
        """Run the work of an event and return its result, with the reason in `degraded` if it failed.

        Raises nothing but a cancellation from outside. After several failures of the stores in a row no event is sent
        for a few seconds.
        """
        self.counts[event] += 1
        if reason := self._breaker.refusal_reason():
            self.counts[f"{event}_degraded"] += 1
            return EventResult(degraded=f"not tried, as earlier calls failed: {reason}")
        try:
            result = await run_within(self._deadline.total_seconds(), _run(work))
        except TimeoutError:
            late = Unavailable(f"no answer within {self._deadline.total_seconds():g} s")
            return self._record_unavailable(event, late)
        except Unavailable as error:
            return self._record_unavailable(event, error)
        except (Conflict, NotFound) as error:  # the stores answered and refused this event
            self._breaker.record_success()
            return EventResult(degraded=self._degrade(event, error))
        except Exception as error:  # noqa: BLE001 - the degrade boundary: nothing of ours may stop the orchestrator
            return EventResult(degraded=self._degrade(event, error))
        self._breaker.record_success()
        if result.degraded is not None:
            self._count_degraded(event, "kept in part")
        return result

    def _with_invalid_ids(self, event: str, result: EventResult, problems: Sequence[str]) -> EventResult:
        """Return the result of an event, with the ids that were ignored in `degraded`."""
        self._count_degraded(event, InvalidInput.__name__)
        return replace(result, degraded="; ".join(problems))

    def _record_unavailable(self, event: str, error: Unavailable) -> EventResult:
        self._breaker.record_failure(str(error))
        return EventResult(degraded=self._degrade(event, error))

    def _degrade(self, event: str, error: Exception) -> str:
        self._count_degraded(event, reason_of(error))
        return str(error) or type(error).__name__

    def _count_degraded(self, event: str, reason: str) -> None:
        self.counts[f"{event}_degraded"] += 1
        log.warning("hook_degraded", hook=event, reason=reason)

    def _start_checkpoint(self, event: str, project_id: str, checkpoint_type: CheckpointType) -> None:
        self.counts[event] += 1
        key = (repr(project_id), checkpoint_type)  # not every value that a caller passes is hashable
        if key in self._waiting:
            return
        self._waiting.add(key)
        task = asyncio.create_task(self._run_checkpoint(event, project_id, checkpoint_type))
        self._checkpoints.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._checkpoints.discard)

    async def _run_checkpoint(self, event: str, project_id: str, checkpoint_type: CheckpointType) -> None:
        try:
            async with self._one_by_one:
                self._waiting.discard((repr(project_id), checkpoint_type))  # events from now on need another one
                async with asyncio.timeout(MAX_CHECKPOINT_DURATION.total_seconds()):
                    await self.knowledge.checkpoints.process_checkpoint(
                        as_text_id("project_id", project_id), checkpoint_type
                    )
        except TimeoutError:
            self._degrade(event, Unavailable(f"no end within {MAX_CHECKPOINT_DURATION.total_seconds():g} s"))
        except Exception as error:  # noqa: BLE001 - nobody awaits it: staged entries stay so for the next one
            self._degrade(event, error)

    async def wait_for_checkpoints(self) -> None:
        """Wait until all checkpoints that were started have ended."""
        while self._checkpoints:
            await asyncio.wait(self._checkpoints)

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for checkpoints, and cancel them after a minute."""
        if self._checkpoints:
            await asyncio.wait(self._checkpoints, timeout=CLOSE_TIMEOUT.total_seconds())
        for task in self._checkpoints:
            task.cancel()
        await asyncio.gather(*self._checkpoints, return_exceptions=True)
        self._waiting.clear()


async def _run(work: Callable[[], Awaitable[EventResult]]) -> EventResult:
    return await work()


def _as_duration(deadline: object) -> timedelta:
    """Return a deadline as a duration. Raises InvalidInput unless it is a timedelta, or a number of seconds."""
    if isinstance(deadline, int | float) and not isinstance(deadline, bool):
        if not math.isfinite(deadline):
            raise InvalidInput("deadline", f"must be a number of seconds, not {deadline}")
        deadline = timedelta(seconds=min(deadline, MAX_DURATION.total_seconds()))
    check_duration("deadline", deadline, least=timedelta(microseconds=1))
    assert isinstance(deadline, timedelta)  # noqa: S101 - for the checker
    return deadline
