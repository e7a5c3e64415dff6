"""What goes for good, with what rests on it alone: entries, their points, a project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.counting import among, locked_in_order, recount
from knowledge.adapters.postgres.points import doubt
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
    """Delete entries, those of a status only if one is given, note down their points, recount; return how many.

    Be `alone`.
    """
    which = [_E.workspace == workspace, among(_E.id, entry_ids)]
    if while_it_is is not None:
        which.append(_E.status == while_it_is)
    gone = sa.delete(knowledge_staging).where(locked_in_order(*which))
    rows = (await connection.execute(gone.returning(_E.pattern_id, _E.point_ids))).all()
    await leave_points(connection, [row.point_ids for row in rows])
    await recount(connection, {row.pattern_id for row in rows} - {None})
    return len(rows)


async def leave_points(connection: AsyncConnection, of_each: Iterable[Sequence[UUID]]) -> None:
    """Note down the points of entries that a checkpoint decided about and that will not be embedded."""
    left = {point_id for point_ids in of_each for point_id in point_ids}
    if left:
        await doubt(connection, among(points.c.id, left))


async def forget_project(connection: AsyncConnection, workspace: str, project_id: str) -> bool:
    """Delete what is told of a project that has no entries any more, recount; False, and nothing, where it has some.

    Be `alone`.
    """

    def of_project(table: sa.Table) -> sa.ColumnElement[bool]:
        return sa.and_(table.c.workspace == workspace, table.c.project_id == project_id)

    # a batch that is under way holds the project's row: either it is seen, or it comes after, and makes the row again,
    # as a single capture does whose row went meanwhile
    await connection.execute(sa.select(projects.c.project_id).where(of_project(projects)).with_for_update())
    if await connection.scalar(sa.select(sa.exists().where(of_project(knowledge_staging)))):
        return False
    handed_out = sa.select(contexts.c.id).where(of_project(contexts))
    told = sa.or_(of_project(outcomes), outcomes.c.context_id.in_(handed_out))
    gone = sa.delete(outcomes).where(told).returning(outcomes.c.pattern_id)
    others = set((await connection.execute(gone)).scalars())  # patterns of other projects that were tried in this one
    for table in (contexts, checkpoints, projects):
        await connection.execute(sa.delete(table).where(of_project(table)))
    await recount(connection, others)
    return True
