"""The visible passages of documents, from Postgres: active versions of documents in the scope, nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from hardwon.models.documents import Document, DocumentId, DocumentStatus, Passage, PassageId, PassageKind
from knowledge.adapters.postgres.document_tables import (
    kb_chunks,
    kb_documents,
    kb_partitions,
    kb_scales,
    kb_terms,
    kb_vectors,
    kb_versions,
)
from knowledge.adapters.postgres.documents.rows import (
    ALIVE,
    COUNTED,
    PASSAGE_COLUMNS,
    PASSAGES_COUNT,
    SHOWN,
    C,
    D,
    V,
    in_scope,
    to_document,
    to_passage,
)
from knowledge.adapters.postgres.documents.rows import documents as select_documents
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.documents.access import Scope
from knowledge.documents.models import PartitionVersion, WholeDocument
from knowledge.documents.ports import PassageStore
from knowledge.models import EmbeddingSpace, TermStatistics, Vector

_END = 2**31 - 1
"""The end of a passage that is a whole document."""
_IDS = sa.ARRAY(sa.UUID)
_ACTIVE = sa.and_(C.document_id == D.id, C.generation == D.active_generation)
_ACTIVE_VERSION = sa.and_(V.document_id == D.id, V.generation == D.active_generation)


def _scope_names(scope: Scope) -> sa.ColumnElement[list[str]]:
    return sa.literal(list(scope.partitions), sa.ARRAY(sa.Text))


class PostgresPassages(WorkspaceStore, PassageStore):
    """Passages of one workspace."""

    async def passages(self, passage_ids: Sequence[PassageId], scope: Scope) -> list[Passage]:
        query = (
            sa.select(*PASSAGE_COLUMNS)
            .select_from(kb_chunks.join(kb_documents, _ACTIVE).join(kb_versions, _ACTIVE_VERSION))
            .where(C.id == sa.any_(sa.literal(list(passage_ids), _IDS)), self._is_visible(scope))
        )
        return [to_passage(row) for row in await self._all(query)]

    async def visible(self, passages: Sequence[Passage], scope: Scope) -> Mapping[PassageId, str]:
        if not passages:
            return {}
        spans = [
            (
                n,
                each.document_id,
                each.generation,
                each.char_start or 0,
                _END if each.char_end is None else each.char_end,
            )
            for n, each in enumerate(passages)
        ]
        kinds: tuple[type[sa.types.TypeEngine[Any]], ...] = (sa.Integer, sa.UUID, sa.Integer, sa.Integer, sa.Integer)
        arrays: list[sa.ColumnElement[Any]] = [
            sa.literal(list(values), sa.ARRAY(kind))
            for values, kind in zip(zip(*spans, strict=True), kinds, strict=True)
        ]
        names = ("n", "document_id", "generation", "char_start", "char_end")
        columns: list[sa.ColumnClause[Any]] = [sa.column(name, kind) for name, kind in zip(names, kinds, strict=True)]
        spans_table = sa.func.unnest(*arrays).table_valued(*columns, name="given").render_derived()
        piece = sa.func.substr(V.text, spans_table.c.char_start + 1, spans_table.c.char_end - spans_table.c.char_start)
        query = (
            sa.select(spans_table.c.n, piece.label("piece"))
            .select_from(
                spans_table.join(kb_documents, D.id == spans_table.c.document_id).join(
                    kb_versions, sa.and_(V.document_id == D.id, V.generation == spans_table.c.generation)
                )
            )
            .where(in_scope(scope, self._workspace), ALIVE, V.generation.in_([D.active_generation, COUNTED]))
        )
        rows = await self._all(query)
        found: dict[PassageId, str] = {}
        for row in rows:
            passage = passages[row.n]
            match passage.kind:
                case PassageKind.CHUNK | PassageKind.DOCUMENT:
                    found[passage.passage_id] = row.piece
                case PassageKind.COMPUTED:
                    found[passage.passage_id] = passage.text
                case PassageKind.SUMMARY:
                    continue
        return found

    async def versions(self, scope: Scope) -> tuple[PartitionVersion, ...]:
        p = kb_partitions.c
        in_partitions = sa.and_(p.workspace == self._workspace, p.partition == sa.any_(_scope_names(scope)))
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(sa.select(p.partition, p.version).where(in_partitions))
            found = {row.partition: row.version for row in rows}
        return tuple(
            PartitionVersion(partition=name, version=found.get(name, 0)) for name in sorted(set(scope.partitions))
        )

    async def documents(self, scope: Scope) -> list[Document]:
        query = select_documents(D.active_generation).where(self._is_visible(scope)).order_by(V.title, D.uri)
        return [to_document(row) for row in await self._all(query)]

    async def whole(self, scope: Scope, documents: Collection[DocumentId] | None = None) -> list[WholeDocument]:
        query = (
            select_documents(D.active_generation)
            .add_columns(V.text)
            .where(self._is_visible(scope))
            .order_by(V.title, D.uri)
        )
        if documents is not None:
            query = query.where(D.id == sa.any_(sa.literal(list(documents), _IDS)))
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(query)
            return [WholeDocument(document=to_document(row), text=row.text) for row in rows]

    async def counts(self, scope: Scope) -> tuple[int, int]:
        pending = D.status == DocumentStatus.PENDING
        query = sa.select(sa.func.count().filter(SHOWN), sa.func.count().filter(pending)).where(
            in_scope(scope, self._workspace)
        )
        shown, waiting = await self._one(query)
        return shown, waiting

    async def statistics(self, scope: Scope, terms: Sequence[int]) -> TermStatistics:
        t = kb_terms.c
        ours = (t.workspace == self._workspace, t.partition == sa.any_(_scope_names(scope)))
        wanted = sa.literal([*terms, PASSAGES_COUNT], sa.ARRAY(sa.BigInteger))
        query = (
            sa.select(t.term, sa.cast(sa.func.sum(t.passages), sa.BigInteger).label("passages"))
            .where(*ours, t.term == sa.any_(wanted))
            .group_by(t.term)
        )
        found = {row.term: row.passages for row in await self._all(query)}
        return TermStatistics(documents=found.pop(PASSAGES_COUNT, 0), frequencies=found)

    async def sample(self, space: EmbeddingSpace, limit: int) -> list[tuple[str, Vector]]:
        k = kb_vectors.c
        query = (
            sa.select(C.text, k.vector)
            .select_from(kb_chunks.join(kb_documents, _ACTIVE).join(kb_vectors, k.text_hash == C.text_hash))
            .where(D.workspace == self._workspace, SHOWN, k.workspace == self._workspace, k.space == space.fingerprint)
            .where(C.kind == PassageKind.CHUNK)
            .order_by(C.id)  # ids are hashes: the first ones are a fair sample
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(query)
            return [(row.text, np.frombuffer(row.vector, dtype=np.float16).astype(np.float32)) for row in rows]

    async def scale(self, space: EmbeddingSpace) -> tuple[float, float] | None:
        s = kb_scales.c
        query = sa.select(s.low, s.high).where(s.workspace == self._workspace, s.space == space.fingerprint)
        row = await self._first(query)
        return None if row is None else (row.low, row.high)

    async def keep_scale(self, space: EmbeddingSpace, low: float, high: float, passages: int) -> None:
        values = {"low": low, "high": high, "passages": passages}
        new = insert(kb_scales).values(workspace=self._workspace, space=space.fingerprint, **values)
        upsert = new.on_conflict_do_update(
            index_elements=[kb_scales.c.workspace, kb_scales.c.space], set_={**values, "measured_at": sa.func.now()}
        )
        await self._write(upsert)

    def _is_visible(self, scope: Scope) -> sa.ColumnElement[bool]:
        return sa.and_(in_scope(scope, self._workspace), SHOWN)
