"""Git repositories as sources of documents, in Postgres."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from hardwon.errors import Conflict, NotFound
from hardwon.models.documents import SourceId
from knowledge.adapters.postgres.document_tables import kb_partitions, kb_sources
from knowledge.adapters.postgres.documents.rows import D, hide, lock_partition
from knowledge.adapters.postgres.engine.database import WorkspaceStore, transaction
from knowledge.documents.ports import Source, SourceStore

_S = kb_sources.c


class PostgresSources(WorkspaceStore, SourceStore):
    """Sources of one workspace."""

    async def add(self, source: Source) -> Source:
        settings = {"branch": source.branch, "globs": list(source.globs)}
        new = insert(kb_sources).values(
            id=source.source_id,
            workspace=self._workspace,
            partition=source.partition,
            url=source.url,
            subdir=source.subdir,
            **settings,
        )
        upsert = new.on_conflict_do_update(constraint="kb_sources_url", set_=settings).returning(kb_sources)
        async with transaction(self._engine) as connection:
            where = await lock_partition(connection, self._workspace, source.partition)
            if where.closed_at is not None:
                raise Conflict(f"{source.partition} is closed: it takes no documents any more")
            return _to_source((await connection.execute(upsert)).one())

    async def of(self, partition: str | None) -> list[Source]:
        p = kb_partitions.c
        closed = sa.exists().where(p.workspace == _S.workspace, p.partition == _S.partition, p.closed_at.is_not(None))
        query = sa.select(kb_sources).where(_S.workspace == self._workspace, ~closed).order_by(_S.url, _S.id)
        if partition is not None:
            query = query.where(_S.partition == partition)
        return [_to_source(row) for row in await self._all(query)]

    async def sources_of_closed_cases(self) -> list[Source]:
        p = kb_partitions.c
        of_it = sa.and_(p.workspace == _S.workspace, p.partition == _S.partition, p.closed_at <= sa.func.now())
        query = sa.select(kb_sources).join(kb_partitions, of_it).where(_S.workspace == self._workspace)
        return [_to_source(row) for row in await self._all(query.order_by(_S.id))]

    async def record_sync(self, source_id: SourceId, *, commit: str | None, error: str | None) -> None:
        values: dict[str, Any] = {"last_error": error}
        if commit is not None:
            values |= {"last_commit": commit, "synced_at": sa.func.now()}
        await self._write(sa.update(kb_sources).where(_S.id == source_id).values(**values))

    async def delete(self, partition: str, source_id: SourceId) -> int:
        this = (_S.workspace == self._workspace, _S.partition == partition, _S.id == source_id)
        async with transaction(self._engine) as connection:
            await lock_partition(connection, self._workspace, partition)
            if (await connection.execute(sa.select(_S.id).where(*this).with_for_update())).first() is None:
                raise NotFound(f"there is no source {source_id} in {partition}")
            hidden = await hide(connection, self._workspace, partition, D.source_id == source_id)
            await connection.execute(sa.delete(kb_sources).where(*this))
            return hidden


def _to_source(row: sa.Row[Any]) -> Source:
    return Source(
        source_id=SourceId(row.id),
        partition=row.partition,
        url=row.url,
        branch=row.branch,
        subdir=row.subdir,
        globs=tuple(row.globs),
        last_commit=row.last_commit,
        last_error=row.last_error,
        synced_at=row.synced_at,
    )
