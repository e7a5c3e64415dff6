"""Log of the contexts handed out for tasks; outcomes refer to it."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from hardwon.errors import InvalidInput
from hardwon.validation import as_id, as_integer, check_text
from knowledge.models import (
    Choice,
    ChoiceRecord,
    Context,
    ContextId,
    ContextKind,
    ContextOutcome,
    Entry,
    EntryStatus,
    EntryType,
    PatternId,
    Reason,
    RecomputedChoice,
    Task,
)
from knowledge.ports import ContextQuery

if TYPE_CHECKING:  # checking a task needs no stores
    from knowledge.ports import Stores


def check_task(task: Task, agent_type: str) -> None:
    """Raise InvalidInput, naming the field, unless the task and agent type are valid."""
    check_text("agent_type", agent_type)
    for name in ("project_id", "task_id", "run_id"):
        value = getattr(task, name)
        if value is not None:
            check_text(name, value)


MAX_LISTED = 1000
MAX_DAYS = 3660


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLog:
    """Records the ids of contexts and their patterns, and the choices, never a text; finds a task's failures."""

    stores: Stores

    async def find_open_failure(self, task: Task) -> Entry | None:
        """Return the latest open failure of a task, which is about to be retried.

        None where there is none, or the task has no id. Raises StorageUnavailable.
        """
        if not task.project_id or not task.task_id:
            return None
        failures = await self.stores.entries.entries_of_task(
            task.project_id, task.task_id, EntryType.FAILURE_SOLUTION, limit=1
        )
        return next((entry for entry in failures if entry.status is EntryStatus.OPEN), None)

    async def find_failed_patterns(self, task: Task, patterns: Collection[PatternId]) -> set[PatternId]:
        """Return those of the patterns that were tried for this task and failed. Raises StorageUnavailable."""
        if not task.project_id or not task.task_id or not patterns:
            return set()
        return await self.stores.contexts.find_failed_patterns(task.project_id, task.task_id, patterns)

    async def find_dead_ends(self, patterns: Collection[PatternId]) -> dict[PatternId, tuple[str, ...]]:
        """Return what was tried in the situations of patterns and did not help. Raises StorageUnavailable."""
        return await self.stores.entries.find_dead_ends(patterns)

    async def list(
        self,
        *,
        project_id: str | None = None,
        reason: str | None = None,
        given: str | None = None,
        outcome: str | None = None,
        pattern_id: PatternId | None = None,
        days: int | None = None,
        limit: int = 100,
        after: ContextId | None = None,
    ) -> builtins.list[ChoiceRecord]:
        """Return contexts, the latest first, those behind `after`. Raises InvalidInput, naming the argument."""
        if project_id is not None:
            check_text("project_id", project_id)
        if reason is not None and reason not in frozenset(Reason):
            raise InvalidInput("reason", f"is not one of {', '.join(Reason)}")
        if given is not None and given not in frozenset(ContextKind):
            raise InvalidInput("given", f"must be one of {', '.join(ContextKind)}")
        if outcome is not None and outcome not in frozenset(ContextOutcome):
            raise InvalidInput("outcome", f"must be one of {', '.join(ContextOutcome)}")
        span = None if days is None else timedelta(days=as_integer("days", days, least=1, most=MAX_DAYS))
        query = ContextQuery(
            project_id=project_id,
            reason=reason,
            given=None if given is None else ContextKind(given),
            outcome=None if outcome is None else ContextOutcome(outcome),
            pattern_id=None if pattern_id is None else PatternId(as_id("pattern", pattern_id)),
            since=None if span is None else self.stores.clock.now() - span,
        )
        return await self.stores.records.choices(
            query,
            after=None if after is None else ContextId(as_id("after", after)),
            limit=as_integer("limit", limit, least=1, most=MAX_LISTED),
        )

    async def show(self, context_id: ContextId) -> RecomputedChoice:
        """Return how a context was chosen, and what the same choice gives when it is made again. Raises NotFound."""
        from knowledge.memory.query.choice import recompute  # noqa: PLC0415 - loads for longer than a client may

        stored = await self.stores.records.choice(ContextId(as_id("context_id", context_id)))
        points = [] if stored.choice is None else [each.point_id for each in stored.choice.candidates]
        return recompute(stored, await self.stores.records.near(points, before=stored.created_at))

    async def record(self, context: Context, task: Task, agent_type: str, choice: Choice | None = None) -> None:
        """Store a context, with or without patterns, and the numbers of its choice. Raises StorageUnavailable."""
        await self.stores.contexts.record(context, task, agent_type, self.stores.clock.now(), choice)
