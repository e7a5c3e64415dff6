"""Contexts handed out to agents, and the outcomes of their patterns, in Postgres."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NotFound
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory.counts import exclusive_transaction, is_any_of, recount
from knowledge.adapters.postgres.memory.entry_writes import delete_entries
from knowledge.adapters.postgres.memory.records import CANDIDATES, CHOICE, write_outcome_records
from knowledge.adapters.postgres.memory_tables import contexts, knowledge_staging, outcomes, patterns, records
from knowledge.adapters.postgres.seals.row_seals import forget_outcomes, seal_rows
from knowledge.models import Choice, Context, ContextId, EntryId, Outcome, PatternId, StoredContext, Task
from knowledge.models.runs import is_same_day, run_of_day
from knowledge.ports import MAX_CONTEXTS, ContextStore
from knowledge.runtime.instrumentation import step

_C = contexts.c
_E = knowledge_staging.c
_O = outcomes.c
_P = patterns.c
_HANDED_OUT = (_C.id, _C.project_id, _C.task_id, _C.run_id, _C.pattern_ids, _C.reason)
_NEVER = datetime.min.replace(tzinfo=UTC)
_LastOutcomes = defaultdict[tuple[UUID | None, UUID], tuple[datetime, datetime]]
"""The time of the last outcome of a pattern, or of it in a context, and that of its last success."""


def _insert_context() -> sa.Insert:
    """Insert a context whose commit waits for no disk: the agent waits, and the row is worth less than an fsync.

    In one statement: a round trip to say so would cost as much.
    """
    names = [column.name for column in contexts.c]
    unsynced = sa.func.set_config("synchronous_commit", "off", sa.true()) == "off"
    values = [
        sa.cast(sa.bindparam(name, type_=sa.Text), JSONB)
        if name in {"choice", "near"}
        else sa.bindparam(name, type_=_C[name].type)
        for name in names
    ]
    return sa.insert(contexts).from_select(names, sa.select(*values).where(unsynced))


_RECORD = _insert_context()


class PostgresContexts(WorkspaceStore, ContextStore):
    """Contexts handed out in one workspace."""

    async def record(
        self, context: Context, task: Task, agent_type: str, now: datetime, choice: Choice | None = None
    ) -> None:
        row: dict[str, Any] = {
            "id": context.context_id,
            "workspace": self._workspace,
            "project_id": task.project_id,
            "task_id": task.task_id,
            "run_id": task.run_id,
            "agent_type": agent_type,
            "pattern_ids": [pattern.pattern_id for pattern in context.patterns],
            "entry_ids": [entry_id for pattern in context.patterns for entry_id in pattern.entry_ids],
            "created_at": now,
            "reason": context.reason,
            "situation_key": None,
            "point_id": None,
            "choice": None,
            "near": None,
        }
        if choice is None and context.candidates:
            row["near"] = CANDIDATES.dump_json(context.candidates).decode()
        if choice is not None:
            nearest = max(choice.candidates, key=lambda each: each.likeness, default=None)
            row |= {
                "situation_key": choice.situation,
                "point_id": nearest and nearest.point_id,
                "choice": CHOICE.dump_json(choice).decode(),
            }
        await self._write(_RECORD, row)

    async def get(self, context_id: ContextId) -> StoredContext:
        query = sa.select(*_HANDED_OUT).where(_C.workspace == self._workspace, _C.id == context_id)
        row = await self._first(query)
        if row is None:
            raise NotFound(f"there is no context {context_id} in workspace {self._workspace}")
        return _to_handed_out(row)

    async def contexts_of_run(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MAX_CONTEXTS
    ) -> list[StoredContext]:
        return [_to_handed_out(row) for row in await self._rows_of_run(project_id, task_id, run_id, limit)]

    async def _rows_of_run(
        self, project_id: str, task_id: str, run_id: str | None, limit: int
    ) -> Sequence[sa.Row[*tuple[Any, ...]]]:
        query = (
            sa.select(*_HANDED_OUT, _C.created_at)
            .where(*self._of_run(project_id, task_id, run_id))
            .order_by(_C.created_at.desc(), _C.id)
            .limit(limit)
        )
        return await self._all(query)

    def _of_run(self, project_id: str, task_id: str, run_id: str | None) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            _C.workspace == self._workspace,
            _C.project_id == project_id,
            _C.task_id == task_id,
            sa.or_(_C.run_id.is_(None), sa.literal(run_id, sa.Text).is_(None), _C.run_id == run_id),
        )

    async def contexts_to_report(
        self, project_id: str, task_id: str, run_id: str | None, *, limit: int = MAX_CONTEXTS
    ) -> list[StoredContext]:
        rows = await self._rows_of_run(project_id, task_id, run_id, limit)
        task_outcomes = (
            _O.workspace == self._workspace,
            is_any_of(_O.pattern_id, {pattern_id for row in rows for pattern_id in row.pattern_ids}),
            _O.project_id == project_id,
            _O.task_id == task_id,
        )
        async with autocommit(self._engine) as connection:
            if run_id is None:  # without a run, outcomes of any run count
                last_outcomes = await _read_last_outcomes(connection, *task_outcomes)
            else:
                runs = [run_id, *{run_of_day(run_id, row.created_at) for row in rows}]
                of_run = _O.run_id == sa.any_(sa.literal(runs, sa.ARRAY(sa.Text)))
                last_outcomes = await _read_last_outcomes(connection, *task_outcomes, of_run)
                # a context without a run belongs to the first run that reports an outcome of it
                for_none = is_any_of(_O.context_id, [row.id for row in rows if row.run_id is None])
                last_outcomes |= await _read_last_outcomes(connection, *task_outcomes, for_none, group=_O.context_id)
        found = []
        for row in rows:
            last = {
                pattern_id: tuple(map(max, last_outcomes[None, pattern_id], last_outcomes[row.id, pattern_id]))
                for pattern_id in map(PatternId, row.pattern_ids)
            }
            unreported = tuple(p for p, (at, _) in last.items() if at < row.created_at)
            worked = tuple(p for p, (_, at) in last.items() if at >= row.created_at)
            if unreported or worked:
                found.append(replace(_to_handed_out(row), pattern_ids=unreported, worked=worked))
        return found

    async def find_failed_patterns(self, project_id: str, task_id: str, among: Collection[PatternId]) -> set[PatternId]:
        query = (
            sa.select(_O.pattern_id)
            .where(
                _O.workspace == self._workspace, _O.pattern_id == sa.any_(sa.literal(list(among), _C.pattern_ids.type))
            )
            .where(_O.project_id == project_id, _O.task_id == task_id)
            .group_by(_O.pattern_id)
            .having(~sa.func.bool_or(_O.worked))
        )
        return set(map(PatternId, await self._scalars(query)))

    @step("record_outcomes")
    async def record_outcomes(
        self,
        reports: Sequence[Outcome],
        now: datetime,
        *,
        arms: Mapping[PatternId, str] | None = None,
        instead_of: EntryId | None = None,
    ) -> None:
        new = insert(outcomes)
        run = [_O.workspace, _O.pattern_id, _O.project_id, _O.task_id, _O.run_id]
        # an equal outcome from a less trusted key adds nothing, and must not be taken back with that key's others
        is_repeated = sa.and_(~_O.low_trust, new.excluded.low_trust, _O.worked == new.excluded.worked)
        updated = ("context_id", "worked", "recorded_at", "recorded_by", "low_trust")
        replaced: dict[str, Any] = {
            name: sa.case((is_repeated, _O[name]), else_=new.excluded[name]) for name in updated
        }
        if instead_of is not None:
            replaced["id"] = new.excluded.id
        rows: list[dict[str, Any]] = [
            {
                "id": instead_of or uuid4(),
                "workspace": self._workspace,
                "context_id": outcome.context_id,
                "pattern_id": outcome.pattern_id,
                "project_id": outcome.project_id,
                "task_id": outcome.task_id,
                "run_id": outcome.run_id,
                "worked": outcome.worked,
                "recorded_at": now,
                "recorded_by": outcome.recorded_by,
                "low_trust": outcome.low_trust,
            }
            for outcome in reports
        ]
        ids = {outcome.pattern_id for outcome in reports}
        async with exclusive_transaction(self._engine, self._workspace) as connection:  # else the pattern could go
            await self._lock_contexts(connection, {outcome.context_id for outcome in reports})
            has_entries = sa.exists().where(_E.pattern_id == _P.id)
            there = sa.select(_P.id).where(_P.workspace == self._workspace, is_any_of(_P.id, ids), has_entries)
            gone = ids - set((await connection.execute(there)).scalars())
            if gone:
                raise NotFound(f"there is no pattern {min(gone)} in workspace {self._workspace} any more")
            if instead_of is not None and not await delete_entries(connection, self._workspace, [instead_of]):
                return  # another call deleted it and reported its outcome, or it was taken back
            if rows:
                await self._tell_days_apart(connection, rows)
                await self._write_outcomes(
                    connection, rows, new.on_conflict_do_update(index_elements=run, set_=replaced), arms
                )
                await recount(connection, ids)

    async def _tell_days_apart(self, connection: AsyncConnection, rows: Sequence[dict[str, Any]]) -> None:
        """Name the run with its day where an outcome of another context has its id on an earlier day."""
        runs = [(row["pattern_id"], row["project_id"], row["task_id"], row["run_id"]) for row in rows]
        run = (_O.pattern_id, _O.project_id, _O.task_id, _O.run_id)
        query = (
            sa.select(*run, _C.id, _C.created_at)
            .join(contexts, sa.and_(is_any_of(_C.id, {row["context_id"] for row in rows}), _C.id != _O.context_id))
            .where(_O.workspace == self._workspace, sa.tuple_(*run).in_(runs), _O.recorded_at < _C.created_at)
        )
        found = (await connection.execute(query.add_columns(_O.recorded_at))).all()
        days = {
            tuple(each)[:5]: each.created_at for each in found if not is_same_day(each.recorded_at, each.created_at)
        }
        for key, row in zip(runs, rows, strict=True):
            day = days.get((*key, row["context_id"]))
            if day is not None and row["run_id"]:
                row["run_id"] = run_of_day(row["run_id"], day)

    async def _write_outcomes(
        self,
        connection: AsyncConnection,
        rows: Sequence[Mapping[str, Any]],
        write: sa.Insert,
        arms: Mapping[PatternId, str] | None,
    ) -> None:
        """Write outcomes, and their records anew."""
        of_runs = sa.select(_O.id).where(
            _O.workspace == self._workspace,
            sa.tuple_(_O.pattern_id, _O.project_id, _O.task_id, _O.run_id).in_(
                [(row["pattern_id"], row["project_id"], row["task_id"], row["run_id"]) for row in rows]
            ),
        )
        await connection.execute(sa.delete(records).where(records.c.outcome_id.in_(of_runs)))
        await connection.execute(write, rows)
        ids = list((await connection.execute(of_runs)).scalars())
        await seal_rows(connection, self._workspace, outcomes, is_any_of(_O.id, ids))
        await write_outcome_records(connection, self._workspace, ids, arms or {})

    async def pattern_reported_by(self, entry_id: EntryId) -> PatternId | None:
        query = sa.select(_O.pattern_id).where(_O.workspace == self._workspace, _O.id == entry_id)
        found = await self._scalar(query)
        return None if found is None else PatternId(found)

    async def _lock_contexts(self, connection: AsyncConnection, ids: Collection[ContextId]) -> None:
        """Lock the contexts of outcomes that are about to be written. Raises NotFound for one that is gone."""
        there = sa.select(_C.id).where(_C.workspace == self._workspace, is_any_of(_C.id, ids)).order_by(_C.id)
        locked = (await connection.execute(there.with_for_update(read=True, key_share=True))).scalars()
        gone = set(ids) - set(locked)
        if gone:
            raise NotFound(f"there is no context {min(gone)} in workspace {self._workspace} any more")

    async def prune(self, before: datetime, *, limit: int) -> int:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            old = (
                sa.select(_C.id)
                .where(_C.workspace == self._workspace, _C.created_at < before)
                .order_by(_C.id)
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
            ids = list((await connection.execute(old)).scalars())
            touched = (
                await connection.execute(sa.select(_O.pattern_id).where(is_any_of(_O.context_id, ids)))
            ).scalars()
            patterns_of = list(touched)
            await forget_outcomes(connection, self._workspace, is_any_of(_O.context_id, ids))
            await connection.execute(sa.delete(contexts).where(is_any_of(_C.id, ids)))
            await recount(connection, patterns_of)
            return len(ids)


async def _read_last_outcomes(
    connection: AsyncConnection, *conditions: sa.ColumnElement[bool], group: sa.ColumnElement[Any] | None = None
) -> _LastOutcomes:
    """Return the time of the last outcome and of the last success of each pattern, of each `group` if one is given.

    Each outcome is read once, however many contexts it belongs to.
    """
    of = sa.null() if group is None else group
    at = sa.func.max(_O.recorded_at)
    query = sa.select(of.label("of"), _O.pattern_id, at.label("last"), at.filter(_O.worked).label("worked"))
    by = [_O.pattern_id] if group is None else [group, _O.pattern_id]
    found = await connection.execute(query.where(*conditions).group_by(*by))
    last_outcomes: _LastOutcomes = defaultdict(lambda: (_NEVER, _NEVER))
    last_outcomes.update({(row.of, row.pattern_id): (row.last, row.worked or _NEVER) for row in found})
    return last_outcomes


def _to_handed_out(row: sa.Row[*tuple[Any, ...]]) -> StoredContext:
    return StoredContext(
        context_id=ContextId(row.id),
        project_id=row.project_id,
        task_id=row.task_id,
        run_id=row.run_id,
        pattern_ids=tuple(map(PatternId, row.pattern_ids)),
        shown=tuple(map(PatternId, row.pattern_ids)),
        reason=row.reason,
    )
