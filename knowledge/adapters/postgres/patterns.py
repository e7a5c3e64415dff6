"""The patterns of a workspace in Postgres: decisions under one lock, what is marked embedded, founders, pruning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.analysing import Analyze
from knowledge.adapters.postgres.counting import alone, among, locked_in_order, recount
from knowledge.adapters.postgres.database import in_line, reading, storing, transaction, within
from knowledge.adapters.postgres.deciding import PostgresDeciding
from knowledge.adapters.postgres.evidence import OF_POINTS, ONE_PATTERN, PAGE, evidence_of
from knowledge.adapters.postgres.points import UNDOUBTED, doubt
from knowledge.adapters.postgres.rows import behind_point
from knowledge.adapters.postgres.spaces import SWITCH_LOCK
from knowledge.adapters.postgres.tables import (
    TIME,
    checkpoints,
    contexts,
    embedding_spaces,
    knowledge_staging,
    match_keys,
    outcomes,
    patterns,
    points,
    projects,
    vectors,
)
from knowledge.errors import NotFound
from knowledge.models import (
    EmbeddingSpace,
    EntryId,
    EntryStatus,
    EntryTexts,
    EntryType,
    Evidence,
    Founder,
    LeaseToken,
    PatternId,
    PointId,
    PruneReport,
    View,
)
from knowledge.ports import Deciding, PatternStore

_E = knowledge_staging.c
_P = patterns.c
_T = points.c
_J = projects.c


_SWITCHED = "the store, whose model is changed"
"""Who waits for a change of model stands in this line, whichever workspace it is for."""


_OF_SPACE_IN_USE = sa.or_(
    ~sa.exists().where(embedding_spaces.c.active).correlate(None),
    sa.exists()
    .where(embedding_spaces.c.active, embedding_spaces.c.fingerprint == sa.bindparam("space", type_=sa.Text))
    .correlate(None),
)
"""False where the space was switched while entries were embedded: their points went into the index of another one."""

# Built once: putting such a statement together takes longer than Postgres takes to answer it.
_TRY_SPACE = sa.select(sa.func.pg_try_advisory_xact_lock_shared(SWITCH_LOCK))
_HOLD_SPACE = sa.select(sa.func.pg_advisory_xact_lock_shared(SWITCH_LOCK))
_MARK = (
    sa.update(knowledge_staging)
    .where(
        locked_in_order(
            _E.id == sa.any_(sa.bindparam("entries", type_=sa.ARRAY(UUID_TYPE))),
            _E.lease_token == sa.bindparam("token", type_=UUID_TYPE),
            _E.pattern_id.is_not(None),
        ),
        _OF_SPACE_IN_USE,
    )
    .values(
        status=EntryStatus.EMBEDDED,
        embedded_at=sa.bindparam("from", type_=TIME),
        expires_at=sa.bindparam("until", type_=TIME),
        lease_token=None,
        lease_until=None,
    )
    .returning(_E.id, _E.pattern_id)
)


def _founders() -> sa.Select[Any]:
    """Select the founding entries of points' patterns, or the oldest that is left, with their situations' vectors."""
    told, kept = points.alias("told"), _E.status.in_([sa.literal_column("'embedded'"), sa.literal_column("'staged'")])
    oldest = (
        sa.select(*(_E[name] for name in EntryTexts._fields), _E.point_ids)
        .where(_E.pattern_id == _T.pattern_id, kept, sa.func.cardinality(_E.point_ids) > 0)
        .order_by((_E.id == _P.founding_entry_id).desc(), _E.timestamp, _E.id)
        .limit(1)
        .lateral("founder")
    )
    situation = (
        sa.select(vectors.c.vector)
        .select_from(told.join(vectors, vectors.c.point_id == told.c.id))
        .where(
            told.c.id == sa.any_(oldest.c.point_ids),
            told.c.view == View.SITUATION,
            vectors.c.space == sa.bindparam("space", type_=sa.Text),
        )
        .limit(1)
        .lateral("situation")
    )
    return (
        sa.select(
            _T.id.label("point_id"),
            _P.id.label("found_id"),
            situation.c.vector,
            *(oldest.c[name] for name in EntryTexts._fields),
        )
        .select_from(points.join(patterns, _P.id == _T.pattern_id))
        .join(oldest, sa.true())
        .join(situation, sa.true())
        .where(
            _T.workspace == sa.bindparam("workspace"),
            _T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))),
        )
    )


_FOUNDERS = _founders()


class PostgresPatterns(PatternStore):
    """Patterns of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        self._store = engine
        self._engine = within(engine, workspace)
        self._workspace = workspace

    @asynccontextmanager
    async def deciding(self, token: LeaseToken) -> AsyncIterator[Deciding]:
        async with alone(self._engine, self._workspace) as connection:
            yield PostgresDeciding(connection, self._workspace, token)

    async def mark_embedded(
        self,
        token: LeaseToken,
        entry_ids: Sequence[EntryId],
        space: EmbeddingSpace,
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        asked = {
            "entries": list(entry_ids),
            "token": token,
            "space": space.fingerprint,
            "from": embedded_at,
            "until": expires_at,
        }
        if (marked := await self._marked(asked, _TRY_SPACE)) is not None:
            return marked
        async with in_line(self._engine, _SWITCHED):  # the change needs connections itself
            return await self._marked(asked, _HOLD_SPACE) or set()

    async def _marked(self, asked: Mapping[str, Any], lock: sa.Select[Any]) -> set[EntryId] | None:
        """Mark entries under the lock of a change of model; None where that is not to be had."""
        async with storing(self._engine) as connection:
            if await connection.scalar(lock) is False:
                return None
            marked = (await connection.execute(_MARK, asked)).all()
            await recount(connection, (row.pattern_id for row in marked))
        return {EntryId(row.id) for row in marked}

    async def bound_to(self, match_key: str) -> PatternId | None:
        keys = match_keys.c
        query = sa.select(keys.pattern_id).where(keys.workspace == self._workspace, keys.match_key == match_key)
        async with reading(self._engine) as connection:
            found = await connection.scalar(query)
        return None if found is None else PatternId(found)

    async def analyse(self) -> None:
        async with reading(self._store) as connection:
            for table in (knowledge_staging, patterns, points):
                # no plan depends on texts, and sorting them is most of the work
                columns = [column.name for column in table.c if not isinstance(column.type, sa.Text)]
                await connection.execute(Analyze(table, columns))

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        asked = {"workspace": self._workspace, "space": space.fingerprint, "points": list(point_ids)}
        async with reading(self._engine) as connection:
            return {
                PointId(point_id): _founder(pattern_id, vector, *words)
                for point_id, pattern_id, vector, *words in await connection.execute(_FOUNDERS, asked)
            }

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        asked = {"workspace": self._workspace, "now": now, "points": list(point_ids), "project": project_id}
        async with reading(self._engine) as connection:
            return {row.point_id: evidence_of(row, project_id) for row in await connection.execute(OF_POINTS, asked)}

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        asked = {"workspace": self._workspace, "now": now, "pattern": pattern_id, "project": None}
        async with reading(self._engine) as connection:
            row = (await connection.execute(ONE_PATTERN, asked)).first()
        if row is None:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")
        return evidence_of(row, None)

    async def page(self, *, after: PatternId | None, limit: int, now: datetime) -> list[Evidence]:
        asked = {"workspace": self._workspace, "now": now, "after": after, "limit": limit, "project": None}
        async with reading(self._engine) as connection:
            return [evidence_of(row, None) for row in await connection.execute(PAGE, asked)]

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        async with alone(self._engine, self._workspace) as connection:
            stale = sa.select(_T.id).where(self._stale(now)).order_by(_T.id).limit(limit).with_for_update().cte("stale")
            delete_stale = sa.delete(points).where(_T.id.in_(sa.select(stale.c.id))).returning(_T.pattern_id)
            stale_points = (await connection.execute(delete_stale)).scalars().all()
            expired = await self._delete_entries(connection, self._expired(knowledge_staging, now), limit)
            unresolved = await self._delete_entries(connection, self._unresolved(knowledge_staging, open_before), limit)
            if len(unresolved) < limit:
                refused = self._refused(knowledge_staging, open_before)
                unresolved += await self._delete_entries(connection, refused, limit - len(unresolved))
            touched = {pattern_id for pattern_id in expired + unresolved if pattern_id is not None}
            supported = sa.exists().where(_E.pattern_id == _P.id)
            lonely = await connection.execute(sa.select(_P.id).where(among(_P.id, touched), ~supported))
            gone = list(lonely.scalars())
            bare = sa.and_(_T.expires_at > now, UNDOUBTED, ~sa.exists().where(behind_point()))
            left = await doubt(connection, among(_T.pattern_id, touched), bare) if touched else 0
            await recount(connection, {*touched, *stale_points})  # a pattern goes with whichever of its rows is last
        return PruneReport(
            entries=len(expired),
            points=len(stale_points) + left,
            patterns=len(gone),
            never_resolved=len(unresolved),
        )

    async def forget_projects(self, *, limit: int) -> int:
        def told(table: sa.Table) -> sa.ColumnElement[bool]:
            return sa.exists().where(table.c.workspace == _J.workspace, table.c.project_id == _J.project_id)

        empty = [_J.workspace == self._workspace]
        empty += [~told(table) for table in (knowledge_staging, contexts, outcomes, checkpoints)]
        # whoever captures holds the row: it is passed over; and what came before we had it the second statement sees
        held = sa.select(_J.project_id).where(*empty).limit(limit).with_for_update(skip_locked=True)
        async with transaction(self._engine) as connection:
            names = (await connection.execute(held)).scalars().all()
            if not names:
                return 0
            gone = sa.delete(projects).where(*empty, _J.project_id.in_(names))
            return (await connection.execute(gone)).rowcount

    @staticmethod
    async def _delete_entries(
        connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int
    ) -> list[UUID | None]:
        """Delete up to `limit` entries that nobody else has locked; return the pattern of each."""
        # a CTE that locks is evaluated once; a subquery may be again for each row, and then knows no limit
        chosen = sa.select(_E.id).where(which).limit(limit).with_for_update(skip_locked=True).cte("chosen")
        gone = sa.delete(knowledge_staging).where(_E.id.in_(sa.select(chosen.c.id))).returning(_E.pattern_id)
        return list((await connection.execute(gone)).scalars())

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        others = knowledge_staging.alias("others")

        def going(entries: sa.FromClause) -> sa.ColumnElement[bool]:
            unresolved, refused = self._unresolved(entries, open_before), self._refused(entries, open_before)
            return sa.or_(self._expired(entries, now), unresolved, refused)

        stays = sa.exists().where(others.c.pattern_id == _E.pattern_id, ~going(others))
        lonely = sa.select(_E.pattern_id).where(going(knowledge_staging), _E.pattern_id.is_not(None), ~stays).distinct()
        async with reading(self._engine) as connection:

            async def count(table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
                return await connection.scalar(sa.select(sa.func.count()).select_from(table).where(*which)) or 0

            return PruneReport(
                entries=await count(knowledge_staging, self._expired(knowledge_staging, now)),
                points=await count(points, UNDOUBTED, sa.or_(self._stale(now), _T.pattern_id.in_(lonely))),
                patterns=await count(lonely.subquery()),
                never_resolved=await count(knowledge_staging, self._unresolved(knowledge_staging, open_before))
                + await count(knowledge_staging, self._refused(knowledge_staging, open_before)),
                dry_run=True,
            )

    def _stale(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_T.workspace == self._workspace, _T.expires_at <= now)

    def _expired(self, entries: sa.FromClause, now: datetime) -> sa.ColumnElement[bool]:
        embedded = entries.c.status == sa.literal_column("'embedded'")  # spelt out, for the partial index
        return sa.and_(entries.c.workspace == self._workspace, embedded, entries.c.expires_at <= now)

    def _unresolved(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        never = entries.c.status.in_([sa.literal_column("'open'"), sa.literal_column("'abandoned'")])
        held_back = entries.c.status == sa.literal_column("'quarantined'")
        return sa.or_(sa.and_(ours, never), sa.and_(ours, held_back))  # a partial index for each

    def _refused(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        return sa.and_(ours, entries.c.status == sa.literal_column("'dead'"))  # spelt out, for the partial index


def _founder(pattern_id: UUID, vector: bytes, entry_type: str, *told: str | None) -> Founder:
    situation = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
    return Founder(
        pattern_id=PatternId(pattern_id), words=EntryTexts(EntryType(entry_type), *told), situation=situation
    )
