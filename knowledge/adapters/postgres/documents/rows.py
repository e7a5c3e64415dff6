"""Conversion of rows to documents and passages, and the conditions for showing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import NoAccess
from hardwon.models.documents import (
    Document,
    DocumentId,
    DocumentStatus,
    DocumentType,
    LogLine,
    Passage,
    PassageId,
    PassageKind,
    Severity,
    SourceId,
)
from knowledge.adapters.postgres.document_tables import (
    answer_cache,
    kb_chunks,
    kb_documents,
    kb_lines,
    kb_partitions,
    kb_terms,
    kb_versions,
)
from knowledge.documents.access import Scope

D = kb_documents.c
V = kb_versions.c
C = kb_chunks.c

PASSAGES_COUNT = -1
"""The term whose row counts the passages themselves; real terms are not negative."""

ALIVE = D.status != sa.literal_column("'deleting'")
SHOWN = sa.and_(ALIVE, D.active_generation.is_not(None))

_STORED = kb_lines.alias("stored")
COUNTED = sa.case(
    (sa.exists().where(_STORED.c.document_id == D.id, _STORED.c.generation == D.latest), D.latest),
    else_=D.active_generation,
)
"""The generation whose lines are counted: the latest one, as soon as its lines are stored, else the one shown."""


def in_scope(scope: Scope, workspace: str) -> sa.ColumnElement[bool]:
    """Return the condition that a document belongs to a scope. Raises NoAccess for one of another workspace."""
    if scope.workspace != workspace:
        raise NoAccess(f"A scope of workspace {scope.workspace} opens nothing of {workspace}.")
    return sa.and_(
        D.workspace == workspace, D.partition == sa.any_(sa.literal(list(scope.partitions), sa.ARRAY(sa.Text)))
    )


def is_alive(workspace: str, partition: str) -> sa.ColumnElement[bool]:
    """Return the condition that a document belongs to a partition and is not being deleted."""
    return sa.and_(D.workspace == workspace, D.partition == partition, ALIVE)


def is_named(uri: str | sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a document has a uri, in the form that the index of uris serves."""
    return sa.and_(sa.func.md5(D.uri) == sa.func.md5(uri), D.uri == uri)


def documents(generation: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select documents with the columns of their version of a generation, if it exists."""
    version = sa.and_(V.document_id == D.id, V.generation == generation)
    return sa.select(
        kb_documents,
        V.title,
        V.document_type,
        V.category,
        V.tags,
        V.lines,
        V.notes,
        sa.func.length(V.text).label("characters"),
    ).select_from(kb_documents.outerjoin(kb_versions, version))


NEWEST = sa.func.coalesce(D.active_generation, D.latest)
"""The generation that is shown, else the latest one."""


def to_document(row: Any) -> Document:
    """Convert a row of `documents`, or a new document's columns."""
    return Document(
        document_id=DocumentId(row.id),
        partition=row.partition,
        uri=row.uri,
        name=row.name,
        title=row.title or row.name,
        document_type=DocumentType(row.document_type or DocumentType.TEXT),
        category=row.category,
        tags=tuple(row.tags or ()),
        link=row.link,
        version=row.active_generation or row.latest,
        status=DocumentStatus(row.status),
        error=row.error,
        generation=row.active_generation,
        waiting=row.status == DocumentStatus.PENDING,
        lines=row.lines or 0,
        characters=row.characters or 0,
        content_hash=row.content_hash,
        added_at=row.added_at,
        indexed_at=row.indexed_at,
        notes=tuple(row.notes or ()),
        source_id=SourceId(row.source_id) if row.source_id else None,
    )


PASSAGE_COLUMNS = (
    *(C[name] for name in ("id", "kind", "text", "section", "function", "page", "char_start", "char_end")),
    *(C[name] for name in ("line_start", "line_end", "ts", "until", "severities", "generation", "ordinal")),
    *(D[name] for name in ("partition", "name", "uri", "link")),
    *(V[name] for name in ("title", "document_type", "category", "tags")),
    D.id.label("document_id"),
)


def to_passage(row: sa.Row[Any]) -> Passage:
    """Convert a row of `PASSAGE_COLUMNS`, without scores."""
    severities = [Severity(severity) for severity in row.severities]
    return Passage(
        passage_id=PassageId(row.id),
        kind=PassageKind(row.kind),
        document_id=DocumentId(row.document_id),
        partition=row.partition,
        text=row.text,
        title=row.title,
        name=row.name,
        uri=row.uri,
        link=row.link,
        document_type=DocumentType(row.document_type),
        category=row.category,
        tags=tuple(row.tags),
        version=row.generation,
        section=row.section,
        function=row.function,
        page=row.page,
        line_start=row.line_start,
        line_end=row.line_end,
        char_start=row.char_start,
        char_end=row.char_end,
        timestamp=finite_time(row.ts),
        until=finite_time(row.until),
        severity=max(severities, key=list(Severity).index, default=None),
        generation=row.generation,
        ordinal=row.ordinal,
    )


def finite_time(stored: datetime | None) -> datetime | None:
    """Return a time of a log, None for the first and the last time there are, from which nothing can be counted.

    The version before stored these two for logs without beginning or end.
    """
    return stored if stored is not None and MINYEAR < stored.year < MAXYEAR else None


_OF_PARTITION = (
    kb_partitions.c.workspace == sa.bindparam("workspace"),
    kb_partitions.c.partition == sa.bindparam("partition"),
)
_LOCK_PARTITION = sa.select(kb_partitions).where(*_OF_PARTITION).with_for_update()
_NEW_PARTITION = insert(kb_partitions).on_conflict_do_nothing()


async def lock_partition(connection: AsyncConnection, workspace: str, partition: str) -> sa.Row[Any]:
    """Return a partition's row, created if there is none, locked until the transaction ends."""
    key = {"workspace": workspace, "partition": partition}
    row = (await connection.execute(_LOCK_PARTITION, key)).first()
    if row is None:
        await connection.execute(_NEW_PARTITION, key)
        row = (await connection.execute(_LOCK_PARTITION, key)).one()
    return row


async def bump_version(connection: AsyncConnection, workspace: str, partition: str) -> None:
    """Increment the version of a partition, because something visible changed. The caller holds its lock.

    Deletes cached answers: they belong to an older version, and may quote what nobody may see any more.
    """
    later = (
        sa.update(kb_partitions).where(*_is_partition(workspace, partition)).values(version=kb_partitions.c.version + 1)
    )
    await connection.execute(later)
    is_cached = sa.and_(
        answer_cache.c.workspace == workspace, sa.literal(partition) == sa.any_(answer_cache.c.partitions)
    )
    # in one order: two partitions of the same answers may change at once
    keys = sa.select(answer_cache.c.key).where(is_cached).order_by(answer_cache.c.key).with_for_update()
    await connection.execute(sa.delete(answer_cache).where(is_cached, answer_cache.c.key.in_(keys)))


def _is_partition(workspace: str, partition: str) -> tuple[sa.ColumnElement[bool], ...]:
    return kb_partitions.c.workspace == workspace, kb_partitions.c.partition == partition


async def count_terms(
    connection: AsyncConnection, workspace: str, partition: str, shown: sa.ColumnElement[bool], sign: int
) -> None:
    """Add the terms of some passages to those of their partition, or subtract them. The caller holds the lock."""
    term = sa.func.unnest(sa.func.array_append(C.terms, sa.literal(PASSAGES_COUNT, sa.BigInteger))).label("term")
    each = sa.select(term).select_from(kb_chunks.join(kb_documents, D.id == C.document_id)).where(shown).subquery()
    counts = sa.select(sa.literal(workspace), sa.literal(partition), each.c.term, sign * sa.func.count()).group_by(
        each.c.term
    )
    new = insert(kb_terms).from_select(["workspace", "partition", "term", "passages"], counts)
    add = new.on_conflict_do_update(
        index_elements=[kb_terms.c.workspace, kb_terms.c.partition, kb_terms.c.term],
        set_={"passages": kb_terms.c.passages + new.excluded.passages},
    )
    await connection.execute(add)
    if sign < 0:
        ours = (kb_terms.c.workspace == workspace, kb_terms.c.partition == partition)
        await connection.execute(sa.delete(kb_terms).where(*ours, kb_terms.c.passages <= 0))


async def hide(connection: AsyncConnection, workspace: str, partition: str, conditions: sa.ColumnElement[bool]) -> int:
    """Hide documents of a partition for good; return how many. The caller holds its lock.

    Their passages are subtracted from the counts while they can still be identified.
    """
    ours = sa.and_(is_alive(workspace, partition), conditions)
    shown = sa.and_(ours, SHOWN, C.generation == D.active_generation)
    await count_terms(connection, workspace, partition, shown, -1)
    in_order = sa.select(D.id).where(ours).order_by(D.id).with_for_update()  # as indexing does: no deadlocks
    gone = sa.update(kb_documents).where(D.id.in_(in_order))
    values = {"status": DocumentStatus.DELETING, "lease_token": None, "lease_until": None, "error": None}
    hidden = (await connection.execute(gone.values(**values))).rowcount
    if hidden:
        await bump_version(connection, workspace, partition)
    return hidden


_LINES_AT_ONCE = 5000
"""Log lines written by one statement."""


async def write_lines(
    connection: AsyncConnection, document_id: UUID, generation: int, lines: Sequence[LogLine]
) -> None:
    """Write the lines of a generation of a log."""
    for start in range(0, len(lines), _LINES_AT_ONCE):
        some = lines[start : start + _LINES_AT_ONCE]
        rows = sa.select(
            sa.literal(document_id, sa.UUID),
            sa.literal(generation, sa.Integer),
            _unnest([each.line for each in some], sa.Integer()),
            _unnest([each.timestamp for each in some], sa.DateTime(timezone=True)),
            _unnest([each.severity and str(each.severity) for each in some], sa.Text()),
            _unnest([each.template for each in some], sa.Text()),
            _unnest([each.text for each in some], sa.Text()),
        )
        columns = ["document_id", "generation", "line", "ts", "severity", "template", "text"]
        await connection.execute(insert(kb_lines).from_select(columns, rows))


def _unnest(values: Sequence[object], kind: sa.types.TypeEngine[Any]) -> sa.ColumnElement[Any]:
    return sa.func.unnest(sa.literal(list(values), sa.ARRAY(kind)))


def to_line(row: sa.Row[tuple[object, ...]]) -> LogLine:
    """Convert a row of lines."""
    told = row._mapping  # noqa: SLF001 - SQLAlchemy's name for it
    return LogLine(
        line=told["line"],
        text=told["text"],
        timestamp=finite_time(told["ts"]),
        severity=told["severity"] and Severity(told["severity"]),
        template=told["template"],
    )
