"""Contexts that were handed to agents, and their outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from knowledge.models import Choice, Context, ContextId, EntryId, Outcome, PatternId, StoredContext, Task

MAX_CONTEXTS = 1000
"""The latest contexts of one task that are read: a task that runs each night has thousands in a year; ours."""


class ContextStore(Protocol):
    """The contexts of one workspace: for which task each was handed out, and with which patterns."""

    async def record(
        self, context: Context, task: Task, agent_type: str, now: datetime, choice: Choice | None = None
    ) -> None:
        """Store the context's ids and the numbers of its choice. Need not survive a power cut."""
        ...

    async def get(self, context_id: ContextId) -> StoredContext:
        """Return a context. Raises NotFound."""
        ...

    async def contexts_of_run(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MAX_CONTEXTS
    ) -> list[StoredContext]:
        """Return up to `limit` contexts of a task's run, latest first; contexts without a run belong to every run."""
        ...

    async def contexts_to_report(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MAX_CONTEXTS
    ) -> list[StoredContext]:
        """Return those contexts, latest first, each with its patterns that have no outcome recorded since.

        Each also has those whose outcome since then is a success; contexts with neither are left out. Without a run,
        outcomes of any run count; a context without a run belongs to the first run that reports an outcome of it.
        """
        ...

    async def find_failed_patterns(self, project_id: str, task_id: str, among: Collection[PatternId]) -> set[PatternId]:
        """Return those of the patterns that failed in some run of a task and worked in none."""
        ...

    async def record_outcomes(
        self,
        outcomes: Sequence[Outcome],
        now: datetime,
        *,
        arms: Mapping[PatternId, str] | None = None,
        instead_of: EntryId | None = None,
    ) -> None:
        """Store outcomes of patterns with their records, and recount them; a second one of a run replaces the first.

        `arms`: those of the patterns; without, the next checkpoint computes them.

        An equal outcome from a key of lower trust changes nothing.

        `instead_of`: the entry that reported the outcome; it is deleted in the same transaction if it exists, and its
        outcome is found by the entry's id from then on. Raises NotFound for a pattern or a context that is gone.
        """
        ...

    async def pattern_reported_by(self, entry_id: EntryId) -> PatternId | None:
        """Return the pattern whose outcome an entry reported that was deleted for it, None if there is none."""
        ...

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` contexts older than `before` with their outcomes, and recount; return how many."""
        ...
