"""Seals of rows that wait in temporary tables, made before they are inserted: an update would write each row twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.access.seals import SEAL_BYTES, SealKeys, Total
from knowledge.adapters.postgres.engine.analyze import Analyze
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.adapters.postgres.seals.entry_seals import COLUMN_NAMES, entry_message
from knowledge.adapters.postgres.seals.row_seals import SEALED_ROWS, row_message
from knowledge.runtime.scheduling import yield_to_loop

_PAGE: Final = 500
_SLICE: Final = 64
"""Rows sealed before yielding to the event loop: 2 ms."""
_Message = Callable[[str, Sequence[Any]], bytes]


def _covered(table: sa.Table) -> tuple[Sequence[str], _Message] | None:
    """Return the columns that the seal of each row of a table covers, and what it covers of their values."""
    if table is knowledge_staging:
        return COLUMN_NAMES, entry_message
    sealed = SEALED_ROWS.get(table)
    if sealed is None or "workspace" not in table.c or not isinstance(sealed.condition, sa.sql.elements.True_):
        return None
    return sealed.columns, lambda workspace, values: row_message(table, workspace, values)


async def seal_staged(
    connection: AsyncConnection, keys: SealKeys, table: sa.Table, staged: sa.Table, names: Collection[str]
) -> sa.Table | None:
    """Seal the rows of a table that wait in `staged` with these columns; return the temporary table of their seals.

    That has their primary keys and `seal`. None where seals cover more columns than these, or not each row.
    """
    covered = _covered(table)
    if covered is None or not {*covered[0], "workspace"} <= {*names}:
        return None
    columns, message = covered
    place = [staged.c[column.name] for column in table.primary_key]
    seals = sa.Table(
        f"{staged.name}_seals",
        sa.MetaData(),
        *(sa.Column(column.name, column.type, primary_key=True) for column in place),
        sa.Column("seal", sa.LargeBinary),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    await connection.execute(sa.schema.CreateTable(seals))
    arrays = [sa.func.unnest(sa.bindparam(column.name, type_=sa.ARRAY(column.type))) for column in seals.c]
    put = sa.insert(seals).from_select(list(seals.c), sa.select(*arrays))
    query = sa.select(*(staged.c[name] for name in columns), staged.c.workspace, *place)
    streamed = await connection.stream(query, execution_options={"yield_per": _PAGE})
    async for page in streamed.partitions(_PAGE):
        made = []
        for at, row in enumerate(page):
            if at % _SLICE == 0:
                await yield_to_loop()
            made.append(keys.seal(message(row[len(columns)], row[: len(columns)])))
        params = {column.name: [row[len(columns) + 1 + at] for row in page] for at, column in enumerate(place)}
        await connection.execute(put, params | {"seal": made})
    await connection.execute(Analyze(seals))
    return seals


def total_of_seals(keys: SealKeys, joined: bytes) -> Total:
    """Return the total of seals that were put one behind the other."""
    return keys.total(joined[start : start + SEAL_BYTES] for start in range(0, len(joined), SEAL_BYTES))


def is_counted(table: sa.Table) -> bool:
    """Return whether the seals of a table's rows count in the totals of chains."""
    return table is knowledge_staging or (table in SEALED_ROWS and SEALED_ROWS[table].is_counted)
