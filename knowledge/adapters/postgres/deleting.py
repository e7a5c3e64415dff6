"""Deletion of entries with their points, and of projects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.counting import is_any_of, lock_in_order, recount
from knowledge.adapters.postgres.points import mark_dirty
from knowledge.adapters.postgres.tables import checkpoints, contexts, knowledge_staging, outcomes, points, projects
from knowledge.models import EntryId, EntryStatus

_E = knowledge_staging.c


async def delete_entries(
    connection: AsyncConnection,
    workspace: str,
    entry_ids: Sequence[EntryId],
    *,
    while_it_is: EntryStatus | None = None,
) -> int:
    """Delete entries, only those in a status if one is given; mark their points dirty and recount; return how many.

    Use an `exclusive_transaction`.
    """
    conditions = [_E.workspace == workspace, is_any_of(_E.id, entry_ids)]
    if while_it_is is not None:
        conditions.append(_E.status == while_it_is)
    gone = sa.delete(knowledge_staging).where(lock_in_order(*conditions))
    rows = (await connection.execute(gone.returning(_E.pattern_id, _E.point_ids))).all()
    await mark_points_dirty(connection, [row.point_ids for row in rows])
    await recount(connection, {row.pattern_id for row in rows} - {None})
    return len(rows)


async def mark_points_dirty(connection: AsyncConnection, of_each: Iterable[Sequence[UUID]]) -> None:
    """Mark dirty the points of entries that a checkpoint decided on and that will not be embedded."""
    left = {point_id for point_ids in of_each for point_id in point_ids}
    if left:
        await mark_dirty(connection, is_any_of(points.c.id, left))


async def forget_project(connection: AsyncConnection, workspace: str, project_id: str) -> bool:
    """Delete the records of a project without entries, and recount; return False, and do nothing, if it has entries.

    Use an `exclusive_transaction`.
    """

    def of_project(table: sa.Table) -> sa.ColumnElement[bool]:
        return sa.and_(table.c.workspace == workspace, table.c.project_id == project_id)

    # a running batch locks the project's row: it is either seen here, or comes after and creates the row again, as a
    # single capture does
    await connection.execute(sa.select(projects.c.project_id).where(of_project(projects)).with_for_update())
    if await connection.scalar(sa.select(sa.exists().where(of_project(knowledge_staging)))):
        return False
    its_contexts = sa.select(contexts.c.id).where(of_project(contexts))
    its_outcomes = sa.or_(of_project(outcomes), outcomes.c.context_id.in_(its_contexts))
    gone = sa.delete(outcomes).where(its_outcomes).returning(outcomes.c.pattern_id)
    others = set((await connection.execute(gone)).scalars())  # patterns of other projects tried in this one
    for table in (contexts, checkpoints, projects):
        await connection.execute(sa.delete(table).where(of_project(table)))
    await recount(connection, others)
    return True
