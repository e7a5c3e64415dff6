"""Documents of an archive: the later version wins, be it there or here, and a document is never shown in part.

All is one transaction. A document that is taken has the rows of the archive in the end; what is shown of it here
until then leaves the counts of terms first, and its passages go from the index with the next `reconcile`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict
from knowledge.adapters.postgres.admin.archive_rows import STAGED, TABLES, add, new_rows, put
from knowledge.adapters.postgres.document_tables import (
    kb_chunks,
    kb_documents,
    kb_lines,
    kb_partitions,
    kb_sources,
    kb_vectors,
)
from knowledge.adapters.postgres.documents.rows import C, D, V, bump_version, count_terms

_ALIVE = D.status != sa.literal_column("'deleting'")
_SHOWN_OR_NEXT = sa.and_(_ALIVE, sa.or_(V.generation == D.active_generation, V.generation == D.latest))

TAKEN = sa.Table(
    "archive_taken",
    sa.MetaData(),
    sa.Column("id", UUID(as_uuid=True)),
    sa.Column("workspace", sa.Text),
    sa.Column("partition", sa.Text),
    sa.Column("here", sa.Boolean),
    sa.Column("shown", sa.Integer),
    sa.Column("moves", sa.Boolean),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DROP",
)
"""The documents that are taken from the archive: whether they are here, in which generation they are shown here, and
whether they are shown in another one afterwards."""
_T = TAKEN.c


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


async def _merge_partitions(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    """Take over partitions; what is closed on either side is closed."""
    p = kb_partitions.c
    new = new_rows(table, names)
    closed = sa.and_(p.closed_at.is_(None), new.excluded.closed_at.is_not(None))
    return await put(connection, new, {"closed_at": new.excluded.closed_at}, closed)


async def _merge_sources(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    ours, theirs = kb_sources.c, STAGED[table].c
    same = [ours[name] == theirs[name] for name in ("workspace", "partition", "url", "subdir")]
    query = sa.select(ours.url, ours.partition).where(*same, ours.id != theirs.id).limit(1)
    if row := (await connection.execute(query)).first():
        raise Conflict(
            f"the repository {row.url} is a source of {row.partition} here already, under another id: delete it here"
            " (hardwon kb delete --source), or import into an empty store"
        )
    return await add(connection, table, names)


async def _merge_documents(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    """Insert the documents that are not here, and take over those that are further in the archive."""
    theirs = STAGED[table].c
    p = kb_partitions.c
    named = sa.tuple_(p.workspace, p.partition).in_(sa.select(theirs.workspace, theirs.partition))
    await connection.execute(sa.select(p.partition).where(named).order_by(*p[:2]).with_for_update())
    known = sa.select(D.id).where(D.id.in_(sa.select(theirs.id))).order_by(D.id).with_for_update()
    await connection.execute(known)
    await _refuse_others(connection)
    await connection.execute(_TAKE)
    await _count(connection, _T.shown, -1)
    for each in (kb_chunks, kb_lines):  # what was begun of another generation begins anew
        begun = (each.c.document_id == _T.id, _T.here, each.c.generation.is_distinct_from(_T.shown))
        await connection.execute(sa.delete(each).where(*begun))
    kept = {"id", "workspace", "partition", "uri", "name", "added_at", "text_hashes"}
    values: dict[str, Any] = {name: theirs[name] for name in names if name not in kept}
    values |= {"text_hashes": D.text_hashes.op("||")(theirs.text_hashes), "lease_token": None, "lease_until": None}
    update = sa.update(kb_documents).where(D.id == theirs.id, _T.id == theirs.id, _T.here)
    await connection.execute(update.values({D[name]: value for name, value in values.items()}))
    return await add(connection, table, names, sa.exists().where(_T.id == theirs.id, ~_T.here))


def _take() -> sa.Insert:
    theirs, p = STAGED["kb_documents"].c, kb_partitions.c
    closed = sa.exists().where(
        p.workspace == theirs.workspace, p.partition == theirs.partition, p.closed_at <= sa.func.now()
    )
    here = D.id.is_not(None)
    moves = D.active_generation.is_distinct_from(theirs.active_generation)
    taken = (
        sa.select(theirs.id, theirs.workspace, theirs.partition, here, D.active_generation, moves)
        .select_from(STAGED["kb_documents"].outerjoin(kb_documents, D.id == theirs.id))
        .where(~closed, sa.or_(~here, _further(theirs)))
    )
    return sa.insert(TAKEN).from_select(list(TAKEN.c.keys()), taken)


def _further(theirs: sa.ColumnCollection[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition that the archive has a later version of a document, or shows one that waits here."""
    ours = sa.tuple_(D.latest, sa.func.coalesce(D.active_generation, 0))
    return ours < sa.tuple_(theirs.latest, sa.func.coalesce(theirs.active_generation, 0))


_TAKE: Final = _take()


async def _refuse_others(connection: AsyncConnection) -> None:
    """Raise Conflict where a document cannot be taken over, or not yet, which would leave out a text."""
    theirs = STAGED["kb_documents"].c
    place = [D[name] == theirs[name] for name in ("workspace", "partition", "uri")]
    others = sa.select(D.uri, D.partition).where(*place, D.id != theirs.id, _ALIVE).limit(1)
    if row := (await connection.execute(others)).first():
        raise Conflict(
            f"{row.partition} has a document {row.uri} of its own already: delete it here (hardwon kb delete), or"
            " import into an empty store, or into one that holds the same ids"
        )
    a, b = (sa.func.jsonb_each_text(each.text_hashes).table_valued("key", "value") for each in (D, theirs))
    parted = sa.exists(sa.select(1).select_from(a.join(b, a.c.key == b.c.key)).where(a.c.value != b.c.value))
    held = sa.func.coalesce(D.lease_until >= sa.func.now(), sa.false())
    deleted = ~_ALIVE
    query = (
        sa.select(D.uri, D.partition, deleted.label("deleted"), parted.label("parted"))
        .where(D.id == theirs.id, sa.or_(deleted, parted, sa.and_(held, _further(theirs))))
        .order_by(D.id)
        .limit(1)
    )
    row = (await connection.execute(query)).first()
    if row is None:
        return
    named = f"the document {row.uri} of {row.partition}"
    if row.deleted:
        raise Conflict(f"{named} was deleted here and is not gone from the index yet: import again in a minute")
    if row.parted:
        raise Conflict(
            f"{named} was changed both here and where the archive was written: delete it here (hardwon kb delete), or"
            " import into an empty store"
        )
    raise Conflict(f"{named} is further in the archive, and being indexed here: import again in a minute")


async def _merge_parts(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    """Insert what the documents that are taken consist of; what is shown here stays what it is."""
    rows = STAGED[table].c
    taken = sa.exists().where(_T.id == rows.document_id, _T.shown.is_distinct_from(rows.generation))
    return await add(connection, table, names, taken)


async def show(connection: AsyncConnection) -> None:
    """Count the terms of the documents that were taken, now that their passages are here."""
    await _count(connection, D.active_generation, 1)
    partitions = sa.select(_T.workspace, _T.partition).distinct().order_by(_T.workspace, _T.partition)
    for workspace, partition in (await connection.execute(partitions)).all():
        await bump_version(connection, workspace, partition)


async def _count(connection: AsyncConnection, generation: sa.ColumnElement[Any], sign: int) -> None:
    """Add the terms of documents whose shown generation changes to those of their partitions, or take them away."""
    moving = sa.select(_T.workspace, _T.partition).where(_T.moves).distinct().order_by(_T.workspace, _T.partition)
    for workspace, partition in (await connection.execute(moving)).all():
        of_it = (_T.workspace == workspace, _T.partition == partition, _T.id == D.id, _T.moves)
        shown = sa.exists().where(*of_it, C.generation == generation)
        await count_terms(connection, workspace, partition, shown, sign)


MERGE: Final[Mapping[str, Callable[[AsyncConnection, str, Sequence[str]], Awaitable[int]]]] = {
    "kb_partitions": _merge_partitions,
    "kb_sources": _merge_sources,
    "kb_documents": _merge_documents,
    "kb_versions": _merge_parts,
    "kb_chunks": _merge_parts,
    "kb_lines": _merge_parts,
}
