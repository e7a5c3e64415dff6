"""The context an agent gets with its task: the patterns that fit, found within a deadline, or else the task alone."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable
from uuid import uuid4

from hardwon.errors import InvalidInput, TextRejected, Unavailable, reason_of
from hardwon.settings import ContextSettings
from knowledge.memory.query.context_log import check_task
from knowledge.memory.rules.embedding_text import normalise
from knowledge.memory.rules.hints import is_held_out
from knowledge.models import (
    Choice,
    Context,
    ContextCandidate,
    ContextId,
    Entry,
    EntryType,
    Hint,
    Pattern,
    PatternId,
    Reason,
    Task,
)
from knowledge.runtime.instrumentation import step
from knowledge.runtime.logging import get_logger
from knowledge.runtime.scheduling import gather_all, run_in_thread_if_long
from orchestrator.context.circuit_breaker import CircuitBreaker
from orchestrator.context.deadline import run_within
from orchestrator.context.rendering import basic_context, render


def select_patterns(found: Sequence[Pattern], *, limit: int) -> list[Pattern]:
    """Return the first `limit` patterns, in their order.

    While others fit, gate entries fill one of three places, and a pattern that repeats an earlier solution fills none.
    Patterns that rest on the key of one agent alone always fill at most one. Failures whose solution is
    literally that of an earlier one are left out: an agent would try it twice.
    """
    candidates = _first_of_each_source(_drop_repeated_fixes(found))
    repeated = _find_same_solutions(candidates)
    gates = [
        pattern.pattern_id
        for pattern in candidates
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION and pattern.pattern_id not in repeated
    ]
    demotions = dict.fromkeys(gates[max(1, limit // 3) :], 1) | dict.fromkeys(repeated, 2)
    places = sorted(candidates, key=lambda pattern: demotions.get(pattern.pattern_id, 0))[:limit]
    selected = {pattern.pattern_id for pattern in places}
    return [pattern for pattern in candidates if pattern.pattern_id in selected]


def _first_of_each_source(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns; of those that rest on the key of one agent alone, only the first."""
    sources: set[str] = set()
    patterns = []
    for pattern in found:
        if pattern.source is None or pattern.source not in sources:
            patterns.append(pattern)
        if pattern.source is not None:
            sources.add(pattern.source)
    return patterns


def _drop_repeated_fixes(found: Sequence[Pattern]) -> list[Pattern]:
    """Return the patterns without failures whose solution is exactly that of an earlier pattern.

    A gate's decision is kept: it says something by what was decided on, whatever the decision was.
    """
    first: dict[str, PatternId] = {}
    return [
        pattern
        for pattern in found
        if pattern.entry_type is not EntryType.FAILURE_SOLUTION
        or first.setdefault(solution_key(pattern), pattern.pattern_id) == pattern.pattern_id
    ]


def solution_key(pattern: Pattern) -> str:
    """Return the solution with its white space collapsed. Case is kept: `-d` and `-D` are two solutions."""
    return " ".join(pattern.solution.split())


def _find_same_solutions(found: Sequence[Pattern]) -> list[PatternId]:
    """Return the ids of patterns whose normalised solution is that of an earlier one."""
    first: dict[str, PatternId] = {}
    return [
        pattern.pattern_id
        for pattern in found
        if first.setdefault(normalise(pattern.solution), pattern.pattern_id) != pattern.pattern_id
    ]


log = get_logger(__name__)
_MAX_EXPLAINED = 5
"""Candidates that a context names, the first ones; the stored choice has more."""
_OVERRUN_SECONDS = 5.0
"""Seconds that a late context may still run, ours: the connections it opens make the next one quick."""


class Cause(StrEnum):
    """The reason for a context without knowledge: late, circuit open, invalid task, stores unavailable, or a bug."""

    LATE = "late"
    RESTING = "resting"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    FAILED = "failed"


class Queries(Protocol):
    """The queries of the builder, in process or over HTTP."""

    async def hint_for_task(self, task: Task, agent_type: str) -> Hint:
        """Return the patterns to know before a task is assigned, and why, or why none."""
        ...

    async def hint_for_failure(self, failure: Entry, task: Task, agent_type: str) -> Hint:
        """Return the patterns that solved failures like this one of the task, and why, or why none."""
        ...


class Contexts(Protocol):
    """The record of contexts that were handed out, and the history of a task."""

    async def find_open_failure(self, task: Task) -> Entry | None:
        """Return the latest failure of a task that waits for its solution."""
        ...

    async def find_failed_patterns(self, task: Task, patterns: Collection[PatternId]) -> set[PatternId]:
        """Return which of these patterns a task was tried with before, and failed."""
        ...

    async def record(self, context: Context, task: Task, agent_type: str, choice: Choice | None = None) -> None:
        """Store a context and how it was chosen."""
        ...


class BuilderSettings(ContextSettings, Protocol):
    """The settings a context is built by."""

    @property
    def holdout(self) -> float: ...  # noqa: D102


@runtime_checkable
class RemoteContexts(Protocol):
    """Knowledge behind HTTP: the server builds the context in one request."""

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
    def settings(self) -> BuilderSettings: ...  # noqa: D102


@dataclass(slots=True)
class _BuildState:
    """Progress of one context: the context `found` so far, and `returned` once a result went to the caller."""

    found: Context | None = None
    returned: bool = False


@dataclass(frozen=True, slots=True)
class OrchestratorContextBuilder:
    """Builds the context of an agent's task; never raises and never exceeds its deadline."""

    knowledge: OpenKnowledge | RemoteContexts
    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)

    async def build_context_for_task(self, task: Task | Any, agent_type: str) -> Context:
        """Return the context for a task: the basic one, and the block of patterns if any fits.

        `task` is a `Task`, or anything that has `description` and, where known, `type`, `technology`, `project_id`,
        `task_id`, `run_id`, `facts` as attributes or, a mapping, as keys. It takes no longer than the deadline of the
        settings; after an error or a timeout the basic context is returned, with the reason in `degraded`. After
        several failures in a row no query is sent for a few seconds.
        """
        try:
            checked = _as_task(task)
        except Exception as error:  # noqa: BLE001 - the degrade boundary: a malformed task stops nobody either
            log.warning("context_degraded", reason=reason_of(error))
            return Context(context_id=ContextId(uuid4()), text="", degraded=str(error) or type(error).__name__)
        context, _ = await self._build(checked, agent_type)
        return context

    @step("context")
    async def _build(self, task: Task, agent_type: str) -> tuple[Context, Cause | None]:
        settings = self.knowledge.settings
        context = Context(context_id=ContextId(uuid4()), text=basic_context(task))
        state = _BuildState()
        if reason := self.breaker.refusal_reason():
            return replace(context, degraded=f"not tried, as earlier calls failed: {reason}"), Cause.RESTING
        try:
            built = await run_within(
                settings.query_deadline_ms / 1000,
                self._add_knowledge(context, task, agent_type, state),
                overrun_seconds=_OVERRUN_SECONDS,
            )
        except TimeoutError:
            state.returned = True
            if state.found is None:
                late = Unavailable(f"no answer within {settings.query_deadline_ms} ms")
                return self._degrade(context, late), Cause.LATE
            built = state.found  # only its record is missing, and that goes on
        except (InvalidInput, TextRejected) as error:  # the fault of this task; others can be queried
            if isinstance(error, TextRejected):  # the endpoint answered
                self.breaker.record_success()
            return replace(context, degraded=str(error)), Cause.INVALID
        except Unavailable as error:
            return self._degrade(context, error), Cause.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - the degrade boundary: nothing of ours may stop the orchestrator
            return self._degrade(context, error), Cause.FAILED
        self.breaker.record_success()
        return built, None

    async def _add_knowledge(self, context: Context, task: Task, agent_type: str, state: _BuildState) -> Context:
        if isinstance(self.knowledge, RemoteContexts):
            return await self.knowledge.build_context(task, agent_type)
        check_task(task, agent_type)
        settings = self.knowledge.settings
        hint = await _find_hint(self.knowledge, task, agent_type)
        if hint.reason is Reason.SHOWN and not task.urgent and is_held_out(context.context_id, settings.holdout):
            hint = replace(hint, patterns=(), reason=Reason.HELD_OUT)
        built = _explain(await _add_patterns(context, hint.patterns, settings), hint)
        if not state.returned:  # a late one is not shown, so it is not recorded
            state.found = built
            await self.knowledge.contexts.record(built, task, agent_type, hint.choice)
        return built

    def _degrade(self, context: Context, error: Exception) -> Context:
        reason = str(error) or type(error).__name__
        self.breaker.record_failure(reason)
        log.warning("context_degraded", context_id=str(context.context_id), reason=reason_of(error))
        return replace(context, degraded=reason)


async def _find_hint(knowledge: OpenKnowledge, task: Task, agent_type: str) -> Hint:
    """Return the hint for a task; if it failed before, first the patterns for that failure.

    A task says what is to be done, a failure what is in the way: most lessons are about failures. Solutions that were
    tried for this task without success come last, whichever pattern holds them. If only a key of low trust reported
    the failure, just one of its patterns is used, after those of the task: such a key could report any failure.
    """
    for_task = knowledge.queries.hint_for_task(task, agent_type)
    if not task.project_id or not task.task_id:
        return await for_task
    (failure, for_failure), (_, found) = await gather_all(
        [_find_failure_and_hint(knowledge, task, agent_type), _without_failure(for_task)]
    )
    if failure is None:
        return found
    first, second = (found, for_failure) if failure.low_trust or not for_failure.patterns else (for_failure, found)
    fixes = for_failure.patterns[:1] if failure.low_trust else for_failure.patterns
    ordered = [*found.patterns, *fixes] if failure.low_trust else [*fixes, *found.patterns]
    both = list({pattern.pattern_id: pattern for pattern in ordered}.values())
    tried = await knowledge.contexts.find_failed_patterns(task, [pattern.pattern_id for pattern in both])
    failed = {solution_key(pattern) for pattern in both if pattern.pattern_id in tried}
    patterns = sorted(both, key=lambda pattern: solution_key(pattern) in failed)
    leading = first if first.patterns or not second.patterns else second
    return replace(leading, patterns=tuple(patterns))


async def _without_failure(found: Awaitable[Hint]) -> tuple[None, Hint]:
    return None, await found


async def _find_failure_and_hint(knowledge: OpenKnowledge, task: Task, agent_type: str) -> tuple[Entry | None, Hint]:
    """Return the open failure of a task and the hint for it; None and an empty hint if it has none."""
    failure = await knowledge.contexts.find_open_failure(task)
    if failure is None or failure.failure_description is None:
        return None, Hint()
    return failure, await knowledge.queries.hint_for_failure(failure, task, agent_type)


_WITHHELD = {
    Reason.NOTHING_NEAR: "too unlike the task",
    Reason.UNSURE: "likely not right for this task",
    Reason.ALONE: "the agent is likelier to be right without it",
    Reason.HELD_OUT: "held out, to measure the lift",
    Reason.SHOWN: "others come first",
}


def _explain(context: Context, hint: Hint) -> Context:
    """Return a context with its reason and what was weighed for it."""
    if hint.choice is None:
        return replace(context, reason=hint.reason.value)
    shown = {pattern.pattern_id for pattern in context.patterns}
    candidates = tuple(
        ContextCandidate(
            pattern_id=each.pattern_id,
            relevance=each.relevance,
            successes=round(each.successes, 3),
            failures=round(each.failures, 3),
            score=round(each.score, 4),
            withheld=None if each.pattern_id in shown else _WITHHELD[hint.reason],
        )
        for each in hint.choice.candidates[:_MAX_EXPLAINED]
    )
    return replace(context, reason=hint.reason.value, confidence=hint.choice.right, candidates=candidates)


async def _add_patterns(context: Context, found: Sequence[Pattern], settings: ContextSettings) -> Context:
    chosen = select_patterns(found, limit=settings.context_max_patterns)
    block, shown = await run_in_thread_if_long(
        sum(len(pattern.problem) for pattern in chosen), partial(render, chosen, max_tokens=settings.context_max_tokens)
    )
    return replace(context, text=f"{context.text}\n\n{block}", patterns=shown) if shown else context


_MISSING: Final = object()
_TEXT_FIELDS = ("description", "type", "technology", "project_id", "task_id", "run_id")


def _as_task(task: Any) -> Task:
    """Convert the object that an orchestrator passes to a Task. Raises InvalidInput if it has no description."""
    if (
        isinstance(task, Task)
        and all(_is_text_or_none(getattr(task, name)) for name in _TEXT_FIELDS)
        and task.description
    ):
        return task

    def get(name: str, absent: object = None) -> Any:
        return task.get(name, absent) if isinstance(task, Mapping) else getattr(task, name, absent)

    def text(name: str) -> str | None:
        value = get(name)
        return None if value is None or not str(value).strip() else str(value)

    if get("description", _MISSING) is _MISSING:
        raise InvalidInput("description", f"is required, but this {type(task).__name__} has none")
    return Task(
        description=text("description") or "",
        type=text("type"),
        technology=text("technology"),
        project_id=text("project_id"),
        task_id=text("task_id") or text("id"),
        run_id=text("run_id"),
        facts=_as_facts(get("facts")),
        urgent=get("urgent") is True,
    )


def _is_text_or_none(value: object) -> bool:
    """Return whether a field is None or a text that is not blank."""
    return value is None or (isinstance(value, str) and bool(value.strip()))


def _as_facts(facts: Any) -> Any:
    """Return facts as texts, except for lists of version numbers. Anything but a mapping is left to validation."""
    if not isinstance(facts, Mapping):
        return facts
    present = {str(name): value for name, value in facts.items() if value is not None}
    return {name: value if isinstance(value, tuple | list) else str(value) for name, value in present.items()}
