"""The records around the loop in memory: checkpoints, contexts handed out, job runs, counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from knowledge.adapters.in_memory.state import ContextRow, InMemoryState, JobRun
from knowledge.errors import NotFound
from knowledge.models import (
    DEAD_SHOWN,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    Context,
    ContextId,
    DeadEntry,
    EntryId,
    EntryStatus,
    HandedOut,
    Outcome,
    PatternId,
    Task,
    WorkspaceStats,
)
from knowledge.ports import CANCELLED, MOST_HANDED_OUT, RUNS_KEPT, CheckpointStore, ContextStore, JobStore


class InMemoryCheckpoints(CheckpointStore):
    """Checkpoints of one workspace, and its counts."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    async def start(self, project_id: str | None, checkpoint_type: CheckpointType, now: datetime) -> CheckpointReport:
        report = CheckpointReport(
            checkpoint_id=CheckpointId(uuid4()), project_id=project_id, checkpoint_type=checkpoint_type, started_at=now
        )
        self._state.checkpoints[report.checkpoint_id] = (self._workspace, report)
        return report

    async def finish(self, report: CheckpointReport) -> None:
        workspace, _ = self._state.checkpoints.get(report.checkpoint_id, (None, None))
        if workspace == self._workspace:
            self._state.checkpoints[report.checkpoint_id] = (self._workspace, report)

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        workspace, report = self._state.checkpoints.get(checkpoint_id, (None, None))
        if report is None or workspace != self._workspace:
            raise NotFound(f"there is no checkpoint {checkpoint_id} in workspace {self._workspace}")
        return report

    async def prune(self, before: datetime, *, limit: int) -> int:
        mine = [row for workspace, row in self._state.checkpoints.values() if workspace == self._workspace]
        old = [row.checkpoint_id for row in mine if row.started_at < before][:limit]
        for checkpoint_id in old:
            del self._state.checkpoints[checkpoint_id]
        return len(old)

    async def stats(self) -> WorkspaceStats:
        state, mine = self._state, self._workspace
        entries = [row.entry for row in state.entries.values() if row.entry.workspace == mine]
        reports = [report for workspace, report in state.checkpoints.values() if workspace == mine]
        staged = [entry.captured_at for entry in entries if entry.status is EntryStatus.STAGED]
        space = None if state.active_space is None else state.spaces[state.active_space].space
        kept = {key: v.nbytes for key, v in state.vectors.items() if state.points[key[0]].workspace == mine}
        dead = sorted((e for e in entries if e.dead_reason is not None), key=lambda e: e.entry_id)
        dead.sort(key=lambda entry: entry.captured_at, reverse=True)
        return WorkspaceStats(
            workspace=mine,
            projects=len({entry.project_id for entry in entries}),
            entries=Counter(str(entry.status) for entry in entries),
            patterns=sum(row.workspace == mine and row.success_count > 0 for row in state.patterns.values()),
            points=None,
            checkpoints=len(reports),
            oldest_staged_at=min(staged, default=None),
            last_checkpoint_at=max((report.finished_at for report in reports if report.finished_at), default=None),
            next_expiry_at=min((entry.expires_at for entry in entries if entry.expires_at), default=None),
            vector_bytes=sum(kept.values()),
            embedding_model=None if space is None else space.model,
            dims=None if space is None else space.dims,
            unused_vector_bytes=sum(size for (_, of), size in kept.items() if of != state.active_space),
            dead_entries=tuple(
                DeadEntry(entry_id=entry.entry_id, reason=entry.dead_reason or "") for entry in dead[:DEAD_SHOWN]
            ),
        )


class InMemoryContexts(ContextStore):
    """Contexts handed out in one workspace."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    async def record(self, context: Context, task: Task, agent_type: str, now: datetime) -> None:
        self._state.contexts[context.context_id] = ContextRow(
            workspace=self._workspace, context=context, task=task, agent_type=agent_type, created_at=now
        )

    async def get(self, context_id: ContextId) -> HandedOut:
        row = self._state.contexts.get(context_id)
        if row is None or row.workspace != self._workspace:
            raise NotFound(f"there is no context {context_id} with patterns in workspace {self._workspace}")
        return _handed_out(row)

    async def handed_out(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MOST_HANDED_OUT
    ) -> list[HandedOut]:
        rows = self._state.contexts_of(self._workspace, project_id, task_id)
        fitting = [row for row in rows if None in {row.task.run_id, run_id} or row.task.run_id == run_id]
        return [_handed_out(row) for row in sorted(fitting, key=lambda row: row.created_at, reverse=True)][:limit]

    async def untold(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MOST_HANDED_OUT
    ) -> list[HandedOut]:
        found = []
        for each in await self.handed_out(project_id, task_id, run_id, limit=limit):
            made = self._state.contexts[each.context_id].created_at
            told: dict[PatternId, bool] = {}
            for key, outcome in self._state.outcomes.items():
                of_run = run_id is None or outcome.run_id == run_id
                first = each.run_id is None and outcome.context_id == each.context_id
                same = key[0] == self._workspace and key[2:4] == (project_id, task_id)
                if same and (of_run or first) and self._state.told_at[key] >= made:
                    told[outcome.pattern_id] = told.get(outcome.pattern_id, False) or outcome.worked
            left = tuple(p for p in each.pattern_ids if p not in told)
            worked = tuple(p for p in each.pattern_ids if told.get(p))
            if left or worked:
                found.append(replace(each, pattern_ids=left, worked=worked))
        return found

    async def failed(self, project_id: str, task_id: str, among: Collection[PatternId]) -> set[PatternId]:
        of_task = [
            outcome
            for key, outcome in self._state.outcomes.items()
            if key[0] == self._workspace and key[2:4] == (project_id, task_id)
        ]
        worked = {outcome.pattern_id for outcome in of_task if outcome.worked}
        return {outcome.pattern_id for outcome in of_task if outcome.pattern_id in among} - worked

    async def record_outcomes(
        self, told: Sequence[Outcome], now: datetime, *, instead_of: EntryId | None = None
    ) -> None:
        async with self._state.deciding[self._workspace]:
            for outcome in told:
                if not any(row.entry.pattern_id == outcome.pattern_id for row in self._state.entries.values()):
                    raise NotFound(f"there is no pattern {outcome.pattern_id} in workspace {self._workspace} any more")
            if instead_of is not None:
                if instead_of not in self._state.entries:
                    return
                self._state.remove([instead_of])
            for outcome in told:
                run = (outcome.pattern_id, outcome.project_id, outcome.task_id, outcome.run_id)
                known = self._state.outcomes.get((self._workspace, *run))
                if known is None or known.worked != outcome.worked or known.low_trust or not outcome.low_trust:
                    self._state.outcomes[self._workspace, *run] = outcome
                    self._state.told_at[self._workspace, *run] = now
                if instead_of is not None:
                    self._state.told_by[self._workspace, instead_of] = outcome.pattern_id
            self._state.recount({outcome.pattern_id for outcome in told})

    async def told_by(self, entry_id: EntryId) -> PatternId | None:
        return self._state.told_by.get((self._workspace, entry_id))

    async def prune(self, before: datetime, *, limit: int) -> int:
        async with self._state.deciding[self._workspace]:
            mine = [row for row in self._state.contexts.values() if row.workspace == self._workspace]
            old = {row.context.context_id for row in mine if row.created_at < before}
            old = set(sorted(old)[:limit])
            for context_id in old:
                del self._state.contexts[context_id]
            gone = [key for key, outcome in self._state.outcomes.items() if outcome.context_id in old]
            touched = {self._state.outcomes.pop(key).pattern_id for key in gone}
            self._state.recount(touched)
            return len(old)


def _handed_out(row: ContextRow) -> HandedOut:
    return HandedOut(
        context_id=row.context.context_id,
        project_id=row.task.project_id,
        task_id=row.task.task_id,
        run_id=row.task.run_id,
        pattern_ids=tuple(pattern.pattern_id for pattern in row.context.patterns),
    )


class InMemoryJobs(JobStore):
    """Job runs of the whole store."""

    def __init__(self, state: InMemoryState) -> None:
        self._state = state

    async def begin(
        self, job: str, slot: datetime, *, takeover_after: timedelta, retry_after: timedelta, tries: int
    ) -> int | None:
        now = self._state.ticks()
        run = self._state.job_runs.get((job, slot))
        attempts = 0
        if run is not None:
            attempts = run.attempts
            wait = 0.0 if run.error == CANCELLED else retry_after.total_seconds() * 2 ** (attempts - 1)
            died = run.finished is None and run.started < now - takeover_after.total_seconds()
            due = run.error is not None and attempts < tries and run.finished is not None and run.finished < now - wait
            if not died and not due:
                return None
        self._state.job_runs[job, slot] = JobRun(started=now, attempts=attempts + 1)
        return attempts + 1

    async def alive(self, job: str, slot: datetime, tried: int) -> None:
        if run := self._at_work(job, slot, tried):
            self._state.job_runs[job, slot] = replace(run, started=self._state.ticks())

    def _at_work(self, job: str, slot: datetime, tried: int) -> JobRun | None:
        run = self._state.job_runs.get((job, slot))
        return run if run is not None and run.attempts == tried and run.finished is None else None

    async def finish(self, job: str, slot: datetime, tried: int, error: str | None) -> None:
        if run := self._at_work(job, slot, tried):
            self._state.job_runs[job, slot] = replace(run, finished=self._state.ticks(), error=error)
        for each in [key for key in self._state.job_runs if key[0] == job and key[1] < slot - RUNS_KEPT]:
            del self._state.job_runs[each]

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        names = sorted({workspace for workspace, _ in self._state.projects})
        return [name for name in names if after is None or name > after][:limit]

    async def holds_anything(self, workspace: str) -> bool:
        return workspace in await self.workspaces()

    async def tended(self) -> list[str]:
        state = self._state
        left = {workspace for workspace, _ in state.checkpoints.values()}
        left |= {row.workspace for row in state.points.values()} | {row.workspace for row in state.contexts.values()}
        return sorted(left.union(await self.workspaces()))

    async def tidy(self) -> None:
        return

    async def staged(self) -> int:
        return sum(row.entry.status is EntryStatus.STAGED for row in self._state.entries.values())
