"""What keeps patterns true to their entries: one decides at a time, counts are derived, nothing waits in a circle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.database import in_line, storing
from knowledge.adapters.postgres.tables import knowledge_staging, outcomes, patterns, points

_E = knowledge_staging.c
_P = patterns.c
_O = outcomes.c
EMBEDDED = _E.status == sa.literal_column("'embedded'")


MOST_IDLE = timedelta(seconds=60)
"""What a process that hangs while it is alone with patterns may hold up others: Postgres takes back what it did."""


def most_idle() -> str:
    """Return `MOST_IDLE` as Postgres takes it."""
    return f"{MOST_IDLE / timedelta(milliseconds=1):.0f}ms"


@asynccontextmanager
async def alone(engine: AsyncEngine, workspace: str) -> AsyncIterator[AsyncConnection]:
    """Run a block in a transaction in which nobody else gives entries to patterns of a workspace, or takes some away.

    Else a pattern could go while an entry joins it. After `MOST_IDLE` without a statement Postgres ends the
    transaction, for a process that hangs, or waits for an index that does, would hold up all others. Take no other
    connection in the block. Raises StorageBusy where it is not our turn in time.
    """
    async with in_line(engine, workspace), storing(engine) as connection:
        await take_turn(connection, workspace)
        yield connection


async def take_turn(connection: AsyncConnection, workspace: str) -> None:
    """Be `alone` with the patterns of a workspace until this transaction ends; of several workspaces, by name."""
    await connection.execute(_ALONE, {"lock": f"hardwon/decide/{workspace}", "most_idle": most_idle()})


def among(column: sa.ColumnElement[Any], ids: Collection[Any]) -> sa.ColumnElement[bool]:
    """Return the condition to be one of these ids: one parameter, however many."""
    return column == sa.any_(sa.literal(list(ids), sa.ARRAY(UUID_TYPE)))


def locked_in_order(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition to be one of the entries that meet these, locked by id: two such never wait in a circle."""
    locked = sa.select(_E.id).where(*conditions).order_by(_E.id).with_for_update().cte("locked")
    return _E.id.in_(sa.select(locked.c.id))


async def recount(connection: AsyncConnection, pattern_ids: Iterable[UUID]) -> None:
    """Derive the counts of patterns from their evidence; one without entries and points goes.

    One that has points yet goes with the last of them: they say what the index may still hold. Outcomes alone are no
    evidence: they count while an embedded entry does, and go with the last entry.

    A distinct (project, task, run) is one attempt, of an entry or an outcome, and a success unless only failure is told
    of it; an entry's id stands in for a missing task, the hash of its content for a missing run (product.md).
    Where evidence was deleted, be `alone`.
    """
    ids = sorted(set(pattern_ids))
    if not ids:
        return
    # A statement of its own: the next one then sees what others that recounted these patterns have committed. By id, so
    # that no two wait in a circle; without the key, which links refer to.
    await connection.execute(_LOCK_PATTERNS, {"ids": ids})
    await connection.execute(_RECOUNT, {"ids": ids})


def _among_ids(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return column == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE)))


def _recount() -> sa.Update:
    runs = _runs().subquery("runs")
    counted = (
        sa.select(
            _P.id,
            sa.func.count(runs.c.pattern_id).label("attempts"),
            sa.func.count(runs.c.pattern_id).filter(runs.c.worked).label("successes"),
            sa.func.count(sa.distinct(runs.c.project_id)).filter(runs.c.worked).label("projects"),
            sa.exists().where(_E.pattern_id == _P.id).label("has_entries"),
            sa.exists().where(_E.pattern_id == _P.id, EMBEDDED).label("live"),
        )
        .select_from(patterns.outerjoin(runs, runs.c.pattern_id == _P.id))
        .where(_among_ids(_P.id))
        .group_by(_P.id)
        .cte("counted")
    )
    in_index = sa.exists().where(points.c.pattern_id == _P.id)
    gone = sa.delete(patterns).where(_P.id == counted.c.id, ~counted.c.has_entries, ~in_index).cte("gone")
    told = sa.delete(outcomes).where(_O.pattern_id == counted.c.id, ~counted.c.has_entries).cte("told_no_more")
    return (
        sa.update(patterns)
        .add_cte(gone, told)
        .where(_P.id == counted.c.id, sa.or_(counted.c.has_entries, in_index))
        .values(
            success_count=sa.case((counted.c.live, counted.c.successes), else_=0),
            attempt_count=sa.case((counted.c.live, counted.c.attempts), else_=0),
            project_count=sa.case((counted.c.live, counted.c.projects), else_=0),
        )
    )


def _runs() -> sa.Select[Any]:
    """Select the distinct (project, task, run) of patterns, and whether it worked.

    Of what a key of low trust told of a pattern, as an entry or an outcome, only the first counts, however often, for
    whichever projects.
    """
    of_entry = sa.select(
        _E.pattern_id,
        _E.project_id,
        sa.func.coalesce(_E.task_id, sa.cast(_E.id, sa.Text)).label("task_id"),
        sa.func.coalesce(_E.run_id, _E.content_hash).label("run_id"),
        sa.true().label("worked"),
        _E.low_trust,
        sa.func.coalesce(_E.agent_key, _E.captured_by, _E.resolved_by).label("key_id"),
        _E.timestamp.label("at"),
        _E.id,
    ).where(_among_ids(_E.pattern_id), EMBEDDED)
    of_outcome = sa.select(
        _O.pattern_id,
        _O.project_id,
        _O.task_id,
        _O.run_id,
        _O.worked,
        _O.low_trust,
        _O.recorded_by.label("key_id"),
        _O.recorded_at.label("at"),
        _O.id,
    ).where(_among_ids(_O.pattern_id))
    told = sa.union_all(of_entry, of_outcome).subquery("told")
    of_key = (told.c.pattern_id, told.c.low_trust, told.c.key_id)
    place = sa.func.row_number().over(partition_by=of_key, order_by=(told.c.at, told.c.id))
    placed = sa.select(told, place.label("place")).subquery("placed")
    run = (placed.c.pattern_id, placed.c.project_id, placed.c.task_id, placed.c.run_id)
    counts = sa.or_(~placed.c.low_trust, placed.c.place == 1)
    return sa.select(*run, sa.func.bool_or(placed.c.worked).label("worked")).where(counts).group_by(*run)


_ALONE = sa.select(
    sa.func.pg_advisory_xact_lock(
        sa.func.hashtextextended(sa.bindparam("lock", type_=sa.Text), sa.literal_column("0"))
    ),
    sa.func.set_config("idle_in_transaction_session_timeout", sa.bindparam("most_idle", type_=sa.Text), sa.true()),
)
# Built once: putting such a statement together takes longer than Postgres takes for some patterns.
_LOCK_PATTERNS = sa.select(_P.id).where(_among_ids(_P.id)).order_by(_P.id).with_for_update(key_share=True)
_RECOUNT = _recount()
