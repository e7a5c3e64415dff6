"""What the index is to hold, in Postgres: points in order, and those with which the index may differ."""

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
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.counting import alone, among, locked_in_order, recount
from knowledge.adapters.postgres.database import reading, transaction, within
from knowledge.adapters.postgres.rows import ENTRY_COLUMNS, behind_point, entry_behind_point, to_entry
from knowledge.adapters.postgres.spaces import add_terms, to_bound
from knowledge.adapters.postgres.tables import TIME, embedding_spaces, knowledge_staging, points, vectors
from knowledge.errors import SpaceSwitched
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
from knowledge.ports import PointStore, Unsettled

_E = knowledge_staging.c
_T = points.c
_V = vectors.c

AT_ONCE: sa.ColumnElement[Any] = sa.literal_column("'-infinity'::timestamptz")
"""The `look_at` of a point that nobody looked at since it became doubtful."""

DROPPED: sa.ColumnElement[Any] = sa.literal_column("'epoch'::timestamptz")
"""The `look_at` of a point of which only the index was dropped, or lost: due, after all that is due `AT_ONCE`."""

HELD: sa.ColumnElement[bool] = sa.or_(_T.look_at.is_(None), _T.look_at <= DROPPED)
"""The condition to be a point that the index is to hold, as far as anybody looked: it takes one of a pattern's places.

One that went from the index is kept for a day, to be looked at once more.
"""

_WITHOUT_POINT = sa.and_(
    _E.status == sa.literal_column("'embedded'"), _E.point_ids == sa.literal_column("'{}'::uuid[]")
)
"""The condition to be an embedded entry that no point stands for, as its partial index has it."""

UNDOUBTED: sa.ColumnElement[bool] = sa.or_(_T.look_at.is_(None), _T.look_at == DROPPED)
"""The condition that no entry came or went since the point was last looked at."""


async def doubt(
    connection: AsyncConnection, *which: sa.ColumnElement[bool], look_at: sa.ColumnElement[Any] = AT_ONCE
) -> int:
    """Have points compared with the index, since an entry came or went otherwise than by a checkpoint.

    Be `alone`, as whoever writes points is: else two wait for each other's in a circle.
    """
    ordered = sa.select(_T.id).where(*which).order_by(_T.id).with_for_update().cte("ordered")
    look = sa.update(points).where(_T.id.in_(sa.select(ordered.c.id))).values(look_at=look_at)
    return (await connection.execute(look)).rowcount


def stored_points(space: EmbeddingSpace) -> sa.Select[Any]:
    """Select points with their vectors in a space and the words of an entry behind each; none without such an entry."""
    words = entry_behind_point()
    kept = sa.and_(_V.point_id == _T.id, _V.space == space.fingerprint)
    return (
        sa.select(
            _T.id.label("point_id"),
            _T.view,
            _T.embedded_at.label("point_embedded_at"),
            _T.expires_at.label("point_expires_at"),
            _V.vector,
            sa.exists().where(behind_point(EntryStatus.EMBEDDED)).label("settled"),
            sa.exists().where(behind_point(EntryStatus.STAGED)).label("pending"),
            words,
        )
        .select_from(points)
        .outerjoin(vectors, kept)
        .join(words, sa.true())
        .order_by(_T.id)
    )


def to_stored_point(row: sa.Row[Any]) -> StoredPoint:
    """Return a row of `stored_points`."""
    return StoredPoint(
        point_id=PointId(row.point_id),
        view=View(row.view),
        entry=to_entry(row),
        vector=None if row.vector is None else np.frombuffer(row.vector, dtype=np.float16).astype(np.float32),
        embedded_at=row.point_embedded_at,
        expires_at=row.point_expires_at,
        settled=row.settled,
        pending=row.pending,
    )


def _must_stand(space: EmbeddingSpace, now: datetime) -> sa.ColumnElement[bool]:
    """Return the condition that the index must hold a point in a space."""
    kept = sa.exists().where(_V.point_id == _T.id, _V.space == space.fingerprint)
    return sa.and_(_live(now), kept, ~sa.exists().where(behind_point(EntryStatus.STAGED)))


def _live(now: datetime) -> sa.ColumnElement[bool]:
    return sa.and_(_T.look_at.is_(None), _T.expires_at > now)


def _overtaken(embedded_at: sa.ColumnElement[datetime]) -> sa.ColumnElement[bool]:
    """Return the condition that others decided about a point later, or had it noted down since."""
    noted = sa.and_(_T.look_at.is_not(None), _T.look_at != DROPPED)
    return sa.or_(_T.embedded_at > embedded_at, noted)


_ANY_OVERTAKEN = sa.select(
    sa.exists().where(
        _T.workspace == sa.bindparam("workspace"),
        _T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        _overtaken(sa.bindparam("embedded_at", type_=TIME)),
    )
)


_SPACES = sa.select(embedding_spaces).order_by(embedding_spaces.c.bound_at)
_IN_USE = sa.select(embedding_spaces.c.fingerprint).where(embedding_spaces.c.active)


def _keep_vectors() -> sa.Insert:
    given = sa.select(
        sa.func.unnest(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE))),
        sa.bindparam("space", type_=sa.Text),
        sa.func.unnest(sa.bindparam("vectors", type_=sa.ARRAY(sa.LargeBinary))),
    )
    new = insert(vectors).from_select(["point_id", "space", "vector"], given)
    return new.on_conflict_do_update(index_elements=[_V.point_id, _V.space], set_={"vector": new.excluded.vector})


_KEEP_VECTORS = _keep_vectors()


async def keep_vectors(connection: AsyncConnection, space: EmbeddingSpace, kept: Mapping[PointId, Vector]) -> None:
    """Keep vectors of points that are there, as float16."""
    asked = {
        "ids": list(kept),
        "space": space.fingerprint,
        "vectors": [vector.astype(np.float16).tobytes() for vector in kept.values()],
    }
    await connection.execute(_KEEP_VECTORS, asked)


class PostgresPoints(PointStore):
    """Points of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        self._engine = within(engine, workspace)
        self._workspace = workspace

    async def known(self, point_ids: Sequence[PointId]) -> set[PointId]:
        query = sa.select(_T.id).where(self._ours(), among(_T.id, point_ids), sa.exists().where(behind_point()))
        async with reading(self._engine) as connection:
            return {PointId(found) for found in (await connection.execute(query)).scalars()}

    async def doubt(self, point_ids: Sequence[PointId]) -> None:
        async with alone(self._engine, self._workspace) as connection:
            await doubt(connection, self._ours(), among(_T.id, point_ids))

    async def doubt_all(self) -> int:
        async with alone(self._engine, self._workspace) as connection:
            return await doubt(connection, self._ours(), _T.look_at.is_(None), look_at=DROPPED)

    async def fewest(self, space: EmbeddingSpace, now: datetime, *, roughly: bool) -> int:
        standing = _live(now) if roughly else _must_stand(space, now)
        query = sa.select(sa.func.count()).select_from(points).where(self._ours(), standing)
        async with reading(self._engine) as connection:
            return await connection.scalar(query) or 0

    async def standing(
        self, space: EmbeddingSpace, now: datetime, *, after: PointId | None, limit: int
    ) -> dict[PointId, bool]:
        query = sa.select(_T.id, _must_stand(space, now).label("must_stand")).where(self._ours())
        query = query.order_by(_T.id).limit(limit)
        if after is not None:
            query = query.where(_T.id > after)
        async with reading(self._engine) as connection:
            return {PointId(row.id): row.must_stand for row in await connection.execute(query)}

    async def any_learned(self, now: datetime) -> bool:
        live = sa.exists().where(
            self._ours(), _T.expires_at > now, sa.exists().where(behind_point(EntryStatus.EMBEDDED))
        )
        async with reading(self._engine) as connection:
            return bool(await connection.scalar(sa.select(live)))

    async def overtaken(self, point_ids: Sequence[PointId], embedded_at: datetime) -> int:
        if not point_ids:
            return 0
        asked = {"workspace": self._workspace, "points": list(point_ids), "embedded_at": embedded_at}
        async with reading(self._engine) as connection:
            if not await connection.scalar(_ANY_OVERTAKEN, asked):
                return 0
        late = (self._ours(), among(_T.id, point_ids), _overtaken(sa.literal(embedded_at, TIME)))
        async with alone(self._engine, self._workspace) as connection:
            return await doubt(connection, *late)

    @asynccontextmanager
    async def settling(
        self,
        *,
        now: datetime,
        again_at: datetime,
        limit: int,
        also: Sequence[PointId] = (),
        dropped: bool = True,
    ) -> AsyncIterator[Unsettled]:
        pending = sa.exists().where(behind_point(EntryStatus.STAGED))  # its checkpoint is about to write the point
        due = sa.and_(self._ours(), _T.look_at <= now, ~pending)
        if not dropped:
            due = sa.and_(due, _T.look_at != DROPPED)
        if not also:
            async with reading(self._engine) as connection:
                if not await connection.scalar(sa.select(sa.exists().where(due))):
                    yield Unsettled()
                    return
        async with alone(self._engine, self._workspace) as connection:
            spaces = (await connection.execute(_SPACES)).all()
            in_use = next((row for row in spaces if row.active), None)
            if in_use is None:  # nothing was ever embedded
                yield Unsettled()
                return
            which = sa.select(_T.id).where(due).order_by(_T.look_at, _T.id).limit(limit)
            ids = {*(await connection.execute(which)).scalars(), *also}
            await self._as_its_entries(connection, ids)
            bound = to_bound(in_use)
            rows = await connection.execute(stored_points(bound.space).where(among(_T.id, ids)))
            found = [to_stored_point(row) for row in rows]
            stored = tuple(each for each in found if not each.pending)
            gone = ids - {each.point_id for each in found}
            yield Unsettled(
                bound=bound,
                spaces=tuple(to_bound(row).space for row in spaces),
                stored=stored,
                gone=tuple(PointId(i) for i in sorted(gone)),
            )
            if await connection.scalar(_IN_USE) != in_use.fingerprint:
                raise SpaceSwitched("another embedding space came into use meanwhile")
            settled = sa.update(points).where(among(_T.id, [each.point_id for each in stored])).values(look_at=None)
            await connection.execute(settled)
            await self._leave(connection, gone, again_at)

    @staticmethod
    async def _as_its_entries(connection: AsyncConnection, ids: Collection[Any]) -> None:
        """Give points the times of the entries behind them, unless a checkpoint is about to give them its own."""
        pending = sa.exists().where(behind_point(EntryStatus.STAGED))
        times = (
            sa.select(sa.func.max(_E.embedded_at).label("embedded_at"), sa.func.max(_E.expires_at).label("expires_at"))
            .where(behind_point(EntryStatus.EMBEDDED))
            .correlate(points)
        )
        of_entries = sa.select(_T.id, times.lateral("times")).where(among(_T.id, ids), ~pending).subquery("of_entries")
        update = (
            sa.update(points)
            .where(_T.id == of_entries.c.id, of_entries.c.expires_at.is_not(None))
            .values(embedded_at=of_entries.c.embedded_at, expires_at=of_entries.c.expires_at)
        )
        await connection.execute(update)

    @staticmethod
    async def _leave(connection: AsyncConnection, gone: Collection[Any], again_at: datetime) -> None:
        """Look once more at points that went from the index just now; forget those that went before."""
        if not gone:
            return
        forget = sa.delete(points).where(among(_T.id, gone), _T.look_at > DROPPED).returning(_T.pattern_id)
        patterns = list((await connection.execute(forget)).scalars())
        await connection.execute(sa.delete(vectors).where(among(_V.point_id, gone)))
        again = sa.update(points).where(among(_T.id, gone)).values(look_at=sa.bindparam("again_at", type_=TIME))
        await connection.execute(again, {"again_at": again_at})
        await recount(connection, patterns)

    async def out_of_reach(
        self, now: datetime, limit: int, *, without: Collection[EntryId] = (), tries: int | None = None
    ) -> list[Entry]:
        passed_over = [~among(_E.id, without)] if without else []
        if tries is not None:
            passed_over.append(_E.attempts < tries)
        place = sa.func.row_number().over(partition_by=_E.pattern_id, order_by=(_E.embedded_at.desc(), _E.id))
        bare = (
            sa.select(_E.id, _E.pattern_id, place.label("place"))
            .where(_E.workspace == self._workspace, _WITHOUT_POINT, _E.expires_at > now, *passed_over)
            .subquery("bare")
        )
        taken = sa.select(sa.func.count()).where(_T.pattern_id == bare.c.pattern_id, HELD).scalar_subquery()
        query = (
            sa.select(*ENTRY_COLUMNS)
            .join(bare, bare.c.id == _E.id)
            .where(bare.c.place <= MAX_POINTS - taken)
            .order_by(bare.c.place, _E.id)
            .limit(limit)
        )
        async with reading(self._engine) as connection:
            return [to_entry(row) for row in await connection.execute(query)]

    async def tried(self, entry_ids: Collection[EntryId]) -> None:
        bare = (_E.workspace == self._workspace, _WITHOUT_POINT, among(_E.id, entry_ids))
        again = sa.update(knowledge_staging).where(locked_in_order(*bare)).values(attempts=_E.attempts + 1)
        async with transaction(self._engine) as connection:
            await connection.execute(again)

    async def reach(self, given: Sequence[tuple[Entry, Sequence[TextPoint]]], space: EmbeddingSpace) -> int:
        asked = [entry.entry_id for entry, _ in given]
        bare = sa.select(*ENTRY_COLUMNS).where(_E.workspace == self._workspace, _WITHOUT_POINT, among(_E.id, asked))
        async with alone(self._engine, self._workspace) as connection:
            rows = await connection.execute(bare.order_by(_E.id).with_for_update())
            entries = {entry.entry_id: entry for entry in map(to_entry, rows)}
            held = sa.select(_T.pattern_id, _T.id).where(
                among(_T.pattern_id, {entry.pattern_id for entry in entries.values()}), HELD
            )
            there: defaultdict[Any, set[Any]] = defaultdict(set)
            for row in await connection.execute(held):
                there[row.pattern_id].add(row.id)
            reached = 0
            for told, texts in given:
                entry = entries.get(told.entry_id)
                if entry is None or entry.pattern_id != told.pattern_id:
                    continue
                kept = admit_points(texts, there[entry.pattern_id])
                await self._stand_for(connection, entry, kept, space)
                reached += bool(kept)
            if await connection.scalar(_IN_USE) != space.fingerprint:
                raise SpaceSwitched("another embedding space came into use meanwhile")
            return reached

    @staticmethod
    async def _stand_for(
        connection: AsyncConnection, entry: Entry, kept: Sequence[TextPoint], space: EmbeddingSpace
    ) -> None:
        """Write points of an embedded entry, with their vectors, and have the index look at them."""
        if not kept:
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
            for point in kept
        ]
        await connection.execute(written, rows)
        ids = [point.point_id for point in kept]
        await doubt(connection, among(_T.id, ids))
        await keep_vectors(connection, space, {point.point_id: point.vector for point in kept})
        named = sa.update(knowledge_staging).where(_E.id == entry.entry_id).values(point_ids=ids)
        await connection.execute(named)

    async def count_words(self, counted: Mapping[PointId, Collection[int]]) -> None:
        async with alone(self._engine, self._workspace) as connection:
            which = sa.select(_T.id).where(self._ours(), among(_T.id, counted), ~_T.counted)
            ordered = which.order_by(_T.id).with_for_update().cte("ordered")
            count = sa.update(points).where(_T.id.in_(sa.select(ordered.c.id))).values(counted=True).returning(_T.id)
            new = list((await connection.execute(count)).scalars())
            frequencies = Counter(chain.from_iterable(counted[PointId(point_id)] for point_id in new))
            if new:
                await add_terms(connection, self._workspace, frequencies, len(new))

    async def uncounted(self, space: EmbeddingSpace, limit: int) -> list[StoredPoint]:
        embedded = sa.exists().where(behind_point(EntryStatus.EMBEDDED))
        query = stored_points(space).where(self._ours(), ~_T.counted, embedded).limit(limit)
        async with reading(self._engine) as connection:
            return [to_stored_point(row) for row in await connection.execute(query)]

    def _ours(self) -> sa.ColumnElement[bool]:
        return _T.workspace == self._workspace
