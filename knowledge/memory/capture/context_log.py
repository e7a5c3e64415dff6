"""Log of the contexts handed out for tasks; outcomes refer to it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardwon.validation import check_text
from knowledge.models import Context, Entry, EntryStatus, EntryType, PatternId, Task

if TYPE_CHECKING:  # checking a task needs no stores
    from knowledge.ports import Stores


def check_task(task: Task, agent_type: str) -> None:
    """Raise InvalidInput, naming the field, unless the task and agent type are valid."""
    check_text("agent_type", agent_type)
    for name in ("project_id", "task_id", "run_id"):
        value = getattr(task, name)
        if value is not None:
            check_text(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLog:
    """Records the ids of contexts and their patterns, never their text; finds a task's failures."""

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

    async def record(self, context: Context, task: Task, agent_type: str) -> None:
        """Store a context that holds patterns. Raises StorageUnavailable."""
        await self.stores.contexts.record(context, task, agent_type, self.stores.clock.now())
