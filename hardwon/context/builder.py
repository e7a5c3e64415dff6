"""The context an agent gets with its task: the patterns that fit, found within a deadline, or else the task alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from numbers import Real
from typing import Any, Final, Protocol, runtime_checkable
from uuid import uuid4

from hardwon.coercion import REQUIRED, is_absent, likely_names, read_object, shape_of, unknown_name
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.context.deadline import run_within
from hardwon.context.sanitize import sanitize
from hardwon.errors import InvalidInput, TextRejected, Unavailable, reason_of
from hardwon.event_log import get_logger
from hardwon.models.choices import Reason
from hardwon.models.ids import ContextId
from hardwon.models.tasks import Context, ContextRequest, Task
from hardwon.settings import ContextSettings

log = get_logger(__name__)
_OVERRUN_SECONDS = 5.0
"""Seconds that a late context may still run, ours: the connections it opens make the next one quick."""


class Cause(StrEnum):
    """The reason for a degraded context.

    Late, circuit open, invalid task, stores unavailable, a bug, found by words alone, found without the index.
    """

    LATE = "late"
    RESTING = "resting"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"
    WORDS_ONLY = "words_only"
    KNOWN_ONLY = "known_only"


@runtime_checkable
class RemoteContexts(Protocol):
    """Knowledge behind HTTP: the server builds the context in one request."""

    @property
    def settings(self) -> ContextSettings: ...  # noqa: D102

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task."""
        ...


@dataclass(slots=True)
class BuildState:
    """Progress of one context: the context `found` so far, and `returned` once a result went to the caller.

    `cause`: why it lacks something, where that is another reason than words alone.

    `began` and `deadline` are times of the event loop.
    """

    began: float
    deadline: float
    found: Context | None = None
    returned: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds the context of an agent's task; never raises and never exceeds its deadline."""

    knowledge: Any
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    async def build_context_for_task(self, task: Task | Any, agent_type: str) -> Context:
        """Return the context for a task: the basic one, and the block of patterns if any fits.

        `task` is a `Task`, or anything that has `description` and, where known, `type`, `technology`, `project_id`,
        `task_id`, `run_id`, `facts` as attributes or, a mapping, as keys. It takes no longer than the deadline of the
        settings; after an error or a timeout the basic context is returned, with the reason in `degraded`. After
        several failures in a row no query is sent for a few seconds; lateness alone is no failure.
        """
        text = ""
        try:
            given = _fields_of(task)
            text = _describe(given)
            request = read_object(ContextRequest, {"task": _read_task(given), "agent_type": agent_type})
        except Exception as error:  # noqa: BLE001 - the degrade boundary: a malformed task stops nobody either
            log.warning("context_degraded", reason=reason_of(error))
            return Context(
                context_id=ContextId(uuid4()),
                text=text,
                degraded=str(error) or "the task cannot be read",
                reason=Reason.DEGRADED.value,
            )
        context, _ = await self.build(request.task, request.agent_type)
        return context

    async def build(self, task: Task, agent_type: str) -> tuple[Context, Cause | None]:
        """Return the context for a valid task, and why it is without knowledge where it is."""
        context = Context(context_id=ContextId(uuid4()), text=basic_context(task))
        if reason := self.breaker.refusal_reason():
            return _without_knowledge(context, f"not tried, as earlier calls failed: {reason}"), Cause.RESTING
        deadline_ms = self.deadline_ms
        now = asyncio.get_running_loop().time()
        state = BuildState(began=now, deadline=now + deadline_ms / 1000)
        late = Unavailable(f"no answer within {deadline_ms:g} ms")

        def judge_overrun(answered: bool) -> None:  # noqa: FBT001 - a callback
            if answered:
                self.breaker.record_success()
            else:
                self.breaker.record_failure(str(late))

        try:
            built = await run_within(
                deadline_ms / 1000,
                self.find(context, task, agent_type, state),
                overrun_seconds=_OVERRUN_SECONDS,
                on_overrun_end=judge_overrun,
            )
        except TimeoutError:
            state.returned = True
            if state.found is None:
                return _degrade(context, late), Cause.LATE
            built = state.found  # only its record is missing, and that goes on
        except (InvalidInput, TextRejected) as error:  # the fault of this task; others can be queried
            if isinstance(error, TextRejected):  # the endpoint answered
                self.breaker.record_success()
            return _without_knowledge(context, str(error)), Cause.INVALID
        except Unavailable as error:
            self.breaker.record_failure(str(error) or type(error).__name__)
            return _degrade(context, error), Cause.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - the degrade boundary: nothing of ours may stop the orchestrator
            self.breaker.record_failure(str(error) or type(error).__name__)
            return _degrade(context, error), Cause.FAILED
        self.breaker.record_success()
        return built, (state.cause or Cause.WORDS_ONLY) if built.degraded is not None else None

    @property
    def deadline_ms(self) -> float:
        """The milliseconds that a context may take."""
        deadline: float = self.knowledge.settings.query_deadline_ms
        return deadline

    async def find(self, context: Context, task: Task, agent_type: str, state: BuildState) -> Context:  # noqa: ARG002
        """Return the context with what fits, and keep it in `state` as soon as it is known."""
        found: Context = await self.knowledge.build_context(task, agent_type)
        return found


def _degrade(context: Context, error: Exception) -> Context:
    log.warning("context_degraded", context_id=str(context.context_id), reason=reason_of(error))
    return _without_knowledge(context, str(error) or type(error).__name__)


def _without_knowledge(context: Context, why: str) -> Context:
    return replace(context, degraded=why, reason=Reason.DEGRADED.value)


def basic_context(task: Task) -> str:
    """Return the context of a task without any knowledge: its description, type and technology."""
    lines = [f"Task: {sanitize(task.description)}"]
    if task.type:
        lines.append(f"Type: {sanitize(task.type)}")
    if task.technology:
        lines.append(f"Technology: {sanitize(task.technology)}")
    return "\n".join(lines)


_NAMES: Final = shape_of(Task).names


def _fields_of(task: Any) -> dict[str, Any]:
    """Return the fields of the task that an orchestrator passes: a `Task`, a mapping, or an object."""
    if task is None:
        raise InvalidInput("task", REQUIRED)
    if isinstance(task, Mapping):
        return {str(name): value for name, value in task.items()}
    return {name: getattr(task, name) for name in _NAMES if hasattr(task, name)}


def _describe(fields: Mapping[str, Any]) -> str:
    """Return the basic context of a task as it was given, empty where it has no description."""
    described = [str(fields[name] or "") for name in ("description", "task_description") if name in fields]
    return basic_context(Task(description=described[0])) if described else ""


def _read_task(fields: Mapping[str, Any]) -> Task:
    """Return the task that these fields describe. Raises InvalidInput.

    Names that are not like those of a task are left alone: the state of a graph holds more than its task.
    """
    given = {name: _to_json(value) for name, value in fields.items() if name in _NAMES}
    for name, value in fields.items():
        if name not in _NAMES and isinstance(value, str | int | Mapping):
            likely = [each for each in likely_names(name, _NAMES) if is_absent(given.get(each))]
            if likely:
                raise unknown_name(name, {each: each for each in likely})
    if not is_absent(given.get("task_id")):  # its `id` is then another one
        given.pop("id", None)
    return read_object(Task, given)


def _to_json(value: Any) -> Any:
    """Return a value of an orchestrator's own type, such as an enum or a version, as its text."""
    if isinstance(value, Mapping):
        return {str(name): _to_json(each) for name, each in value.items()}
    return value if value is None or isinstance(value, str | bool | Real | list | tuple) else str(value)
