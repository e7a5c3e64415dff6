"""The patterns of a workspace in Postgres: decisions under one lock, marking embedded, founders, pruning."""

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
from knowledge.adapters.postgres.counting import exclusive_transaction, is_any_of, lock_in_order, recount
from knowledge.adapters.postgres.database import (
    autocommit,
    engine_of_workspace,
    queue_for_workspace,
    store_transaction,
    transaction,
)
from knowledge.adapters.postgres.deciding import PostgresDecisions
from knowledge.adapters.postgres.evidence import OF_POINTS, ONE_PATTERN, PAGE, evidence_of
from knowledge.adapters.postgres.points import IS_CLEAN, mark_dirty
from knowledge.adapters.postgres.rows import supports_point
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
from knowledge.ports import DecisionTransaction, PatternStore

_E = knowledge_staging.c
_P = patterns.c
_T = points.c
_J = projects.c


_SWITCH_QUEUE = "the store, whose model is changed"
"""The queue of those who wait for a change of model, whichever workspace they are for."""


_OF_SPACE_IN_USE = sa.or_(
    ~sa.exists().where(embedding_spaces.c.active).correlate(None),
    sa.exists()
    .where(embedding_spaces.c.active, embedding_spaces.c.fingerprint == sa.bindparam("space", type_=sa.Text))
    .correlate(None),
)
"""False if the space was switched while entries were embedded: their points went into the index of another space."""

# Built once: compiling such a statement takes longer than Postgres takes to answer it.
_TRY_SPACE = sa.select(sa.func.pg_try_advisory_xact_lock_shared(SWITCH_LOCK))
_HOLD_SPACE = sa.select(sa.func.pg_advisory_xact_lock_shared(SWITCH_LOCK))
_MARK = (
    sa.update(knowledge_staging)
    .where(
        lock_in_order(
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


def _select_founders() -> sa.Select[Any]:
    """Select the founding entries of points' patterns, or the oldest left, with their situations' vectors."""
    siblings, is_kept = (
        points.alias("told"),
        _E.status.in_([sa.literal_column("'embedded'"), sa.literal_column("'staged'")]),
    )
    oldest = (
        sa.select(*(_E[name] for name in EntryTexts._fields), _E.point_ids)
        .where(_E.pattern_id == _T.pattern_id, is_kept, sa.func.cardinality(_E.point_ids) > 0)
        .order_by((_E.id == _P.founding_entry_id).desc(), _E.timestamp, _E.id)
        .limit(1)
        .lateral("founder")
    )
    situation = (
        sa.select(vectors.c.vector)
        .select_from(siblings.join(vectors, vectors.c.point_id == siblings.c.id))
        .where(
            siblings.c.id == sa.any_(oldest.c.point_ids),
            siblings.c.view == View.SITUATION,
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


_FOUNDERS = _select_founders()


class PostgresPatterns(PatternStore):
    """Patterns of one workspace."""

    def __init__(self, engine: AsyncEngine, workspace: str) -> None:
        self._store = engine
        self._engine = engine_of_workspace(engine, workspace)
        self._workspace = workspace

    @asynccontextmanager
    async def begin_decisions(self, token: LeaseToken) -> AsyncIterator[DecisionTransaction]:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            yield PostgresDecisions(connection, self._workspace, token)

    async def mark_embedded(
        self,
        token: LeaseToken,
        entry_ids: Sequence[EntryId],
        space: EmbeddingSpace,
        *,
        embedded_at: datetime,
        expires_at: datetime,
    ) -> set[EntryId]:
        params = {
            "entries": list(entry_ids),
            "token": token,
            "space": space.fingerprint,
            "from": embedded_at,
            "until": expires_at,
        }
        if (marked := await self._try_mark(params, _TRY_SPACE)) is not None:
            return marked
        async with queue_for_workspace(self._engine, _SWITCH_QUEUE):  # the change needs connections itself
            return await self._try_mark(params, _HOLD_SPACE) or set()

    async def _try_mark(self, params: Mapping[str, Any], lock: sa.Select[Any]) -> set[EntryId] | None:
        """Mark entries under the lock of a change of model; return None if the lock is not free."""
        async with store_transaction(self._engine) as connection:
            if await connection.scalar(lock) is False:
                return None
            marked = (await connection.execute(_MARK, params)).all()
            await recount(connection, (row.pattern_id for row in marked))
        return {EntryId(row.id) for row in marked}

    async def pattern_of_key(self, match_key: str) -> PatternId | None:
        keys = match_keys.c
        query = sa.select(keys.pattern_id).where(keys.workspace == self._workspace, keys.match_key == match_key)
        async with autocommit(self._engine) as connection:
            found = await connection.scalar(query)
        return None if found is None else PatternId(found)

    async def analyse(self) -> None:
        async with autocommit(self._store) as connection:
            for table in (knowledge_staging, patterns, points):
                # no plan depends on texts, and sorting texts is most of the work
                columns = [column.name for column in table.c if not isinstance(column.type, sa.Text)]
                await connection.execute(Analyze(table, columns))

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        params = {"workspace": self._workspace, "space": space.fingerprint, "points": list(point_ids)}
        async with autocommit(self._engine) as connection:
            return {
                PointId(point_id): _to_founder(pattern_id, vector, *words)
                for point_id, pattern_id, vector, *words in await connection.execute(_FOUNDERS, params)
            }

    async def evidence(
        self, point_ids: Sequence[PointId], *, now: datetime, project_id: str | None = None
    ) -> Mapping[PointId, Evidence]:
        params = {"workspace": self._workspace, "now": now, "points": list(point_ids), "project": project_id}
        async with autocommit(self._engine) as connection:
            return {row.point_id: evidence_of(row, project_id) for row in await connection.execute(OF_POINTS, params)}

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        params = {"workspace": self._workspace, "now": now, "pattern": pattern_id, "project": None}
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(ONE_PATTERN, params)).first()
        if row is None:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")
        return evidence_of(row, None)

    async def page(self, *, after: PatternId | None, limit: int, now: datetime) -> list[Evidence]:
        params = {"workspace": self._workspace, "now": now, "after": after, "limit": limit, "project": None}
        async with autocommit(self._engine) as connection:
            return [evidence_of(row, None) for row in await connection.execute(PAGE, params)]

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            stale = (
                sa.select(_T.id).where(self._is_stale(now)).order_by(_T.id).limit(limit).with_for_update().cte("stale")
            )
            delete_stale = sa.delete(points).where(_T.id.in_(sa.select(stale.c.id))).returning(_T.pattern_id)
            stale_points = (await connection.execute(delete_stale)).scalars().all()
            expired = await self._delete_entries(connection, self._is_expired(knowledge_staging, now), limit)
            unresolved = await self._delete_entries(
                connection, self._is_unresolved(knowledge_staging, open_before), limit
            )
            if len(unresolved) < limit:
                refused = self._is_dead(knowledge_staging, open_before)
                unresolved += await self._delete_entries(connection, refused, limit - len(unresolved))
            touched = {pattern_id for pattern_id in expired + unresolved if pattern_id is not None}
            supported = sa.exists().where(_E.pattern_id == _P.id)
            lonely = await connection.execute(sa.select(_P.id).where(is_any_of(_P.id, touched), ~supported))
            gone = list(lonely.scalars())
            bare = sa.and_(_T.expires_at > now, IS_CLEAN, ~sa.exists().where(supports_point()))
            left = await mark_dirty(connection, is_any_of(_T.pattern_id, touched), bare) if touched else 0
            await recount(connection, {*touched, *stale_points})  # a pattern goes with the last of its rows
        return PruneReport(
            entries=len(expired),
            points=len(stale_points) + left,
            patterns=len(gone),
            never_resolved=len(unresolved),
        )

    async def forget_projects(self, *, limit: int) -> int:
        def has_rows(table: sa.Table) -> sa.ColumnElement[bool]:
            return sa.exists().where(table.c.workspace == _J.workspace, table.c.project_id == _J.project_id)

        empty = [_J.workspace == self._workspace]
        empty += [~has_rows(table) for table in (knowledge_staging, contexts, outcomes, checkpoints)]
        # a capture locks the row: it is skipped; the second statement sees what was committed before our lock
        locked = sa.select(_J.project_id).where(*empty).limit(limit).with_for_update(skip_locked=True)
        async with transaction(self._engine) as connection:
            names = (await connection.execute(locked)).scalars().all()
            if not names:
                return 0
            gone = sa.delete(projects).where(*empty, _J.project_id.in_(names))
            return (await connection.execute(gone)).rowcount

    @staticmethod
    async def _delete_entries(
        connection: AsyncConnection, which: sa.ColumnElement[bool], limit: int
    ) -> list[UUID | None]:
        """Delete up to `limit` entries that nobody else has locked; return the pattern of each."""
        # a CTE that locks is evaluated once; a subquery may be evaluated for each row, and then ignores the limit
        chosen = sa.select(_E.id).where(which).limit(limit).with_for_update(skip_locked=True).cte("chosen")
        gone = sa.delete(knowledge_staging).where(_E.id.in_(sa.select(chosen.c.id))).returning(_E.pattern_id)
        return list((await connection.execute(gone)).scalars())

    async def prunable(self, now: datetime, *, open_before: datetime) -> PruneReport:
        others = knowledge_staging.alias("others")

        def going(entries: sa.FromClause) -> sa.ColumnElement[bool]:
            unresolved, refused = self._is_unresolved(entries, open_before), self._is_dead(entries, open_before)
            return sa.or_(self._is_expired(entries, now), unresolved, refused)

        stays = sa.exists().where(others.c.pattern_id == _E.pattern_id, ~going(others))
        lonely = sa.select(_E.pattern_id).where(going(knowledge_staging), _E.pattern_id.is_not(None), ~stays).distinct()
        async with autocommit(self._engine) as connection:

            async def count(table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
                return await connection.scalar(sa.select(sa.func.count()).select_from(table).where(*which)) or 0

            return PruneReport(
                entries=await count(knowledge_staging, self._is_expired(knowledge_staging, now)),
                points=await count(points, IS_CLEAN, sa.or_(self._is_stale(now), _T.pattern_id.in_(lonely))),
                patterns=await count(lonely.subquery()),
                never_resolved=await count(knowledge_staging, self._is_unresolved(knowledge_staging, open_before))
                + await count(knowledge_staging, self._is_dead(knowledge_staging, open_before)),
                dry_run=True,
            )

    def _is_stale(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_T.workspace == self._workspace, _T.expires_at <= now)

    def _is_expired(self, entries: sa.FromClause, now: datetime) -> sa.ColumnElement[bool]:
        embedded = entries.c.status == sa.literal_column("'embedded'")  # a literal, for the partial index
        return sa.and_(entries.c.workspace == self._workspace, embedded, entries.c.expires_at <= now)

    def _is_unresolved(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        never = entries.c.status.in_([sa.literal_column("'open'"), sa.literal_column("'abandoned'")])
        held_back = entries.c.status == sa.literal_column("'quarantined'")
        return sa.or_(sa.and_(ours, never), sa.and_(ours, held_back))  # a partial index for each

    def _is_dead(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        ours = sa.and_(entries.c.workspace == self._workspace, entries.c.timestamp < before)
        return sa.and_(ours, entries.c.status == sa.literal_column("'dead'"))  # a literal, for the partial index


def _to_founder(pattern_id: UUID, vector: bytes, entry_type: str, *texts: str | None) -> Founder:
    situation = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
    return Founder(
        pattern_id=PatternId(pattern_id), words=EntryTexts(EntryType(entry_type), *texts), situation=situation
    )
