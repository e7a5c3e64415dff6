"""The counters of a workspace, which triggers keep (`engine.counters`)."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.memory_tables import counters

ENTRIES: Final = "entries."
"""Before a status: the entries that have it."""
PATTERNS: Final = "patterns"
"""Patterns with a success; those that a checkpoint is founding have one already."""
POINTS: Final = "points"
"""Points that are not dirty."""
VECTORS: Final = "vectors."
"""Before the fingerprint of a space: the bytes of its vectors."""
CHECKPOINTS: Final = "checkpoints"

_C = counters.c
_WORKSPACE = sa.bindparam("workspace", type_=sa.Text)
_TOTAL = sa.cast(sa.func.sum(_C.change), sa.BigInteger).label("total")
_READ = sa.select(_C.name, _TOTAL).where(_C.workspace == _WORKSPACE).group_by(_C.name)
_READ_ONE = sa.select(_TOTAL).where(_C.workspace == _WORKSPACE, _C.name == sa.bindparam("name", type_=sa.Text))


def _fold() -> sa.Insert:
    # by one at a time: two that delete the same rows in another order would be a deadlock
    lock = sa.func.hashtextextended(sa.literal_column("'hardwon/counters/'").concat(_WORKSPACE), sa.literal_column("0"))
    turn = sa.select(sa.func.pg_try_advisory_xact_lock(lock).label("ours")).cte("turn").prefix_with("MATERIALIZED")
    ours = sa.select(turn.c.ours).scalar_subquery()
    folded = sa.delete(counters).where(_C.workspace == _WORKSPACE, ours).returning(_C.name, _C.change).cte("folded")
    total = sa.cast(sa.func.sum(folded.c.change), sa.BigInteger)
    sums = sa.select(_WORKSPACE, folded.c.name, total).group_by(folded.c.name).having(total != 0)
    return sa.insert(counters).from_select(["workspace", "name", "change"], sums)


_FOLD = _fold()


async def read_counters(connection: AsyncConnection, workspace: str) -> dict[str, int]:
    """Return the counters of a workspace by name; one without rows is 0."""
    return {row.name: row.total for row in await connection.execute(_READ, {"workspace": workspace})}


async def read_counter(connection: AsyncConnection, workspace: str, name: str) -> int:
    """Return one counter of a workspace."""
    return await connection.scalar(_READ_ONE, {"workspace": workspace, "name": name}) or 0


async def fold_counters(connection: AsyncConnection, workspace: str) -> None:
    """Replace the rows of a workspace's counters by their sums; nothing where another process is doing so."""
    await connection.execute(_FOLD, {"workspace": workspace})
