"""Which context was handed out for which task: what an outcome will be told of."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.memory.limits import check_text
from knowledge.models import Context, Entry, EntryStatus, EntryType, PatternId, Task

if TYPE_CHECKING:  # who only checks a task needs no stores
    from knowledge.ports import Stores


def check_task(task: Task, agent_type: str) -> None:
    """Raise InvalidInput, naming the field, unless the task can be asked for and its context kept."""
    check_text("agent_type", agent_type)
    for name in ("project_id", "task_id", "run_id"):
        value = getattr(task, name)
        if value is not None:
            check_text(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLog:
    """Keeps the ids of contexts and of the patterns in them; never their words. Knows what a task is up against."""

    stores: Stores

    async def find_open_failure(self, task: Task) -> Entry | None:
        """Return the latest failure of a task that waits for its solution: it is about to be tried again.

        None where there is none, or it is not known which task it is. Raises StorageUnavailable.
        """
        if not task.project_id or not task.task_id:
            return None
        found = await self.stores.entries.of_task(task.project_id, task.task_id, EntryType.FAILURE_SOLUTION, limit=1)
        return next((entry for entry in found if entry.status is EntryStatus.OPEN), None)

    async def failed(self, task: Task, patterns: Collection[PatternId]) -> set[PatternId]:
        """Return which of these patterns a task was tried with before, and failed. Raises StorageUnavailable."""
        if not task.project_id or not task.task_id or not patterns:
            return set()
        return await self.stores.contexts.failed(task.project_id, task.task_id, patterns)

    async def record(self, context: Context, task: Task, agent_type: str) -> None:
        """Keep a context that holds patterns. Raises StorageUnavailable."""
        await self.stores.contexts.record(context, task, agent_type, self.stores.clock.now())
