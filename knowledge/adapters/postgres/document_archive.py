"""Documents as parts of an archive: what is read of them, and how they are written without ever showing half of one.

An import holds each document it brings by a lease of its own, as the indexing of one does: nothing of it is shown, and
nobody else writes it, until all its parts are there. A killed import is run again and goes on; where it is not, the
lease runs out, and a document whose text came is indexed like any other that waits. One whose text did not come stays
pending until the import is run again, or it is deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.answer_tables import answer_feedback, escalations, qa_events
from knowledge.adapters.postgres.document_rows import C, D, V, changed, count_terms, locked_partition
from knowledge.adapters.postgres.document_tables import (
    kb_chunks,
    kb_documents,
    kb_grants,
    kb_lines,
    kb_partitions,
    kb_scales,
    kb_sources,
    kb_vectors,
    kb_versions,
)
from knowledge.documents.models import DocumentStatus
from knowledge.errors import Conflict
from knowledge.models import LeaseToken

Rows = Sequence[Mapping[str, Any]]

LEASE: Final = timedelta(minutes=10)
"""How long what was imported in part is nobody else's; renewed while the import goes on."""

_SLICES: Final = {"document_versions": 2, "passages": 200, "log_lines": 2000, "passage_vectors": 500}
"""Rows that are read at once; a version has the text of a whole document."""

_SLICE = 200
_DOCUMENT = (
    "id workspace partition uri name link source_id mark content_hash status error latest active_generation attempts"
    " not_before added_at indexed_at text_hashes"
)
_CHUNK = (
    "id document_id generation ordinal kind text text_hash section function page char_start char_end line_start"
    " line_end ts until severities terms"
)
_ESCALATION = (
    "id workspace question_hash question transcript passage_ids suggested_fix created_at asked_at due_at priority"
    " closed_at"
)
DOCUMENTS: Final[Mapping[str, tuple[sa.Table, tuple[str, ...]]]] = {
    part: (table, tuple(columns.split()))
    for part, table, columns in (
        ("partitions", kb_partitions, "workspace partition closed_at"),
        ("grants", kb_grants, "workspace kb scope_id principal granted_at"),
        (
            "sources",
            kb_sources,
            "id workspace partition url branch subdir globs last_commit last_error synced_at",
        ),
        ("documents", kb_documents, _DOCUMENT),
        (
            "document_versions",
            kb_versions,
            "document_id generation title document_type category tags text text_hash lines pages notes space",
        ),
        ("passages", kb_chunks, _CHUNK),
        ("log_lines", kb_lines, "document_id generation line ts severity template text"),
        ("passage_vectors", kb_vectors, "workspace space text_hash vector made_at"),
        ("scales", kb_scales, "workspace space low high passages measured_at"),
        ("escalations", escalations, _ESCALATION),
        ("qa_events", qa_events, "id workspace name session step payload happened_at reviewed"),
        ("feedback", answer_feedback, "workspace answer_id up comment given_at"),
    )
}
"""The columns of each part, as `archive.FORMAT` has those of what was learned.

Left out is what is derived or of a moment: counts of terms, kept answers, leases, the versions caches are kept by.
"""

_SHOWN_OR_NEXT = sa.and_(
    D.status != sa.literal_column("'deleting'"), sa.or_(V.generation == D.active_generation, V.generation == D.latest)
)


def selected(part: str) -> tuple[sa.Select[Any], int]:
    """Return what reads a part, in one order, and how many rows at once; nothing of what is being deleted."""
    table, names = DOCUMENTS[part]
    query = sa.select(*(table.c[name] for name in names)).order_by(*table.primary_key.columns)
    match part:
        case "documents":
            query = query.where(D.status != sa.literal_column("'deleting'"))
        case "document_versions":
            query = query.where(sa.exists().where(D.id == V.document_id, _SHOWN_OR_NEXT))
        case "passages" | "log_lines":
            of_it = sa.and_(V.document_id == table.c.document_id, V.generation == table.c.generation)
            query = query.where(sa.exists().where(of_it, D.id == V.document_id, _SHOWN_OR_NEXT))
        case "passage_vectors":
            k = kb_vectors.c
            query = query.where(
                sa.exists().where(C.text_hash == k.text_hash, D.id == C.document_id, D.workspace == k.workspace)
            )
    return query, _SLICES.get(part, _SLICE)


async def _other_source(connection: AsyncConnection, told: Rows, _: LeaseToken) -> str | None:
    s = kb_sources.c
    named = sa.tuple_(s.workspace, s.partition, s.url, s.subdir)
    asked = [(row["workspace"], row["partition"], row["url"], row["subdir"]) for row in told]
    query = sa.select(s.url, s.partition).where(named.in_(asked), s.id.not_in([row["id"] for row in told])).limit(1)
    row = (await connection.execute(query)).first()
    if row is None:
        return None
    return (
        f"the repository {row.url} is a source of {row.partition} here already, under another id: delete it here"
        " (hardwon kb delete --source), or import into an empty store"
    )


async def _other_document(connection: AsyncConnection, told: Rows, token: LeaseToken) -> str | None:
    named = sa.tuple_(D.workspace, D.partition, D.uri)
    asked = [(row["workspace"], row["partition"], row["uri"]) for row in told]
    other = (D.id.not_in([row["id"] for row in told]), D.status != sa.literal_column("'deleting'"))
    row = (await connection.execute(sa.select(D.uri, D.partition).where(named.in_(asked), *other).limit(1))).first()
    if row is None:
        return await _later(connection, told, token)
    return (
        f"{row.partition} has a document {row.uri} of its own already: delete it here (hardwon kb delete), or import"
        " into an empty store, or into one that holds the same ids"
    )


async def _later(connection: AsyncConnection, told: Rows, token: LeaseToken) -> str | None:
    known = {row["id"]: row for row in await _still_open(connection, told)}
    found = (await connection.execute(_here(known, token).order_by(D.id))).all()
    return next((why for here in found if (why := _refusal(here, known[here.id]))), None)


async def _other_text(connection: AsyncConnection, told: Rows, _: LeaseToken) -> str | None:
    """Say what `_refusal` cannot see of an older archive, which tells no hashes but those of the texts it has."""
    among = D.id.in_({row["document_id"] for row in told})
    query = sa.select(D.id, D.uri, D.partition, D.text_hashes).where(among, D.status != sa.literal_column("'deleting'"))
    here = {row.id: row for row in await connection.execute(query)}
    for row in told:
        known = here.get(row["document_id"])
        if known and known.text_hashes.get(str(row["generation"]), row["text_hash"]) != row["text_hash"]:
            return _changed_twice(known.uri, known.partition)
    return None


def _changed_twice(uri: str, partition: str) -> str:
    return (
        f"the document {uri} of {partition} was changed both here and where the archive was written:"
        " delete it here (hardwon kb delete), or import into an empty store"
    )


FOREIGN: Final[Mapping[str, Callable[[AsyncConnection, Rows, LeaseToken], Awaitable[str | None]]]] = {
    "sources": _other_source,
    "documents": _other_document,
    "document_versions": _other_text,
}
"""Why rows of a part cannot be written here: the store has others in their place, or is at work on them."""


async def write(connection: AsyncConnection, part: str, told: Rows, token: LeaseToken) -> int:
    """Write a slice of a part; return how many rows were new. `token` names the import."""
    if part == "documents":
        return await _add_documents(connection, told, token)
    return await _WRITE.get(part, _add)(connection, part, told, token)


async def _add(connection: AsyncConnection, part: str, told: Rows, _: LeaseToken) -> int:
    """Insert rows that are not there."""
    table, _names = DOCUMENTS[part]
    if not told:
        return 0
    new = insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len((await connection.execute(new, told)).all())


async def _add_partitions(connection: AsyncConnection, part: str, told: Rows, _: LeaseToken) -> int:
    """Take over partitions; what is closed on either side is closed."""
    table, _names = DOCUMENTS[part]
    new = insert(table)
    p = kb_partitions.c
    closed = new.on_conflict_do_update(
        index_elements=[p.workspace, p.partition],
        set_={"closed_at": new.excluded.closed_at},
        where=sa.and_(p.closed_at.is_(None), new.excluded.closed_at.is_not(None)),
    )
    return len((await connection.execute(closed.returning(p.partition), told)).all())


async def _add_documents(connection: AsyncConnection, told: Rows, token: LeaseToken) -> int:
    """Take over documents that are not here, or not as far: held, and shown as they were until `show`."""
    told = await _still_open(connection, told)
    if not told:
        return 0
    held = {"lease_token": token, "lease_until": sa.func.now() + LEASE}
    hidden = {"status": "pending", "error": None, "active_generation": None, "indexed_at": None}
    new = insert(kb_documents).values(**held).on_conflict_do_nothing().returning(D.id)
    added = set((await connection.execute(new, [{**row, **hidden} for row in told])).scalars())
    known = {row["id"]: row for row in told if row["id"] not in added}
    query = _here(known, token).order_by(D.id).with_for_update()
    for here in (await connection.execute(query)).all() if known else ():
        there = known[here.id]
        if why := _refusal(here, there):
            raise Conflict(why)
        if _further(here, there):
            await _take_over(connection, here.id, there, held)
    return len(added)


def _here(documents: Collection[UUID], token: LeaseToken) -> sa.Select[Any]:
    """Select documents that are here but for those that the import holds, and whether somebody else holds them."""
    held = sa.and_(D.lease_token.is_not(None), D.lease_until >= sa.func.now()).label("held")
    query = sa.select(D.id, D.uri, D.partition, D.status, D.latest, D.active_generation, D.text_hashes, held)
    return query.where(D.id.in_(list(documents)), D.lease_token.is_distinct_from(token))


def _further(here: sa.Row[Any], there: Mapping[str, Any]) -> bool:
    """Return whether the archive has a later version of a document, or shows one that waits here."""
    return (here.latest, here.active_generation or 0) < (there["latest"], there["active_generation"] or 0)


def _parted(here: sa.Row[Any], there: Mapping[str, Any]) -> bool:
    """Return whether a document had another text here than in the archive: none of the two only knows more of it."""
    ours, theirs = here.text_hashes, there["text_hashes"]
    return any(ours[generation] != theirs[generation] for generation in ours.keys() & theirs.keys())


def _refusal(here: sa.Row[Any], there: Mapping[str, Any]) -> str | None:
    """Return why a document cannot be taken over, or not yet, which would leave out a text."""
    if here.status == DocumentStatus.DELETING:
        return (
            f"the document {here.uri} of {here.partition} was deleted here and is not gone from the index yet: import"
            " again in a minute"
        )
    if _parted(here, there):
        return _changed_twice(here.uri, here.partition)
    if here.held and _further(here, there):
        return (
            f"the document {here.uri} of {here.partition} is further in the archive, and being indexed here, or"
            " imported from another archive: import again in a minute"
        )
    return None


async def _still_open(connection: AsyncConnection, told: Rows) -> list[Mapping[str, Any]]:
    """Return documents but for those of a case that is over here: it takes none any more."""
    p = kb_partitions.c
    over = sa.select(p.workspace, p.partition).where(p.closed_at <= sa.func.now())
    closed = {(row.workspace, row.partition) for row in await connection.execute(over)}
    return [row for row in told if (row["workspace"], row["partition"]) not in closed]


async def _take_over(
    connection: AsyncConnection, document_id: UUID, there: Mapping[str, Any], held: Mapping[str, Any]
) -> None:
    """Hold a document that is further in the archive; what was begun of its generations begins anew."""
    for table in (kb_chunks, kb_lines):
        begun = sa.and_(table.c.document_id == document_id, table.c.generation.is_distinct_from(_active(document_id)))
        await connection.execute(sa.delete(table).where(begun))
    told = {name: there[name] for name in ("content_hash", "mark", "link", "source_id", "latest")}
    update = sa.update(kb_documents).where(D.id == document_id)
    known = D.text_hashes.op("||")(sa.literal(there["text_hashes"], JSONB))
    await connection.execute(update.values(**told, text_hashes=known, status="pending", error=None, **held))


def _active(document_id: UUID) -> sa.ScalarSelect[Any]:
    return sa.select(D.active_generation).where(D.id == document_id).scalar_subquery()


async def _held(connection: AsyncConnection, documents: Collection[UUID], token: LeaseToken) -> dict[UUID, int | None]:
    """Return those documents that the import holds, with the generation that is shown of each meanwhile."""
    query = sa.select(D.id, D.active_generation).where(D.id.in_(documents), D.lease_token == token)
    rows = await connection.execute(query.order_by(D.id).with_for_update(key_share=True))
    return {row.id: row.active_generation for row in rows}


async def _add_parts(connection: AsyncConnection, part: str, told: Rows, token: LeaseToken) -> int:
    """Insert what documents consist of, of those that the import holds; what is shown here stays what it is."""
    held = await _held(connection, {row["document_id"] for row in told}, token)
    ours = [row for row in told if row["document_id"] in held and held[row["document_id"]] != row["generation"]]
    return await _add(connection, part, ours, token)


_WRITE: Final[Mapping[str, Callable[[AsyncConnection, str, Rows, LeaseToken], Awaitable[int]]]] = {
    "partitions": _add_partitions,
    "document_versions": _add_parts,
    "passages": _add_parts,
    "log_lines": _add_parts,
}


async def hold(connection: AsyncConnection, token: LeaseToken) -> None:
    """Renew the leases of an import."""
    later = sa.update(kb_documents).where(D.lease_token == token).values(lease_until=sa.func.now() + LEASE)
    await connection.execute(later)


def by_partition(told: Rows) -> list[tuple[tuple[str, str], list[Mapping[str, Any]]]]:
    """Return documents by workspace and partition, each group a transaction of its own."""

    def where(row: Mapping[str, Any]) -> tuple[str, str]:
        return row["workspace"], row["partition"]

    return [(key, list(rows)) for key, rows in groupby(sorted(told, key=where), key=where)]


async def show(connection: AsyncConnection, workspace: str, partition: str, told: Rows, token: LeaseToken) -> None:
    """Show documents of a partition whose parts are all there, each as the archive has it, and let go of them."""
    await locked_partition(connection, workspace, partition)
    held = await _held(connection, [row["id"] for row in told], token)
    ours = [row for row in told if row["id"] in held]
    if not ours:
        return
    changes = {row["id"] for row in ours if held[row["id"]] != row["active_generation"]}
    moved = sa.and_(D.id.in_(changes), C.generation == D.active_generation)
    await count_terms(connection, workspace, partition, moved, -1)
    names = ("status", "error", "active_generation", "attempts", "not_before", "indexed_at")
    update = (
        sa.update(kb_documents)
        .where(D.id == sa.bindparam("document"))
        .values(
            lease_token=None,
            lease_until=None,
            **{name: sa.bindparam(f"new_{name}", type_=D[name].type) for name in names},
        )
    )
    given = [{"document": row["id"], **{f"new_{name}": row[name] for name in names}} for row in ours]
    await connection.execute(update, given)
    await count_terms(connection, workspace, partition, moved, 1)
    await changed(connection, workspace, partition)
