"""Lists of one workspace in Postgres."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, capture_time, to_entry
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.models import Entry, EntryId, EntryStatus
from knowledge.ports import EntryQuery, ListStore

_E = knowledge_staging.c
_TEXTS: Final = (
    _E.failure_description,
    _E.error_message,
    _E.solution_steps,
    _E.task_description,
    _E.human_feedback,
    _E.revision_approach,
    _E.proposal,
    _E.approved_approach,
    _E.when_to_try,
)
"""The columns that words are looked for in."""
_ESCAPE: Final = "\\"


class PostgresLists(WorkspaceStore, ListStore):
    """Lists of one workspace, each of one or two statements."""

    async def entries(self, query: EntryQuery, *, after: EntryId | None, limit: int) -> list[Entry]:
        statement = (
            sa.select(*ENTRY_COLUMNS)
            .where(_E.workspace == self._workspace, *_conditions(query))
            .order_by(_E.timestamp.desc(), _E.id)
            .limit(limit)
        )
        async with autocommit(self._engine) as connection:
            if after is not None:
                at = await capture_time(connection, self._workspace, after)
                # the first condition, which the second implies, is the one that an index is entered by
                statement = statement.where(_E.timestamp <= at, sa.or_(_E.timestamp < at, _E.id > after))
            return [to_entry(row) for row in await connection.execute(statement)]


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
    yield from contains_words(query.words)


def contains_words(words: Sequence[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield a condition for each word: it occurs in a text of the entry, in any case.

    No index can help: under row-level security Postgres uses one only for operators that it considers leakproof, and
    those of text search are not.
    """
    for word in words:
        escaped = word.replace(_ESCAPE, _ESCAPE * 2).replace("%", f"{_ESCAPE}%").replace("_", f"{_ESCAPE}_")
        yield sa.or_(*(text.ilike(f"%{escaped}%", escape=_ESCAPE) for text in _TEXTS))
