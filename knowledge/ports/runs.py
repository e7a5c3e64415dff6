"""Checkpoints and jobs, and how far they are."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from knowledge.models import CheckpointId, CheckpointReport, CheckpointType, WorkspaceStats


class CheckpointStore(Protocol):
    """The checkpoints of one workspace."""

    async def start(self, project_id: str | None, checkpoint_type: CheckpointType, now: datetime) -> CheckpointReport:
        """Record that a checkpoint began."""
        ...

    async def finish(self, report: CheckpointReport) -> None:
        """Record what it did."""
        ...

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return a checkpoint's report. Raises NotFound."""
        ...

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` checkpoints that began before a moment; return how many."""
        ...

    async def stats(self) -> WorkspaceStats:
        """Return the counts of the workspace; `points` is left None."""
        ...


CANCELLED = "cancelled"
"""The error on record of a run that was stopped on its way."""

RUNS_KEPT = timedelta(days=90)
"""How long before a run its job's earlier ones stay on record; ours: a job of every ten minutes has 53,000 a year."""


class JobStore(Protocol):
    """One run per job and slot, over any number of processes; jobs go over all workspaces."""

    async def begin(
        self, job: str, slot: datetime, *, takeover_after: timedelta, retry_after: timedelta, tries: int
    ) -> int | None:
        """Return the number of the try if this process is to run the slot, which no other then is, else None.

        A run that gave no sign of life for `takeover_after` died, and is taken over. One that failed is repeated, up to
        `tries` in all: after `retry_after`, then twice that, and so on; one that was cancelled at once.
        """
        ...

    async def alive(self, job: str, slot: datetime, tried: int) -> None:
        """Record that a try is still at work."""
        ...

    async def finish(self, job: str, slot: datetime, tried: int, error: str | None) -> None:
        """Record the end of a try, unless it was taken over: an error, CANCELLED, or None if it did its work.

        Those of long ago go.
        """
        ...

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that hold anything, ascending, from behind `after` on."""
        ...

    async def holds_anything(self, workspace: str) -> bool:
        """Return whether a workspace holds anything: a project, or documents."""
        ...

    async def tended(self) -> list[str]:
        """Return the workspaces in which a job may have work, ascending.

        Those, and where anything that was deleted, or is on record of the work, has yet to go.
        """
        ...

    async def tidy(self) -> None:
        """Have the room used again that rows took which were deleted: a store that is open for seconds never does."""
        ...

    async def staged(self) -> int:
        """Return how many entries wait for a checkpoint, of all workspaces."""
        ...


class Progress(Protocol):
    """Told how far long work is. Called often; must be quick."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """`done` of `total` items are done; a total of None is unknown."""
        ...
