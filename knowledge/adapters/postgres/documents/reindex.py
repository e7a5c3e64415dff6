"""Passages with and without embeddings in a space, in Postgres, for a change of embedding model."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from knowledge.adapters.postgres.document_tables import (
    kb_chunks,
    kb_documents,
    kb_scales,
    kb_vectors,
    kb_versions,
)
from knowledge.adapters.postgres.documents.rows import SHOWN, C, D, V
from knowledge.adapters.postgres.engine.database import WorkspaceStore, transaction
from knowledge.adapters.postgres.memory.spaces import read_vectors
from knowledge.documents.ingestion.reindex import MovingStore
from knowledge.documents.parsing.passage_text import with_headings
from knowledge.models import EmbeddingSpace, Vector

_K = kb_vectors.c
_ACTIVE = sa.and_(D.id == C.document_id, D.active_generation == C.generation)
_VERSION = sa.and_(V.document_id == C.document_id, V.generation == C.generation)


class PostgresMoving(WorkspaceStore, MovingStore):
    """Passages of one workspace."""

    async def tally(self, space: EmbeddingSpace) -> tuple[int, int]:
        query = (
            sa.select(sa.func.count().label("every"), sa.func.count().filter(_K.text_hash.is_(None)).label("missing"))
            .select_from(kb_chunks.join(kb_documents, _ACTIVE).outerjoin(kb_vectors, self._has_vector(space)))
            .where(D.workspace == self._workspace, SHOWN)
        )
        row = await self._one(query)
        return row.every, row.missing

    async def missing_texts(self, space: EmbeddingSpace, limit: int) -> Mapping[bytes, str]:
        bare = (
            sa.select(C.text_hash, V.title, C.section, C.function, C.text)
            .select_from(kb_chunks.join(kb_documents, _ACTIVE).join(kb_versions, _VERSION))
            .where(D.workspace == self._workspace, SHOWN, ~sa.exists().where(self._has_vector(space)))
            .order_by(C.text_hash)
            .limit(limit)
        )
        return {
            row.text_hash: with_headings(row.title, row.section, row.function, row.text)
            for row in await self._all(bare)
        }

    async def sample_in_both(self, one: EmbeddingSpace, other: EmbeddingSpace, limit: int) -> tuple[Vector, Vector]:
        again = kb_vectors.alias("again")
        both = (
            sa.select(_K.vector.label("one"), again.c.vector.label("other"))
            .join(again, sa.and_(again.c.workspace == _K.workspace, again.c.text_hash == _K.text_hash))
            .where(_K.workspace == self._workspace, _K.space == one.fingerprint, again.c.space == other.fingerprint)
            .order_by(_K.text_hash)  # hashes: the first ones are a fair sample
            .limit(limit)
        )
        rows = await self._all(both)
        return read_vectors([row.one for row in rows], one), read_vectors([row.other for row in rows], other)

    async def adopt(self, before: EmbeddingSpace, space: EmbeddingSpace) -> int:
        ours = sa.exists().where(D.id == V.document_id, D.workspace == self._workspace)
        update = sa.update(kb_versions).where(V.space == before.fingerprint, ours).values(space=space.fingerprint)
        return await self._write(update)

    async def forget(self, space: EmbeddingSpace) -> None:
        s = kb_scales.c
        ours = (s.workspace == self._workspace, s.space == space.fingerprint)
        async with transaction(self._engine) as connection:
            of_space = (_K.workspace == self._workspace, _K.space == space.fingerprint)
            await connection.execute(sa.delete(kb_vectors).where(*of_space))
            await connection.execute(sa.delete(kb_scales).where(*ours))

    def _has_vector(self, space: EmbeddingSpace) -> sa.ColumnElement[bool]:
        ours = sa.and_(_K.workspace == self._workspace, _K.space == space.fingerprint)
        return sa.and_(ours, _K.text_hash == C.text_hash)
