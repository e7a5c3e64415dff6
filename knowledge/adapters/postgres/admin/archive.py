"""A whole store in Postgres as an archive: copied out in one snapshot, and into an empty store in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, BinaryIO, Final

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict, InvalidInput
from knowledge.adapters.postgres import memory_tables
from knowledge.adapters.postgres.admin.archive_rows import (
    COLUMNS,
    STAGED,
    TABLES,
    add,
    new_rows,
    put,
    read_space,
    unreadable,
)
from knowledge.adapters.postgres.admin.integrity import seal_unsealed, term_totals
from knowledge.adapters.postgres.document_tables import kb_terms, kb_vectors
from knowledge.adapters.postgres.documents.rows import C, D, V, bump_version, count_terms
from knowledge.adapters.postgres.engine.analyze import Analyze
from knowledge.adapters.postgres.engine.database import Store, engine_of_workspace, snapshot, transaction
from knowledge.adapters.postgres.engine.migrate import schema_revision
from knowledge.adapters.postgres.memory.counts import recount, take_turn
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, to_entry
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.models import EmbeddingSpace, Entry
from knowledge.ports import ArchiveStore, Origin, Restore, Snapshot

_SLICE = 200  # an entry may be half a megabyte
_RECOUNTED = 1000
_E = memory_tables.knowledge_staging.c
_S = memory_tables.embedding_spaces.c
_ALIVE = D.status != sa.literal_column("'deleting'")
_SHOWN_OR_NEXT = sa.and_(_ALIVE, sa.or_(V.generation == D.active_generation, V.generation == D.latest))
_SAME: Final[Mapping[str, Sequence[str]]] = {
    "knowledge_staging": ("id", "status"),
    "patterns": ("id",),
    "kb_sources": ("id",),
    "kb_documents": ("id", "latest", "active_generation"),
}
"""Columns in which a store that is not empty must be as the archive: it was imported before, and nothing since."""

_AS_TEXT = sa.text(
    "SELECT set_config('datestyle', 'ISO', true), set_config('timezone', 'UTC', true),"
    " set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true)"
)
"""What the text format of COPY depends on, for this transaction."""


class _PostgresSnapshot(Snapshot):
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        return COLUMNS

    async def origin(self) -> Origin:
        named = (memory_tables.workspaces, memory_tables.projects, TABLES["kb_partitions"])
        workspaces = sa.union(*(sa.select(table.c.workspace) for table in named)).subquery()
        found = await self._connection.scalars(sa.select(workspaces).order_by(workspaces.c.workspace))
        version = await self._connection.scalar(sa.text("SELECT current_setting('server_version')"))
        return Origin(
            schema=str(await schema_revision(self._connection)), postgres=str(version), workspaces=tuple(found)
        )

    async def total(self) -> int:
        counts = (sa.select(sa.func.count()).select_from(_exported(table).subquery()) for table in TABLES)
        return sum((await self._connection.execute(sa.select(*(each.scalar_subquery() for each in counts)))).one())

    async def copy(self, table: str, into: BinaryIO) -> None:
        query = _exported(table).order_by(*TABLES[table].primary_key.columns)
        dialect = postgresql.asyncpg.dialect()  # type: ignore[no-untyped-call]
        statement = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
        await self._connection.execute(_AS_TEXT)
        driver = await _driver(self._connection)
        await driver.copy_from_query(statement, output=into, format="text", encoding="UTF8")


def _exported(table: str) -> sa.Select[Any]:
    query = sa.select(*(TABLES[table].c[name] for name in COLUMNS[table]))
    return query.where(*_conditions(table))


def _conditions(table: str) -> tuple[sa.ColumnElement[bool], ...]:
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


async def _driver(connection: AsyncConnection) -> asyncpg.Connection[asyncpg.Record]:
    driver = (await connection.get_raw_connection()).driver_connection
    if not isinstance(driver, asyncpg.Connection):
        raise TypeError(f"{type(driver).__name__} is not a connection of asyncpg")
    return driver


class PostgresArchive(Store, ArchiveStore):
    """All workspaces of a store."""

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        async with snapshot(self._engine) as connection:
            yield _PostgresSnapshot(connection)

    @asynccontextmanager
    async def restore(self, schema: str, columns: Mapping[str, Sequence[str]]) -> AsyncIterator[Restore]:
        async with transaction(self._engine) as connection:
            _check_columns(schema, str(await schema_revision(connection)), columns)
            for staged in STAGED.values():
                await connection.execute(sa.schema.CreateTable(staged))
            yield _PostgresRestore(connection, columns)

    async def entries(self, workspace: str) -> AsyncIterator[Sequence[Entry]]:
        query = sa.select(*ENTRY_COLUMNS).where(_E.workspace == workspace, _E.status != "quarantined")
        async with snapshot(engine_of_workspace(self._engine, workspace)) as connection:
            found = await connection.stream(
                query.order_by(_E.timestamp, _E.id), execution_options={"yield_per": _SLICE}
            )
            async for rows in found.partitions(_SLICE):
                yield [to_entry(row) for row in rows]


def _check_columns(schema: str, revision: str, columns: Mapping[str, Sequence[str]]) -> None:
    if schema > revision:
        raise InvalidInput(
            "archive",
            f"was written by a later hardwon (schema {schema}, this one has {revision}): install that version",
        )
    for table, named in columns.items():
        known = COLUMNS.get(table, ())
        declared = [TABLES[table].c[name] for name in known]
        lacking = {each.name for each in declared if not each.nullable and each.server_default is None} - set(named)
        if not known or lacking or not set(known).issuperset(named) or len(set(named)) < len(named):
            raise InvalidInput("archive", f"has other columns of {table} than any hardwon writes: export it again")


@contextmanager
def _of_archive(table: str) -> Iterator[None]:
    """Raise for what Postgres refuses that it is the archive's, without the stored text that its errors repeat."""
    try:
        yield
    except (DBAPIError, asyncpg.PostgresError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, asyncpg.PostgresError):
            cause = getattr(cause, "orig", None) or cause.__cause__
        match cause:
            case asyncpg.UniqueViolationError() | asyncpg.ForeignKeyViolationError():
                raise Conflict(
                    f"what the archive says of {table} contradicts what is stored here: import it again if"
                    " something was changed meanwhile, else into an empty store"
                ) from None
            case asyncpg.IntegrityConstraintViolationError():
                raise InvalidInput("archive", f"holds {table} that are none: export it again") from None
            case asyncpg.DataError() | asyncpg.CardinalityViolationError() | asyncpg.ProgramLimitExceededError():
                raise InvalidInput("archive", f"holds {table} that are none, or that Postgres cannot store") from None
            case _:
                raise


class _PostgresRestore(Restore):
    def __init__(self, connection: AsyncConnection, columns: Mapping[str, Sequence[str]]) -> None:
        self._connection = connection
        self._columns = columns

    async def load(self, table: str, pieces: AsyncIterator[bytes]) -> None:
        driver = await _driver(self._connection)
        with _of_archive(table):
            await driver.copy_to_table(
                STAGED[table].name,
                source=pieces,
                columns=list(self._columns[table]),
                schema_name="pg_temp",
                format="text",
                encoding="UTF8",
            )
            await self._connection.execute(Analyze(STAGED[table]))

    async def spaces(self) -> Mapping[EmbeddingSpace, bool]:
        rows = (await self._connection.execute(sa.select(STAGED["embedding_spaces"]))).mappings()
        try:
            return {read_space(row): row["active"] for row in rows}
        except (ValueError, TypeError):
            raise InvalidInput("archive", "holds embedding_spaces that are none: export it again") from None

    async def merge(self) -> dict[str, int]:
        connection = self._connection
        for table in TABLES:
            with _of_archive(table):
                if await connection.scalar(sa.select(sa.exists().where(unreadable(table)))):
                    raise InvalidInput("archive", f"holds {table} that are none: export it again")
        for workspace in await connection.scalars(_WORKSPACES):
            await take_turn(connection, workspace)
        ledger = ledger_of(connection.engine)
        before = await term_totals(connection, ledger)
        new = {table: await self._insert(table) for table in _MERGE}
        await _refuse_other_rows(connection)
        new |= {table: await self._insert(table) for table in TABLES if table not in _MERGE}
        await seal_unsealed(connection, ledger, before)
        # profiles stay behind, and the next prune computes those of the entries that came
        await connection.execute(sa.update(memory_tables.workspaces).values(profiled_until=None))
        for each in TABLES.values():  # else what follows is planned as if the tables were empty
            await connection.execute(Analyze(each))
        await _count_all_terms(connection)
        patterns = list(await connection.scalars(sa.select(STAGED["patterns"].c.id).order_by(STAGED["patterns"].c.id)))
        for start in range(0, len(patterns), _RECOUNTED):
            await recount(connection, patterns[start : start + _RECOUNTED])
        return new

    async def _insert(self, table: str) -> int:
        """Insert the staged rows of a table that are not here; return how many."""
        names = tuple(self._columns.get(table, ()))
        with _of_archive(table):
            return await _MERGE.get(table, add)(self._connection, table, names) if names else 0


async def _count_all_terms(connection: AsyncConnection) -> None:
    """Count the terms of all shown passages anew, in every partition: an archive does not hold them."""
    await connection.execute(sa.delete(kb_terms))
    partitions = sa.select(D.workspace, D.partition).distinct().order_by(D.workspace, D.partition)
    for workspace, partition in (await connection.execute(partitions)).all():
        shown = sa.and_(D.workspace == workspace, D.partition == partition, D.active_generation == C.generation)
        await count_terms(connection, workspace, partition, shown, 1)
        await bump_version(connection, workspace, partition)


_WORKSPACES = sa.select(
    sa.union(sa.select(STAGED["patterns"].c.workspace), sa.select(STAGED["knowledge_staging"].c.workspace))
    .subquery()
    .c.workspace
).order_by(sa.literal_column("workspace"))


async def _first(connection: AsyncConnection, query: sa.Select[Any]) -> sa.Row[Any] | None:
    row: sa.Row[Any] | None = (await connection.execute(query.limit(1))).first()
    return row


async def _refuse_other_rows(connection: AsyncConnection) -> None:
    """Raise Conflict unless the store is empty, or holds what the archive holds and nothing else."""
    for table, names in _SAME.items():
        ours, theirs = (sa.select(*(each.c[name] for name in names)) for each in (TABLES[table], STAGED[table]))
        others = ours.except_(theirs).subquery()
        if await _first(connection, sa.select(others)) is not None:
            raise Conflict(
                f"the store holds {table} of its own, or later ones than the archive: import into an empty store"
            )


async def _merge_workspaces(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    """Take over which are local only; what is so here stays so."""
    new = new_rows(table, names)
    either = sa.or_(memory_tables.workspaces.c.local_only, new.excluded.local_only)
    return await put(
        connection, new, {"local_only": either}, memory_tables.workspaces.c.local_only.is_distinct_from(either)
    )


async def _merge_spaces(connection: AsyncConnection, table: str, names: Sequence[str]) -> int:
    """Take over the spaces; into a store without vectors, with what was fixed for them and which is in use."""
    await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended("hardwon/bind", 0))))
    staged = STAGED[table]
    if not await _has_vectors(connection):
        await connection.execute(sa.update(memory_tables.embedding_spaces).values(active=False))
        new = new_rows(table, names)
        return await put(
            connection, new, {name: new.excluded[name] for name in ("mean_terms", "calibration", "active")}
        )
    theirs = await _first(connection, sa.select(staged.c.space, staged.c.fingerprint).where(staged.c.active))
    ours = await _first(connection, sa.select(_S.space, _S.fingerprint).where(_S.active))
    if theirs and ours and theirs.fingerprint != ours.fingerprint:
        raise Conflict(
            f"the store was embedded with {_describe(ours)}, the archive with {_describe(theirs)}: import into an"
            f" empty store, or run `hardwon reembed --model {theirs.space.get('model')}` on this one first"
        )
    await connection.execute(sa.update(staged).values(active=False))
    return await add(connection, table, names)


def _describe(row: sa.Row[Any]) -> str:
    return f"{row.space.get('model')} ({row.space.get('dims')} dimensions, {row.fingerprint})"


async def _has_vectors(connection: AsyncConnection) -> bool:
    learned = sa.exists().where(memory_tables.vectors.c.point_id.is_not(None))
    of_documents = sa.exists().where(kb_vectors.c.space.is_not(None))
    return bool(await connection.scalar(sa.select(sa.or_(learned, of_documents))))


_MERGE: Final[Mapping[str, Callable[[AsyncConnection, str, Sequence[str]], Awaitable[int]]]] = {
    "workspaces": _merge_workspaces,
    "embedding_spaces": _merge_spaces,
}
"""Inserts into tables of which an empty store may have rows already."""
