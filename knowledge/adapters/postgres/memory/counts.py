"""Locks and counts: one transaction per workspace decides, locks are ordered, counts of patterns are derived.

Those of a workspace are counters, which triggers keep (`engine.counters`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.selectable import LateralFromClause

from knowledge.adapters.postgres.engine.database import queue_for_workspace, store_transaction
from knowledge.adapters.postgres.memory.entry_rows import TRUST_ORDER
from knowledge.adapters.postgres.memory_tables import counters, knowledge_staging, outcomes, patterns, points
from knowledge.adapters.postgres.seals.ledger import ledger_of

_E = knowledge_staging.c
_P = patterns.c
_O = outcomes.c
_K = counters.c
EMBEDDED = _E.status == sa.literal_column("'embedded'")
FACETS: Final = {"technologies": "technology", "agents": "agent_type", "projects": "project_id"}
"""The columns of a pattern that hold the names its entries have, and the columns of entries they come from."""
MAX_FACETS: Final = 50
"""Names of each kind that a pattern has, the first by the alphabet; ours."""
MAX_PROBLEM_CHARS: Final = 200
"""Characters of a problem that patterns are sorted by; ours: what a line shows."""
PROBLEM: Final = sa.func.coalesce(_E.failure_description, _E.proposal, _E.human_feedback, _E.task_description, "")
"""An entry's problem, as it is shown."""
PROBLEM_START: Final = sa.func.lower(sa.func.left(PROBLEM, MAX_PROBLEM_CHARS))
"""The beginning of an entry's problem, as it is shown, in small letters."""
NO_NAMES: Final = sa.cast(sa.literal_column("'{}'"), ARRAY(sa.Text))


MAX_IDLE = timedelta(seconds=60)
"""Idle time after which Postgres rolls back an exclusive transaction, so that a hung process does not block others."""


def max_idle_setting() -> str:
    """Return `MAX_IDLE` in the syntax of Postgres."""
    return f"{MAX_IDLE / timedelta(milliseconds=1):.0f}ms"


@asynccontextmanager
async def exclusive_transaction(engine: AsyncEngine, workspace: str) -> AsyncIterator[AsyncConnection]:
    """Open a transaction that alone in its workspace may add entries to patterns or remove them.

    Without it a pattern could be deleted while an entry joins it. After `MAX_IDLE` without a statement Postgres ends
    the transaction, because a process that hangs, or waits for an index that does, would block all others. Take no
    other connection in the block. Raises StorageBusy if the lock is not free in time.
    """
    async with queue_for_workspace(engine, workspace), store_transaction(engine) as connection:
        await take_turn(connection, workspace)
        yield connection


async def take_turn(connection: AsyncConnection, workspace: str) -> None:
    """Be `alone` with the patterns of a workspace until this transaction ends; of several workspaces, by name."""
    await connection.execute(_LOCK_WORKSPACE, {"lock": f"hardwon/decide/{workspace}", "most_idle": max_idle_setting()})


def is_any_of(column: sa.ColumnElement[Any], ids: Collection[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a column is one of these ids, by one parameter for any number."""
    return column == sa.any_(sa.literal(list(ids), sa.ARRAY(UUID_TYPE)))


def lock_in_order(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition of being one of the entries that meet `conditions`, locked in id order: no deadlocks."""
    locked = sa.select(_E.id).where(*conditions).order_by(_E.id).with_for_update().cte("locked")
    return _E.id.in_(sa.select(locked.c.id))


async def recount(connection: AsyncConnection, pattern_ids: Iterable[UUID]) -> None:
    """Derive the counts of patterns from their evidence; delete those without entries and points.

    A pattern with points is deleted with the last of them: they say what the index may still hold; its tags are gone at
    once. Outcomes alone are
    not evidence: they count while there is an embedded entry, and are deleted with the last entry.

    A distinct (project, task, run) of an entry or an outcome is one attempt, and a success unless only failures are
    recorded for it; an entry's id stands in for a missing task, the hash of its content for a missing run (product.md).
    Use an `exclusive_transaction` if evidence was deleted.
    """
    ids = sorted(set(pattern_ids))
    if not ids:
        return
    # A statement of its own: the next one then sees the commits of others that recounted these patterns. By id, to
    # avoid deadlocks; without locking the key, which links refer to.
    await connection.execute(_LOCK_PATTERNS, {"ids": ids})
    if ledger_of(connection.engine).keys is not None:
        lost = (await connection.execute(_TOLD_NO_MORE, {"ids": ids})).all()
        for workspace in {row.workspace for row in lost}:
            seals = [row.seal for row in lost if row.workspace == workspace]
            await ledger_of(connection.engine).record(connection, workspace, removed=seals)
    await connection.execute(_UPDATE_COUNTS, {"ids": ids})


def _is_any_of_ids(column: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    return column == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE)))


def _counted() -> tuple[sa.CTE, dict[str, sa.ColumnElement[Any]]]:
    """Return the evidence of patterns, and their derived columns from it."""
    runs, facets = select_runs(_is_any_of_ids).subquery("runs"), _select_facets()
    counted = (
        sa.select(
            _P.id,
            sa.func.max(runs.c.at).label("seen"),
            *(sa.func.coalesce(facets.c[name][1:MAX_FACETS], NO_NAMES).label(name) for name in FACETS),
            sa.func.coalesce(facets.c.trusted, sa.false()).label("trusted"),
            _select_problem().label("problem"),
            sa.func.count(runs.c.pattern_id).label("attempts"),
            sa.func.count(runs.c.pattern_id).filter(runs.c.worked).label("successes"),
            sa.func.count(sa.distinct(runs.c.project_id)).filter(runs.c.worked).label("in_projects"),
            sa.exists().where(_E.pattern_id == _P.id).label("has_entries"),
            sa.exists().where(_E.pattern_id == _P.id, EMBEDDED).label("live"),
        )
        .select_from(patterns.outerjoin(runs, runs.c.pattern_id == _P.id).join(facets, sa.true()))
        .where(_is_any_of_ids(_P.id))
        .group_by(_P.id, *facets.c)
        .cte("counted")
    )
    counts: dict[str, sa.ColumnElement[Any]] = {
        "last_seen_at": sa.func.coalesce(counted.c.seen, _P.last_seen_at),
        **{name: counted.c[name] for name in FACETS},
        "trusted": counted.c.trusted,
        "problem_start": sa.func.coalesce(counted.c.problem, ""),
        "tags": sa.case((counted.c.has_entries, _P.tags), else_=NO_NAMES),
        "success_count": sa.case((counted.c.live, counted.c.successes), else_=0),
        "attempt_count": sa.case((counted.c.live, counted.c.attempts), else_=0),
        "project_count": sa.case((counted.c.live, counted.c.in_projects), else_=0),
    }
    return counted, counts


def _is_changed(counts: dict[str, sa.ColumnElement[Any]]) -> sa.ColumnElement[bool]:
    return sa.or_(*(_P[name].is_distinct_from(count) for name, count in counts.items()))


def _select_miscounted() -> sa.Select[Any]:
    """Select the patterns with embedded entries whose derived columns do not follow from their evidence."""
    counted, counts = _counted()
    return sa.select(_P.id).where(_is_any_of_ids(_P.id), _P.id == counted.c.id, counted.c.live, _is_changed(counts))


def _update_counts() -> sa.Update:
    counted, counts = _counted()
    in_index = sa.exists().where(points.c.pattern_id == _P.id)
    of_them, of_outcomes = _is_any_of_ids(_P.id), _is_any_of_ids(_O.pattern_id)
    gone = sa.delete(patterns).where(of_them, _P.id == counted.c.id, ~counted.c.has_entries, ~in_index).cte("gone")
    orphans = (
        sa.delete(outcomes)
        .where(of_outcomes, _O.pattern_id == counted.c.id, ~counted.c.has_entries)
        .cte("told_no_more")
    )
    changed = _is_changed(counts)
    return (
        sa.update(patterns)
        .add_cte(gone, orphans)
        # the ids again: by the join alone the planner reads a whole table of 30,000 patterns for 200 of them
        .where(_is_any_of_ids(_P.id), _P.id == counted.c.id, sa.or_(counted.c.has_entries, in_index), changed)
        .values(**counts)
    )


def _select_facets() -> LateralFromClause:
    """Select the names that a pattern's embedded entries have of each kind, and whether any of them is trusted."""
    names = (
        sa.func.array_agg(sa.distinct(sa.cast(_E[column], sa.Text)), type_=ARRAY(sa.Text))
        .filter(_E[column].is_not(None))
        .label(name)
        for name, column in FACETS.items()
    )
    trusted = sa.func.bool_or(~_E.low_trust).label("trusted")
    return sa.select(*names, trusted).where(_E.pattern_id == _P.id, EMBEDDED).lateral("facets")


def _select_problem() -> sa.ScalarSelect[Any]:
    """Select the problem that is shown of a pattern: that of its most trusted entry."""
    shown = sa.select(PROBLEM_START).where(_E.pattern_id == _P.id, EMBEDDED).order_by(*TRUST_ORDER).limit(1)
    return shown.correlate(patterns).scalar_subquery()


def select_runs(is_wanted: Callable[[sa.ColumnElement[Any]], sa.ColumnElement[bool]]) -> sa.Select[Any]:
    """Select the distinct (project, task, run) of patterns, each with whether it worked, and when it last did or not.

    `is_wanted`: the condition on a column of patterns' ids.

    Of all that one key of low trust reported on a pattern, as entries or outcomes, only the first counts, for whichever
    projects.
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
    ).where(is_wanted(_E.pattern_id), EMBEDDED)
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
    ).where(is_wanted(_O.pattern_id))
    reports = sa.union_all(of_entry, of_outcome).subquery("told")
    of_key = (reports.c.pattern_id, reports.c.low_trust, reports.c.key_id)
    place = sa.func.row_number().over(partition_by=of_key, order_by=(reports.c.at, reports.c.id))
    placed = sa.select(reports, place.label("place")).subquery("placed")
    run = (placed.c.pattern_id, placed.c.project_id, placed.c.task_id, placed.c.run_id)
    counts = sa.or_(~placed.c.low_trust, placed.c.place == 1)
    worked, at = sa.func.bool_or(placed.c.worked).label("worked"), sa.func.max(placed.c.at).label("at")
    return sa.select(*run, worked, at).where(counts).group_by(*run)


_LOCK_WORKSPACE = sa.select(
    sa.func.pg_advisory_xact_lock(
        sa.func.hashtextextended(sa.bindparam("lock", type_=sa.Text), sa.literal_column("0"))
    ),
    sa.func.set_config("idle_in_transaction_session_timeout", sa.bindparam("most_idle", type_=sa.Text), sa.true()),
)
# Built once: compiling such a statement takes longer than Postgres takes for some patterns.
_LOCK_PATTERNS = sa.select(_P.id).where(_is_any_of_ids(_P.id)).order_by(_P.id).with_for_update(key_share=True)
_UPDATE_COUNTS, MISCOUNTED = _update_counts(), _select_miscounted()
_TOLD_NO_MORE = sa.select(_O.workspace, _O.seal).where(
    _is_any_of_ids(_O.pattern_id), ~sa.exists().where(_E.pattern_id == _O.pattern_id)
)


ENTRIES: Final = "entries."
"""Before a status: the entries that have it."""
PATTERNS: Final = "patterns"
"""Patterns with a success; those that a checkpoint is founding have one already."""
POINTS: Final = "points"
"""Points that are not dirty."""
VECTORS: Final = "vectors."
"""Before the fingerprint of a space: the bytes of its vectors."""
CHECKPOINTS: Final = "checkpoints"

_WORKSPACE_NAME = sa.bindparam("workspace", type_=sa.Text)
_TOTAL = sa.cast(sa.func.sum(_K.change), sa.BigInteger).label("total")
_READ = sa.select(_K.name, _TOTAL).where(_K.workspace == _WORKSPACE_NAME).group_by(_K.name)
_READ_ONE = sa.select(_TOTAL).where(_K.workspace == _WORKSPACE_NAME, _K.name == sa.bindparam("name", type_=sa.Text))


def _fold() -> sa.Insert:
    # by one at a time: two that delete the same rows in another order would be a deadlock
    lock = sa.func.hashtextextended(
        sa.literal_column("'hardwon/counters/'").concat(_WORKSPACE_NAME), sa.literal_column("0")
    )
    turn = sa.select(sa.func.pg_try_advisory_xact_lock(lock).label("ours")).cte("turn").prefix_with("MATERIALIZED")
    ours = sa.select(turn.c.ours).scalar_subquery()
    folded = (
        sa.delete(counters).where(_K.workspace == _WORKSPACE_NAME, ours).returning(_K.name, _K.change).cte("folded")
    )
    total = sa.cast(sa.func.sum(folded.c.change), sa.BigInteger)
    sums = sa.select(_WORKSPACE_NAME, folded.c.name, total).group_by(folded.c.name).having(total != 0)
    return sa.insert(counters).from_select(["workspace", "name", "change"], sums)


_FOLD = _fold()


async def read_counters(connection: AsyncConnection, workspace: str) -> dict[str, int]:
    """Return the counters of a workspace by name; one without rows is 0."""
    return {row.name: row.total for row in await connection.execute(_READ, {"workspace": workspace})}


async def read_counter(connection: AsyncConnection, workspace: str, name: str) -> int:
    """Return one counter of a workspace."""
    return await connection.scalar(_READ_ONE, {"workspace": workspace, "name": name}) or 0


async def fold_counters(connection: AsyncConnection, workspace: str) -> None:
    """Replace the rows of a workspace's counters by their sums; nothing where another process is doing so."""
    await connection.execute(_FOLD, {"workspace": workspace})
