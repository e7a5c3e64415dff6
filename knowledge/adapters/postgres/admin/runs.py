"""Checkpoints, job runs and counts in Postgres."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.postgresql import insert

from hardwon.errors import NotFound
from knowledge.adapters.postgres.document_tables import (
    answer_feedback,
    escalations,
    kb_partitions,
    kb_sources,
    qa_events,
)
from knowledge.adapters.postgres.engine.analyze import Vacuum
from knowledge.adapters.postgres.engine.database import Store, WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory_tables import (
    checkpoints,
    contexts,
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
_PRUNED = (knowledge_staging, vectors, patterns, points, contexts, outcomes, checkpoints)
_CONTENT_TABLES = (projects, kb_partitions, kb_sources)
_RECORD_TABLES = (points, contexts, checkpoints, qa_events, answer_feedback)
"""Tables that may have rows of an otherwise empty workspace; each has an index that begins with the workspace."""


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
        await self._write(update)

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
        return await self._write(sa.delete(checkpoints).where(of.id.in_(old)))

    async def stats(self) -> WorkspaceStats:
        async with autocommit(self._engine) as connection:

            async def one(column: sa.ColumnElement[Any], table: sa.Table) -> Any:
                return await connection.scalar(sa.select(column).where(table.c.workspace == self._workspace))

            by_status = (
                sa.select(_E.status, sa.func.count().label("number"))
                .where(_E.workspace == self._workspace)
                .group_by(_E.status)
            )
            entries = {row.status: row.number for row in await connection.execute(by_status)}
            of_project = sa.and_(_E.workspace == projects.c.workspace, _E.project_id == projects.c.project_id)
            has_entries = sa.exists().where(of_project).correlate(projects)  # a project may outlive its last entry
            # one that a checkpoint is founding has its count already
            embedded = sa.and_(_E.pattern_id == patterns.c.id, _E.status == sa.literal_column("'embedded'"))
            is_live = sa.exists().where(embedded).correlate(patterns)
            staged = sa.func.min(_E.timestamp).filter(_E.status == "staged")
            in_use = sa.select(embedding_spaces.c.fingerprint).where(embedding_spaces.c.active).scalar_subquery()
            length = sa.func.sum(sa.func.length(vectors.c.vector))
            of_vectors = (
                sa.select(length, length.filter(vectors.c.space.is_distinct_from(in_use)))
                .join(points, points.c.id == vectors.c.point_id)
                .where(points.c.workspace == self._workspace)
            )
            vector_bytes, unused_bytes = (await connection.execute(of_vectors)).one()
            dead = (
                sa.select(_E.id, _E.dead_reason)
                .where(_E.workspace == self._workspace, _E.status == "dead")
                .order_by(_E.timestamp.desc(), _E.id)
                .limit(MAX_DEAD_SHOWN)
            )
            refused = [
                DeadEntry(entry_id=EntryId(row.id), reason=row.dead_reason) for row in await connection.execute(dead)
            ]
            space = await connection.scalar(sa.select(embedding_spaces.c.space).where(embedding_spaces.c.active))
            return WorkspaceStats(
                workspace=self._workspace,
                projects=await one(sa.func.count().filter(has_entries), projects),
                entries=entries,
                patterns=await one(sa.func.count().filter(patterns.c.success_count > 0, is_live), patterns),
                points=None,
                checkpoints=await one(sa.func.count(), checkpoints),
                oldest_staged_at=await one(staged, knowledge_staging),
                last_checkpoint_at=await one(sa.func.max(checkpoints.c.finished_at), checkpoints),
                next_expiry_at=await one(sa.func.min(_E.expires_at), knowledge_staging),
                vector_bytes=vector_bytes or 0,
                embedding_model=space and space["model"],
                dims=space and space["dims"],
                unused_vector_bytes=unused_bytes or 0,
                dead_entries=tuple(refused),
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
        new = insert(job_run).values(job=job, slot=slot)
        died = sa.and_(run.finished_at.is_(None), run.started_at < sa.func.now() - takeover_after)
        wait = sa.func.make_interval(0, 0, 0, 0, 0, 0, retry_after.total_seconds() * sa.func.power(2, run.attempts - 1))
        due = sa.or_(run.error == CANCELLED, run.finished_at < sa.func.now() - wait)
        failed = sa.and_(run.error.is_not(None), run.attempts < tries, due)
        claim = new.on_conflict_do_update(
            index_elements=[run.job, run.slot],
            set_={"started_at": sa.func.now(), "finished_at": None, "error": None, "attempts": run.attempts + 1},
            where=sa.or_(died, failed),
        ).returning(run.attempts)
        tried: int | None = await self._scalar(claim)
        return tried

    async def heartbeat(self, job: str, slot: datetime, tried: int) -> None:
        await self._write(_update_running(job, slot, tried).values(started_at=sa.func.now()))

    async def finish(self, job: str, slot: datetime, tried: int, error: str | None) -> None:
        long_over = sa.delete(job_run).where(job_run.c.job == job, job_run.c.slot < slot - RUN_RETENTION)
        async with autocommit(self._engine) as connection:
            await connection.execute(_update_running(job, slot, tried).values(finished_at=sa.func.now(), error=error))
            await connection.execute(long_over)

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
