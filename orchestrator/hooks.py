"""What an orchestrator calls as its work goes on; nothing that fails here ever reaches it.

What is told is kept in the stores before a hook returns, so a failure may be told before a restart and its solution
after it, or by another process. Only checkpoints run in the background.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self
from uuid import UUID

from knowledge.errors import Conflict, InvalidInput, NotFound, Unavailable, reason_of
from knowledge.forms import as_id
from knowledge.logs import get_logger
from knowledge.memory.events import EventResult, TaskEventService
from knowledge.models import CheckpointType, Context, Task
from orchestrator.breaker import CircuitBreaker
from orchestrator.context import OrchestratorContextBuilder
from orchestrator.deadline import within
from orchestrator.learn.fields import ends_within_limit, storable

if TYPE_CHECKING:
    from orchestrator.connection import AnyKnowledge

log = get_logger(__name__)

DEADLINE = timedelta(seconds=5)
"""What keeping an event may take; ours. On real stores it takes milliseconds."""
PATIENCE = timedelta(minutes=1)
"""How long the end of a block waits for checkpoints; what they leave stays staged for the next one."""
LONGEST = timedelta(minutes=30)
"""What one checkpoint may take, ours: those after it wait for it. What it leaves stays staged for the next one."""

_EVIDENCE = frozenset(
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
"""What people, agents and their programs wrote, as long as it may be: most of a lesson is better than none of it."""

_KEYS = frozenset({"project_id", "task_id", "run_id"})
_IDS = {"tried": "a pattern", "failures": "an entry"}

_NEED_NOT_BE = frozenset(
    {
        "agent_type",
        "error_message",
        "run_id",
        "task_description",
        "task_id",
        "task_type",
        "technology",
        "verified_by",
        "when_to_try",
    }
)
"""Told blank they are untold, of an event that does without; but not what would be a lesson: that was to be told."""

_Told = ParamSpec("_Told")
_Event = Callable[Concatenate[TaskEventService, _Told], Coroutine[Any, Any, EventResult]]


def _hook(
    event: _Event[_Told],
) -> Callable[Concatenate[OrchestratorHooks, _Told], Coroutine[Any, Any, EventResult]]:
    """Return the hook of an event, with its name and arguments."""
    untold = {name for name, each in signature(event).parameters.items() if each.default is None} & _NEED_NOT_BE

    @functools.wraps(event)
    async def tell(self: OrchestratorHooks, /, *told: _Told.args, **named: _Told.kwargs) -> EventResult:
        fitting = {
            name: None if name in untold and _is_blank(value) else _told(name, value) for name, value in named.items()
        }
        strange = _take_out_strange(fitting)
        kept = await self.keep(event.__name__, lambda: getattr(self.knowledge.events, event.__name__)(*told, **fitting))
        return self._without(event.__name__, kept, strange) if strange and kept.degraded is None else kept

    tell.__doc__ = (event.__doc__ or "").partition("\n")[0] + " Never raises."
    return tell


def _told(name: str, value: object) -> object:
    """Return what is told of an event as it can be kept: ids as the texts that a context has them as."""
    if name in _EVIDENCE:
        return _fitting(value)
    return _as_key(value) if name in _KEYS else value


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _as_key(value: Any) -> Any:
    """Return the id of a project, task or run as a text: databases give them as numbers and UUIDs."""
    return str(value) if isinstance(value, int | UUID) and not isinstance(value, bool) else value


def _fitting(text: object) -> object:
    """Return a text as it can be kept: its ends, and that something was between, and no character that cannot be."""
    return ends_within_limit(storable(text), "cut: there was more here") if isinstance(text, str) else text


def _take_out_strange(told: dict[str, Any]) -> list[str]:
    """Take out of `tried` and `failures` what is no id, as agents make some up; return what there was, in words.

    The event itself is true.
    """
    return [said for name, what in _IDS.items() if (said := _without_strange(told, name, what))]


def _without_strange(told: dict[str, Any], name: str, what: str) -> str | None:
    ids = told.get(name)
    if ids is None:
        return None
    several = isinstance(ids, list | tuple | set | frozenset)
    given = ids if several else [ids]
    strange = [each for each in given if not _is_id(each)]
    if strange or not several:
        told[name] = [each for each in given if _is_id(each)]
    named = ", ".join(repr(each)[:50] for each in strange)
    return f"{name}: passed over what is no id of {what}: {named}" if strange else None


def _is_id(told: object) -> bool:
    with suppress(InvalidInput):
        as_id("tried", told)
        return True
    return False


class OrchestratorHooks:
    """The events of an orchestrator, over the services of a workspace; an async context manager.

    No hook raises, and none takes longer than `deadline`: what could not be kept is logged, counted, and said in
    `degraded` of what it returns. `counts` has, by the name of the event, how often it was told, and with `_degraded`
    behind the name how often it could not be kept.
    """

    def __init__(self, knowledge: AnyKnowledge, *, deadline: timedelta = DEADLINE) -> None:
        self.knowledge = knowledge
        self.counts: Counter[str] = Counter()
        self._contexts = OrchestratorContextBuilder(knowledge)
        self._deadline = deadline
        self._breaker = CircuitBreaker()
        self._checkpoints: set[asyncio.Task[None]] = set()
        self._waiting: set[tuple[str, CheckpointType]] = set()
        self._one_by_one = asyncio.Lock()

    async def task_started(self, task: Task | Any, agent_type: str) -> Context:
        """Return the context for a task, to be put in front of its agent: see `OrchestratorContextBuilder`.

        With `project_id`, `task_id` and, where a task has several, `run_id`, what becomes of the task is an outcome of
        the patterns in it.
        """
        self.counts["task_started"] += 1
        context = await self._contexts.build_context_for_task(task, agent_type)
        if context.degraded is not None:
            self.counts["task_started_degraded"] += 1
        return context

    task_failed = _hook(TaskEventService.task_failed)
    task_solved = _hook(TaskEventService.task_solved)
    gate_decided = _hook(TaskEventService.gate_decided)

    async def phase_completed(self, project_id: str) -> None:
        """Start a checkpoint of a project and return at once; one that waits already does for both."""
        self._start("phase_completed", project_id, CheckpointType.PHASE_COMPLETION)

    async def project_completed(self, project_id: str) -> None:
        """Start the last checkpoint of a project and return at once; what was never resolved is abandoned."""
        self._start("project_completed", project_id, CheckpointType.PROJECT_COMPLETION)

    async def project_cancelled(self, project_id: str) -> None:
        """As `project_completed`, but of what is staged only what somebody vouches for is embedded."""
        self._start("project_cancelled", project_id, CheckpointType.CANCELLATION)

    async def keep(self, event: str, work: Callable[[], Awaitable[EventResult]]) -> EventResult:
        """Return what work kept, or why it kept nothing; never raises but for a cancellation from outside.

        After failures of the stores in a row nothing is tried for a few seconds.
        """
        self.counts[event] += 1
        if reason := self._breaker.resting():
            self.counts[f"{event}_degraded"] += 1
            return EventResult(degraded=f"not tried, as calls before failed: {reason}")
        try:
            kept = await within(self._deadline.total_seconds(), _run(work))
        except TimeoutError:
            late = Unavailable(f"no answer within {self._deadline.total_seconds():g} s")
            return self._broken(event, late)
        except Unavailable as error:
            return self._broken(event, error)
        except (Conflict, NotFound) as error:  # the stores answered: this event they do not take
            self._breaker.succeeded()
            return EventResult(degraded=self._degraded(event, error))
        except Exception as error:  # noqa: BLE001 - the degrade boundary: nothing of ours may stop the orchestrator
            return EventResult(degraded=self._degraded(event, error))
        self._breaker.succeeded()
        if kept.degraded is not None:
            self._note(event, "kept in part")
        return kept

    def _without(self, event: str, kept: EventResult, strange: Sequence[str]) -> EventResult:
        """Return what was kept of an event, and say what was not."""
        self._note(event, InvalidInput.__name__)
        return replace(kept, degraded="; ".join(strange))

    def _broken(self, event: str, error: Unavailable) -> EventResult:
        self._breaker.failed(str(error))
        return EventResult(degraded=self._degraded(event, error))

    def _degraded(self, event: str, error: Exception) -> str:
        self._note(event, reason_of(error))
        return str(error) or type(error).__name__

    def _note(self, event: str, reason: str) -> None:
        self.counts[f"{event}_degraded"] += 1
        log.warning("hook_degraded", hook=event, reason=reason)

    def _start(self, event: str, project_id: str, checkpoint_type: CheckpointType) -> None:
        self.counts[event] += 1
        project_id = _as_key(project_id)
        same = (repr(project_id), checkpoint_type)  # whatever is told can be shown, not all of it hashed
        if same in self._waiting:
            return
        self._waiting.add(same)
        task = asyncio.create_task(self._checkpoint(event, project_id, checkpoint_type))
        self._checkpoints.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._checkpoints.discard)

    async def _checkpoint(self, event: str, project_id: str, checkpoint_type: CheckpointType) -> None:
        try:
            async with self._one_by_one:
                self._waiting.discard((repr(project_id), checkpoint_type))  # what is told from now on takes another one
                async with asyncio.timeout(LONGEST.total_seconds()):
                    await self.knowledge.checkpoints.process_checkpoint(project_id, checkpoint_type)
        except TimeoutError:
            self._degraded(event, Unavailable(f"no end within {LONGEST.total_seconds():g} s"))
        except Exception as error:  # noqa: BLE001 - nobody waits for it: what is staged stays so for the next one
            self._degraded(event, error)

    async def settled(self) -> None:
        """Wait until every checkpoint that was started has ended."""
        while self._checkpoints:
            await asyncio.wait(self._checkpoints)

    async def __aenter__(self) -> Self:
        """Use it for a block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let checkpoints end, or give them up after a minute."""
        if self._checkpoints:
            await asyncio.wait(self._checkpoints, timeout=PATIENCE.total_seconds())
        for task in self._checkpoints:
            task.cancel()
        await asyncio.gather(*self._checkpoints, return_exceptions=True)
        self._waiting.clear()


async def _run(work: Callable[[], Awaitable[EventResult]]) -> EventResult:
    return await work()
