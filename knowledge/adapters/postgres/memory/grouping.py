"""Moving entries between patterns on a person's request, and the links between patterns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory.counts import EMBEDDED, exclusive_transaction, is_any_of, recount
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, to_entry
from knowledge.adapters.postgres.memory.patterns import live_patterns
from knowledge.adapters.postgres.memory.points import DUE_NOW, OCCUPIES_PLACE, mark_dirty
from knowledge.adapters.postgres.memory.records import move_records
from knowledge.adapters.postgres.memory.spaces import HOLD_SPACE
from knowledge.adapters.postgres.memory_tables import (
    TIME,
    contexts,
    knowledge_staging,
    links,
    match_keys,
    outcomes,
    patterns,
    points,
    vectors,
)
from knowledge.adapters.postgres.seals.entry_seals import rewrite
from knowledge.adapters.postgres.seals.row_seals import forget_outcomes, seal_rows
from knowledge.models import (
    MAX_POINTS,
    Entry,
    EntryId,
    EntryType,
    LinkedPatterns,
    LinkKind,
    Members,
    Move,
    PatternId,
    PointId,
)
from knowledge.ports import GroupingStore, RegroupingTransaction
from knowledge.runtime.scheduling import yield_to_loop

_E = knowledge_staging.c
_T = points.c
_V = vectors.c
_K = match_keys.c
_L = links.c
_O = outcomes.c

_SLICE = 1000
"""Entries moved in one statement."""
_READ_AT_ONCE = 100
"""Entries read whole before others get a turn: some ms, unless their texts are long."""


class PostgresRegrouping(RegroupingTransaction):
    """Entries that move between patterns in one transaction."""

    def __init__(self, connection: AsyncConnection, workspace: str) -> None:
        self._connection = connection
        self._workspace = workspace

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> dict[EntryId, PatternId]:
        return await _patterns_of(self._connection, self._workspace, entry_ids)

    async def members(self, pattern_id: PatternId, *, now: datetime) -> Members | None:
        in_order = aggregate_order_by(_E.id, _E.timestamp, _E.id)
        query = sa.select(
            sa.func.min(_E.entry_type).label("entry_type"),
            sa.func.array_agg(in_order).label("entry_ids"),
            sa.func.array_agg(_E.id).filter(EMBEDDED, _E.expires_at > now).label("live"),
        ).where(_E.workspace == self._workspace, _E.pattern_id == pattern_id)
        row = (await self._connection.execute(query)).one()
        if row.entry_ids is None:
            return None
        return Members(
            entry_type=EntryType(row.entry_type), entry_ids=tuple(row.entry_ids), live=frozenset(row.live or ())
        )

    async def load_entries(self, entry_ids: Sequence[EntryId]) -> list[Entry]:
        return await _load_entries(self._connection, self._workspace, entry_ids)

    async def key_of(self, pattern_id: PatternId) -> str | None:
        query = sa.select(patterns.c.match_key).where(
            patterns.c.workspace == self._workspace, patterns.c.id == pattern_id
        )
        return (await self._connection.execute(query)).scalar()

    async def create_pattern(
        self,
        pattern_id: PatternId,
        founder: EntryId,
        *,
        entry_type: EntryType,
        match_key: str,
        founded_at: datetime,
        tags_of: PatternId,
    ) -> None:
        new = insert(patterns).values(
            id=pattern_id,
            workspace=self._workspace,
            entry_type=entry_type,
            match_key=match_key,
            founding_entry_id=founder,
            founded_at=founded_at,
            tags=_select_tags(tags_of),
        )
        await self._connection.execute(new)
        await seal_rows(self._connection, self._workspace, patterns, patterns.c.id == pattern_id)

    async def move(self, moves: Sequence[Move], to: PatternId, *, now: datetime) -> None:
        left: set[PatternId] = set()
        dirty: set[PointId] = set()
        for start in range(0, len(moves), _SLICE):
            some = moves[start : start + _SLICE]
            left.update((await self.patterns_of([move.entry_id for move in some])).values())
            new_points = await self._fit_points(some, to)
            await self._copy_points(
                {old: new for move in some for old, new in move.points.items() if new in new_points}, to
            )
            await self._assign(some, to, new_points)
            await move_records(self._connection, self._workspace, [(move.entry_id, move.points) for move in some])
            await self._bind({move.match_key for move in some}, to, now)
            dirty.update(old for move in some for old in move.points)
            await yield_to_loop()
        await mark_dirty(self._connection, is_any_of(_T.id, dirty))
        await recount(self._connection, {to, *left})

    async def _assign(self, moves: Sequence[Move], to: PatternId, new_points: Collection[PointId]) -> None:
        """Assign entries to a pattern, with those of their points that it keeps."""
        params: dict[str, Any] = {"to": to, "entries": [move.entry_id for move in moves]}
        pairs = [(move.entry_id, new) for move in moves for new in move.points.values() if new in new_points]
        params |= {"of": [of for of, _ in pairs], "points": [new for _, new in pairs]}
        moving = is_any_of(_E.id, params["entries"])
        await rewrite(self._connection, self._workspace, _ASSIGN_ENTRIES, moving, params=params)

    async def _fit_points(self, moves: Sequence[Move], to: PatternId) -> set[PointId]:
        """Return the new points that have texts and fit into the pattern's limit."""
        olds = {old for move in moves for old in move.points}
        available = set(
            (await self._connection.execute(sa.select(_T.id).where(is_any_of(_T.id, olds), OCCUPIES_PLACE))).scalars()
        )
        fitting = set(
            (await self._connection.execute(sa.select(_T.id).where(_T.pattern_id == to, OCCUPIES_PLACE))).scalars()
        )
        for move in moves:
            fitting.update(new for old, new in move.points.items() if old in available and len(fitting) < MAX_POINTS)
        return {PointId(point_id) for point_id in fitting}

    async def _copy_points(self, ids: dict[PointId, PointId], to: PatternId) -> None:
        """Write points again under new ids, with their vectors, and mark them dirty."""
        pairs = sa.select(
            sa.func.unnest(sa.literal(list(ids), sa.ARRAY(UUID_TYPE))).label("old"),
            sa.func.unnest(sa.literal(list(ids.values()), sa.ARRAY(UUID_TYPE))).label("new"),
        ).subquery("pairs")
        copies = sa.select(
            pairs.c.new, _T.workspace, sa.literal(to, UUID_TYPE), _T.view, _T.embedded_at, _T.expires_at, _T.counted,
            DUE_NOW,
        ).where(_T.id == pairs.c.old)  # fmt: skip
        names = ["id", "workspace", "pattern_id", "view", "embedded_at", "expires_at", "counted", "look_at"]
        new = insert(points).from_select(names, copies)
        later = {name: sa.func.greatest(_T[name], new.excluded[name]) for name in ("embedded_at", "expires_at")}
        await self._connection.execute(
            new.on_conflict_do_update(index_elements=[_T.id], set_=later | {"look_at": DUE_NOW})
        )
        stored = sa.select(pairs.c.new, _V.space, _V.vector).where(_V.point_id == pairs.c.old)
        vector_copies = insert(vectors).from_select(["point_id", "space", "vector"], stored).on_conflict_do_nothing()
        await self._connection.execute(vector_copies)

    async def _bind(self, keys: set[str], to: PatternId, now: datetime) -> None:
        params = {"workspace": self._workspace, "keys": sorted(keys), "pattern_id": to, "decided_at": now}
        await self._connection.execute(_BIND_KEYS, params)
        await seal_rows(self._connection, self._workspace, match_keys, _K.match_key.in_(sorted(keys)))

    async def absorb(self, keep: PatternId, other: PatternId, *, key: str, now: datetime) -> None:
        execute = self._connection.execute
        # the texts it was founded with, unless they were split off to another pattern
        ruled = sa.exists().where(_K.workspace == self._workspace, _K.match_key == patterns.c.match_key)
        own = sa.select(patterns.c.match_key).where(patterns.c.id == other, ~ruled)
        bound = sa.select(_K.match_key).where(_K.pattern_id == other)
        await self._bind({key, *(await execute(own)).scalars(), *(await execute(bound)).scalars()}, keep, now)
        event = (_O.workspace, _O.project_id, _O.task_id, _O.run_id)
        reported = sa.select(*event).where(_O.pattern_id == keep)
        # of outcomes of both patterns in one run a success wins, and among equal ones the trusted one
        of_other_pattern = outcomes.alias("also")
        same_run = (of_other_pattern.c[column.name] == column for column in event)
        same_trusted = sa.and_(of_other_pattern.c.worked == _O.worked, _O.low_trust, ~of_other_pattern.c.low_trust)
        says_more = sa.or_(sa.and_(of_other_pattern.c.worked, ~_O.worked), same_trusted)
        is_surpassed = sa.exists().where(of_other_pattern.c.pattern_id == other, *same_run, says_more)
        await forget_outcomes(self._connection, self._workspace, _O.pattern_id == keep, is_surpassed)
        await execute(sa.delete(outcomes).where(_O.pattern_id == keep, is_surpassed))
        moved = list((await execute(sa.select(_O.id).where(_O.pattern_id == other))).scalars())
        of_other = sa.and_(_O.pattern_id == other, sa.tuple_(*event).not_in(reported))
        await execute(sa.update(outcomes).where(of_other).values(pattern_id=keep))
        await forget_outcomes(self._connection, self._workspace, _O.pattern_id == other)
        await execute(sa.delete(outcomes).where(_O.pattern_id == other))
        await seal_rows(self._connection, self._workspace, outcomes, is_any_of(_O.id, moved))
        shown = contexts.c.pattern_ids
        showed_other = sa.and_(contexts.c.workspace == self._workspace, sa.literal(other, UUID_TYPE) == sa.any_(shown))
        both = sa.literal(keep, UUID_TYPE) == sa.any_(shown)
        now_shown = sa.case((both, sa.func.array_remove(shown, other)), else_=sa.func.array_replace(shown, other, keep))
        await execute(sa.update(contexts).where(showed_other).values(pattern_ids=now_shown))
        of_both = sa.func.array_cat(patterns.c.tags, _select_tags(other))
        each = sa.select(sa.func.unnest(of_both).label("tag")).distinct().order_by(sa.literal_column("tag"))
        await execute(
            sa.update(patterns).where(patterns.c.id == keep).values(tags=sa.func.array(each.scalar_subquery()))
        )
        await self._relink(keep, other)

    async def _relink(self, keep: PatternId, other: PatternId) -> None:
        """Give a pattern the links of another one, except that between the two. Pairs a person keeps apart stay so."""
        execute = self._connection.execute
        third = sa.case((_L.lower_id == other, _L.upper_id), else_=_L.lower_id)
        keep_id = sa.literal(keep, UUID_TYPE)
        relinked = sa.select(
            sa.func.least(keep_id, third), sa.func.greatest(keep_id, third), _L.workspace, _L.kind, _L.probability,
            _L.why, _L.found_at,
        ).where(sa.or_(_L.lower_id == other, _L.upper_id == other), third != keep)  # fmt: skip
        names = ["lower_id", "upper_id", "workspace", "kind", "probability", "why", "found_at"]
        new = insert(links).from_select(names, relinked)
        ruled = {name: new.excluded[name] for name in ("kind", "probability", "why", "found_at")}
        both = new.on_conflict_do_update(
            index_elements=[_L.lower_id, _L.upper_id], set_=ruled, where=new.excluded.kind == LinkKind.APART
        )
        await execute(both)
        await seal_rows(self._connection, self._workspace, links, sa.or_(_L.lower_id == keep, _L.upper_id == keep))
        await execute(sa.delete(links).where(sa.or_(_L.lower_id == other, _L.upper_id == other)))

    async def split_contexts(
        self,
        old: PatternId,
        new: PatternId,
        *,
        leaving: Sequence[EntryId],
        staying: Sequence[EntryId],
        keys: Collection[str],
    ) -> None:
        execute = self._connection.execute
        shown_ids = contexts.c.pattern_ids

        def shows(entry_ids: Sequence[EntryId]) -> sa.ColumnElement[bool]:
            return contexts.c.entry_ids.bool_op("&&")(sa.literal(list(entry_ids), sa.ARRAY(UUID_TYPE)))

        with_old = sa.and_(contexts.c.workspace == self._workspace, sa.literal(old, UUID_TYPE) == sa.any_(shown_ids))
        its_own = sa.and_(with_old, shows(leaving), ~shows(staying))
        of_these = sa.select(contexts.c.id).where(its_own)
        of_old = sa.and_(_O.workspace == self._workspace, _O.pattern_id == old)
        leave = sa.update(outcomes).where(of_old, _O.context_id.in_(of_these)).values(pattern_id=new)
        left = list((await execute(leave.returning(_O.id))).scalars())
        await seal_rows(self._connection, self._workspace, outcomes, is_any_of(_O.id, left))
        await execute(sa.update(contexts).where(its_own).values(pattern_ids=sa.func.array_replace(shown_ids, old, new)))
        bound = sa.and_(_K.workspace == self._workspace, _K.pattern_id == old, _K.match_key.in_(sorted(keys)))
        await execute(sa.update(match_keys).where(bound).values(pattern_id=new))
        await seal_rows(self._connection, self._workspace, match_keys, _K.match_key.in_(sorted(keys)))

    async def keep_apart(self, one: PatternId, other: PatternId, *, now: datetime) -> None:
        new = insert(links).values(
            lower_id=min(one, other),
            upper_id=max(one, other),
            workspace=self._workspace,
            kind=LinkKind.APART,
            probability=0.0,
            why=["taken apart by a person"],
            found_at=now,
        )
        updated = {name: new.excluded[name] for name in ("kind", "probability", "why", "found_at")}
        await self._connection.execute(
            new.on_conflict_do_update(index_elements=[_L.lower_id, _L.upper_id], set_=updated)
        )
        pair = (_L.lower_id == min(one, other), _L.upper_id == max(one, other))
        await seal_rows(self._connection, self._workspace, links, *pair)


class PostgresGrouping(WorkspaceStore, GroupingStore):
    """The grouping of one workspace."""

    async def links(self, kind: LinkKind, *, of: PatternId | None, now: datetime, limit: int) -> list[LinkedPatterns]:
        def live(pattern_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
            return sa.exists().where(_E.pattern_id == pattern_id, EMBEDDED, _E.expires_at > now)

        which = [_L.workspace == self._workspace, _L.kind == kind, live(_L.lower_id), live(_L.upper_id)]
        if of is not None:
            which.append(sa.or_(_L.lower_id == of, _L.upper_id == of))
        query = sa.select(links).where(*which).order_by(_L.probability.desc(), _L.lower_id, _L.upper_id).limit(limit)
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(query)).all()
            ids = {pattern_id for row in rows for pattern_id in (row.lower_id, row.upper_id)}
            by_id = await live_patterns(connection, self._workspace, ids, now)
        found = []
        for row in rows:
            pair = [by_id[i] for i in (PatternId(row.lower_id), PatternId(row.upper_id)) if i in by_id]
            if len(pair) == 2:  # otherwise one was deleted in between
                pair.sort(key=lambda each: (-each.success_count, each.founded_at, each.pattern_id))
                found.append(
                    LinkedPatterns(
                        kind=LinkKind(row.kind),
                        probability=row.probability,
                        why=tuple(row.why),
                        patterns=(pair[0], pair[1]),
                    )
                )
        return found

    async def entries(self, pattern_id: PatternId, *, limit: int) -> list[Entry]:
        oldest = _select_members(self._workspace, pattern_id).order_by(_E.timestamp, _E.id).limit(limit)
        return [to_entry(row) for row in await self._all(oldest)]

    async def patterns_of(self, entry_ids: Sequence[EntryId]) -> dict[EntryId, PatternId]:
        async with autocommit(self._engine) as connection:
            return await _patterns_of(connection, self._workspace, entry_ids)

    async def all_entries(self, pattern_id: PatternId) -> AsyncIterator[list[Entry]]:
        ids = sa.select(sa.func.array_agg(_E.id)).where(_E.workspace == self._workspace, _E.pattern_id == pattern_id)
        entry_ids = await self._scalar(ids) or []
        for start in range(0, len(entry_ids), _READ_AT_ONCE):
            async with autocommit(self._engine) as connection:
                entries = await _load_entries(connection, self._workspace, entry_ids[start : start + _READ_AT_ONCE])
            yield entries

    @asynccontextmanager
    async def begin_regrouping(self) -> AsyncIterator[RegroupingTransaction]:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            await connection.execute(HOLD_SPACE)
            yield PostgresRegrouping(connection, self._workspace)


def _select_tags(pattern_id: PatternId) -> sa.ScalarSelect[Any]:
    """Select the tags of another pattern than the one that is written."""
    of = patterns.alias("of")
    return sa.select(of.c.tags).where(of.c.id == pattern_id).scalar_subquery()


def _select_members(workspace: str, pattern_id: PatternId) -> sa.Select[Any]:
    return sa.select(*ENTRY_COLUMNS).where(_E.workspace == workspace, _E.pattern_id == pattern_id)


async def _patterns_of(
    connection: AsyncConnection, workspace: str, entry_ids: Sequence[EntryId]
) -> dict[EntryId, PatternId]:
    query = sa.select(_E.id, _E.pattern_id).where(
        _E.workspace == workspace, is_any_of(_E.id, entry_ids), _E.pattern_id.is_not(None)
    )
    return {EntryId(row.id): PatternId(row.pattern_id) for row in await connection.execute(query)}


async def _load_entries(connection: AsyncConnection, workspace: str, entry_ids: Sequence[EntryId]) -> list[Entry]:
    query = sa.select(*ENTRY_COLUMNS).where(_E.workspace == workspace, is_any_of(_E.id, entry_ids))
    return [to_entry(row) for row in await connection.execute(query)]


def _assign_entries() -> sa.Update:
    def array(name: str) -> Any:
        return sa.bindparam(name, type_=sa.ARRAY(UUID_TYPE))

    columns = (sa.column("entry_id", UUID_TYPE), sa.column("point_id", UUID_TYPE))
    pairs = sa.func.unnest(array("of"), array("points")).table_valued(*columns, name="told", with_ordinality="place")
    pairs = pairs.render_derived()
    of_entry = sa.select(
        pairs.c.entry_id, sa.func.array_agg(aggregate_order_by(pairs.c.point_id, pairs.c.place)).label("point_ids")
    ).group_by(pairs.c.entry_id)
    kept = of_entry.subquery("kept")
    moving = sa.func.unnest(array("entries")).table_valued(columns[0], name="moving").render_derived()
    its_points = sa.select(moving.c.entry_id, kept.c.point_ids).select_from(
        moving.outerjoin(kept, kept.c.entry_id == moving.c.entry_id)
    )
    moved = its_points.subquery("moved")
    none: sa.ColumnElement[Any] = sa.literal_column("'{}'::uuid[]")
    return (
        sa.update(knowledge_staging)
        .where(_E.id == moved.c.entry_id)
        .values(pattern_id=sa.bindparam("to", type_=UUID_TYPE), point_ids=sa.func.coalesce(moved.c.point_ids, none))
    )


def _bind_keys() -> sa.Insert:
    ruled = sa.select(
        sa.bindparam("workspace", type_=sa.Text),
        sa.func.unnest(sa.bindparam("keys", type_=sa.ARRAY(sa.Text))),
        sa.bindparam("pattern_id", type_=UUID_TYPE),
        sa.true(),
        sa.bindparam("decided_at", type_=TIME),
    )
    names = ["workspace", "match_key", "pattern_id", "ruled", "decided_at"]
    new = insert(match_keys).from_select(names, ruled)
    updated = {name: new.excluded[name] for name in ("pattern_id", "ruled", "decided_at")}
    return new.on_conflict_do_update(index_elements=[_K.workspace, _K.match_key], set_=updated)


_ASSIGN_ENTRIES, _BIND_KEYS = _assign_entries(), _bind_keys()
