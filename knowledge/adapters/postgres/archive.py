"""A whole store in Postgres as the parts of an archive: read in one snapshot, written so that twice is once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres import document_archive, tables
from knowledge.adapters.postgres.analysing import Analyze
from knowledge.adapters.postgres.archive_rows import FORMAT, Rows, values
from knowledge.adapters.postgres.counting import alone, recount
from knowledge.adapters.postgres.database import reading, snapshot, transaction
from knowledge.adapters.postgres.document_tables import kb_vectors
from knowledge.errors import Conflict, InvalidInput
from knowledge.models import LeaseToken
from knowledge.ports import ArchiveStore, Snapshot

_SLICE = 200  # an entry may be half a megabyte
_E = tables.knowledge_staging.c
_P = tables.patterns.c
_T = tables.points.c
_S = tables.embedding_spaces.c
_EVENT = sa.tuple_(_E.workspace, _E.project_id, tables.event_task, tables.event_run, _E.content_hash)
_FURTHER = ("quarantined", "open", "abandoned", "staged", "dead", "embedded")
"""An entry's life, as far as two stores can know of it differently: the later word is the one that counts."""
_UNRESOLVED = _FURTHER[: _FURTHER.index("staged")]


class _PostgresSnapshot(Snapshot):
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def total(self) -> int:
        counts = [
            sa.select(sa.func.count()).select_from(_selected(part)[0].order_by(None).subquery()).scalar_subquery()
            for part in FORMAT
        ]
        return sum((await self._connection.execute(sa.select(*counts))).one())

    async def rows(self, part: str) -> AsyncIterator[Rows]:
        query, most = _selected(part)
        found = await self._connection.stream(query, execution_options={"yield_per": most})
        async for rows in found.mappings().partitions(most):
            yield [dict(row) for row in rows]


def _selected(part: str) -> tuple[sa.Select[Any], int]:
    """Return what reads a part, in one order, and how many rows at once."""
    if part in document_archive.DOCUMENTS:
        return document_archive.selected(part)
    table, names = FORMAT[part]
    return sa.select(*(table.c[name] for name in names)).order_by(*table.primary_key.columns), _SLICE


@asynccontextmanager
async def _of_archive(part: str) -> AsyncIterator[None]:
    """Say of what Postgres refuses that it is the archive's."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            f"what the archive says of its {part} contradicts what is stored here: import it again if something was"
            " changed meanwhile, else into an empty store"
        ) from error
    except (DBAPIError, InvalidInput) as error:
        raise InvalidInput("archive", f"holds {part} that Postgres cannot store") from error


class PostgresArchive(ArchiveStore):
    """All workspaces of a store."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        async with snapshot(self._engine) as connection:
            yield _PostgresSnapshot(connection)

    async def foreign(self, part: str, rows: Rows, *, token: LeaseToken) -> str | None:
        told = values(part, rows)
        if part not in _FOREIGN.keys() | document_archive.FOREIGN.keys():
            return None
        async with reading(self._engine) as connection:
            if part in document_archive.FOREIGN:
                return await document_archive.FOREIGN[part](connection, told, token)
            return await _FOREIGN[part](connection, told)

    async def write(self, part: str, rows: Rows, *, token: LeaseToken) -> int:
        told = values(part, rows)
        async with _of_archive(part), transaction(self._engine) as connection:
            if part in document_archive.DOCUMENTS:
                return await document_archive.write(connection, part, told, token)
            return await _WRITE.get(part, _add)(connection, part, told)

    async def hold(self, token: LeaseToken) -> None:
        async with transaction(self._engine) as connection:
            await document_archive.hold(connection, token)

    @_of_archive("documents")
    async def show(self, rows: Rows, *, token: LeaseToken) -> None:
        for (workspace, partition), told in document_archive.by_partition(values("documents", rows)):
            async with transaction(self._engine) as connection:
                await document_archive.show(connection, workspace, partition, told, token)

    async def analyse(self) -> None:
        async with reading(self._engine) as connection:
            for table, _ in FORMAT.values():
                await connection.execute(Analyze(table))

    @_of_archive("patterns")
    async def recount(self, rows: Rows) -> None:
        told = values("patterns", rows)
        for workspace in sorted({row["workspace"] for row in told}):
            async with alone(self._engine, workspace) as connection:
                await recount(connection, [row["id"] for row in told if row["workspace"] == workspace])


async def _another_space(connection: AsyncConnection, told: Rows) -> str | None:
    """Say why the archive's embedding space cannot be put in use, where another one has vectors here."""
    new = next((row for row in told if row["active"]), None)
    row = (await connection.execute(sa.select(tables.embedding_spaces).where(_S.active))).first()
    if new is None or row is None or row.fingerprint == new["fingerprint"] or not await _has_vectors(connection):
        return None
    return (
        f"the store was embedded with {_called(row.space)}, the archive with {_called(new['space'])}: import into an"
        f" empty store, or run `hardwon reembed --model {new['space'].get('model')}` on this one first"
    )


def _called(space: Mapping[str, Any]) -> str:
    return f"{space.get('model')} ({space.get('dims')} dimensions, {space.get('fingerprint')})"


async def _has_vectors(connection: AsyncConnection) -> bool:
    learned = sa.exists().where(tables.vectors.c.point_id.is_not(None))
    of_documents = sa.exists().where(kb_vectors.c.space.is_not(None))
    return bool(await connection.scalar(sa.select(sa.or_(learned, of_documents))))


async def _other_patterns(connection: AsyncConnection, told: Rows) -> str | None:
    """Say that the store has patterns of its own for situations of the archive: ids that are kept cannot be merged."""
    keys = sa.tuple_(_P.workspace, _P.match_key).in_([(row["workspace"], row["match_key"]) for row in told])
    query = sa.select(_P.id, _P.workspace).where(keys, _P.id.not_in([row["id"] for row in told])).limit(1)
    row = (await connection.execute(query)).first()
    if row is None:
        return None
    return (
        f"the store has learned on its own what the archive holds too (pattern {row.id} of workspace {row.workspace}):"
        " import into an empty store, or into one that holds the same ids"
    )


async def _other_entries(connection: AsyncConnection, told: Rows) -> str | None:
    """Say that the store has another entry under a key of the archive's, or knows less of an event by another id.

    What it knows as much of stays as it is here.
    """
    keys = {(row["workspace"], row["idempotency_key"]): row for row in told if row["idempotency_key"] is not None}
    events = {_event(row): row for row in told}
    names = ("id", "status", "workspace", "idempotency_key", "project_id", "task_id", "run_id", "content_hash")
    query = sa.select(*(_E[name] for name in names)).where(_E.id.not_in([row["id"] for row in told]))
    by_key = query.where(sa.tuple_(_E.workspace, _E.idempotency_key).in_(list(keys)))
    for row in (await connection.execute(by_key)).mappings() if keys else ():
        there = keys[row["workspace"], row["idempotency_key"]]
        if _event(row) != _event(there):
            return (
                f"the idempotency key of entry {there['id']} of the archive is that of another entry here ({row['id']}"
                f" of workspace {row['workspace']}): delete that one (hardwon delete entry {row['id']}), or import into"
                " an empty store"
            )
    by_event = query.where(_EVENT.in_(list(events)))
    for row in (await connection.execute(by_event)).mappings():
        there = events[_event(row)]
        if row["status"] in _UNRESOLVED and there["status"] not in _UNRESOLVED:
            return (
                f"entry {there['id']} of the archive is resolved, and {row['status']} here, under another id"
                f" ({row['id']} of workspace {row['workspace']}): resolve it here, or delete it here (hardwon delete"
                f" entry {row['id']}), and import again"
            )
    return None


def _event(row: Mapping[str, Any] | sa.RowMapping) -> tuple[str, ...]:
    """Return what an entry tells of, as `knowledge_staging_event` has it."""
    return row["workspace"], row["project_id"], row["task_id"] or "", row["run_id"] or "", row["content_hash"]


async def _add(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Insert rows that are not there."""
    table, _ = FORMAT[part]
    new = insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len((await connection.execute(new, told)).all())


async def _add_workspaces(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Take over which are local only; what is so here stays so. What is the same here already is not new."""
    table, _ = FORMAT[part]
    new = insert(table)
    either = sa.or_(table.c.local_only, new.excluded.local_only)
    written = new.on_conflict_do_update(
        index_elements=[table.c.workspace],
        set_={"local_only": either},
        where=table.c.local_only.is_distinct_from(either),
    )
    return len((await connection.execute(written.returning(table.c.workspace), told)).all())


async def _add_spaces(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Take over the spaces; into a store without vectors, with what was fixed for them and which is in use."""
    lock = sa.func.hashtextextended("hardwon/bind", 0)
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
    if await _has_vectors(connection):
        if why := await _another_space(connection, told):
            raise Conflict(why)
        return await _add(connection, part, [{**row, "active": False} for row in told])
    await connection.execute(sa.update(tables.embedding_spaces).values(active=False))
    new = insert(tables.embedding_spaces)
    same = {name: new.excluded[name] for name in ("mean_terms", "calibration", "active")}
    written = new.on_conflict_do_update(index_elements=[_S.fingerprint], set_=same).returning(_S.fingerprint)
    return len((await connection.execute(written, told)).all())


async def _add_patterns(connection: AsyncConnection, part: str, told: Rows) -> int:
    if why := await _other_patterns(connection, told):
        raise Conflict(why)
    return await _add(connection, part, told)


async def _add_entries(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Insert entries; those that are here and not as far in their life go on to where the archive has them.

    One whose event is here under another id stays away: what the archive knows of it is no more than what is here.
    """
    new = insert(tables.knowledge_staging).on_conflict_do_nothing().returning(_E.id)
    added = set((await connection.execute(new, told)).scalars())
    known = [row for row in told if row["id"] not in added]
    if not known:
        return len(added)
    if why := await _other_entries(connection, known):
        raise Conflict(why)
    query = (
        sa.select(_E.id, _E.status)
        .where(_E.id.in_([row["id"] for row in known]), _E.lease_token.is_(None))
        .order_by(_E.id)
        .with_for_update()
    )
    here = {row.id: row.status for row in await connection.execute(query)}
    behind = [row for row in known if row["id"] in here and _behind(here[row["id"]], row["status"])]
    if behind:
        _, names = FORMAT[part]
        changed = {name: sa.bindparam(f"new_{name}", type_=_E[name].type) for name in names if name != "id"}
        update = sa.update(tables.knowledge_staging).where(_E.id == sa.bindparam("entry")).values(changed)
        given = [{"entry": row["id"], **{f"new_{name}": row[name] for name in changed}} for row in behind]
        await connection.execute(update, given)
    return len(added)


def _behind(here: str, there: str) -> bool:
    return _FURTHER.index(here) < _FURTHER.index(there)


async def _add_points(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Insert points; those that live longer in the archive do so here too."""
    added = await _add(connection, part, told)
    later = (
        sa.update(tables.points)
        .where(_T.id == sa.bindparam("point"), _T.expires_at < sa.bindparam("until"))
        .values(embedded_at=sa.bindparam("since"), expires_at=sa.bindparam("until"))
    )
    if added < len(told):
        given = [{"point": row["id"], "since": row["embedded_at"], "until": row["expires_at"]} for row in told]
        await connection.execute(later, given)
    return added


async def _add_keys(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Bind keys to patterns; where both stores know one, a person's ruling goes first, then what was decided later."""
    table, _ = FORMAT[part]
    keys = tables.match_keys.c
    new = insert(table)
    later = sa.tuple_(new.excluded.ruled, new.excluded.decided_at) > sa.tuple_(keys.ruled, keys.decided_at)
    values = {name: new.excluded[name] for name in ("pattern_id", "why", "ruled", "decided_at")}
    bound = new.on_conflict_do_update(index_elements=[keys.workspace, keys.match_key], set_=values, where=later)
    return len((await connection.execute(bound.returning(keys.match_key), told)).all())


async def _add_terms(connection: AsyncConnection, part: str, told: Rows) -> int:
    """Take the greater count of each term: that is the later one until a rebuild counts anew, and twice is once."""
    table, _ = FORMAT[part]
    counts = tables.lexicon.c
    new = insert(table)
    greater = new.on_conflict_do_update(
        index_elements=[counts.workspace, counts.term],
        set_={"documents": new.excluded.documents},
        where=new.excluded.documents > counts.documents,
    )
    return len((await connection.execute(greater.returning(counts.term), told)).all())


_WRITE: Mapping[str, Callable[[AsyncConnection, str, Rows], Awaitable[int]]] = {
    "workspaces": _add_workspaces,
    "spaces": _add_spaces,
    "patterns": _add_patterns,
    "match_keys": _add_keys,
    "entries": _add_entries,
    "points": _add_points,
    "lexicon": _add_terms,
}
"""How parts are written that are more than rows which are there or not."""

_FOREIGN: Mapping[str, Callable[[AsyncConnection, Rows], Awaitable[str | None]]] = {
    "spaces": _another_space,
    "patterns": _other_patterns,
    "entries": _other_entries,
}
"""Why rows of a part can never be written here, of those that may contradict what is here. Documents: `FOREIGN`."""
