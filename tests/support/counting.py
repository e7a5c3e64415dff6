"""Counts of a store as its tables say, to be compared with its counters."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from knowledge.adapters.postgres.engine.database import autocommit

Counts = dict[tuple[str, str], int]
"""By workspace and name; without those that are 0."""

_COUNTED = sa.text("""
    SELECT workspace, 'entries.' || status AS name, count(*) AS total FROM knowledge_staging GROUP BY 1, 2
    UNION ALL SELECT workspace, 'patterns', count(*) FROM patterns WHERE success_count > 0 GROUP BY 1
    UNION ALL SELECT workspace, 'points', count(*) FROM points WHERE look_at IS NULL GROUP BY 1
    UNION ALL SELECT workspace, 'checkpoints', count(*) FROM checkpoints GROUP BY 1
    UNION ALL SELECT points.workspace, 'vectors.' || space, sum(length(vector))
        FROM vectors JOIN points ON points.id = vectors.point_id GROUP BY 1, 2
""")
_KEPT = sa.text("SELECT workspace, name, sum(change) AS total FROM counters GROUP BY 1, 2 HAVING sum(change) <> 0")


async def counted(engine: AsyncEngine) -> Counts:
    """Return the counts of all workspaces, counted."""
    return await _counts(engine, _COUNTED)


async def of_counters(engine: AsyncEngine) -> Counts:
    """Return the counts of all workspaces by the counters."""
    return await _counts(engine, _KEPT)


async def _counts(engine: AsyncEngine, query: sa.TextClause) -> Counts:
    async with autocommit(engine) as connection:
        return {(row.workspace, row.name): int(row.total) for row in await connection.execute(query)}
