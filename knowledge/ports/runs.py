"""Checkpoints and job runs, with their progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from hardwon.models.maintenance import JobRun
from knowledge.models import CheckpointId, CheckpointReport, CheckpointType, WorkspaceStats


class CheckpointStore(Protocol):
    """The checkpoints of one workspace."""

    async def start(self, project_id: str | None, checkpoint_type: CheckpointType, now: datetime) -> CheckpointReport:
        """Record the start of a checkpoint."""

    async def finish(self, report: CheckpointReport) -> None:
        """Record the report of a finished checkpoint."""

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        """Return a checkpoint's report. Raises NotFound."""

    async def prune(self, before: datetime, *, limit: int) -> int:
        """Delete up to `limit` checkpoints that began before `before`; return how many."""

    async def stats(self) -> WorkspaceStats:
        """Count the workspace; `points` is left None."""


CANCELLED = "cancelled"
"""The error recorded for a run that was stopped before its end."""
RUN_RETENTION = timedelta(days=90)
"""Age up to which earlier runs of a job are kept; ours: a job of every ten minutes has 53,000 a year."""


class JobStore(Protocol):
    """Runs of jobs: one per job and slot, over any number of processes; jobs cover all workspaces."""

    async def begin(
        self, job: str, slot: datetime, *, takeover_after: timedelta, retry_after: timedelta, tries: int
    ) -> int | None:
        """Return the number of the attempt if this process is to run the slot, which no other then does, else None.

        A run without a heartbeat for `takeover_after` is dead, and taken over. A failed one is repeated, up to `tries`
        attempts: after `retry_after`, then twice that, and so on; a cancelled one at once.
        """

    async def heartbeat(self, job: str, slot: datetime, tried: int) -> None:
        """Record that an attempt is still running."""

    async def finish(
        self, job: str, slot: datetime, tried: int, error: str | None, dealt_with: int | None = None
    ) -> None:
        """Record the end of an attempt, unless it was taken over: an error, CANCELLED, or None if it succeeded.

        `dealt_with`: the number of items of one that succeeded. Deletes records older than `RUN_RETENTION`.
        """

    async def last_runs(self, jobs: Collection[str], *, limit: int) -> Mapping[str, list[JobRun]]:
        """Return the last runs of jobs, the latest first, `limit` of each at most."""

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """Return the workspaces that are not empty, ascending, starting after `after`."""

    async def holds_anything(self, workspace: str) -> bool:
        """Return whether a workspace has a project or documents."""

    async def workspaces_with_work(self) -> list[str]:
        """Return the workspaces in which a job may have work, ascending.

        Those that are not empty, and those with deleted points or old records left to remove.
        """

    async def workspaces_with_deeds(self, now: datetime) -> list[str]:
        """Return the workspaces that have a deed which is due."""

    async def vacuum(self) -> None:
        """Vacuum the tables: Postgres never does so by itself in a store that is open for seconds."""

    async def count_staged(self) -> int:
        """Count the entries that wait for a checkpoint, over all workspaces."""
