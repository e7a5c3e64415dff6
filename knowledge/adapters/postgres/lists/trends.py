"""Statements of the daily counts: entries, checkpoints, contexts, and first attempts with a hint and without."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.memory_tables import TIME, checkpoints, contexts, knowledge_staging, outcomes, records
from knowledge.models import SILENCE, Reason
from knowledge.ports import DayCounts, DayKey

_E = knowledge_staging.c
_C = contexts.c
_K = checkpoints.c
_O = outcomes.c
_R = records.c
_WORKSPACE: sa.BindParameter[str] = sa.bindparam("workspace", type_=sa.Text)
_SINCE: sa.BindParameter[datetime] = sa.bindparam("since", type_=TIME)
_NUMBER: Final = sa.func.count()
_KINDS: Final = {
    Reason.SPOKE: "given",
    Reason.NOTHING_NEAR: "silent",
    Reason.NOT_SURE: "silent",
    Reason.AGENT_KNOWS: "silent",
    Reason.HELD_OUT: "held_out",
    Reason.DEGRADED: "degraded",
}
"""The count that a context is of, by the rule that decided."""
_ARMS: Final = {Reason.SPOKE: "hinted", Reason.HELD_OUT: "held_out"}


def _day(column: sa.ColumnElement[datetime]) -> sa.ColumnElement[date]:
    return sa.cast(sa.func.timezone("UTC", column), sa.Date).label("day")


def _select_captured() -> sa.Select[Any]:
    """Select captures by day and project, by an index alone."""
    day = _day(_E.timestamp)
    ours = (_E.workspace == _WORKSPACE, _E.timestamp >= _SINCE)
    return sa.select(day, _E.project_id, sa.literal("captured"), _NUMBER).where(*ours).group_by(day, _E.project_id)


def _select_embedded() -> sa.Executable:
    """Select embedded entries by day, as checkpoints reported them."""
    day = _day(_K.finished_at)
    embedded = sa.func.sum(_K.report["embedded"].as_integer())
    ours = (_K.workspace == _WORKSPACE, _K.finished_at >= _SINCE)
    return sa.select(day, sa.null(), sa.literal("embedded"), embedded).where(*ours).group_by(day)


def _select_contexts() -> sa.Executable:
    """Select contexts by day and rule, by an index alone where they have a rule."""
    day, reason = _day(_C.created_at), sa.func.coalesce(_C.reason, Reason.SPOKE.value)
    ours = (_C.workspace == _WORKSPACE, _C.created_at >= _SINCE)
    # named one by one, for the index of reasons
    named = sa.or_(_C.reason.in_([reason.value for reason in Reason]), _C.reason.is_(None))
    return sa.select(day, sa.null(), reason, _NUMBER).where(*ours, named).group_by(day, reason)


def _select_attempts() -> sa.Select[Any]:
    """Select first attempts at tasks by day, project, arm and result: of a task's contexts with a result, the first."""
    hinted = (
        sa.select(_O.context_id, sa.func.bool_or(_O.worked).label("worked"))
        .where(_O.workspace == _WORKSPACE, _O.recorded_at >= _SINCE, ~_O.low_trust)
        .group_by(_O.context_id)
    )
    unaided = sa.select(_R.context_id, _R.worked).where(
        _R.workspace == _WORKSPACE,
        _R.recorded_at >= _SINCE,
        ~_R.low_trust,
        _R.entry_id.is_(None),
        _R.arm_key == sa.literal(SILENCE, literal_execute=True),
        _R.context_id.is_not(None),
    )
    results = sa.union_all(hinted, unaided).subquery("results")
    reason = sa.func.coalesce(_C.reason, Reason.SPOKE.value)
    task = sa.func.coalesce(_C.task_id, sa.cast(_C.id, sa.Text))
    number = sa.func.row_number().over(partition_by=(_C.project_id, task), order_by=(_C.created_at, _C.id))
    attempts = (
        sa.select(_C.created_at, _C.project_id, reason.label("reason"), results.c.worked, number.label("number"))
        .select_from(results.join(contexts, _C.id == results.c.context_id))
        .where(_C.workspace == _WORKSPACE, _C.created_at >= _SINCE)
        .subquery("attempts")
    )
    day = _day(attempts.c.created_at)
    by = (day, attempts.c.project_id, attempts.c.reason, attempts.c.worked)
    arms = attempts.c.reason.in_([reason.value for reason in _ARMS])
    return sa.select(*by, _NUMBER).where(attempts.c.number == 1, arms).group_by(*by)


_CAPTURED, _EMBEDDED, _CONTEXTS, _ATTEMPTS = (
    _select_captured(),
    _select_embedded(),
    _select_contexts(),
    _select_attempts(),
)


async def count_days(connection: AsyncConnection, workspace: str, since: datetime) -> DayCounts:
    """Return counts by day, project and name; the project is None where a count has none."""
    counts: dict[DayKey, int] = defaultdict(int)
    params: Mapping[str, Any] = {"workspace": workspace, "since": since}
    statements: tuple[sa.Executable, ...] = (_CAPTURED, _EMBEDDED)
    for statement in statements:
        for day, project_id, name, number in await connection.execute(statement, params):
            counts[day, project_id, name] += number or 0
    for day, project_id, reason, number in await connection.execute(_CONTEXTS, params):
        counts[day, project_id, _KINDS[Reason(reason)]] += number
    for day, project_id, reason, worked, number in await connection.execute(_ATTEMPTS, params):
        counts[day, project_id, f"{_ARMS[Reason(reason)]}_{'worked' if worked else 'failed'}"] += number
    return counts
