"""What agents were told, and what came of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from knowledge.models import Context, ContextId, EntryId, Outcome, PatternId, StoredContext, Task

MOST_HANDED_OUT = 1000
"""Contexts of one task that are looked at, the latest: a task that is run each night has thousands in a year; ours."""


class ContextStore(Protocol):
    """Which context was handed out for which task with which patterns, of one workspace."""

    async def record(self, context: Context, task: Task, agent_type: str, now: datetime) -> None:
        """Keep the context's ids. Need not survive a power cut."""
        ...

    async def get(self, context_id: ContextId) -> StoredContext:
        """Return a context that was handed out with patterns. Raises NotFound."""
        ...

    async def handed_out(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MOST_HANDED_OUT
    ) -> list[StoredContext]:
        """Return up to `limit` contexts of a task's run, the latest first; one without a run is of any."""
        ...

    async def untold(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MOST_HANDED_OUT
    ) -> list[StoredContext]:
        """Return those contexts, the latest first, with those of their patterns of which nothing was told since.

        And with those that were told to have worked since; contexts with neither are left out. Without a run, what was
        told of any counts; of what was handed out for none, the run that was told of it first.
        """
        ...

    async def failed(self, project_id: str, task_id: str, among: Collection[PatternId]) -> set[PatternId]:
        """Return which of these patterns were told to have failed in a run of a task, and in none to have worked."""
        ...

    async def record_outcomes(
        self, outcomes: Sequence[Outcome], now: datetime, *, instead_of: EntryId | None = None
    ) -> None:
        """Keep what came of patterns and recount them; what is told again of the same run replaces what was told.

        Not where it is the same, and told by a key of lower trust.

        `instead_of`: the entry that told of it, and is deleted in the same transaction where it is there; what it told
        is found by its id from then on. Raises NotFound for a pattern or a context that is gone.
        """
        ...

    async def told_by(self, entry_id: EntryId) -> PatternId | None:
        """Return the pattern of whose outcome an entry told that was deleted for it, None where there is none."""
        ...

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` contexts older than `before` with their outcomes, and recount; return how many."""
        ...
