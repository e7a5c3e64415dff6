"""Lists of one workspace in Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hardwon.models.lists import Attempt, PatternSort
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.adapters.postgres.lists.pattern_pages import (
    conditions_of,
    count_facets,
    page_of_ids,
    read_attempts,
    read_outcomes,
)
from knowledge.adapters.postgres.lists.trends import count_days
from knowledge.adapters.postgres.lists.words import patterns_with, read_entries_with
from knowledge.adapters.postgres.memory.entry_rows import capture_time, is_behind, to_entry
from knowledge.adapters.postgres.memory.patterns import live_patterns
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.adapters.postgres.seals.entry_seals import SEALED_COLUMNS, read_genuine
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.models import Entry, EntryId, EntryStatus, PatternId
from knowledge.ports import DayCounts, EntryQuery, ListStore, PatternPage, PatternQuery, PatternRow

_E = knowledge_staging.c


class PostgresLists(WorkspaceStore, ListStore):
    """Lists of one workspace, each of one or two statements."""

    async def entries(self, query: EntryQuery, *, after: EntryId | None, limit: int) -> list[Entry]:
        ordered = (
            sa.select(*SEALED_COLUMNS)
            .where(_E.workspace == self._workspace, *_conditions(query))
            .order_by(_E.timestamp.desc(), _E.id)
        )
        async with autocommit(self._engine) as connection:
            at = None if after is None else await capture_time(connection, self._workspace, after)

            async def read(last: sa.Row[Any] | None, wanted: int) -> Sequence[sa.Row[Any]]:
                place = (at, after) if last is None else (last.captured_at, last.entry_id)
                statement = ordered if place[0] is None else ordered.where(*is_behind(*place))
                if not query.words:
                    return (await connection.execute(statement.limit(wanted))).all()
                return await read_entries_with(
                    connection, self._workspace, query.words, ordered=statement, status=query.status, limit=wanted
                )

            rows = await read_genuine(ledger_of(self._engine), self._workspace, read, limit)
        return [to_entry(row) for row in rows]

    async def patterns(
        self,
        query: PatternQuery,
        *,
        sort: PatternSort,
        after: PatternId | None,
        limit: int,
        now: datetime,
        with_facets: bool = False,
    ) -> PatternPage:
        rows: list[PatternRow] = []
        async with autocommit(self._engine) as connection:
            among = await patterns_with(connection, self._workspace, query.words) if query.words else None
            conditions = list(conditions_of(self._workspace, query, among))
            while len(rows) < limit:  # expired patterns, which the next prune deletes, are left out of a page
                wanted = limit - len(rows)
                page = await page_of_ids(connection, conditions, sort, after=after, limit=wanted)
                ids = [row.id for row in page]
                live = await live_patterns(connection, self._workspace, ids, now)
                outcomes = await read_outcomes(connection, ids)
                rows += [
                    PatternRow(live[row.id], row.last_seen_at, outcomes.get(row.id, ""), row.trusted)
                    for row in page
                    if row.id in live
                ]
                if len(page) < wanted:
                    break
                after = ids[-1]
            if not with_facets:
                return PatternPage(rows=rows)
            total, is_capped, facets = await count_facets(connection, conditions)
        return PatternPage(rows=rows, total=total, is_capped=is_capped, facets=facets)

    async def attempts(self, pattern_id: PatternId, *, limit: int) -> list[Attempt]:
        async with autocommit(self._engine) as connection:
            return await read_attempts(connection, self._workspace, pattern_id, limit)

    async def day_counts(self, since: datetime) -> DayCounts:
        async with autocommit(self._engine) as connection:
            return await count_days(connection, self._workspace, since)


def _conditions(query: EntryQuery) -> Iterator[sa.ColumnElement[bool]]:
    if query.status is None:
        yield _E.status != EntryStatus.QUARANTINED
    else:
        yield _E.status == sa.literal(query.status.value, literal_execute=True)  # for the partial indexes
    equal = {
        _E.project_id: query.project_id,
        _E.entry_type: query.entry_type,
        _E.technology: query.technology,
        _E.agent_type: query.agent_type,
    }
    for column, value in equal.items():
        if value is not None:
            yield column == value
    if query.since is not None:
        yield _E.timestamp >= query.since
    if query.until is not None:
        yield _E.timestamp < query.until
