"""The context an agent gets with its task: what is known that fits, within a deadline, or else the task alone."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable
from uuid import uuid4

from knowledge.errors import InvalidInput, TextRejected, Unavailable, reason_of
from knowledge.logs import get_logger
from knowledge.memory.contexts import check_task
from knowledge.models import Context, ContextId, Entry, Pattern, PatternId, Task, TaskFacts
from knowledge.steps import step
from knowledge.turns import gather_all, run_in_thread_if_long
from orchestrator.block import basic_context, render
from orchestrator.breaker import CircuitBreaker
from orchestrator.choosing import choose, to_do
from orchestrator.deadline import within

log = get_logger(__name__)

_WARMS_UP_SECONDS = 5.0
"""What a context that is late may take to its end, ours: connections, once made, make the next one quick."""


class Cause(StrEnum):
    """Why a context is without the knowledge it might have: too late, not tried after failures, not to be asked for."""

    LATE = "late"
    RESTING = "resting"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


class Queries(Protocol):
    """What the builder asks; in process or over HTTP."""

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str | None = None,
        task_type: str | None = None,
        technology: str | None = None,
        max_results: int = 5,
        *,
        only_if_sure: bool = False,
        facts: TaskFacts | None = None,
    ) -> list[Pattern]:
        """Return the patterns to know before a task is assigned."""
        ...

    async def query_for_failure(
        self,
        failure_description: str,
        error_message: str | None = None,
        agent_type: str | None = None,
        task_type: str | None = None,
        max_results: int = 3,
        *,
        technology: str | None = None,
        only_if_sure: bool = False,
        facts: TaskFacts | None = None,
    ) -> list[Pattern]:
        """Return how failures like this one were solved."""
        ...


class Contexts(Protocol):
    """Where contexts handed out are kept, and what is known of a task."""

    async def find_open_failure(self, task: Task) -> Entry | None:
        """Return the latest failure of a task that waits for its solution."""
        ...

    async def find_failed_patterns(self, task: Task, patterns: Collection[PatternId]) -> set[PatternId]:
        """Return which of these patterns a task was tried with before, and failed."""
        ...

    async def record(self, context: Context, task: Task, agent_type: str) -> None:
        """Keep a context."""
        ...


class ContextSettings(Protocol):
    """The settings a context needs."""

    @property
    def query_deadline_ms(self) -> int: ...  # noqa: D102
    @property
    def context_max_tokens(self) -> int: ...  # noqa: D102
    @property
    def context_max_patterns(self) -> int: ...  # noqa: D102


@runtime_checkable
class BuildsContexts(Protocol):
    """Knowledge behind HTTP, where the server builds the context in one hop."""

    @property
    def settings(self) -> ContextSettings: ...  # noqa: D102

    async def build_context(self, task: Task, agent_type: str) -> Context:
        """Return the context of a task."""
        ...


class OpenKnowledge(Protocol):
    """The part of `Knowledge` that contexts are built from."""

    @property
    def queries(self) -> Queries: ...  # noqa: D102
    @property
    def contexts(self) -> Contexts: ...  # noqa: D102
    @property
    def settings(self) -> ContextSettings: ...  # noqa: D102


@dataclass(slots=True)
class _Asked:
    """How far a context is: what was `found` in time, and whether something was `handed_out`."""

    found: Context | None = None
    handed_out: bool = False


@dataclass(frozen=True, slots=True)
class OrchestratorContextBuilder:
    """Builds an agent's context with the knowledge that fits its task; never fails and is never late."""

    knowledge: OpenKnowledge | BuildsContexts
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    async def build_context_for_task(self, task: Task | Any, agent_type: str) -> Context:
        """Return the context for a task: the basic one, and the block of patterns where any fits.

        `task` is a `Task`, or anything that has `description` and, where known, `type`, `technology`, `project_id`,
        `task_id`, `run_id`, `facts` as attributes or, a mapping, as keys. Within the deadline of the settings; whatever
        fails or is late leaves the basic context, with the reason in `degraded`. After failures in a row nothing is
        tried for a few seconds.
        """
        try:
            told = _as_task(task)
        except Exception as error:  # noqa: BLE001 - the degrade boundary: not even a task without words stops anybody
            log.warning("context_degraded", reason=reason_of(error))
            return Context(context_id=ContextId(uuid4()), text="", degraded=str(error) or type(error).__name__)
        context, _ = await self._built(told, agent_type)
        return context

    @step("context")
    async def _built(self, task: Task, agent_type: str) -> tuple[Context, Cause | None]:
        settings = self.knowledge.settings
        context = Context(context_id=ContextId(uuid4()), text=basic_context(task))
        asked = _Asked()
        if reason := self.breaker.resting():
            return replace(context, degraded=f"not tried, as calls before failed: {reason}"), Cause.RESTING
        try:
            built = await within(
                settings.query_deadline_ms / 1000,
                self._with_knowledge(context, task, agent_type, asked),
                ends_within=_WARMS_UP_SECONDS,
            )
        except TimeoutError:
            asked.handed_out = True
            if asked.found is None:
                late = Unavailable(f"no answer within {settings.query_deadline_ms} ms")
                return self._degraded(context, late), Cause.LATE
            built = asked.found  # all that is missing is that it was recorded, and that goes on
        except (InvalidInput, TextRejected) as error:  # this task cannot be asked for; others can
            if isinstance(error, TextRejected):  # the endpoint answered
                self.breaker.succeeded()
            return replace(context, degraded=str(error)), Cause.INVALID
        except Unavailable as error:
            return self._degraded(context, error), Cause.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - the degrade boundary: nothing of ours may stop the orchestrator
            return self._degraded(context, error), Cause.FAILED
        self.breaker.succeeded()
        return built, None

    async def _with_knowledge(self, context: Context, task: Task, agent_type: str, asked: _Asked) -> Context:
        if isinstance(self.knowledge, BuildsContexts):
            return await self.knowledge.build_context(task, agent_type)
        check_task(task, agent_type)
        found = await _found(self.knowledge, task, agent_type)
        built = await _with_patterns(context, found, self.knowledge.settings)
        if built.patterns and not asked.handed_out:  # nobody sees what came too late
            asked.found = built
            await self.knowledge.contexts.record(built, task, agent_type)
        return built

    def _degraded(self, context: Context, error: Exception) -> Context:
        reason = str(error) or type(error).__name__
        self.breaker.failed(reason)
        log.warning("context_degraded", context_id=str(context.context_id), reason=reason_of(error))
        return replace(context, degraded=reason)


async def _found(knowledge: OpenKnowledge, task: Task, agent_type: str) -> list[Pattern]:
    """Return the patterns for a task; of one that is to be tried again, first those for what it failed with.

    A task says what is to be done, and a failure what is in the way: most lessons are about that. What it was tried
    with before comes last, whichever pattern tells it. Of what mended a failure that a key of low trust alone told, one
    comes, behind what the task itself finds: such a key could name any.
    """
    for_task = knowledge.queries.query_for_task(
        task.description, agent_type, task.type, task.technology, only_if_sure=True, facts=task.facts
    )
    if not task.project_id or not task.task_id:
        return await for_task
    (failure, mends), (_, found) = await gather_all(
        [_after_failure(knowledge, task, agent_type), _of_no_failure(for_task)]
    )
    if failure is None:
        return found
    first = [*found, *mends[:1]] if failure.low_trust else [*mends, *found]
    both = list({pattern.pattern_id: pattern for pattern in first}.values())
    tried = await knowledge.contexts.find_failed_patterns(task, [pattern.pattern_id for pattern in both])
    in_vain = {to_do(pattern) for pattern in both if pattern.pattern_id in tried}
    return sorted(both, key=lambda pattern: to_do(pattern) in in_vain)


async def _of_no_failure(found: Awaitable[list[Pattern]]) -> tuple[None, list[Pattern]]:
    return None, await found


async def _after_failure(knowledge: OpenKnowledge, task: Task, agent_type: str) -> tuple[Entry | None, list[Pattern]]:
    """Return what a task failed with and the patterns for it; neither where nothing of it waits for its solution."""
    failure = await knowledge.contexts.find_open_failure(task)
    if failure is None or failure.failure_description is None:
        return None, []
    mends = await knowledge.queries.query_for_failure(
        failure.failure_description,
        failure.error_message,
        agent_type,
        task.type,
        technology=task.technology,
        only_if_sure=True,
        facts=task.facts,
    )
    return failure, mends


async def _with_patterns(context: Context, found: Sequence[Pattern], settings: ContextSettings) -> Context:
    chosen = choose(found, limit=settings.context_max_patterns)
    block, shown = await run_in_thread_if_long(
        sum(len(pattern.problem) for pattern in chosen), partial(render, chosen, max_tokens=settings.context_max_tokens)
    )
    return replace(context, text=f"{context.text}\n\n{block}", patterns=shown) if shown else context


_NOTHING: Final = object()
_TOLD = ("description", "type", "technology", "project_id", "task_id", "run_id")


def _as_task(task: Any) -> Task:
    """Return the task in whatever an orchestrator hands in. Raises InvalidInput where that has no description."""
    if isinstance(task, Task) and all(_is_told(getattr(task, name)) for name in _TOLD) and task.description:
        return task

    def get(name: str, absent: object = None) -> Any:
        return task.get(name, absent) if isinstance(task, Mapping) else getattr(task, name, absent)

    def told(name: str) -> str | None:
        value = get(name)
        return None if value is None or not str(value).strip() else str(value)

    if get("description", _NOTHING) is _NOTHING:
        raise InvalidInput("description", f"is required, and a {type(task).__name__} was given that has none")
    return Task(
        description=told("description") or "",
        type=told("type"),
        technology=told("technology"),
        project_id=told("project_id"),
        task_id=told("task_id") or told("id"),
        run_id=told("run_id"),
        facts=_as_facts(get("facts")),
    )


def _is_told(value: object) -> bool:
    """Whether a field is a text, or None: a blank one tells nothing."""
    return value is None or (isinstance(value, str) and bool(value.strip()))


def _as_facts(told: Any) -> Any:
    """Return facts as texts, but for numbers of a version. What has no names stays, and is refused by name later."""
    if not isinstance(told, Mapping):
        return told
    known = {str(name): value for name, value in told.items() if value is not None}
    return {name: value if isinstance(value, tuple | list) else str(value) for name, value in known.items()}
