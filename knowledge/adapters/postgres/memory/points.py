"""The points that the index must hold, in Postgres: in id order, and those in which the index may differ (dirty)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import SpaceSwitched
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory.counts import (
    POINTS,
    exclusive_transaction,
    is_any_of,
    lock_in_order,
    read_counter,
    recount,
)
from knowledge.adapters.postgres.memory.entry_rows import (
    ENTRY_COLUMNS,
    entry_of_values,
    select_supporting_entry,
    supports_point,
    to_entry,
)
from knowledge.adapters.postgres.memory.spaces import TRY_SPACE, add_terms, select_collection, to_bound
from knowledge.adapters.postgres.memory_tables import TIME, embedding_spaces, knowledge_staging, points, vectors
from knowledge.models import (
    MAX_POINTS,
    EmbeddingSpace,
    Entry,
    EntryId,
    EntryStatus,
    PointId,
    StoredPoint,
    TextPoint,
    Vector,
    View,
    admit_points,
)
from knowledge.ports import DirtyPoints, PointStore

_E = knowledge_staging.c
_T = points.c
_V = vectors.c

DUE_NOW: sa.ColumnElement[Any] = sa.literal_column("'-infinity'::timestamptz")
"""The `look_at` of a dirty point: due now."""

DROPPED: sa.ColumnElement[Any] = sa.literal_column("'epoch'::timestamptz")
"""The `look_at` of a point that is dirty only because the index was dropped or lost: due after all `DUE_NOW` ones."""

OCCUPIES_PLACE: sa.ColumnElement[bool] = sa.or_(_T.look_at.is_(None), _T.look_at <= DROPPED)
"""The condition that the index holds or must hold a point: it takes one of its pattern's places.

One that was deleted from the index is kept for a day, to be deleted once more.
"""

_WITHOUT_POINT = sa.and_(
    _E.status == sa.literal_column("'embedded'"), _E.point_ids == sa.literal_column("'{}'::uuid[]")
)
"""The condition of an embedded entry without points, as in its partial index."""

IS_CLEAN: sa.ColumnElement[bool] = sa.or_(_T.look_at.is_(None), _T.look_at == DROPPED)
"""The condition that no entry joined or left the point since it was last reconciled."""


async def mark_dirty(
    connection: AsyncConnection, *which: sa.ColumnElement[bool], look_at: sa.ColumnElement[Any] = DUE_NOW
) -> int:
    """Mark points dirty, because an entry joined or left them otherwise than by a checkpoint.

    Use an `exclusive_transaction`, as for every write of points: otherwise two may deadlock.
    """
    ordered = sa.select(_T.id).where(*which).order_by(_T.id).with_for_update().cte("ordered")
    look = sa.update(points).where(_T.id.in_(sa.select(ordered.c.id))).values(look_at=look_at)
    return (await connection.execute(look)).rowcount


def select_stored_points(space: str | sa.ColumnElement[str]) -> sa.Select[Any]:
    """Select points with their vectors in a space and the latest supporting entry; unsupported points are left out."""
    words = select_supporting_entry()
    is_stored = sa.and_(_V.point_id == _T.id, _V.space == space)
    return (
        sa.select(
            _T.id.label("point_id"),
            _T.view,
            _T.embedded_at.label("point_embedded_at"),
            _T.expires_at.label("point_expires_at"),
            _V.vector,
            sa.exists().where(supports_point(EntryStatus.EMBEDDED)).label("settled"),
            sa.exists().where(supports_point(EntryStatus.STAGED)).label("pending"),
            words,
        )
        .select_from(points)
        .outerjoin(vectors, is_stored)
        .join(words, sa.true())
        .order_by(_T.id)
    )


def _to_vector(stored: bytes | None) -> Vector | None:
    """Return a stored vector; None for half a number too, which `find_underived` reports."""
    if stored is None or len(stored) % 2:
        return None
    return np.frombuffer(stored, dtype=np.float16).astype(np.float32)


_VIEWS = {str(each): each for each in View}
"""Views by their names; another one was written by other means, and `find_underived` reports it."""


def to_stored_point(row: Sequence[Any]) -> StoredPoint:
    """Convert a row of `select_stored_points`, SQLAlchemy's or the driver's."""
    point_id, view, embedded_at, expires_at, vector, settled, pending, *words = row
    return StoredPoint(
        point_id=PointId(point_id),
        view=_VIEWS.get(view, View.SITUATION),
        entry=entry_of_values(words),
        vector=_to_vector(vector),
        embedded_at=embedded_at,
        expires_at=expires_at,
        settled=settled,
        pending=pending,
    )


def _is_required(space: EmbeddingSpace, now: datetime) -> sa.ColumnElement[bool]:
    """Return the condition that the index must hold a point in a space.

    One that a checkpoint is about to write is there already where an entry before is embedded.
    """
    is_stored = _first(sa.true(), _V.point_id == _T.id, _V.space == space.fingerprint).is_not(None)
    is_pending = _first(sa.true(), supports_point(EntryStatus.STAGED)).is_not(None)
    is_settled = _first(sa.true(), supports_point(EntryStatus.EMBEDDED)).is_not(None)
    return sa.and_(_is_live(now), is_stored, sa.or_(~is_pending, is_settled))


def _first(column: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
    """Select a column of one row that belongs to a point: looked up for each, where `EXISTS` reads all for a page."""
    return sa.select(column).where(*conditions).limit(1).correlate(points).scalar_subquery()


HAS_EMBEDDED_ENTRY: sa.ColumnElement[bool] = _first(sa.true(), supports_point(EntryStatus.EMBEDDED)).is_not(None)
"""The condition that an embedded entry supports a point."""


def _copy_times() -> sa.Update:
    """Give points the times of their entries, where these differ and no checkpoint is about to give them its own."""
    pending = sa.exists().where(supports_point(EntryStatus.STAGED))
    times = (
        sa.select(sa.func.max(_E.embedded_at).label("embedded_at"), sa.func.max(_E.expires_at).label("expires_at"))
        .where(supports_point(EntryStatus.EMBEDDED))
        .correlate(points)
    )
    theirs = sa.select(_T.id, times.lateral("times")).where(_AMONG, ~pending).subquery("of_entries")
    differs = sa.or_(_T.embedded_at != theirs.c.embedded_at, _T.expires_at != theirs.c.expires_at)
    return (
        sa.update(points)
        .where(_T.id == theirs.c.id, theirs.c.expires_at.is_not(None), differs)
        .values(embedded_at=theirs.c.embedded_at, expires_at=theirs.c.expires_at)
    )


_AMONG = _T.id == sa.any_(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE)))
# Built once: a rebuild repeats them for each slice, and SQLAlchemy takes 6 ms to find the columns of such a statement.
_STORED = select_stored_points(sa.bindparam("space", type_=sa.String)).where(_AMONG)
_COPY_TIMES = _copy_times()
_SETTLE = sa.update(points).where(_AMONG, _T.look_at.is_not(None)).values(look_at=None)


def _is_live(now: datetime) -> sa.ColumnElement[bool]:
    return sa.and_(_T.look_at.is_(None), _T.expires_at > now)


def _is_overtaken(embedded_at: sa.ColumnElement[datetime]) -> sa.ColumnElement[bool]:
    """Return the condition that a point was decided on later, or marked dirty since."""
    noted = sa.and_(_T.look_at.is_not(None), _T.look_at != DROPPED)
    return sa.or_(_T.embedded_at > embedded_at, noted)


_ANY_OVERTAKEN = sa.select(
    sa.exists().where(
        _T.workspace == sa.bindparam("workspace"),
        _T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        _is_overtaken(sa.bindparam("embedded_at", type_=TIME)),
    )
)


async def _refuse_switched(connection: AsyncConnection, space: EmbeddingSpace) -> None:
    """Raise SpaceSwitched where another space is in use or a switch has begun; else keep it for this transaction.

    A switch that has begun already may have read these points while they were dirty and need not be written.
    """
    is_held = await connection.scalar(TRY_SPACE)  # not waited for: a switch needs connections itself
    if not is_held or await connection.scalar(_IN_USE) != space.collection:
        raise SpaceSwitched("another embedding space came into use meanwhile")


_SPACES = sa.select(embedding_spaces).order_by(embedding_spaces.c.bound_at)
_IN_USE = select_collection()


def _upsert_vectors() -> sa.Insert:
    rows = sa.select(
        sa.func.unnest(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE))),
        sa.bindparam("space", type_=sa.Text),
        sa.func.unnest(sa.bindparam("vectors", type_=sa.ARRAY(sa.LargeBinary))),
    )
    new = insert(vectors).from_select(["point_id", "space", "vector"], rows)
    return new.on_conflict_do_update(index_elements=[_V.point_id, _V.space], set_={"vector": new.excluded.vector})


_UPSERT_VECTORS = _upsert_vectors()


async def store_vectors(connection: AsyncConnection, space: EmbeddingSpace, by_point: Mapping[PointId, Vector]) -> None:
    """Store vectors of existing points, as float16."""
    params = {
        "ids": list(by_point),
        "space": space.fingerprint,
        "vectors": [vector.astype(np.float16).tobytes() for vector in by_point.values()],
    }
    await connection.execute(_UPSERT_VECTORS, params)


class PostgresPoints(WorkspaceStore, PointStore):
    """Points of one workspace."""

    async def find_existing(self, point_ids: Sequence[PointId]) -> set[PointId]:
        query = sa.select(_T.id).where(self._ours(), is_any_of(_T.id, point_ids), sa.exists().where(supports_point()))
        return {PointId(point_id) for point_id in await self._scalars(query)}

    async def mark_dirty(self, point_ids: Sequence[PointId]) -> None:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            await mark_dirty(connection, self._ours(), is_any_of(_T.id, point_ids))

    async def mark_all_dirty(self) -> int:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            return await mark_dirty(connection, self._ours(), _T.look_at.is_(None), look_at=DROPPED)

    async def min_count(self, space: EmbeddingSpace, now: datetime, *, roughly: bool) -> int:
        if roughly:
            async with autocommit(self._engine) as connection:
                return await read_counter(connection, self._workspace, POINTS)
        query = sa.select(sa.func.count()).select_from(points).where(self._ours(), _is_required(space, now))
        return await self._scalar(query) or 0

    async def index_membership(
        self, space: EmbeddingSpace, now: datetime, *, after: PointId | None, limit: int
    ) -> dict[PointId, bool]:
        query = sa.select(_T.id, _is_required(space, now).label("must_stand")).where(self._ours(), OCCUPIES_PLACE)
        query = query.order_by(_T.id).limit(limit)
        if after is not None:
            query = query.where(_T.id > after)
        return {PointId(row.id): row.must_stand for row in await self._all(query)}

    async def expiries(self, point_ids: Collection[PointId]) -> dict[PointId, datetime]:
        query = sa.select(_T.id, _T.expires_at).where(self._ours(), is_any_of(_T.id, point_ids), _T.look_at.is_(None))
        return {PointId(row.id): row.expires_at for row in await self._all(query)}

    async def has_any(self, now: datetime) -> bool:
        live = sa.exists().where(
            self._ours(), _T.expires_at > now, sa.exists().where(supports_point(EntryStatus.EMBEDDED))
        )
        return bool(await self._scalar(sa.select(live)))

    async def mark_overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        if not point_ids:
            return 0
        params = {"workspace": self._workspace, "points": list(point_ids), "embedded_at": embedded_at}
        async with autocommit(self._engine) as connection:
            if not await connection.scalar(_ANY_OVERTAKEN, params):
                return 0
        late = (self._ours(), is_any_of(_T.id, point_ids), _is_overtaken(sa.literal(embedded_at, TIME)))
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            return await mark_dirty(connection, *late)

    async def find_live(
        self, space: EmbeddingSpace, point_ids: Sequence[PointId], *, now: datetime
    ) -> list[StoredPoint]:
        query = select_stored_points(space.fingerprint).where(
            self._ours(), is_any_of(_T.id, point_ids), _T.expires_at > now
        )
        found = [to_stored_point(row) for row in await self._all(query)]
        return [each for each in found if each.settled]

    @asynccontextmanager
    async def begin_reconciliation(
        self,
        *,
        now: datetime,
        again_at: datetime,
        limit: int,
        also: Sequence[PointId] = (),
        dropped: bool = True,
    ) -> AsyncIterator[DirtyPoints]:
        pending = sa.exists().where(supports_point(EntryStatus.STAGED))  # its checkpoint is about to write the point
        due = sa.and_(self._ours(), _T.look_at <= now, ~pending)
        if not dropped:
            due = sa.and_(due, _T.look_at != DROPPED)
        if not also:
            async with autocommit(self._engine) as connection:
                if not await connection.scalar(sa.select(sa.exists().where(due))):
                    yield DirtyPoints()
                    return
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            spaces = (await connection.execute(_SPACES)).all()
            in_use = next((row for row in spaces if row.active), None)
            if in_use is None:  # nothing was ever embedded
                yield DirtyPoints()
                return
            which = sa.select(_T.id).where(due).order_by(_T.look_at, _T.id).limit(limit)
            ids = {*(await connection.execute(which)).scalars(), *also}
            await self._copy_entry_times(connection, ids)
            bound = to_bound(in_use)
            rows = await connection.execute(_STORED, {"space": bound.space.fingerprint, "ids": list(ids)})
            found = [to_stored_point(row) for row in rows]
            stored = tuple(each for each in found if not each.pending)
            gone = ids - {each.point_id for each in found}
            yield DirtyPoints(
                bound=bound,
                spaces=tuple(to_bound(row).space for row in spaces),
                stored=stored,
                gone=tuple(PointId(i) for i in sorted(gone)),
            )
            await _refuse_switched(connection, bound.space)
            await connection.execute(_SETTLE, {"ids": [each.point_id for each in stored]})
            await self._schedule_deletion(connection, gone, again_at)

    @staticmethod
    async def _copy_entry_times(connection: AsyncConnection, ids: Collection[Any]) -> None:
        """Give points the times of their entries, unless a checkpoint is about to give them its own."""
        await connection.execute(_COPY_TIMES, {"ids": list(ids)})

    @staticmethod
    async def _schedule_deletion(connection: AsyncConnection, gone: Collection[Any], again_at: datetime) -> None:
        """Schedule the deletion of points once more; forget those that were scheduled before."""
        if not gone:
            return
        forget = sa.delete(points).where(is_any_of(_T.id, gone), _T.look_at > DROPPED).returning(_T.pattern_id)
        patterns = list((await connection.execute(forget)).scalars())
        await connection.execute(sa.delete(vectors).where(is_any_of(_V.point_id, gone)))
        again = sa.update(points).where(is_any_of(_T.id, gone)).values(look_at=sa.bindparam("again_at", type_=TIME))
        await connection.execute(again, {"again_at": again_at})
        await recount(connection, patterns)

    async def entries_without_points(
        self, now: datetime, limit: int, *, without: Collection[EntryId] = (), tries: int | None = None
    ) -> list[Entry]:
        skip = [~is_any_of(_E.id, without)] if without else []
        if tries is not None:
            skip.append(_E.attempts < tries)
        place = sa.func.row_number().over(partition_by=_E.pattern_id, order_by=(_E.embedded_at.desc(), _E.id))
        bare = (
            sa.select(_E.id, _E.pattern_id, place.label("place"))
            .where(_E.workspace == self._workspace, _WITHOUT_POINT, _E.expires_at > now, *skip)
            .subquery("bare")
        )
        occupied = (
            sa.select(sa.func.count()).where(_T.pattern_id == bare.c.pattern_id, OCCUPIES_PLACE).scalar_subquery()
        )
        query = (
            sa.select(*ENTRY_COLUMNS)
            .join(bare, bare.c.id == _E.id)
            .where(bare.c.place <= MAX_POINTS - occupied)
            .order_by(bare.c.place, _E.id)
            .limit(limit)
        )
        return [to_entry(row) for row in await self._all(query)]

    async def count_attempt(self, entry_ids: Collection[EntryId]) -> None:
        bare = (_E.workspace == self._workspace, _WITHOUT_POINT, is_any_of(_E.id, entry_ids))
        again = sa.update(knowledge_staging).where(lock_in_order(*bare)).values(attempts=_E.attempts + 1)
        await self._write(again)

    async def attach(self, entry_points: Sequence[tuple[Entry, Sequence[TextPoint]]], space: EmbeddingSpace) -> int:
        entry_ids = [entry.entry_id for entry, _ in entry_points]
        bare = sa.select(*ENTRY_COLUMNS).where(
            _E.workspace == self._workspace, _WITHOUT_POINT, is_any_of(_E.id, entry_ids)
        )
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            rows = await connection.execute(bare.order_by(_E.id).with_for_update())
            entries = {entry.entry_id: entry for entry in map(to_entry, rows)}
            occupied_points = sa.select(_T.pattern_id, _T.id).where(
                is_any_of(_T.pattern_id, {entry.pattern_id for entry in entries.values()}), OCCUPIES_PLACE
            )
            there: defaultdict[Any, set[Any]] = defaultdict(set)
            for row in await connection.execute(occupied_points):
                there[row.pattern_id].add(row.id)
            attached = 0
            for read, texts in entry_points:
                entry = entries.get(read.entry_id)
                if entry is None or entry.pattern_id != read.pattern_id:
                    continue
                fitting_points = admit_points(texts, there[entry.pattern_id])
                await self._write_points(connection, entry, fitting_points, space)
                attached += bool(fitting_points)
            await _refuse_switched(connection, space)
            return attached

    @staticmethod
    async def _write_points(
        connection: AsyncConnection, entry: Entry, texts: Sequence[TextPoint], space: EmbeddingSpace
    ) -> None:
        """Write points of an embedded entry, with their vectors, and mark them dirty."""
        if not texts:
            return
        new = insert(points)
        later = {name: sa.func.greatest(_T[name], new.excluded[name]) for name in ("embedded_at", "expires_at")}
        written = new.on_conflict_do_update(index_elements=[_T.id], set_=later)
        rows = [
            {
                "id": point.point_id,
                "workspace": entry.workspace,
                "pattern_id": entry.pattern_id,
                "view": point.view.value,
                "embedded_at": entry.embedded_at,
                "expires_at": entry.expires_at,
                "counted": False,
            }
            for point in texts
        ]
        await connection.execute(written, rows)
        ids = [point.point_id for point in texts]
        await mark_dirty(connection, is_any_of(_T.id, ids))
        await store_vectors(connection, space, {point.point_id: point.vector for point in texts})
        naming = sa.update(knowledge_staging).where(_E.id == entry.entry_id).values(point_ids=ids)
        await connection.execute(naming)

    async def count_words(self, words: Mapping[PointId, Collection[int]]) -> None:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            uncounted = sa.select(_T.id).where(self._ours(), is_any_of(_T.id, words), ~_T.counted)
            ordered = uncounted.order_by(_T.id).with_for_update().cte("ordered")
            count = sa.update(points).where(_T.id.in_(sa.select(ordered.c.id))).values(counted=True).returning(_T.id)
            new = list((await connection.execute(count)).scalars())
            frequencies = Counter(chain.from_iterable(words[PointId(point_id)] for point_id in new))
            if new:
                await add_terms(connection, self._workspace, frequencies, len(new))

    async def find_uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        embedded = sa.exists().where(supports_point(EntryStatus.EMBEDDED))
        query = select_stored_points(space.fingerprint).where(self._ours(), ~_T.counted, embedded).limit(limit)
        return [to_stored_point(row) for row in await self._all(query)]

    def _ours(self) -> sa.ColumnElement[bool]:
        return _T.workspace == self._workspace
