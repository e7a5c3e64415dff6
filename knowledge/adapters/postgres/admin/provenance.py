"""Entries by their origin, and the contexts that showed them, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NotFound
from hardwon.models.access import AffectedTask, AlarmKind, EntryFilter, FrequentPattern, KeyAlarm
from knowledge.access.provenance import ProvenanceStore
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.counts import exclusive_transaction, is_any_of, recount
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, capture_time, to_entry
from knowledge.adapters.postgres.memory_tables import (
    contexts,
    knowledge_staging,
    links,
    outcomes,
    patterns,
    records,
)
from knowledge.adapters.postgres.seals.entry_seals import rewrite
from knowledge.adapters.postgres.seals.row_seals import forget_outcomes
from knowledge.models import ContextId, Entry, EntryId, EntryStatus, EntryType, PatternId

_E = knowledge_staging.c
_C = contexts.c
_O = outcomes.c
_P = patterns.c
_R = records.c
_CLOCK_SKEW = timedelta(days=1)
"""By which the clocks of processes may differ, and more; ours."""
_MAX_NAMED = 5
"""Patterns that an alarm names."""
_TASK = (_C.id, _C.project_id, _C.task_id, _C.run_id, _C.agent_type, _C.created_at)
_HELD_BACK = _E.status == sa.literal_column("'quarantined'")
_READY = sa.case(
    (_E.entry_type == EntryType.FAILURE_SOLUTION, sa.and_(_E.solution_steps.is_not(None), _E.success_verified)),
    (_E.entry_type == EntryType.GATE_REJECTION, _E.revision_approach.is_not(None)),
    else_=sa.true(),
)


_ROOM = sa.select(sa.func.set_config("work_mem", "256MB", sa.true()))
"""With less, Postgres builds no hash table of more than 200,000 ids, and scans all of them for each row."""


def _names_any(column: sa.Column[Any], ids: sa.Select[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that an array column of a context names any of `ids`.

    Each id in the array is looked up in one hash table of `ids`. `&&` compares each with each, so thousands with
    thousands took 20 s, and it uses no index under the policies. `IS true` keeps Postgres from making a join of it,
    which it would run by nested loops if it expects few ids.
    """
    each = sa.func.unnest(column).table_valued(sa.column("id", UUID_TYPE)).render_derived(name="named")
    return sa.exists().where(each.c.id.in_(ids).is_(sa.true())).select_from(each).correlate(contexts)


def _to_task(row: sa.Row[*tuple[Any, ...]]) -> AffectedTask:
    return AffectedTask(
        context_id=ContextId(row.id),
        project_id=row.project_id,
        task_id=row.task_id,
        run_id=row.run_id,
        agent_type=row.agent_type,
        handed_out_at=row.created_at,
    )


class PostgresProvenance(WorkspaceStore, ProvenanceStore):
    """Provenance in one workspace."""

    async def find_quarantined(self, *, limit: int, after: EntryId | None = None) -> list[Entry]:
        query = (
            sa.select(*ENTRY_COLUMNS)
            .where(_E.workspace == self._workspace, _HELD_BACK)
            .order_by(_E.timestamp, _E.id)
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            if after is not None:
                at = await capture_time(connection, self._workspace, after)
                query = query.where(sa.or_(_E.timestamp > at, sa.and_(_E.timestamp == at, _E.id > after)))
            return [to_entry(row) for row in await connection.execute(query)]

    async def approve(self, entry: Entry, by: str) -> Entry | None:
        seen = (  # what was added since was not reviewed
            _E.solution_steps.is_not_distinct_from(entry.solution_steps),
            _E.revision_approach.is_not_distinct_from(entry.revision_approach),
            _E.dead_ends == list(entry.dead_ends),
        )
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry.entry_id, _HELD_BACK, *seen)
            .values(
                status=sa.case((_READY, EntryStatus.STAGED), else_=EntryStatus.OPEN),
                low_trust=False,
                verified_by=sa.case(
                    (_READY, sa.func.coalesce(_E.verified_by, f"reviewed by {by}")), else_=_E.verified_by
                ),
            )
        )
        async with transaction(self._engine) as connection:
            rows = await rewrite(connection, self._workspace, update, _E.id == entry.entry_id, strict=True)
        return next(map(to_entry, rows), None)

    def _conditions(
        self,
        chosen: EntryFilter,
        table: sa.Table,
        keys: Sequence[sa.ColumnElement[Any]],
        time: sa.ColumnElement[Any],
    ) -> list[sa.ColumnElement[bool]]:
        """Return the conditions for the selected keys, project and time."""
        conditions: list[sa.ColumnElement[bool]] = [table.c.workspace == self._workspace]
        if chosen.key_ids:
            conditions.append(sa.or_(*(key.in_(chosen.key_ids) for key in keys)))
        if chosen.project_id is not None:
            conditions.append(table.c.project_id == chosen.project_id)
        if chosen.since is not None:
            conditions.append(time >= chosen.since)
        if chosen.until is not None:
            conditions.append(time < chosen.until)
        return conditions

    def _entry_conditions(self, chosen: EntryFilter) -> list[sa.ColumnElement[bool]]:
        keys = (_E.captured_by, _E.resolved_by, sa.case((_E.low_trust, _E.agent_key)))
        conditions = self._conditions(chosen, knowledge_staging, keys, _E.timestamp)
        return conditions if chosen.entry_id is None else [*conditions, _E.id == chosen.entry_id]

    def _outcome_conditions(self, chosen: EntryFilter) -> list[sa.ColumnElement[bool]]:
        conditions = self._conditions(chosen, outcomes, (_O.recorded_by,), _O.recorded_at)
        return conditions if chosen.entry_id is None else [sa.false()]

    async def find_entries(self, chosen: EntryFilter, *, limit: int) -> list[EntryId]:
        query = sa.select(_E.id).where(*self._entry_conditions(chosen)).order_by(_E.id).limit(limit)
        return [EntryId(entry_id) for entry_id in await self._scalars(query)]

    async def count(self, chosen: EntryFilter) -> int:
        query = sa.select(sa.func.count()).select_from(knowledge_staging).where(*self._entry_conditions(chosen))
        return await self._scalar(query) or 0

    async def count_outcomes(self, chosen: EntryFilter) -> int:
        query = sa.select(sa.func.count()).select_from(outcomes).where(*self._outcome_conditions(chosen))
        return await self._scalar(query) or 0

    async def delete_outcomes(self, chosen: EntryFilter, *, limit: int) -> int:
        rows = sa.select(_O.id).where(*self._outcome_conditions(chosen)).order_by(_O.id).limit(limit).with_for_update()
        gone = sa.delete(outcomes).where(_O.id.in_(rows)).returning(_O.pattern_id)
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            await forget_outcomes(connection, self._workspace, _O.id.in_(rows))
            pattern_ids = list((await connection.execute(gone)).scalars())
            await recount(connection, pattern_ids)
            return len(pattern_ids)

    async def affected_tasks(
        self, chosen: EntryFilter, *, limit: int, after: ContextId | None = None
    ) -> list[AffectedTask]:
        ids = sa.select(_E.id).where(*self._entry_conditions(chosen))
        of_patterns = sa.select(_E.pattern_id).where(*self._entry_conditions(chosen), _E.pattern_id.is_not(None))
        shows = [_names_any(_C.entry_ids, ids)]
        if chosen.entry_id is not None:  # it may be deleted
            shows.append(sa.literal(chosen.entry_id, UUID_TYPE) == sa.any_(_C.entry_ids))
        # contexts of an older version name no entries
        unnamed = sa.and_(sa.func.cardinality(_C.entry_ids) == 0, _names_any(_C.pattern_ids, of_patterns))
        query = (
            sa.select(*_TASK)
            .where(_C.workspace == self._workspace, sa.or_(*shows, unnamed))
            .order_by(_C.created_at.desc(), _C.id)
            .limit(limit)
        )
        async with transaction(self._engine) as connection:
            await connection.execute(_ROOM)
            first = chosen.since
            if chosen.entry_id is not None:
                first = await connection.scalar(sa.select(_E.timestamp).where(*self._entry_conditions(chosen))) or first
            # no context shows an entry before it is captured; as a parameter: no index is asked for what is computed
            if first is not None:
                query = query.where(_C.created_at >= first - _CLOCK_SKEW)
            if after is not None:
                at = await self._context_time(connection, after)
                query = query.where(sa.or_(_C.created_at < at, sa.and_(_C.created_at == at, _C.id > after)))
            return [_to_task(row) for row in await connection.execute(query)]

    async def tasks_of(self, context_ids: Sequence[ContextId]) -> list[AffectedTask]:
        query = sa.select(*_TASK).where(_C.workspace == self._workspace, is_any_of(_C.id, context_ids))
        return [_to_task(row) for row in await self._all(query)]

    async def _context_time(self, connection: AsyncConnection, context_id: ContextId) -> datetime:
        query = sa.select(_C.created_at).where(_C.workspace == self._workspace, _C.id == context_id)
        at: datetime | None = await connection.scalar(query)
        if at is None:
            raise NotFound(f"there is no context {context_id} to continue from: begin with the first page")
        return at

    async def find_frequent(self, *, since: datetime, least: int, times: int) -> list[FrequentPattern]:
        each = (
            sa.select(sa.func.unnest(_C.pattern_ids).label("pattern_id"), _C.id, _C.project_id, _C.task_id)
            .where(_C.workspace == self._workspace, _C.created_at >= since)
            .subquery("each")
        )
        task = sa.func.coalesce(each.c.task_id, sa.cast(each.c.id, sa.Text))
        shown = (
            sa.select(
                each.c.pattern_id,
                sa.func.count().label("contexts"),
                sa.func.count(sa.distinct(sa.tuple_(each.c.project_id, task))).label("tasks"),
            )
            .group_by(each.c.pattern_id)
            .having(sa.func.count() >= least)
            .subquery("shown")
        )
        query = (
            sa.select(shown, _P.success_count)
            .join(patterns, _P.id == shown.c.pattern_id)
            .where(_P.workspace == self._workspace, shown.c.tasks >= times * _P.success_count)
            .order_by((shown.c.tasks / sa.func.greatest(_P.success_count, 1)).desc(), shown.c.pattern_id)
        )
        return [
            FrequentPattern(
                pattern_id=PatternId(row.pattern_id),
                contexts=row.contexts,
                tasks=row.tasks,
                success_count=row.success_count,
            )
            for row in await self._all(query)
        ]

    async def find_key_alarms(self, *, since: datetime, repeats: int, failures: int) -> list[KeyAlarm]:
        kinds = {
            AlarmKind.CONTRADICTS: self._select_contradictions(since),
            AlarmKind.REPEATS: self._select_repeats(since, repeats),
            AlarmKind.CROWDS: self._select_crowds(since, repeats),
            AlarmKind.FAILS: self._select_failed(since, failures),
        }
        found = [
            KeyAlarm(
                key_id=row.key_id,
                kind=kind,
                reports=row.reports,
                pattern_ids=tuple(PatternId(each) for each in sorted(row.pattern_ids or ())[:_MAX_NAMED]),
            )
            for kind, query in kinds.items()
            for row in await self._all(query)
        ]
        return sorted(found, key=lambda alarm: (-alarm.reports, alarm.key_id, alarm.kind))

    def _reports(self, since: datetime) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of the records that agents' keys reported lately."""
        ours = _R.workspace == self._workspace
        return [ours, _R.low_trust, _R.recorded_by.is_not(None), _R.recorded_at >= since]

    def _select_contradictions(self, since: datetime) -> sa.Select[Any]:
        """Select the keys that told other resolutions of situations, or of rivals, than trusted ones that worked."""
        trusted, entry, other = records.alias("trusted"), knowledge_staging.alias("entry"), knowledge_staging.alias("o")
        worked = (trusted.c.workspace == self._workspace, trusted.c.worked, ~trusted.c.low_trust)
        same_situation = (
            sa.select(_R.recorded_by.label("key_id"), _R.id, other.c.pattern_id)
            .join(trusted, trusted.c.situation_key == _R.situation_key)
            .join(other, other.c.id == trusted.c.entry_id)
            .where(*self._reports(since), *worked, sa.or_(trusted.c.arm_key != _R.arm_key, ~_R.worked))
        )
        rival = sa.or_(
            sa.and_(links.c.lower_id == entry.c.pattern_id, links.c.upper_id == other.c.pattern_id),
            sa.and_(links.c.upper_id == entry.c.pattern_id, links.c.lower_id == other.c.pattern_id),
        )
        of_rival = (
            sa.select(_R.recorded_by, _R.id, other.c.pattern_id)
            .join(entry, entry.c.id == _R.entry_id)
            .join(links, sa.or_(links.c.lower_id == entry.c.pattern_id, links.c.upper_id == entry.c.pattern_id))
            .join(other, rival)
            .where(*self._reports(since), links.c.kind == "rival", ~other.c.low_trust, other.c.embedded_at.is_not(None))
        )
        against = sa.union(same_situation, of_rival).subquery("against")
        return _group_reports(against, sa.func.count(sa.distinct(against.c.id)))

    def _select_repeats(self, since: datetime, least: int) -> sa.Select[Any]:
        """Select the keys that told one situation with at least so many solutions."""
        often = (
            sa.select(_R.recorded_by, _R.situation_key)
            .where(*self._reports(since), _R.entry_id.is_not(None))
            .group_by(_R.recorded_by, _R.situation_key)
            .having(sa.func.count(sa.distinct(_R.arm_key)) >= least)
            .subquery("often")
        )
        told = (
            sa.select(_R.recorded_by.label("key_id"), _R.id, _E.pattern_id)
            .join(often, sa.and_(often.c.recorded_by == _R.recorded_by, often.c.situation_key == _R.situation_key))
            .join(knowledge_staging, _E.id == _R.entry_id)
            .where(*self._reports(since))
            .subquery("told")
        )
        return _group_reports(told, sa.func.count(sa.distinct(told.c.id)))

    def _select_crowds(self, since: datetime, least: int) -> sa.Select[Any]:
        """Select the keys that had at least so many situations left out near one task."""
        crowd = sa.func.jsonb_each_text(_C.choice["crowd"]).table_valued("key", "value").render_derived(name="crowd")
        number = sa.cast(crowd.c.value, sa.Integer)
        near = (
            sa.select(
                crowd.c.key.label("key_id"),
                number.label("number"),
                sa.func.unnest(_C.pattern_ids).label("pattern_id"),
            )
            .select_from(contexts.join(crowd, sa.true()))
            .where(_C.workspace == self._workspace, _C.created_at >= since, _C.choice.is_not(None), number >= least)
            .subquery("near")
        )
        return _group_reports(near, sa.func.max(near.c.number))

    def _select_failed(self, since: datetime, least: int) -> sa.Select[Any]:
        """Select the keys whose captures failed at least so often for somebody trusted, and more often than not."""
        entry = knowledge_staging.alias("entry")
        source = (
            sa.select(sa.func.coalesce(entry.c.agent_key, entry.c.captured_by, entry.c.resolved_by).label("key_id"))
            .where(entry.c.pattern_id == _O.pattern_id, entry.c.embedded_at.is_not(None))
            .group_by(sa.literal_column("1"))
            .having(sa.func.bool_and(entry.c.low_trust))
            .lateral("source")
        )
        told = (
            sa.select(source.c.key_id, _O.id, _O.pattern_id, _O.worked)
            .select_from(outcomes.join(source, sa.true()))
            .where(_O.workspace == self._workspace, ~_O.low_trust, _O.recorded_at >= since)
            .subquery("told")
        )
        failed = sa.func.count().filter(~told.c.worked)
        query = _group_reports(told, failed)
        return query.having(failed >= least, failed > sa.func.count().filter(told.c.worked))


def _group_reports(told: sa.Subquery, reports: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Select each key with the number of its reports and the patterns that they are about."""
    named = sa.func.array_agg(sa.distinct(told.c.pattern_id)).filter(told.c.pattern_id.is_not(None))
    return (
        sa.select(told.c.key_id, reports.label("reports"), named.label("pattern_ids"))
        .where(told.c.key_id.is_not(None))
        .group_by(told.c.key_id)
    )
