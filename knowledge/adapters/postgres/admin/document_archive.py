"""Documents of an archive: the rows that it holds, and the counts of terms that it does not hold."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.admin.archive_rows import TABLES
from knowledge.adapters.postgres.document_tables import kb_terms, kb_vectors
from knowledge.adapters.postgres.documents.rows import C, D, V, bump_version, count_terms

_ALIVE = D.status != sa.literal_column("'deleting'")
_SHOWN_OR_NEXT = sa.and_(_ALIVE, sa.or_(V.generation == D.active_generation, V.generation == D.latest))


def exported(table: str) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of the rows that an archive holds: nothing of what is being deleted or was replaced."""
    match table:
        case "kb_documents":
            return (_ALIVE,)
        case "kb_versions":
            return (sa.exists().where(D.id == V.document_id, _SHOWN_OR_NEXT),)
        case "kb_chunks" | "kb_lines":
            rows = TABLES[table].c
            of_it = sa.and_(V.document_id == rows.document_id, V.generation == rows.generation)
            return (sa.exists().where(of_it, D.id == V.document_id, _SHOWN_OR_NEXT),)
        case "kb_vectors":
            k = kb_vectors.c
            return (sa.exists().where(C.text_hash == k.text_hash, D.id == C.document_id, D.workspace == k.workspace),)
        case _:
            return ()


async def count_all_terms(connection: AsyncConnection) -> None:
    """Count the terms of all shown passages anew, in every partition: an archive does not hold them."""
    await connection.execute(sa.delete(kb_terms))
    partitions = sa.select(D.workspace, D.partition).distinct().order_by(D.workspace, D.partition)
    for workspace, partition in (await connection.execute(partitions)).all():
        shown = sa.and_(D.workspace == workspace, D.partition == partition, D.active_generation == C.generation)
        await count_terms(connection, workspace, partition, shown, 1)
        await bump_version(connection, workspace, partition)
