"""The documents of a workspace's partitions, in Postgres, and the grants that open them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict, NotFound
from hardwon.models.documents import Document, DocumentId, DocumentStatus, SourceId
from knowledge.adapters.postgres.document_tables import kb_documents, kb_grants, kb_partitions, kb_sources, kb_versions
from knowledge.adapters.postgres.documents.rows import (
    ALIVE,
    NEWEST,
    D,
    V,
    bump_version,
    documents,
    hide,
    is_alive,
    is_named,
    lock_partition,
    to_document,
    write_lines,
)
from knowledge.adapters.postgres.engine.database import CompiledQuery, WorkspaceStore, autocommit, transaction
from knowledge.documents.access import Base, Grants
from knowledge.documents.ports import DocumentStore, ReceivedDocument

# made once: adding a small document takes as long for building its statements as for running them
_OF_URI = sa.and_(
    D.workspace == sa.bindparam("workspace"),
    D.partition == sa.bindparam("partition"),
    is_named(sa.bindparam("uri", type_=sa.Text)),
    ALIVE,
)
_MARK = CompiledQuery(sa.select(D.mark, D.content_hash).where(_OF_URI, D.status != DocumentStatus.FAILED))
_BEFORE = documents(D.latest).add_columns(V.text_hash).where(_OF_URI).with_for_update(of=kb_documents)
_NEW_DOCUMENT = insert(kb_documents).returning(D.added_at)
_NEW_VERSION = insert(kb_versions)
_UNKNOWN = (
    "active_generation",
    "indexed_at",
    "title",
    "document_type",
    "category",
    "tags",
    "lines",
    "characters",
    "notes",
)
_NOT_INDEXED: dict[str, Any] = dict.fromkeys(_UNKNOWN)
"""The columns of a document that is not indexed yet, or cannot be read."""
_STORED = documents(NEWEST).where(D.id == sa.bindparam("document_id"))
_P = kb_partitions.c
_S = kb_sources.c


class PostgresDocuments(WorkspaceStore, DocumentStore):
    """Documents of one workspace."""

    async def latest_mark_and_hash(self, partition: str, uri: str) -> tuple[str | None, str] | None:
        key = {"workspace": self._workspace, "partition": partition, "uri": uri}
        for row in await self._fetch(_MARK, key):
            return row["mark"], row["content_hash"]
        return None

    async def put(self, partition: str, received: ReceivedDocument) -> tuple[Document, bool]:
        async with transaction(self._engine) as connection:
            where = await lock_partition(connection, self._workspace, partition)
            if where.closed_at is not None:
                raise Conflict(f"{partition} is closed: it takes no documents any more")
            await _check_source(connection, received.source_id)
            key = {"workspace": self._workspace, "partition": partition, "uri": received.uri}
            before = (await connection.execute(_BEFORE, key)).first()
            new = before is None or _differs(before, received)
            if before is None:
                document = await self._add(connection, partition, received)
            else:
                await self._update(connection, before, received, new=new)
                document = to_document((await connection.execute(_STORED, {"document_id": before.id})).one())
            if new and received.lines:
                await bump_version(connection, self._workspace, partition)
        return document, new

    async def _add(self, connection: AsyncConnection, partition: str, received: ReceivedDocument) -> Document:
        row = {
            "id": uuid4(),
            "workspace": self._workspace,
            "partition": partition,
            "uri": received.uri,
            "name": received.uri.rsplit("/", 1)[-1],
            "latest": 1,
            **_document_values(received),
        }
        added_at = await connection.scalar(_NEW_DOCUMENT, row)
        version = await _write_version(connection, row["id"], 1, received)
        return to_document(SimpleNamespace(**_NOT_INDEXED | row | version, added_at=added_at))

    async def _update(
        self, connection: AsyncConnection, before: sa.Row[Any], received: ReceivedDocument, *, new: bool
    ) -> None:
        update = sa.update(kb_documents).where(D.id == before.id)
        if not new:
            unchanged = {
                name: value for name, value in _document_values(received).items() if name not in {"status", "error"}
            }
            await connection.execute(update.values(**unchanged))
            return
        latest = before.latest if received.parsed is None else before.latest + 1
        again = {"attempts": 0, "not_before": None, "lease_token": None, "lease_until": None}
        await connection.execute(update.values(**_document_values(received), latest=latest, **again))
        await _write_version(connection, before.id, latest, received)

    async def get(self, partition: str, document_id: DocumentId) -> Document:
        return await self._get_one(partition, D.id == document_id)

    async def get_by_uri(self, partition: str, uri: str) -> Document:
        return await self._get_one(partition, is_named(uri))

    async def _get_one(self, partition: str, which: sa.ColumnElement[bool]) -> Document:
        query = documents(NEWEST).where(self._is_in(partition), which)
        row = await self._first(query)
        if row is None:
            raise NotFound(f"there is no such document in {partition}")
        return to_document(row)

    async def list_documents(self, partition: str, *, limit: int, after: str | None = None) -> list[Document]:
        query = documents(NEWEST).where(self._is_in(partition)).order_by(D.uri, D.id).limit(limit)
        if after is not None:
            query = query.where(D.uri > after)
        return [to_document(row) for row in await self._all(query)]

    async def marks(self, partition: str, source_id: SourceId) -> Mapping[str, tuple[DocumentId, str | None]]:
        query = sa.select(D.uri, D.id, D.mark).where(self._is_in(partition), D.source_id == source_id)
        return {row.uri: (DocumentId(row.id), row.mark) for row in await self._all(query)}

    async def retry(self, partition: str) -> int:
        has_text = sa.exists().where(V.document_id == D.id, V.generation == D.latest)
        is_stuck = sa.and_(self._is_in(partition), D.status == DocumentStatus.FAILED, has_text)
        is_newer = D.active_generation.is_distinct_from(D.latest)
        is_delayed = sa.and_(self._is_in(partition), D.status == DocumentStatus.PENDING, D.not_before.is_not(None))
        waiting = sa.select(D.id).where(sa.or_(sa.and_(is_stuck, is_newer), is_delayed))
        in_order = waiting.order_by(D.id).with_for_update()  # as indexing does: no deadlocks
        values = {"status": DocumentStatus.PENDING, "error": None, "attempts": 0, "not_before": None}
        return await self._write(sa.update(kb_documents).where(D.id.in_(in_order)).values(**values))

    async def hide(self, partition: str, document_ids: Collection[DocumentId]) -> int:
        is_requested = D.id == sa.any_(sa.literal(list(document_ids), sa.ARRAY(sa.UUID)))
        async with transaction(self._engine) as connection:
            await lock_partition(connection, self._workspace, partition)
            return await hide(connection, self._workspace, partition, is_requested)

    async def forget_partition(self, partition: str) -> int:
        async with transaction(self._engine) as connection:
            await lock_partition(connection, self._workspace, partition)
            hidden = await hide(connection, self._workspace, partition, sa.true())
            gone = sa.delete(kb_sources).where(_S.workspace == self._workspace, _S.partition == partition)
            await connection.execute(gone)  # otherwise the next sync would restore everything
            return hidden

    async def close(self, partition: str, *, keep_for: timedelta = timedelta(0)) -> int:
        async with transaction(self._engine) as connection:
            row = await lock_partition(connection, self._workspace, partition)
            if row.closed_at is None:
                closed = sa.update(kb_partitions).where(_P.workspace == self._workspace, _P.partition == partition)
                await connection.execute(closed.values(closed_at=sa.func.now() + keep_for))
            return 0 if keep_for else await hide(connection, self._workspace, partition, sa.true())

    async def close_due(self) -> int:
        has_documents = sa.exists().where(D.workspace == _P.workspace, D.partition == _P.partition, ALIVE)
        due = sa.select(_P.partition).where(
            _P.workspace == self._workspace, _P.closed_at <= sa.func.now(), has_documents
        )
        partitions = list(await self._scalars(due.order_by(_P.partition)))
        return sum([await self.forget_partition(partition) for partition in partitions])

    def _is_in(self, partition: str) -> sa.ColumnElement[bool]:
        return is_alive(self._workspace, partition)


async def _check_source(connection: AsyncConnection, source_id: SourceId | None) -> None:
    """Lock a source until the transaction ends. Raises NotFound if it was deleted."""
    if source_id is None:
        return
    source = sa.select(_S.id).where(_S.id == source_id).with_for_update(read=True, key_share=True)
    if (await connection.execute(source)).first() is None:
        raise NotFound(f"the source {source_id} was deleted: nothing more is taken from it")


def _document_values(received: ReceivedDocument) -> dict[str, Any]:
    return {
        "link": received.link,
        "source_id": received.source_id,
        "mark": received.mark,
        "content_hash": received.content_hash,
        "status": DocumentStatus.PENDING if received.parsed else DocumentStatus.FAILED,
        "error": received.refused,
    }


def _version_values(received: ReceivedDocument) -> dict[str, Any]:
    parsed = received.parsed
    assert parsed is not None  # noqa: S101 - checked by the caller
    return {
        "title": received.title or parsed.title or received.uri.rsplit("/", 1)[-1],
        "document_type": str(parsed.document_type),
        "category": received.category or parsed.category,
        "tags": list(received.tags or parsed.tags),
        "text_hash": parsed.text_hash,
    }


def _differs(before: sa.Row[Any], received: ReceivedDocument) -> bool:
    """Return whether a version differs: in its text, its metadata, or because it cannot be read."""
    if received.parsed is None:
        return bool(before.status != DocumentStatus.FAILED or before.error != received.refused)
    if before.text_hash is None or before.status == DocumentStatus.FAILED:
        return True
    return any(getattr(before, name) != value for name, value in _version_values(received).items())


async def _write_version(
    connection: AsyncConnection, document_id: UUID, generation: int, received: ReceivedDocument
) -> dict[str, Any]:
    """Write a version to be indexed, and the lines of a log, which are counted from now on; return its columns."""
    if received.parsed is None:
        return {}
    parsed = received.parsed
    row = {
        "document_id": document_id,
        "generation": generation,
        **_version_values(received),
        "text": parsed.text,
        "lines": parsed.text.count("\n") + (not parsed.text.endswith("\n") and bool(parsed.text)),
        "pages": list(parsed.pages),
        "notes": list(parsed.notes),
    }
    await connection.execute(_NEW_VERSION, row)
    await write_lines(connection, document_id, generation, received.lines)
    return row | {"characters": len(parsed.text)}


class PostgresGrants(WorkspaceStore, Grants):
    """Grants of one workspace."""

    async def has_access(self, base: str, scope_id: str, principal: str) -> bool:
        is_granted = sa.exists().where(*self._is_grant(base, scope_id, principal))
        return bool(await self._scalar(sa.select(is_granted)))

    async def accessible_scopes(self, base: str, principal: str) -> list[str]:
        g = kb_grants.c
        query = sa.select(g.scope_id).where(g.workspace == self._workspace, g.kb == base, g.principal == principal)
        return list(await self._scalars(query.order_by(g.scope_id)))

    async def scopes(self, base: Base) -> list[str]:
        query = sa.select(D.partition).where(D.workspace == self._workspace, ALIVE).distinct().order_by(D.partition)
        async with autocommit(self._engine) as connection:
            found = (await connection.execute(query)).scalars()
            return [scope_id for partition in found if (scope_id := base.scope_id(partition)) is not None]

    async def grant(self, base: str, scope_id: str, principal: str) -> None:
        row = {"workspace": self._workspace, "kb": base, "scope_id": scope_id, "principal": principal}
        await self._write(insert(kb_grants).values(**row).on_conflict_do_nothing())

    async def revoke(self, base: Base, scope_id: str, principal: str) -> bool:
        partition = base.partition(scope_id)
        gone = sa.delete(kb_grants).where(*self._is_grant(base.name, scope_id, principal))
        async with transaction(self._engine) as connection:
            had = bool((await connection.execute(gone)).rowcount)
            if had:
                await lock_partition(connection, self._workspace, partition)
                await bump_version(connection, self._workspace, partition)
            return had

    async def grantees(self, base: str, scope_id: str) -> list[str]:
        g = kb_grants.c
        query = sa.select(g.principal).where(g.workspace == self._workspace, g.kb == base, g.scope_id == scope_id)
        return list(await self._scalars(query.order_by(g.principal)))

    def _is_grant(self, base: str, scope_id: str, principal: str) -> tuple[sa.ColumnElement[bool], ...]:
        g = kb_grants.c
        return g.workspace == self._workspace, g.kb == base, g.scope_id == scope_id, g.principal == principal
