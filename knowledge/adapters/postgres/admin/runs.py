"""Checkpoints, job runs and counts in Postgres."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.postgresql import insert

from hardwon.errors import NotFound
from hardwon.models.maintenance import JobRun
from knowledge.adapters.postgres.document_tables import (
    answer_feedback,
    escalations,
    kb_partitions,
    kb_sources,
    qa_events,
)
from knowledge.adapters.postgres.engine.analyze import Vacuum
from knowledge.adapters.postgres.engine.database import Store, WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory.counts import (
    CHECKPOINTS,
    ENTRIES,
    PATTERNS,
    VECTORS,
    fold_counters,
    read_counters,
)
from knowledge.adapters.postgres.memory_tables import (
    checkpoints,
    contexts,
    counters,
    deeds,
    embedding_spaces,
    job_run,
    knowledge_staging,
    outcomes,
    patterns,
    points,
    projects,
    vectors,
)
from knowledge.models import (
    MAX_DEAD_SHOWN,
    CheckpointId,
    CheckpointReport,
    CheckpointType,
    DeadEntry,
    EntryId,
    WorkspaceStats,
)
from knowledge.ports import CANCELLED, RUN_RETENTION, CheckpointStore, JobStore

_REPORT = TypeAdapter(CheckpointReport)
_E = knowledge_staging.c
_PRUNED = (knowledge_staging, vectors, patterns, points, contexts, outcomes, checkpoints, counters)
_CONTENT_TABLES = (projects, kb_partitions, kb_sources)
_RECORD_TABLES = (points, contexts, checkpoints, qa_events, answer_feedback)
"""Tables that may have rows of an otherwise empty workspace; each has an index that begins with the workspace."""


_SPACE_IN_USE = sa.select(embedding_spaces.c.fingerprint, embedding_spaces.c.space).where(embedding_spaces.c.active)
_OURS = sa.bindparam("workspace", type_=sa.Text)


def _first(column: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select a column of one row: what Postgres looks up for each row, where it may read a whole table for `EXISTS`."""
    return sa.select(column).where(*conditions).limit(1).scalar_subquery()


def _select_stats() -> sa.Select[Any]:
    """Select what is no counter, each by one end of an index."""
    of_project = sa.and_(_E.workspace == projects.c.workspace, _E.project_id == projects.c.project_id)
    has_entries = _first(sa.true(), of_project).is_not(None)  # a project may outlive its last entry
    # a pattern that a checkpoint is founding has its count already, and no embedded entry
    is_decided = (_E.workspace == _OURS, _E.status == sa.literal_column("'staged'"), _E.pattern_id.is_not(None))
    decided = sa.select(_E.pattern_id).where(*is_decided).distinct().subquery("decided")
    embedded = sa.and_(_E.pattern_id == patterns.c.id, _E.status == sa.literal_column("'embedded'"))
    founding = (
        sa.select(sa.func.count())
        .select_from(decided.join(patterns, patterns.c.id == decided.c.pattern_id))
        .where(patterns.c.success_count > 0, _first(sa.true(), embedded).is_(None))
    )
    staged = sa.select(sa.func.min(_E.timestamp)).where(
        _E.workspace == _OURS, _E.status == sa.literal_column("'staged'")
    )
    expiry = sa.select(sa.func.min(_E.expires_at)).where(
        _E.workspace == _OURS, _E.status == sa.literal_column("'embedded'")
    )
    finished = sa.select(sa.func.max(checkpoints.c.finished_at)).where(checkpoints.c.workspace == _OURS)
    of_projects = sa.select(sa.func.count().filter(has_entries)).where(projects.c.workspace == _OURS)
    return sa.select(
        of_projects.scalar_subquery().label("projects"),
        founding.scalar_subquery().label("founding"),
        staged.scalar_subquery().label("oldest_staged_at"),
        expiry.scalar_subquery().label("next_expiry_at"),
        finished.scalar_subquery().label("last_checkpoint_at"),
    )


_STATS = _select_stats()
_DEAD = (
    sa.select(_E.id, _E.dead_reason)
    .where(_E.workspace == _OURS, _E.status == sa.literal_column("'dead'"))  # a literal, for the partial index
    .order_by(_E.timestamp.desc(), _E.id)
    .limit(MAX_DEAD_SHOWN)
)


class PostgresCheckpoints(WorkspaceStore, CheckpointStore):
    """Checkpoints of one workspace, and its counts."""

    async def start(self, project_id: str | None, checkpoint_type: CheckpointType, now: datetime) -> CheckpointReport:
        report = CheckpointReport(
            checkpoint_id=CheckpointId(uuid4()), project_id=project_id, checkpoint_type=checkpoint_type, started_at=now
        )
        row = insert(checkpoints).values(
            id=report.checkpoint_id,
            workspace=self._workspace,
            project_id=project_id,
            checkpoint_type=checkpoint_type,
            started_at=now,
            report=_REPORT.dump_python(report, mode="json"),
        )
        await self._write(row)
        return report

    async def finish(self, report: CheckpointReport) -> None:
        update = (
            sa.update(checkpoints)
            .where(checkpoints.c.workspace == self._workspace, checkpoints.c.id == report.checkpoint_id)
            .values(finished_at=report.finished_at, report=_REPORT.dump_python(report, mode="json"))
        )
        async with autocommit(self._engine) as connection:
            await connection.execute(update)
            await fold_counters(connection, self._workspace)

    async def get(self, checkpoint_id: CheckpointId) -> CheckpointReport:
        query = sa.select(checkpoints.c.report).where(
            checkpoints.c.workspace == self._workspace, checkpoints.c.id == checkpoint_id
        )
        report = await self._scalar(query)
        if report is None:
            raise NotFound(f"there is no checkpoint {checkpoint_id} in workspace {self._workspace}")
        return _REPORT.validate_python(report)

    async def prune(self, before: datetime, *, limit: int) -> int:
        of = checkpoints.c
        old = sa.select(of.id).where(of.workspace == self._workspace, of.started_at < before).limit(limit)
        async with autocommit(self._engine) as connection:
            pruned = await connection.execute(sa.delete(checkpoints).where(of.id.in_(old)))
            await fold_counters(connection, self._workspace)
            return pruned.rowcount

    async def stats(self) -> WorkspaceStats:
        async with autocommit(self._engine) as connection:
            space = (await connection.execute(_SPACE_IN_USE)).first()
            ours = {"workspace": self._workspace}
            counts = await read_counters(connection, self._workspace)
            of_store = (await connection.execute(_STATS, ours)).one()
            dead = (await connection.execute(_DEAD, ours)).all()
        by_space = {name: number for name, number in counts.items() if name.startswith(VECTORS)}
        in_use = 0 if space is None else by_space.get(f"{VECTORS}{space.fingerprint}", 0)
        return WorkspaceStats(
            workspace=self._workspace,
            projects=of_store.projects,
            entries={
                name.removeprefix(ENTRIES): number
                for name, number in sorted(counts.items())
                if name.startswith(ENTRIES) and number
            },
            patterns=counts.get(PATTERNS, 0) - of_store.founding,
            points=None,
            checkpoints=counts.get(CHECKPOINTS, 0),
            oldest_staged_at=of_store.oldest_staged_at,
            last_checkpoint_at=of_store.last_checkpoint_at,
            next_expiry_at=of_store.next_expiry_at,
            vector_bytes=sum(by_space.values()),
            embedding_model=None if space is None else space.space["model"],
            dims=None if space is None else space.space["dims"],
            unused_vector_bytes=sum(by_space.values()) - in_use,
            dead_entries=tuple(DeadEntry(entry_id=EntryId(row.id), reason=row.dead_reason) for row in dead),
        )


def _update_running(job: str, slot: datetime, tried: int) -> sa.Update:
    """Return an update of a running attempt; it matches no row if another process took the run over."""
    run = job_run.c
    return sa.update(job_run).where(run.job == job, run.slot == slot, run.attempts == tried, run.finished_at.is_(None))


class PostgresJobs(Store, JobStore):
    """Job runs of the whole store."""

    async def begin(
        self, job: str, slot: datetime, *, takeover_after: timedelta, retry_after: timedelta, tries: int
    ) -> int | None:
        run = job_run.c
        new = insert(job_run).values(job=job, slot=slot, began_at=sa.func.now())
        died = sa.and_(run.finished_at.is_(None), run.started_at < sa.func.now() - takeover_after)
        wait = sa.func.make_interval(0, 0, 0, 0, 0, 0, retry_after.total_seconds() * sa.func.power(2, run.attempts - 1))
        due = sa.or_(run.error == CANCELLED, run.finished_at < sa.func.now() - wait)
        failed = sa.and_(run.error.is_not(None), run.attempts < tries, due)
        again: dict[str, Any] = {"started_at": sa.func.now(), "began_at": sa.func.now()}
        again |= dict.fromkeys(("finished_at", "error", "dealt_with"))
        claim = new.on_conflict_do_update(
            index_elements=[run.job, run.slot],
            set_=again | {"attempts": run.attempts + 1},
            where=sa.or_(died, failed),
        ).returning(run.attempts)
        tried: int | None = await self._scalar(claim)
        return tried

    async def heartbeat(self, job: str, slot: datetime, tried: int) -> None:
        await self._write(_update_running(job, slot, tried).values(started_at=sa.func.now()))

    async def finish(
        self, job: str, slot: datetime, tried: int, error: str | None, dealt_with: int | None = None
    ) -> None:
        result = {"finished_at": sa.func.now(), "error": error, "dealt_with": dealt_with}
        long_over = sa.delete(job_run).where(job_run.c.job == job, job_run.c.slot < slot - RUN_RETENTION)
        async with autocommit(self._engine) as connection:
            await connection.execute(_update_running(job, slot, tried).values(**result))
            await connection.execute(long_over)

    async def last_runs(self, jobs: Collection[str], *, limit: int) -> Mapping[str, list[JobRun]]:
        names = sa.select(sa.func.unnest(sa.literal(list(jobs), sa.ARRAY(sa.Text))).label("job")).subquery("names")
        last = (
            sa.select(job_run)
            .where(job_run.c.job == names.c.job)
            .order_by(job_run.c.slot.desc())
            .limit(limit)
            .lateral("last")
        )
        found: dict[str, list[JobRun]] = {job: [] for job in jobs}
        for row in await self._all(sa.select(last).select_from(names.join(last, sa.true()))):
            run = JobRun(
                began_at=row.began_at or row.started_at,
                finished_at=row.finished_at,
                attempts=row.attempts,
                dealt_with=row.dealt_with,
                error=row.error,
            )
            found[row.job].append(run)
        return {job: sorted(runs, key=lambda run: run.began_at, reverse=True) for job, runs in found.items()}

    async def workspaces(self, *, after: str | None = None, limit: int | None = None) -> list[str]:
        holding = sa.union(*(sa.select(table.c.workspace) for table in _CONTENT_TABLES))
        names = holding.subquery("holding").c.workspace
        query = sa.select(names).order_by(names).limit(limit)
        if after is not None:
            query = query.where(names > after)
        return list(await self._scalars(query))

    async def holds_anything(self, workspace: str) -> bool:
        has_content = sa.or_(*(sa.exists().where(table.c.workspace == workspace) for table in _CONTENT_TABLES))
        return bool(await self._scalar(sa.select(has_content)))

    async def workspaces_with_work(self) -> list[str]:
        plain = (
            sa.select(table.c.workspace) for table in (*_CONTENT_TABLES, escalations)
        )  # closed ones are in no index
        names = sa.union(*plain, *map(_distinct_workspaces, _RECORD_TABLES)).subquery("tended").c.workspace
        return list(await self._scalars(sa.select(names).order_by(names)))

    async def workspaces_with_deeds(self, now: datetime) -> list[str]:
        unended = sa.literal_column("state IN ('waiting', 'running')", sa.Boolean)
        query = sa.select(deeds.c.workspace).where(unended, deeds.c.due_at <= now).distinct()
        return list(await self._scalars(query.order_by(deeds.c.workspace)))

    async def vacuum(self) -> None:
        await self._write(Vacuum(_PRUNED))

    async def count_staged(self) -> int:
        # a literal, so that the planner uses the partial index
        waiting = sa.select(sa.func.count()).where(_E.status == sa.literal_column("'staged'"))
        return await self._scalar(waiting) or 0


def _distinct_workspaces(table: sa.Table) -> sa.Select[tuple[str]]:
    """Return each workspace of a table, by one index lookup each: rows are many, workspaces few."""
    of = table.c.workspace
    first = sa.select(sa.func.min(of).label("workspace")).cte(f"of_{table.name}", recursive=True)
    following = sa.select(sa.func.min(of)).where(of > first.c.workspace).scalar_subquery()
    each = first.union_all(sa.select(following).where(first.c.workspace.is_not(None)))
    return sa.select(each.c.workspace).where(each.c.workspace.is_not(None))
