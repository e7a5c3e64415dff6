"""Store operations that keep the index true, in Postgres: points in order, vectors, the switch, dead entries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict
from knowledge.adapters.postgres.engine.database import (
    CompiledQuery,
    WorkspaceStore,
    autocommit,
    transaction,
)
from knowledge.adapters.postgres.engine.locks import check_second_connection, session_lock
from knowledge.adapters.postgres.memory.counts import MISCOUNTED, exclusive_transaction, is_any_of, max_idle_setting
from knowledge.adapters.postgres.memory.entry_rows import capture_time, supports_point
from knowledge.adapters.postgres.memory.points import (
    HAS_EMBEDDED_ENTRY,
    IS_CLEAN,
    mark_dirty,
    select_stored_points,
    store_vectors,
    to_stored_point,
)
from knowledge.adapters.postgres.memory.spaces import SWITCH_LOCK, add_terms, select_spaces, to_bound
from knowledge.adapters.postgres.memory_tables import (
    embedding_spaces,
    job_run,
    knowledge_staging,
    lexicon,
    patterns,
    points,
    vectors,
)
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.models import (
    BoundSpace,
    Calibration,
    DeadEntry,
    EmbeddingSpace,
    EntryId,
    EntryStatus,
    PointId,
    StoredPoint,
    Vector,
)
from knowledge.ports import UpkeepStore

_E = knowledge_staging.c
_T = points.c
_V = vectors.c
_S = embedding_spaces.c
_CHANGE_LOCK = 0x63686E67
"""Advisory lock of a change of model, from its first embedding to its end."""
_CHANGE = "change of model"
"""The job whose run is recorded from the switch until the change is finished."""


_BEFORE = UUID(int=0)
"""An id before that of any point: those are hashes."""
_AFTER = (_T.workspace == sa.bindparam("workspace"), _T.id > sa.bindparam("after", type_=UUID_TYPE))
_LIMIT = sa.bindparam("limit", type_=sa.Integer)
_STORED = select_stored_points(sa.bindparam("space", type_=sa.String)).where(*_AFTER).limit(_LIMIT)
_PAGE, _LACKING = CompiledQuery(_STORED), CompiledQuery(_STORED.where(_V.vector.is_(None)))
_SETTLED = CompiledQuery(sa.select(_T.id).where(*_AFTER, HAS_EMBEDDED_ENTRY).order_by(_T.id).limit(_LIMIT))


class PostgresUpkeep(WorkspaceStore, UpkeepStore):
    """Upkeep of one workspace; spaces are of the whole store."""

    async def points(
        self, space: EmbeddingSpace, *, after: PointId | None, limit: int, lacking: bool = False
    ) -> list[StoredPoint]:
        params = {"space": space.fingerprint, "workspace": self._workspace, "after": after or _BEFORE, "limit": limit}
        rows = await self._fetch(_LACKING if lacking else _PAGE, params)
        return [to_stored_point(row) for row in rows]

    async def settled_points(self, *, after: PointId | None, limit: int) -> list[PointId]:
        params = {"workspace": self._workspace, "after": after or _BEFORE, "limit": limit}
        return [PointId(row["id"]) for row in await self._fetch(_SETTLED, params)]

    async def put_vectors(self, space: EmbeddingSpace, vectors: Mapping[PointId, Vector]) -> None:
        async with transaction(self._engine) as connection:
            # locked against deletion; an update of a point's times does not wait
            there = sa.select(_T.id).where(is_any_of(_T.id, vectors)).order_by(_T.id)
            there = there.with_for_update(read=True, key_share=True)
            found = [PointId(each) for each in (await connection.execute(there)).scalars()]
            await store_vectors(connection, space, {point_id: vectors[point_id] for point_id in found})

    async def mark_unsupported_dirty(self) -> int:
        supported = sa.exists().where(supports_point())
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            return await mark_dirty(connection, _T.workspace == self._workspace, IS_CLEAN, ~supported)

    async def replace_terms(self, frequencies: Mapping[int, int], counted: Collection[PointId]) -> None:
        is_counted = is_any_of(_T.id, counted)
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            mine = lexicon.c.workspace == self._workspace
            gone = sa.delete(lexicon).where(mine).returning(lexicon.c.term, lexicon.c.documents)
            forgotten = {row.term: -row.documents for row in await connection.execute(gone)}
            ledger = ledger_of(connection.engine)
            if ledger.keys is not None:
                change = ledger.keys.term_total(self._workspace, forgotten)
                await ledger.record_change(connection, self._workspace, change)
            await add_terms(connection, self._workspace, frequencies, len(counted))
            other = sa.and_(_T.workspace == self._workspace, _T.counted != is_counted)
            await connection.execute(sa.update(points).where(other).values(counted=is_counted))

    async def retry_dead(self) -> int:
        again = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.status == EntryStatus.DEAD)
            .values(status=EntryStatus.STAGED, dead_reason=None, attempts=0)
        )
        return await self._write(again)

    async def dead(self, limit: int, *, after: EntryId | None = None) -> list[DeadEntry]:
        query = (
            sa.select(_E.id, _E.dead_reason)
            .where(_E.workspace == self._workspace, _E.status == sa.literal_column("'dead'"))  # for the partial index
            .order_by(_E.timestamp.desc(), _E.id)
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            if after is not None:
                at = await capture_time(connection, self._workspace, after)
                query = query.where(sa.or_(_E.timestamp < at, sa.and_(_E.timestamp == at, _E.id > after)))
            rows = await connection.execute(query)
            return [DeadEntry(entry_id=EntryId(row.id), reason=row.dead_reason) for row in rows]

    async def prepare(self, space: EmbeddingSpace, *, mean_terms: float, calibration: Calibration) -> BoundSpace:
        new = insert(embedding_spaces).values(
            fingerprint=space.fingerprint,
            space=asdict(space),
            mean_terms=mean_terms,
            calibration=asdict(calibration),
            active=False,
        )
        async with transaction(self._store) as connection:
            if (await connection.execute(new.on_conflict_do_nothing())).rowcount:
                await seal_rows(connection, "", embedding_spaces, _S.fingerprint == space.fingerprint)
            row = await connection.execute(select_spaces().where(_S.fingerprint == space.fingerprint))
            return to_bound(row.one())

    @asynccontextmanager
    async def lock_model_change(self) -> AsyncIterator[None]:
        async with session_lock(self._store, sa.literal(_CHANGE_LOCK)) as locked:
            if not locked:
                raise Conflict("the embedding model is being changed already: wait until that has ended")
            await check_second_connection(self._store)  # the switch itself holds one
            yield

    @asynccontextmanager
    async def begin_switch(self, space: EmbeddingSpace) -> AsyncIterator[None]:
        async with transaction(self._store) as connection:
            limit = sa.func.set_config("idle_in_transaction_session_timeout", max_idle_setting(), sa.true())
            await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(SWITCH_LOCK), limit))
            yield
            await connection.execute(sa.update(embedding_spaces).where(_S.active).values(active=False))
            chosen = sa.update(embedding_spaces).where(_S.fingerprint == space.fingerprint)
            use = chosen.values(active=True, space=asdict(space))
            if not (await connection.execute(use)).rowcount:
                raise Conflict(f"{space.model} was forgotten while everything was embedded with it: start again")
            await seal_rows(connection, "", embedding_spaces)
            await connection.execute(insert(job_run).values(job=_CHANGE, slot=sa.func.now()))

    async def has_unfinished_change(self) -> bool:
        async with autocommit(self._store) as connection:
            return bool(await connection.scalar(sa.select(sa.exists().where(job_run.c.job == _CHANGE))))

    async def mark_change_finished(self) -> None:
        async with autocommit(self._store) as connection:
            await connection.execute(sa.delete(job_run).where(job_run.c.job == _CHANGE))

    async def forget_unknown(self) -> None:
        space_exists = sa.exists().where(_S.fingerprint == _V.space)
        async with transaction(self._store) as connection:
            await connection.execute(sa.delete(vectors).where(~space_exists))

    async def forget_space(self, space: EmbeddingSpace) -> None:
        in_use = sa.exists().where(_S.fingerprint == space.fingerprint, _S.active)
        async with transaction(self._store) as connection:
            await connection.execute(sa.delete(vectors).where(_V.space == space.fingerprint, ~in_use))
            unused = sa.delete(embedding_spaces).where(_S.fingerprint == space.fingerprint, ~_S.active)
            await connection.execute(unused)

    async def find_unused_spaces(self) -> list[EmbeddingSpace]:
        query = select_spaces().where(~_S.active).order_by(_S.fingerprint)
        return [to_bound(row).space for row in await self._all(query)]

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        is_stored = sa.and_(_V.point_id == _T.id, _V.space == space.fingerprint)
        query = (
            sa.select(sa.func.count().label("all"), sa.func.count().filter(_V.point_id.is_(None)).label("lacking"))
            .select_from(points.outerjoin(vectors, is_stored))
            .where(_T.workspace == self._workspace, sa.exists().where(supports_point()))
        )
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(query)).one()
            return row.all, row.lacking


_UNDERIVED = {
    "a trial of an entry": sa.text("""
        SELECT records.id FROM records JOIN knowledge_staging entry ON entry.id = records.entry_id
        WHERE records.workspace = :workspace AND entry.status = 'embedded' AND (
            NOT records.worked OR records.project_id <> entry.project_id OR records.low_trust <> entry.low_trust
            OR records.recorded_at <> entry.timestamp OR records.task_id IS DISTINCT FROM entry.task_id
            OR records.run_id IS DISTINCT FROM entry.run_id OR records.agent_type IS DISTINCT FROM entry.agent_type)
        """),
    "the arm of a trial": sa.text("""
        SELECT records.id FROM records JOIN entry_profiles profile ON profile.entry_id = records.entry_id
        WHERE records.workspace = :workspace AND profile.rules = (SELECT max(rules) FROM entry_profiles)
            AND records.arm_key <> profile.arm_key
        """),
    "the pattern of an entry": sa.text("""
        SELECT entry.id FROM knowledge_staging entry LEFT JOIN patterns ON patterns.id = entry.pattern_id
            AND patterns.workspace = entry.workspace
        WHERE entry.workspace = :workspace AND entry.status = 'embedded' AND patterns.id IS NULL
        """),
    "the view of a point": sa.text("""
        SELECT id FROM points WHERE workspace = :workspace AND view NOT IN ('situation', 'task')
        """),
    "the vector of a point": sa.text("""
        SELECT points.id FROM points JOIN vectors ON vectors.point_id = points.id
        JOIN embedding_spaces spaces ON spaces.fingerprint = vectors.space
        WHERE points.workspace = :workspace
            AND octet_length(vectors.vector) <> 2 * CAST(spaces.space ->> 'dims' AS integer)
        """),
    "an entry without its trial": sa.text("""
        SELECT entry.id FROM knowledge_staging entry WHERE entry.workspace = :workspace AND entry.status = 'embedded'
            AND entry.embedded_at >= :since AND NOT EXISTS (SELECT 1 FROM records WHERE records.id = entry.id)
        """),
    "an outcome without its trial": sa.text("""
        SELECT outcome.id FROM outcomes outcome WHERE outcome.workspace = :workspace
            AND outcome.recorded_at >= :since AND NOT EXISTS (SELECT 1 FROM records WHERE records.id = outcome.id)
        """),
}
"""Rows that do not follow from others of a workspace, each kind in words."""
_AT_ONCE = 1000


async def find_underived(connection: AsyncConnection, workspace: str, since: datetime) -> list[str]:
    """Return what does not follow from entries and outcomes, in words: counts of patterns, and trials.

    `since`: what was stored before may be of a release that wrote no trials.
    """
    problems: list[str] = []
    for what, query in _UNDERIVED.items():
        params = {"workspace": workspace} | ({"since": since} if ":since" in query.text else {})
        found = (await connection.execute(query, params)).scalars().all()
        problems += [f"{what} of workspace {workspace} does not follow from what is stored: {each}" for each in found]
    ids = (await connection.execute(sa.select(patterns.c.id).where(patterns.c.workspace == workspace))).scalars().all()
    for start in range(0, len(ids), _AT_ONCE):
        found = (await connection.execute(MISCOUNTED, {"ids": ids[start : start + _AT_ONCE]})).scalars().all()
        problems += [f"the counts of pattern {each} of workspace {workspace} do not follow" for each in found]
    return problems
