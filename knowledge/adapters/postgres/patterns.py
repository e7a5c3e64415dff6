"""The patterns of a workspace in Postgres: decisions under one lock, counts from evidence, words, pruning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.counting import EMBEDDED, alone_with_patterns, among, locked_in_order, recount
from knowledge.adapters.postgres.database import reading, storing, transaction
from knowledge.adapters.postgres.deciding import PostgresDeciding
from knowledge.adapters.postgres.points import doubt
from knowledge.adapters.postgres.rows import ENTRY_COLUMNS, behind_point, to_entry
from knowledge.adapters.postgres.spaces import SWITCH_LOCK
from knowledge.adapters.postgres.tables import TIME, embedding_spaces, knowledge_staging, patterns, points, vectors
from knowledge.errors import NotFound
from knowledge.models import (
    EmbeddingSpace,
    EntryId,
    EntryStatus,
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

MOST_IDLE = timedelta(seconds=60)
"""What a process that hangs in the middle of a decision may hold up others: Postgres takes the decision back then."""

SHOWN_ENTRY_IDS = 100
"""A pattern names at most this many of its entries, the latest."""


def _with_words(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select live patterns with their words: those of the most trusted, then latest, evidence."""
    live = sa.and_(_E.pattern_id == _P.id, EMBEDDED, _E.expires_at > sa.bindparam("now", type_=TIME))
    trust = sa.case((_E.entry_type != EntryType.FAILURE_SOLUTION, 2), (_E.verified_by.is_not(None), 1), else_=0)
    words = sa.select(*ENTRY_COLUMNS).where(live).order_by(trust.desc(), _E.embedded_at.desc(), _E.id).limit(1)
    latest = sa.select(_E.id).where(live).order_by(_E.embedded_at.desc(), _E.id).limit(SHOWN_ENTRY_IDS)
    return sa.select(
        *columns,
        _P.id.label("found_id"),
        _P.success_count,
        _P.attempt_count,
        _P.project_count,
        _P.founded_at,
        sa.func.array(latest.scalar_subquery()).label("entry_ids"),
        words.lateral("words"),
    ).where(_P.workspace == sa.bindparam("workspace"), _P.success_count > 0)


_IN_USE = (
    sa.select(sa.func.count())
    .select_from(vectors)
    .join(embedding_spaces, embedding_spaces.c.fingerprint == vectors.c.space)
    .where(embedding_spaces.c.active, vectors.c.point_id == sa.any_(_E.point_ids))
    .correlate(knowledge_staging)
    .scalar_subquery()
)
_OF_SPACE_IN_USE = sa.or_(
    ~sa.exists().where(embedding_spaces.c.active).correlate(None), sa.func.cardinality(_E.point_ids) == _IN_USE
)
"""False for an entry with a point that has no vector in the space in use: it was switched while that was embedded."""

# Built once: putting such a statement together takes longer than Postgres takes to answer it.
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
_WANTED = (
    sa.select(_T.id, _T.pattern_id)
    .where(_T.id == sa.any_(sa.bindparam("points", type_=sa.ARRAY(UUID_TYPE))))
    .cte("wanted")
    .prefix_with("MATERIALIZED")
)
_EVIDENCE = _with_words(_WANTED.c.id.label("point_id")).where(_WANTED.c.pattern_id == _P.id)
_ONE_PATTERN = _with_words().where(_P.id == sa.bindparam("pattern", type_=UUID_TYPE))


def _founders() -> sa.Select[Any]:
    """Select the founding entries of points' patterns, or the oldest that is left, with their situations' vectors."""
    told, kept = points.alias("told"), _E.status.in_([sa.literal_column("'embedded'"), sa.literal_column("'staged'")])
    oldest = (
        sa.select(*ENTRY_COLUMNS, _E.point_ids)
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
        sa.select(_T.id.label("point_id"), _P.id.label("found_id"), situation.c.vector, oldest)
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
        self._engine = engine
        self._workspace = workspace

    @asynccontextmanager
    async def deciding(self, token: LeaseToken) -> AsyncIterator[Deciding]:
        async with storing(self._engine) as connection:
            await alone_with_patterns(connection, self._workspace, most_idle=MOST_IDLE)
            yield PostgresDeciding(connection, self._workspace, token)

    async def mark_embedded(
        self, token: LeaseToken, entry_ids: Sequence[EntryId], *, embedded_at: datetime, expires_at: datetime
    ) -> set[EntryId]:
        asked = {"entries": list(entry_ids), "token": token, "from": embedded_at, "until": expires_at}
        async with storing(self._engine) as connection:
            await connection.execute(_HOLD_SPACE)
            marked = (await connection.execute(_MARK, asked)).all()
            await recount(connection, (row.pattern_id for row in marked))
        return {EntryId(row.id) for row in marked}

    async def analyse(self) -> None:
        async with reading(self._engine) as connection:
            for table in (knowledge_staging, patterns, points):
                # no plan depends on texts, and sorting them is most of the work
                columns = ", ".join(column.name for column in table.c if not isinstance(column.type, sa.Text))
                await connection.execute(sa.text(f"ANALYZE {table.name} ({columns})"))

    async def founders(self, space: EmbeddingSpace, point_ids: Sequence[PointId]) -> Mapping[PointId, Founder]:
        asked = {"workspace": self._workspace, "space": space.fingerprint, "points": list(point_ids)}
        async with reading(self._engine) as connection:
            return {PointId(row.point_id): _founder(row) for row in await connection.execute(_FOUNDERS, asked)}

    async def evidence(self, point_ids: Sequence[PointId], *, now: datetime) -> Mapping[PointId, Evidence]:
        asked = {"workspace": self._workspace, "now": now, "points": list(point_ids)}
        async with reading(self._engine) as connection:
            return {row.point_id: _evidence(row) for row in await connection.execute(_EVIDENCE, asked)}

    async def get(self, pattern_id: PatternId, *, now: datetime) -> Evidence:
        asked = {"workspace": self._workspace, "now": now, "pattern": pattern_id}
        async with reading(self._engine) as connection:
            row = (await connection.execute(_ONE_PATTERN, asked)).first()
        if row is None:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")
        return _evidence(row)

    async def prune(self, now: datetime, *, open_before: datetime, limit: int) -> PruneReport:
        async with transaction(self._engine) as connection:
            await alone_with_patterns(connection, self._workspace)
            stale = sa.select(_T.id).where(self._stale(now)).order_by(_T.id).limit(limit).with_for_update().cte("stale")
            stale_points = await connection.execute(sa.delete(points).where(_T.id.in_(sa.select(stale.c.id))))
            expired = await self._delete_entries(connection, self._expired(knowledge_staging, now), limit)
            unresolved = await self._delete_entries(connection, self._unresolved(knowledge_staging, open_before), limit)
            touched = {pattern_id for pattern_id in expired + unresolved if pattern_id is not None}
            supported = sa.exists().where(_E.pattern_id == _P.id)
            lonely = await connection.execute(sa.select(_P.id).where(among(_P.id, touched), ~supported))
            gone = list(lonely.scalars())
            bare = sa.and_(_T.expires_at > now, _T.look_at.is_(None), ~sa.exists().where(behind_point()))
            left = await doubt(connection, among(_T.pattern_id, touched), bare) if touched else 0
            await recount(connection, touched)
        return PruneReport(
            entries=len(expired),
            points=stale_points.rowcount + left,
            patterns=len(gone),
            never_resolved=len(unresolved),
        )

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
            return sa.or_(self._expired(entries, now), self._unresolved(entries, open_before))

        stays = sa.exists().where(others.c.pattern_id == _E.pattern_id, ~going(others))
        lonely = sa.select(_E.pattern_id).where(going(knowledge_staging), _E.pattern_id.is_not(None), ~stays).distinct()
        async with reading(self._engine) as connection:

            async def count(table: sa.FromClause, *which: sa.ColumnElement[bool]) -> int:
                return await connection.scalar(sa.select(sa.func.count()).select_from(table).where(*which)) or 0

            return PruneReport(
                entries=await count(knowledge_staging, self._expired(knowledge_staging, now)),
                points=await count(points, _T.look_at.is_(None), sa.or_(self._stale(now), _T.pattern_id.in_(lonely))),
                patterns=await count(lonely.subquery()),
                never_resolved=await count(knowledge_staging, self._unresolved(knowledge_staging, open_before)),
                dry_run=True,
            )

    def _stale(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(_T.workspace == self._workspace, _T.expires_at <= now)

    def _expired(self, entries: sa.FromClause, now: datetime) -> sa.ColumnElement[bool]:
        embedded = entries.c.status == sa.literal_column("'embedded'")  # spelt out, for the partial index
        return sa.and_(entries.c.workspace == self._workspace, embedded, entries.c.expires_at <= now)

    def _unresolved(self, entries: sa.FromClause, before: datetime) -> sa.ColumnElement[bool]:
        never = entries.c.status.in_([sa.literal_column("'open'"), sa.literal_column("'abandoned'")])
        return sa.and_(entries.c.workspace == self._workspace, never, entries.c.timestamp < before)


def _founder(row: sa.Row[Any]) -> Founder:
    situation = np.frombuffer(row.vector, dtype=np.float16).astype(np.float32)
    return Founder(pattern_id=PatternId(row.found_id), entry=to_entry(row), situation=situation)


def _evidence(row: sa.Row[Any]) -> Evidence:
    words = to_entry(row)
    return Evidence(
        pattern_id=PatternId(row.found_id),
        entry_type=words.entry_type,
        words=words,
        success_count=row.success_count,
        attempt_count=row.attempt_count,
        project_count=row.project_count,
        founded_at=row.founded_at,
        entry_ids=tuple(row._mapping["entry_ids"]),  # noqa: SLF001 - SQLAlchemy's public name for a row by key
    )
