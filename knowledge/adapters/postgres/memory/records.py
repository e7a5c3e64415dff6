"""Records of trials in Postgres, and the choices of contexts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NotFound
from knowledge.adapters.postgres.engine.database import CompiledQuery, WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.entry_rows import TRUST_ORDER
from knowledge.adapters.postgres.memory.spaces import (
    bound_of_json,
    frequency_params,
    select_frequencies,
    statistics_of,
)
from knowledge.adapters.postgres.memory_tables import (
    TIME,
    contexts,
    embedding_spaces,
    knowledge_staging,
    outcomes,
    points,
    records,
    workspaces,
)
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import SEALED_ROWS, row_message, seal_rows
from knowledge.models import (
    MIN_OUTCOMES,
    PRIOR_WEIGHTS,
    SILENCE,
    Choice,
    ChoiceRecord,
    ContextCandidate,
    ContextId,
    ContextKind,
    ContextOutcome,
    Decision,
    EntryId,
    EntryTexts,
    EntryType,
    Experience,
    KnownKeys,
    KnownPlaces,
    LiftCounts,
    PatternId,
    PointId,
    Provenance,
    Reason,
    SearchStart,
    TrialRecord,
    View,
)
from knowledge.ports import ContextQuery, RecordStore
from knowledge.runtime.instrumentation import step

_MAX_OF_POINT: Final = 100
"""Records read of each point, trusted ones first, then the latest: with a half-life of eight, those before weigh
nothing (`rules.arms`)."""
_MAX_EXACT: Final = 8
"""Points of one situation, each of another pattern: more resolutions of the same text than are shown."""
_MAX_KNOWN: Final = 24
"""Entries read by one key while the index is down: as many as answers show, several times."""
_MAX_UNAIDED: Final = 200
"""Tasks without a hint that the rate of unaided success is taken from, the latest first."""

_HINTS_FROM: Final = 10
"""Outcomes that hints are taken from, for each one wanted: of the others another pattern was the first candidate."""
_MAX_OF_LIFT: Final = 10_000
"""Outcomes that the lift is counted from, the latest: a rate of so many is exact to a percent. Ours."""
_SILENCE: Final[sa.ColumnElement[str]] = sa.literal_column("''")
"""`SILENCE` as a literal, for the partial index."""

_R = records.c
_C = contexts.c
_E = knowledge_staging.c
_O = outcomes.c
CANDIDATES: TypeAdapter[tuple[ContextCandidate, ...]] = TypeAdapter(tuple[ContextCandidate, ...])
CHOICE: Final = TypeAdapter(Choice)
_SUMMARY = ("id", "project_id", "task_id", "run_id", "agent_type", "reason", "created_at", "pattern_ids")


_COLUMNS = (
    "arm_key",
    "point_id",
    "situation_key",
    "is_exact",
    "worked",
    "low_trust",
    "recorded_by",
    "project_id",
    "task_id",
    "run_id",
    "recorded_at",
)


def select_records(point: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select the columns of `to_record` of a point's latest records, trusted ones first.

    The point's workspace is theirs: asked of the records too, Postgres reads all of the workspace for each point.
    """
    return (
        sa.select(*(_R[name] for name in _COLUMNS))
        .where(_R.point_id == point, _R.arm_key.is_not(None), *conditions)
        .order_by(_R.low_trust, _R.recorded_at.desc())
        .limit(_MAX_OF_POINT)
    )


def _select_near() -> sa.Select[Any]:
    """Select the records of the points of some points' patterns."""
    wanted = sa.select(points.c.pattern_id).where(
        points.c.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        points.c.workspace == sa.bindparam("workspace", type_=sa.Text),
    )
    own = sa.select(points.c.id, points.c.pattern_id).where(points.c.pattern_id.in_(wanted)).subquery("own")
    before = sa.bindparam("before", type_=TIME)
    latest = select_records(own.c.id, sa.or_(before.is_(None), _R.recorded_at <= before)).lateral("latest")
    columns = [latest.c[name] for name in _COLUMNS]
    return sa.select(own.c.pattern_id, *columns).select_from(own.join(latest, sa.true()))


def _select_exact() -> sa.Select[Any]:
    return (
        sa.select(_R.point_id)
        .where(
            _R.workspace == sa.bindparam("workspace", type_=sa.Text),
            _R.situation_key == sa.bindparam("situation", type_=sa.Text),
            _R.is_exact,
            _R.entry_id.is_not(None),
            ~_R.low_trust,
        )
        .group_by(_R.point_id)
        .order_by(sa.func.max(_R.recorded_at).desc(), _R.point_id)
        .limit(_MAX_EXACT)
    )


def _select_known() -> sa.CompoundSelect[Any]:
    """Select the points of a situation or an error, and the patterns of a task's text, from the records of entries.

    A branch each, so that each reads the first rows of its own index.
    """
    situation, error = sa.bindparam("situation", type_=sa.Text), sa.bindparam("error", type_=sa.Text)
    ours = (_R.workspace == sa.bindparam("workspace", type_=sa.Text), _R.entry_id.is_not(None))

    def latest(*conditions: sa.ColumnElement[bool]) -> sa.Subquery:
        order = (_R.low_trust, _R.recorded_at.desc())
        return (
            sa.select(_R.point_id, _R.entry_id).where(*ours, *conditions).order_by(*order).limit(_MAX_KNOWN).subquery()
        )

    none = sa.cast(None, UUID_TYPE)
    keyed = [
        latest(_R.situation_key == situation, _R.is_exact),
        latest(_R.error_key == error, _R.error_key != sa.literal_column("''"), _R.is_exact),
    ]
    of_task = latest(_R.task_key == situation, _R.task_key != sa.literal_column("''"))
    return sa.union_all(
        *(sa.select(each.c.point_id, none.label("pattern_id")) for each in keyed),
        sa.select(none, _E.pattern_id).select_from(of_task.join(knowledge_staging, _E.id == of_task.c.entry_id)),
    )


def _select_experience() -> sa.Select[Any]:
    workspace = sa.bindparam("workspace", type_=sa.Text)
    agent = sa.bindparam("agent_type", type_=sa.Text)
    trusted = sa.and_(_R.workspace == workspace, _R.entry_id.is_(None), ~_R.low_trust)
    # in the order of an index: the planner takes the whole table to begin with enough of them, and it may not
    in_order = (_R.workspace, _R.agent_type, _R.recorded_at.desc())
    some = sa.select(_R.id).where(trusted).order_by(*in_order).limit(MIN_OUTCOMES).subquery("some")
    unaided = (
        sa.select(_R.worked)
        .where(trusted, _R.arm_key == _SILENCE, sa.or_(agent.is_(None), _R.agent_type == agent))
        .order_by(_R.recorded_at.desc())
        .limit(_MAX_UNAIDED)
        .subquery("unaided")
    )
    weights = sa.select(workspaces.c.hint_weights).where(workspaces.c.workspace == workspace).scalar_subquery()
    outcomes_counted = sa.select(sa.func.count()).select_from(some).scalar_subquery()
    return sa.select(
        weights.label("weights"),
        outcomes_counted.label("outcomes"),
        sa.func.count().label("unaided"),
        sa.func.count().filter(unaided.c.worked).label("unaided_worked"),
    ).select_from(unaided)


def _select_start(*, unasked: bool) -> sa.Select[Any]:
    """Select the space in use, the statistics of terms, the points of a situation and, if unasked, the experience."""
    found, space = select_frequencies().subquery("found"), embedding_spaces.c
    frequencies = sa.select(
        sa.func.array_agg(found.c.term).label("terms"), sa.func.array_agg(found.c.documents).label("documents")
    ).subquery("frequencies")
    columns: list[Any] = [
        sa.cast(space.space, sa.Text),
        space.mean_terms,
        sa.cast(space.calibration, sa.Text),
        space.probes,
        frequencies,
        sa.func.array(_select_exact().scalar_subquery()),
    ]
    tables: sa.FromClause = embedding_spaces.join(frequencies, sa.true())
    if unasked:
        experience = _select_experience().subquery("experience")
        columns.append(experience)
        tables = tables.join(experience, sa.true())
    return sa.select(*columns).select_from(tables).where(space.active)


# Built once: compiling such a statement takes longer than Postgres takes to answer it.
_NEAR = CompiledQuery(_select_near())
_KNOWN = CompiledQuery(_select_known())
_STARTS = {unasked: CompiledQuery(_select_start(unasked=unasked)) for unasked in (False, True)}


_OF_ENTRY = (
    "id",
    "arm_key",
    "point_id",
    "situation_key",
    "is_exact",
    "entry_id",
    "agent_type",
    "project_id",
    "task_id",
    "run_id",
    "recorded_at",
    "recorded_by",
    "low_trust",
    "task_key",
    "error_key",
    "seal",
)
_REWRITTEN = (
    *("arm_key", "point_id", "situation_key", "is_exact", "low_trust", "task_key", "error_key"),
    *("recorded_at", "recorded_by", "seal"),
)


def _write_of_entries() -> sa.Insert:
    """Return the insert of the records of entries, from an array for each column."""
    each = [sa.func.unnest(sa.bindparam(name, type_=sa.ARRAY(_R[name].type))) for name in _OF_ENTRY]
    rows = sa.select(sa.bindparam("workspace", type_=sa.Text), sa.true(), *each)
    new = insert(records).from_select(["workspace", "worked", *_OF_ENTRY], rows)
    updated = {name: new.excluded[name] for name in _REWRITTEN}
    return new.on_conflict_do_update(index_elements=[_R.id], set_=updated)


def _move_to_found() -> sa.Update:
    given = sa.select(
        sa.func.unnest(sa.bindparam("keys", type_=sa.ARRAY(sa.Text))).label("key"),
        sa.func.unnest(sa.bindparam("found", type_=sa.ARRAY(UUID_TYPE))).label("point"),
    ).subquery("given")
    told = (
        _R.workspace == sa.bindparam("ours", type_=sa.Text),  # an update reserves the names of columns
        _R.situation_key == given.c.key,
        ~_R.is_exact,
        _R.entry_id.is_(None),
    )
    return sa.update(records).where(*told).values(point_id=given.c.point, is_exact=sa.true()).returning(_R.id)


_WRITE_OF_ENTRIES, _MOVE_TO_FOUND = _write_of_entries(), _move_to_found()


async def write_entry_records(
    connection: AsyncConnection, workspace: str, decisions: Sequence[Decision], admitted: Collection[PointId]
) -> None:
    """Write the record of each decided entry, and move earlier records of its very situation to its point."""
    rows: list[dict[str, Any]] = []
    exact: dict[str, PointId] = {}
    keys = ledger_of(connection.engine).keys
    for decision in decisions:
        entry = decision.entry
        own = next((point.point_id for point in decision.points if point.view is View.SITUATION), None)
        point = own if own in admitted else next((p.point_id for p in decision.points if p.point_id in admitted), None)
        if point is not None and point == own:
            exact[decision.situation_key] = point
        rows.append(
            {
                "id": entry.entry_id,
                "arm_key": decision.profile.arm_key,
                "point_id": point,
                "situation_key": decision.situation_key,
                "is_exact": point is not None and point == own,
                "entry_id": entry.entry_id,
                "agent_type": entry.agent_type,
                "project_id": entry.project_id,
                "task_id": entry.task_id,
                "run_id": entry.run_id,
                "recorded_at": entry.captured_at,
                "recorded_by": entry.source or entry.resolved_by or entry.captured_by,
                "low_trust": entry.low_trust,
                "task_key": decision.known_keys.task,
                "error_key": decision.known_keys.error,
            }
        )
    rows.sort(key=lambda row: str(row["id"]))  # in one order, to avoid deadlocks
    for row in rows:
        told = [row.get(name, name == "worked" or None) for name in SEALED_ROWS[records].columns]
        row["seal"] = None if keys is None else keys.seal(row_message(records, workspace, told))
    columns = {name: [row[name] for row in rows] for name in _OF_ENTRY}
    await connection.execute(_WRITE_OF_ENTRIES, {"workspace": workspace, **columns})
    if exact:
        situations = sorted(exact)
        params = {"ours": workspace, "keys": situations, "found": [exact[each] for each in situations]}
        moved = (await connection.execute(_MOVE_TO_FOUND, params)).scalars().all()
        if moved:
            await seal_rows(connection, workspace, records, _is_any_of_records(moved))


async def write_outcome_records(
    connection: AsyncConnection, workspace: str, outcome_ids: Sequence[UUID], arms: Mapping[PatternId, str]
) -> None:
    """Write the records of outcomes anew, in the situations of the tasks that asked."""
    query = (
        sa.select(outcomes, _C.agent_type, _C.point_id, _C.situation_key)
        .join(contexts, _C.id == _O.context_id)
        .where(_O.id == sa.any_(sa.literal(list(outcome_ids), sa.ARRAY(UUID_TYPE))))
    )
    rows = [
        {
            "id": row.id,
            "workspace": workspace,
            "arm_key": arms.get(PatternId(row.pattern_id)),
            "point_id": row.point_id,
            "situation_key": row.situation_key,
            "is_exact": False,
            "outcome_id": row.id,
            "agent_type": row.agent_type,
            "project_id": row.project_id,
            "task_id": row.task_id,
            "run_id": row.run_id,
            "worked": row.worked,
            "recorded_at": row.recorded_at,
            "recorded_by": row.recorded_by,
            "low_trust": row.low_trust,
        }
        for row in await connection.execute(query)
    ]
    if rows:
        await connection.execute(insert(records), rows)
        written = [row["id"] for row in rows]
        await _move_to_exact(connection, workspace, written)
        await seal_rows(connection, workspace, records, _is_any_of_records(written))


async def _move_to_exact(connection: AsyncConnection, workspace: str, record_ids: Sequence[UUID]) -> None:
    """Move records to the points of their very situations, where these are known."""
    known = records.alias("known")
    same = (
        known.c.workspace == workspace,
        known.c.situation_key == _R.situation_key,
        known.c.entry_id.is_not(None),
        known.c.is_exact,
    )
    moved = sa.and_(_R.id == sa.any_(sa.literal(list(record_ids), sa.ARRAY(UUID_TYPE))), *same)
    await connection.execute(sa.update(records).where(moved).values(point_id=known.c.point_id, is_exact=True))


async def move_records(
    connection: AsyncConnection, workspace: str, moves: Sequence[tuple[EntryId, Mapping[PointId, PointId]]]
) -> None:
    """Move the records of entries to the new points of their texts, and all records of a text that leaves for good."""
    pairs = [(entry, old, new) for entry, points_of in moves for old, new in points_of.items()]
    if not pairs:
        return
    entries, olds, news = zip(*pairs, strict=True)
    given = sa.select(
        sa.func.unnest(sa.literal(list(entries), sa.ARRAY(UUID_TYPE))).label("entry"),
        sa.func.unnest(sa.literal(list(olds), sa.ARRAY(UUID_TYPE))).label("old"),
        sa.func.unnest(sa.literal(list(news), sa.ARRAY(UUID_TYPE))).label("new"),
    ).subquery("given")
    staying = (
        sa.exists()
        .where(points.c.id == given.c.old, _E.pattern_id == points.c.pattern_id, given.c.old == sa.any_(_E.point_ids))
        .correlate(given)
    )
    moved = sa.or_(_R.entry_id == given.c.entry, sa.and_(_R.entry_id.is_(None), ~staying))
    update = sa.update(records).where(_R.point_id == given.c.old, moved).values(point_id=given.c.new)
    ids = (await connection.execute(update.returning(_R.id))).scalars().all()
    if ids:
        await seal_rows(connection, workspace, records, _is_any_of_records(ids))


def _is_any_of_records(ids: Sequence[UUID]) -> sa.ColumnElement[bool]:
    return _R.id == sa.any_(sa.literal(list(ids), sa.ARRAY(UUID_TYPE)))


class PostgresRecords(WorkspaceStore, RecordStore):
    """Records of one workspace."""

    async def near(self, points: Collection[PointId], *, before: datetime | None = None) -> list[TrialRecord]:
        if not points:
            return []
        params = {"workspace": self._workspace, "points": list(points), "before": before}
        return [to_record(*row) for row in await self._fetch(_NEAR, params)]

    async def begin_search(
        self, terms: Sequence[int], situation: str, *, unasked: bool = False, agent_type: str | None = None
    ) -> SearchStart | None:
        params = {**frequency_params(self._workspace, terms), "situation": situation, "agent_type": agent_type}
        rows = await self._fetch(_STARTS[unasked], params)
        if not rows:
            return None
        space, mean_terms, calibration, probes, found, documents, exact, *experience = rows[0]
        return SearchStart(
            bound=bound_of_json(space, mean_terms, calibration, probes),
            statistics=statistics_of(dict(zip(found or (), documents or (), strict=True))),
            exact=tuple(map(PointId, exact)),
            experience=_to_experience(*experience) if unasked else Experience(),
        )

    async def find_known(self, situation: str, error: str) -> KnownPlaces:
        rows = await self._fetch(_KNOWN, {"workspace": self._workspace, "situation": situation, "error": error})
        return KnownPlaces(
            points=tuple(dict.fromkeys(PointId(point) for point, _ in rows if point is not None)),
            task_patterns=tuple(dict.fromkeys(PatternId(pattern) for _, pattern in rows if pattern is not None)),
        )

    @step("record_unaided")
    async def record_unaided(self, context_id: ContextId, *, worked: bool, by: Provenance, now: datetime) -> None:
        query = (
            sa.select(contexts)
            .where(_C.workspace == self._workspace, _C.id == context_id)
            .with_for_update(read=True, key_share=True)
        )
        async with transaction(self._engine) as connection:
            row = (await connection.execute(query)).first()
            if row is None:
                raise NotFound(f"there is no context {context_id} in workspace {self._workspace}")
            new = insert(records).values(
                id=context_id,
                workspace=self._workspace,
                arm_key=SILENCE,
                point_id=row.point_id,
                situation_key=row.situation_key,
                is_exact=False,
                context_id=context_id,
                agent_type=row.agent_type,
                project_id=row.project_id or "",
                task_id=row.task_id,
                run_id=row.run_id,
                worked=worked,
                recorded_at=now,
                recorded_by=by.source or by.key_id,
                low_trust=by.low_trust,
            )
            updated = {name: new.excluded[name] for name in ("worked", "recorded_at", "recorded_by", "low_trust")}
            overruled = sa.and_(_R.low_trust, ~new.excluded.low_trust)
            await connection.execute(new.on_conflict_do_update(index_elements=[_R.id], set_=updated, where=overruled))
            await _move_to_exact(connection, self._workspace, [context_id])
            await seal_rows(connection, self._workspace, records, _R.id == context_id)

    async def choice(self, context_id: ContextId) -> ChoiceRecord:
        query = sa.select(contexts).where(_C.workspace == self._workspace, _C.id == context_id)
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(query)).first()
        if row is None:
            raise NotFound(f"there is no context {context_id} in workspace {self._workspace}")
        return _to_choice(row)

    async def choices(self, query: ContextQuery, *, after: ContextId | None, limit: int) -> list[ChoiceRecord]:
        conditions = [_C.workspace == self._workspace, *_conditions(query)]
        if after is not None:
            last = sa.select(_C.created_at).where(_C.workspace == self._workspace, _C.id == after).scalar_subquery()
            is_older = sa.or_(_C.created_at < last, sa.and_(_C.created_at == last, _C.id > after))
            conditions.append(is_older)
        columns = [_C[name] for name in _SUMMARY]
        right = _C.choice["right"].as_float().label("right")
        select = sa.select(*columns, right, _WORKED.label("worked")).where(*conditions)
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(select.order_by(_C.created_at.desc(), _C.id).limit(limit))
            return [replace(_to_summary(row, row.right), worked=row.worked) for row in rows]

    async def arms_of(self, context_id: ContextId) -> Mapping[PatternId, str]:
        query = sa.select(_C.choice["candidates"]).where(_C.workspace == self._workspace, _C.id == context_id)
        async with autocommit(self._engine) as connection:
            found = await connection.scalar(query)
        return {PatternId(UUID(each["pattern_id"])): each["arm"] for each in found or ()}

    async def hints(self, limit: int) -> list[tuple[tuple[float, ...], bool]]:
        latest = (
            sa.select(_O.context_id, _O.pattern_id, _O.worked, _O.recorded_at, _O.id)
            .where(_O.workspace == self._workspace, ~_O.low_trust)
            .order_by(_O.recorded_at.desc(), _O.id)
            .limit(limit * _HINTS_FROM)
            .subquery("latest")
        )
        of_context = (
            sa.select(
                _C.choice["features"].label("features"), _C.choice["candidates"][0]["pattern_id"].astext.label("first")
            )
            .where(_C.id == latest.c.context_id, _C.choice.is_not(None))
            .limit(1)
            .lateral("of_context")
        )
        query = (
            sa.select(of_context.c.features, latest.c.worked)
            .select_from(latest.join(of_context, sa.cast(latest.c.pattern_id, sa.Text) == of_context.c.first))
            .order_by(latest.c.recorded_at.desc(), latest.c.id)
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            return [(tuple(row.features), row.worked) for row in await connection.execute(query)]

    async def save_weights(self, weights: Sequence[float]) -> None:
        new = insert(workspaces).values(workspace=self._workspace, hint_weights=list(weights))
        updated = new.on_conflict_do_update(
            index_elements=[workspaces.c.workspace], set_={"hint_weights": new.excluded.hint_weights}
        )
        async with transaction(self._engine) as connection:
            await connection.execute(updated)
            await seal_rows(connection, self._workspace, workspaces)

    async def forget_weights(self) -> None:
        fitted = sa.and_(workspaces.c.workspace == self._workspace, workspaces.c.hint_weights.is_not(None))
        async with transaction(self._engine) as connection:
            await connection.execute(sa.update(workspaces).where(fitted).values(hint_weights=None))
            await seal_rows(connection, self._workspace, workspaces)

    async def without_arm(self, limit: int) -> Mapping[UUID, EntryTexts]:
        some = (
            sa.select(_R.id, _R.entry_id, _O.pattern_id)
            .join(outcomes, _O.id == _R.outcome_id, isouter=True)
            .where(_R.workspace == self._workspace, _R.arm_key.is_(None))
            .limit(limit)
            .subquery("some")
        )
        of_pattern = sa.and_(some.c.entry_id.is_(None), _E.pattern_id == some.c.pattern_id)
        words = (
            sa.select(*(_E[name] for name in EntryTexts._fields))
            .where(sa.or_(_E.id == some.c.entry_id, of_pattern))
            .order_by(*TRUST_ORDER)
            .limit(1)
            .lateral("words")
        )
        query = sa.select(some.c.id.label("record_id"), *words.c).select_from(some.join(words, sa.true()))
        async with autocommit(self._engine) as connection:
            return {
                row[0]: EntryTexts(*row[1:])._replace(entry_type=EntryType(row.entry_type))
                for row in await connection.execute(query)
            }

    async def name_arms(self, arms: Mapping[UUID, str]) -> None:
        ids = sorted(arms)
        given = sa.select(
            sa.func.unnest(sa.literal(ids, sa.ARRAY(UUID_TYPE))).label("id"),
            sa.func.unnest(sa.literal([arms[each] for each in ids], sa.ARRAY(sa.Text))).label("arm"),
        ).subquery("given")
        named = sa.update(records).where(_R.id == given.c.id, _R.workspace == self._workspace)
        async with transaction(self._engine) as connection:
            await connection.execute(named.values(arm_key=given.c.arm))
            await seal_rows(connection, self._workspace, records, _is_any_of_records(ids))

    async def without_keys(self, limit: int) -> Mapping[UUID, EntryTexts]:
        query = (
            sa.select(_R.id, *(_E[name] for name in EntryTexts._fields))
            .join(knowledge_staging, _E.id == _R.entry_id)
            .where(_R.workspace == self._workspace, _R.entry_id.is_not(None), _R.error_key.is_(None))
            .limit(limit)
        )
        return {
            row[0]: EntryTexts(*row[1:])._replace(entry_type=EntryType(row.entry_type))
            for row in await self._all(query)
        }

    async def store_keys(self, keys: Mapping[UUID, KnownKeys]) -> None:
        ids = sorted(keys)
        columns = {
            "id": (ids, UUID_TYPE),
            "task": ([keys[each].task for each in ids], sa.Text),
            "error": ([keys[each].error for each in ids], sa.Text),
        }
        given = sa.select(
            *(sa.func.unnest(sa.literal(told, sa.ARRAY(kind))).label(name) for name, (told, kind) in columns.items())
        ).subquery("given")
        stored = sa.update(records).where(_R.id == given.c.id, _R.workspace == self._workspace)
        async with transaction(self._engine) as connection:
            await connection.execute(stored.values(task_key=given.c.task, error_key=given.c.error))

    async def lift(self) -> LiftCounts:
        ours = _C.workspace == self._workspace
        latest = (
            sa.select(_O.context_id, _O.worked)
            .where(_O.workspace == self._workspace, ~_O.low_trust)
            .order_by(_O.recorded_at.desc(), _O.id)
            .limit(_MAX_OF_LIFT)
            .subquery("latest")
        )
        # looked up for each, where a join reads all contexts
        reason = sa.select(_C.reason).where(_C.id == latest.c.context_id, ours).limit(1).scalar_subquery()
        hinted = (
            sa.select(sa.func.bool_or(latest.c.worked).label("worked"))
            .where(reason == Reason.SPOKE.value)
            .group_by(latest.c.context_id)
            .subquery("hinted")
        )
        held = (
            sa.select(_R.worked)
            .join(contexts, _C.id == _R.context_id)
            .where(ours, _C.reason == Reason.HELD_OUT.value, ~_R.low_trust)
            .order_by(_C.created_at.desc(), _C.id)
            .limit(_MAX_OF_LIFT)
        ).subquery("held")
        async with autocommit(self._engine) as connection:
            tried, worked = (
                await connection.execute(
                    sa.select(sa.func.count(), sa.func.count().filter(hinted.c.worked)).select_from(hinted)
                )
            ).one()
            held_tried, held_worked = (
                await connection.execute(
                    sa.select(sa.func.count(), sa.func.count().filter(held.c.worked)).select_from(held)
                )
            ).one()
        return LiftCounts(hinted=tried, hinted_solved=worked, held_out=held_tried, held_out_solved=held_worked)


def _select_result() -> sa.ScalarSelect[Any]:
    """Select whether the task of a context was solved, by what was reported of it; NULL where nothing was."""
    hinted = sa.select(_O.worked).where(_O.context_id == _C.id)
    unaided = sa.select(_R.worked).where(_R.context_id == _C.id, _R.context_id.is_not(None))
    results = sa.union_all(hinted.correlate(contexts), unaided.correlate(contexts)).subquery("results")
    return sa.select(sa.func.bool_or(results.c.worked)).scalar_subquery()


_WORKED: Final = _select_result()
_RESULTS: Final = {ContextOutcome.WORKED: True, ContextOutcome.FAILED: False, ContextOutcome.NONE: None}
_GIVEN: Final = {
    ContextKind.YES: (Reason.SPOKE,),
    ContextKind.SILENT: (Reason.NOTHING_NEAR, Reason.NOT_SURE, Reason.AGENT_KNOWS),
    ContextKind.HELD: (Reason.HELD_OUT,),
    ContextKind.LATE: (Reason.DEGRADED,),
}


def _conditions(query: ContextQuery) -> Iterator[sa.ColumnElement[bool]]:
    if query.project_id is not None:
        yield _C.project_id == query.project_id
    if query.reason is not None:
        yield _C.reason == query.reason
    if query.given is not None:
        named = _C.reason.in_([reason.value for reason in _GIVEN[query.given]])
        # contexts of before revision 0027 have no reason, and always patterns
        yield sa.or_(named, _C.reason.is_(None)) if query.given is ContextKind.YES else named
    if query.outcome is not None:
        yield _WORKED.is_not_distinct_from(_RESULTS[query.outcome])
    if query.pattern_id is not None:
        yield sa.literal(query.pattern_id, UUID_TYPE) == sa.any_(_C.pattern_ids)
    if query.since is not None:
        yield _C.created_at >= query.since


def _to_experience(
    weights: Sequence[float] | None, outcomes_counted: int, unaided: int, unaided_worked: int
) -> Experience:
    return Experience(
        outcomes=outcomes_counted,
        weights=tuple(weights or PRIOR_WEIGHTS),
        unaided=unaided,
        unaided_worked=unaided_worked,
    )


def to_record(  # noqa: PLR0917 - the columns of `_COLUMNS`, after the pattern
    pattern_id: UUID,
    arm: str,
    point_id: UUID,
    situation: str | None,
    is_exact: bool,  # noqa: FBT001
    worked: bool,  # noqa: FBT001
    low_trust: bool,  # noqa: FBT001
    reporter: str | None,
    project_id: str,
    task_id: str | None,
    run_id: str | None,
    recorded_at: datetime,
) -> TrialRecord:
    """Convert a pattern and the columns of `select_records`."""
    return TrialRecord(
        arm=arm,
        point_id=PointId(point_id),
        pattern_id=PatternId(pattern_id),
        situation=situation,
        is_exact=is_exact,
        worked=worked,
        low_trust=low_trust,
        reporter=reporter,
        event=None if task_id is None else (project_id, task_id, run_id or ""),
        recorded_at=recorded_at,
    )


def _to_choice(row: sa.Row[Any]) -> ChoiceRecord:
    choice = None if row.choice is None else CHOICE.validate_python(row.choice)
    near = () if row.near is None else CANDIDATES.validate_python(row.near)
    return replace(_to_summary(row, None if choice is None else choice.right), choice=choice, near=near)


def _to_summary(row: Any, confidence: float | None) -> ChoiceRecord:
    return ChoiceRecord(
        context_id=ContextId(row.id),
        project_id=row.project_id,
        task_id=row.task_id,
        run_id=row.run_id,
        agent_type=row.agent_type,
        reason=row.reason or Reason.SPOKE.value,
        created_at=row.created_at,
        shown=tuple(map(PatternId, row.pattern_ids)),
        confidence=confidence,
    )
