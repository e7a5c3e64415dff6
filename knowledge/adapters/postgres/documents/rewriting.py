"""The latest versions of the documents of a workspace in Postgres, to be replaced by redacted ones."""

from __future__ import annotations

from hashlib import sha256

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from hardwon.models.documents import DocumentId, DocumentStatus, DocumentType
from knowledge.adapters.postgres.document_tables import kb_documents, kb_versions
from knowledge.adapters.postgres.documents.rows import (
    ALIVE,
    D,
    V,
    bump_version,
    hide,
    is_alive,
    is_named,
    lock_partition,
)
from knowledge.adapters.postgres.engine.database import WorkspaceStore, transaction
from knowledge.documents.ingestion.document_redaction import RedactedDocument, RewritingStore, StoredDocument

_COLUMNS = (V.title, V.category, V.tags, V.document_type, V.text, V.pages, V.notes)


class PostgresRewriting(WorkspaceStore, RewritingStore):
    """Documents of one workspace."""

    async def page(self, *, after: DocumentId | None, limit: int) -> list[StoredDocument]:
        latest = sa.and_(V.document_id == D.id, V.generation == D.latest)
        query = (
            sa.select(D.id, D.partition, D.uri, D.latest, *_COLUMNS)
            .select_from(kb_documents.join(kb_versions, latest))
            .where(D.workspace == self._workspace, ALIVE)
            .order_by(D.id)
            .limit(limit)
        )
        if after is not None:
            query = query.where(D.id > after)
        return [
            StoredDocument(
                document_id=DocumentId(row.id),
                partition=row.partition,
                generation=row.latest,
                uri=row.uri,
                title=row.title,
                category=row.category,
                tags=tuple(row.tags),
                document_type=DocumentType(row.document_type),
                text=row.text,
                pages=tuple(row.pages),
                notes=tuple(row.notes),
            )
            for row in await self._all(query)
        ]

    async def replace(self, stored: StoredDocument, redacted: RedactedDocument) -> bool:
        is_it = D.id == stored.document_id
        async with transaction(self._engine) as connection:
            await lock_partition(connection, self._workspace, stored.partition)
            locked = sa.select(D.latest).where(is_it, ALIVE).with_for_update()
            if await connection.scalar(locked) != stored.generation:
                return False
            other = sa.exists().where(is_alive(self._workspace, stored.partition), is_named(redacted.uri), ~is_it)
            if await connection.scalar(sa.select(other)):
                await hide(connection, self._workspace, stored.partition, is_it)
                return True
            await connection.execute(
                insert(kb_versions).values(
                    document_id=stored.document_id,
                    generation=stored.generation + 1,
                    title=redacted.title,
                    document_type=str(stored.document_type),
                    category=redacted.category,
                    tags=list(redacted.tags),
                    text=redacted.parsed.text,
                    text_hash=redacted.parsed.text_hash,
                    lines=redacted.parsed.text.count("\n")
                    + (not redacted.parsed.text.endswith("\n") and bool(redacted.parsed.text)),
                    pages=list(redacted.parsed.pages),
                    notes=list(redacted.notes),
                )
            )
            # the hashes of texts with a secret go, too: it could be guessed of them
            kept = sa.func.jsonb_build_object(str(stored.generation + 1), redacted.parsed.text_hash)
            await connection.execute(
                sa.update(kb_documents)
                .where(is_it)
                .values(
                    uri=redacted.uri,
                    name=redacted.uri.rsplit("/", 1)[-1],
                    latest=stored.generation + 1,
                    content_hash=sha256(redacted.parsed.text_hash.encode()).hexdigest(),
                    text_hashes=kept,
                    status=DocumentStatus.PENDING,
                    error=None,
                    attempts=0,
                    not_before=None,
                    lease_token=None,
                    lease_until=None,
                )
            )
            await bump_version(connection, self._workspace, stored.partition)
        return True
