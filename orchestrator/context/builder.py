"""The context an agent gets with its task: the patterns that fit, found within a deadline, or else the task alone."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Protocol, TypedDict

from hardwon.context.builder import BuildState, Cause, ContextBuilder, RemoteContexts
from hardwon.context.circuit_breaker import CircuitBreaker
from hardwon.context.deadline import Patience
from hardwon.event_log import get_logger
from hardwon.models.patterns import KNOWN_ONLY
from hardwon.settings import ContextSettings
from knowledge.memory.query.context_log import check_task
from knowledge.memory.rules.embedding_text import normalise
from knowledge.memory.rules.hints import is_held_out
from knowledge.models import (
    Choice,
    Context,
    ContextCandidate,
    Entry,
    EntryType,
    Hint,
    NearPattern,
    Pattern,
    PatternId,
    Reason,
    Task,
)
from knowledge.runtime.instrumentation import step
from knowledge.runtime.scheduling import gather_all, run_in_thread_if_long
from orchestrator.context.admission import DeadlineQueue
from orchestrator.context.rendering import render

log = get_logger(__name__)


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


_EMBEDDING_SHARE = 0.7
"""Share of the deadline after which a task is compared by its words alone; ours: the rest of the work takes a tenth."""
_WORDS_ONLY = "found by words alone: the task was not embedded in time"
_KNOWN_SHARE, _INDEX_SHARE = 0.3, 0.85
"""Shares of the deadline after which a context waits for the index no longer: where the task or its error is known word
for word, and where not; ours: an index answers in a tenth of the first, and forty contexts that wait for a place have
theirs in what is left."""
_MAX_EXPLAINED = 5
"""Candidates that a context names, the first ones; the stored choice has more."""


class Queries(Protocol):
    """The queries of the builder, in process or over HTTP."""

    async def hint_for_task(
        self, task: Task, agent_type: str, *, embed_by: float | None = None, patience: Patience | None = None
    ) -> Hint:
        """Return the patterns to know before a task is assigned, and why, or why none."""
        ...

    async def hint_for_failure(
        self,
        failure: Entry,
        task: Task,
        agent_type: str,
        *,
        embed_by: float | None = None,
        patience: Patience | None = None,
    ) -> Hint:
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

    async def find_dead_ends(self, patterns: Collection[PatternId]) -> dict[PatternId, tuple[str, ...]]:
        """Return what was tried in the situations of patterns and did not help."""
        ...

    async def record(self, context: Context, task: Task, agent_type: str, choice: Choice | None = None) -> None:
        """Store a context and how it was chosen."""
        ...


class BuilderSettings(ContextSettings, Protocol):
    """The settings a context is built by."""

    @property
    def holdout(self) -> float: ...  # noqa: D102


class OpenKnowledge(Protocol):
    """The part of `Knowledge` that contexts are built from."""

    @property
    def queries(self) -> Queries: ...  # noqa: D102
    @property
    def contexts(self) -> Contexts: ...  # noqa: D102
    @property
    def settings(self) -> BuilderSettings: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class OrchestratorContextBuilder(ContextBuilder):
    """Builds the context of an agent's task, of services in this process or of a client.

    Never raises and never exceeds its deadline.
    """

    knowledge: OpenKnowledge | RemoteContexts
    _: KW_ONLY
    embedding: CircuitBreaker = field(default_factory=CircuitBreaker)
    """Of the embedder: while it is open, tasks are compared by their words alone."""
    index: CircuitBreaker = field(default_factory=CircuitBreaker)
    """Of the index: while it is open, only what Postgres knows word for word is looked up."""
    queue: DeadlineQueue = field(default_factory=DeadlineQueue)
    deadline: timedelta | None = None
    """Of a caller who says how long it waits; else that of the settings."""

    @property
    def deadline_ms(self) -> float:
        """The milliseconds that a context may take."""
        if self.deadline is not None:
            return self.deadline / timedelta(milliseconds=1)
        return self.knowledge.settings.query_deadline_ms

    @step("context")
    async def build(self, task: Task, agent_type: str) -> tuple[Context, Cause | None]:
        """Return the context for a valid task, and why it is without knowledge where it is."""
        return await ContextBuilder.build(self, task, agent_type)

    async def find(self, context: Context, task: Task, agent_type: str, state: BuildState) -> Context:
        """Return the context with what fits; a late one is not recorded, as nobody sees it."""
        if isinstance(self.knowledge, RemoteContexts):
            return await self.knowledge.build_context(task, agent_type)
        check_task(task, agent_type)
        knowledge, settings = self.knowledge, self.knowledge.settings
        async with self.queue.admit(state.deadline):
            hint = await _find_hint(knowledge, task, agent_type, self._limits(state))
            self._note_failures(hint)
            if hint.reason is Reason.DEGRADED:
                state.cause = Cause.UNAVAILABLE
                log.warning("context_degraded", context_id=str(context.context_id), reason=hint.index_error)
                return replace(context, reason=hint.reason.value, degraded=hint.index_error)
            if hint.index_error is not None:
                state.cause = Cause.KNOWN_ONLY
            if hint.reason is Reason.SPOKE and not task.urgent and is_held_out(context.context_id, settings.holdout):
                hint = replace(hint, patterns=(), reason=Reason.HELD_OUT)
            built = _explain(await _add_patterns(context, hint.patterns, settings), hint)
        if not state.returned:
            state.found = built
            await knowledge.contexts.record(built, task, agent_type, hint.choice)
        return built

    def _limits(self, state: BuildState) -> _Limits:
        """Return how long a context waits for the embedder and the index; not at all while their breakers are open."""
        seconds = state.deadline - state.began
        embedding = 0.0 if self.embedding.refusal_reason() is not None else _EMBEDDING_SHARE
        known, index = (0.0, 0.0) if self.index.refusal_reason() is not None else (_KNOWN_SHARE, _INDEX_SHARE)
        return _Limits(
            embed_by=state.began + embedding * seconds,
            patience=Patience(known_by=state.began + known * seconds, index_by=state.began + index * seconds),
        )

    def _note_failures(self, hint: Hint) -> None:
        if hint.embedder_failed:
            self.embedding.record_failure(_WORDS_ONLY)
        elif not hint.words_only:
            self.embedding.record_success()
        if hint.index_failed:
            self.index.record_failure(hint.index_error or "")
        elif hint.index_error is None:
            self.index.record_success()


class _Limits(TypedDict):
    """Times up to which a hint waits for the embedder and the index, as the queries take them."""

    embed_by: float
    patience: Patience


async def _find_hint(knowledge: OpenKnowledge, task: Task, agent_type: str, limits: _Limits) -> Hint:
    """Return the hint for a task; if it failed before, first the patterns for that failure.

    A task says what is to be done, a failure what is in the way: most lessons are about failures. Solutions that were
    tried for this task without success come last, whichever pattern holds them. If only a key of low trust reported
    the failure, just one of its patterns is used, after those of the task: such a key could report any failure.
    Only a task that failed before is told what did not help: at a first attempt it helps no agent.
    """
    for_task = knowledge.queries.hint_for_task(task, agent_type, **limits)
    if not task.project_id or not task.task_id:
        return await for_task
    (failure, for_failure), (_, found) = await gather_all(
        [_find_failure_and_hint(knowledge, task, agent_type, limits), _without_failure(for_task)]
    )
    if failure is None:
        return found
    first, second = (found, for_failure) if failure.low_trust or not for_failure.patterns else (for_failure, found)
    fixes = for_failure.patterns[:1] if failure.low_trust else for_failure.patterns
    ordered = [*found.patterns, *fixes] if failure.low_trust else [*fixes, *found.patterns]
    both = list({pattern.pattern_id: pattern for pattern in ordered}.values())
    tried = await knowledge.contexts.find_failed_patterns(task, [pattern.pattern_id for pattern in both])
    failed = {solution_key(pattern) for pattern in both if pattern.pattern_id in tried}
    dead_ends = await knowledge.contexts.find_dead_ends([pattern.pattern_id for pattern in both])
    both = [replace(pattern, dead_ends=dead_ends.get(pattern.pattern_id, ())) for pattern in both]
    patterns = sorted(both, key=lambda pattern: solution_key(pattern) in failed)
    leading = first if first.patterns or not second.patterns else second
    return replace(
        leading,
        patterns=tuple(patterns),
        words_only=found.words_only or for_failure.words_only,
        embedder_failed=found.embedder_failed or for_failure.embedder_failed,
        index_error=found.index_error or for_failure.index_error,
        index_failed=found.index_failed or for_failure.index_failed,
    )


async def _without_failure(found: Awaitable[Hint]) -> tuple[None, Hint]:
    return None, await found


async def _find_failure_and_hint(
    knowledge: OpenKnowledge, task: Task, agent_type: str, limits: _Limits
) -> tuple[Entry | None, Hint]:
    """Return the open failure of a task and the hint for it; None and an empty hint if it has none."""
    failure = await knowledge.contexts.find_open_failure(task)
    if failure is None or failure.failure_description is None:
        return None, Hint()
    return failure, await knowledge.queries.hint_for_failure(failure, task, agent_type, **limits)


_WITHHELD = {
    Reason.NOTHING_NEAR: "too unlike the task",
    Reason.NOT_SURE: "likely not right for this task: the chance is {:.2f}",
    Reason.AGENT_KNOWS: "the agent is likelier to be right without it: {:.2f} against {:.2f}",
    Reason.HELD_OUT: "held out, to measure the lift",
    Reason.SPOKE: "others come first",
    Reason.DEGRADED: "not looked for",
}


def _explain(context: Context, hint: Hint) -> Context:
    """Return a context with its reason and what was weighed for it."""
    notes = [_WORDS_ONLY] if hint.words_only else []
    if hint.index_error is not None:
        notes.append(f"{KNOWN_ONLY}: {hint.index_error}")
    if hint.altered is not None:
        notes.append(hint.altered)
    degraded = "; ".join(notes) or None
    if hint.choice is None:
        near = tuple(_explain_near(each) for each in hint.near)
        return replace(context, reason=hint.reason.value, degraded=degraded, candidates=near)
    reasons = _WITHHELD | {
        Reason.NOT_SURE: _WITHHELD[Reason.NOT_SURE].format(hint.choice.right),
        Reason.AGENT_KNOWS: _WITHHELD[Reason.AGENT_KNOWS].format(hint.choice.alone, hint.choice.right),
    }
    shown = {pattern.pattern_id for pattern in context.patterns}
    candidates = tuple(
        ContextCandidate(
            pattern_id=each.pattern_id,
            relevance=each.relevance,
            successes=round(each.successes, 3),
            failures=round(each.failures, 3),
            score=round(each.score, 4),
            withheld=None if each.pattern_id in shown else reasons[hint.reason],
        )
        for each in hint.choice.candidates[:_MAX_EXPLAINED]
    )
    return replace(
        context,
        reason=hint.reason.value,
        confidence=hint.choice.right,
        candidates=candidates,
        degraded=degraded,
    )


def _explain_near(near: NearPattern) -> ContextCandidate:
    """Return a candidate that was not near enough, with how near it was and what it takes."""
    unlike = f"{_WITHHELD[Reason.NOTHING_NEAR]}: relevance {near.relevance:.2f}, and {near.needed:.2f} is needed"
    return ContextCandidate(
        pattern_id=near.pattern_id,
        relevance=near.relevance,
        successes=0.0,
        failures=0.0,
        score=0.0,
        withheld="it failed in situations like this one" if near.is_failing else unlike,
    )


async def _add_patterns(context: Context, found: Sequence[Pattern], settings: ContextSettings) -> Context:
    chosen = select_patterns(found, limit=settings.context_max_patterns)
    block, shown = await run_in_thread_if_long(
        sum(len(pattern.problem) for pattern in chosen), partial(render, chosen, max_tokens=settings.context_max_tokens)
    )
    return replace(context, text=f"{context.text}\n\n{block}", patterns=shown) if shown else context
