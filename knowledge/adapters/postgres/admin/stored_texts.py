"""All texts of one workspace in Postgres, to be redacted again; documents apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.document_tables import (
    answer_cache,
    answer_feedback,
    escalations,
    kb_documents,
    kb_sources,
    qa_events,
)
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.counts import exclusive_transaction, is_any_of, recount
from knowledge.adapters.postgres.memory.entry_rows import ENTRY_COLUMNS, conditions_row, to_entry
from knowledge.adapters.postgres.memory.entry_writes import delete_entries, mark_points_dirty
from knowledge.adapters.postgres.memory_tables import (
    audit_log,
    checkpoints,
    distillations,
    distilled_from,
    entry_profiles,
    entry_versions,
    event_run,
    event_task,
    knowledge_staging,
    match_keys,
    pattern_maps,
    patterns,
)
from knowledge.adapters.postgres.memory_tables import (
    records as trials,
)
from knowledge.adapters.postgres.seals.entry_seals import rewrite
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.memory.rules.embedding_text import pattern_key
from knowledge.models import Entry, EntryId, EntryStatus, PatternId
from knowledge.ports import RedactedEntry, StoredTextStore

_E = knowledge_staging.c
_P = patterns.c
_K = match_keys.c
_PAGE = 200
RECORDS: dict[sa.Table, tuple[str, ...]] = {
    knowledge_staging: ("dead_reason",),
    checkpoints: ("report",),
    qa_events: ("payload",),
    escalations: ("question", "transcript", "suggested_fix"),
    answer_feedback: ("comment",),
    kb_documents: ("error", "link"),
    kb_sources: ("last_error",),
    entry_versions: ("texts", "reason"),
    patterns: ("tags",),
}
"""Columns with texts of tables that are rewritten in place."""
DERIVED: dict[sa.Table, tuple[str, ...]] = {
    answer_cache: ("answer",),
    pattern_maps: ("group_terms",),
    distillations: ("title", "problem", "when_to_try", "when_not_to_try", "refused"),
}
"""Columns with texts that are made again of others: a row with a secret is deleted."""


class PostgresStoredTexts(WorkspaceStore, StoredTextStore):
    """The texts of one workspace."""

    async def entries(self, *, after: EntryId | None, limit: int) -> list[Entry]:
        query = sa.select(*ENTRY_COLUMNS).where(_E.workspace == self._workspace).order_by(_E.id).limit(limit)
        if after is not None:
            query = query.where(_E.id > after)
        return [to_entry(row) for row in await self._all(query)]

    async def rewrite(self, redacted: Sequence[RedactedEntry]) -> tuple[int, int]:
        rewritten: list[UUID] = []
        same: list[EntryId] = []
        dirty: list[Sequence[UUID]] = []
        touched: set[UUID] = set()
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            for each in redacted:
                row = await self._lock(connection, each)
                if row is None:
                    continue
                if row.pattern_id is not None:
                    touched.add(row.pattern_id)
                    await self._rename_keys(connection, row.pattern_id, each)
                if await self._has_twin(connection, each):
                    same.append(each.before.entry_id)
                    continue
                await self._update(connection, each, row.status)
                rewritten.append(row.id)
                dirty.append(row.point_ids)
            await forget_derived(connection, self._workspace, rewritten, touched)
            await mark_points_dirty(connection, dirty)
            await recount(connection, touched)
            if same:
                await delete_entries(connection, self._workspace, same)
        return len(rewritten), len(same)

    async def _lock(self, connection: AsyncConnection, redacted: RedactedEntry) -> sa.Row[*tuple[Any, ...]] | None:
        """Lock an entry whose texts are still as they were read, and return what is known of it."""
        before = {name: getattr(redacted.before, name) for name in redacted.texts}
        before |= {"dead_ends": list(redacted.before.dead_ends)} if "dead_ends" in before else {}
        unchanged = [_E[name].is_not_distinct_from(value) for name, value in before.items()]
        query = sa.select(_E.id, _E.status, _E.pattern_id, _E.point_ids).where(
            _E.workspace == self._workspace, _E.id == redacted.before.entry_id, *unchanged
        )
        return (await connection.execute(query.with_for_update())).first()

    async def _has_twin(self, connection: AsyncConnection, redacted: RedactedEntry) -> bool:
        """Return whether another entry of the same task and run has the same content now."""
        before = redacted.before
        twin = sa.exists().where(
            _E.workspace == self._workspace,
            _E.project_id == before.project_id,
            event_task == (before.task_id or ""),
            event_run == (before.run_id or ""),
            _E.content_hash == redacted.content_hash,
            _E.id != before.entry_id,
        )
        return bool(await connection.scalar(sa.select(twin)))

    async def _update(
        self, connection: AsyncConnection, redacted: RedactedEntry, status: str, *, strict: bool = False
    ) -> None:
        values: dict[str, Any] = {
            **redacted.texts,
            "applies_when": conditions_row(redacted.applies_when),
            "content_hash": redacted.content_hash,
            "lease_token": None,  # a checkpoint that has the old texts may not mark them
            "lease_until": None,
            "point_ids": [],
        }
        if status == EntryStatus.EMBEDDED:  # the pattern stays: it is a decision that stands
            values |= {"status": EntryStatus.STAGED, "embedded_at": None, "expires_at": None, "attempts": 0}
        mine = _E.id == redacted.before.entry_id
        update = sa.update(knowledge_staging).where(mine).values(**values)
        await rewrite(connection, self._workspace, update, mine, strict=strict)

    async def _rename_keys(self, connection: AsyncConnection, pattern_id: UUID, redacted: RedactedEntry) -> None:
        """Bind a pattern to the keys of the redacted texts in place of those that a secret can be guessed from."""
        of_workspace = _K.workspace == self._workspace
        for before, after in redacted.keys.items():
            taken = sa.exists().where(_P.workspace == self._workspace, _P.match_key == after)
            is_taken = bool(await connection.scalar(sa.select(taken)))
            founded = sa.update(patterns).where(_P.id == pattern_id, _P.match_key == before)
            key = pattern_key(PatternId(pattern_id)) if is_taken else after
            await connection.execute(founded.values(match_key=key))
            await seal_rows(connection, self._workspace, patterns, _P.id == pattern_id)
            gone = sa.delete(match_keys).where(of_workspace, _K.match_key == before).returning(match_keys)
            for row in (await connection.execute(gone)).mappings().all():
                again = insert(match_keys).values(**dict(row) | {"match_key": after})
                await connection.execute(again.on_conflict_do_nothing())
            await seal_rows(connection, self._workspace, match_keys, _K.match_key == after)

    async def rewrite_records(self, redact: Callable[[str], str], *, dry_run: bool) -> int:
        changed = 0
        for table, columns in {**RECORDS, **DERIVED}.items():
            async for page in self._pages(table, columns):
                rows = await asyncio.to_thread(_changes, page, columns, redact)
                changed += len(rows)
                if rows and not dry_run:
                    await self._write_rows(table, rows)
        return changed

    async def _write_rows(self, table: sa.Table, rows: Sequence[tuple[sa.RowMapping, dict[str, Any]]]) -> None:
        async with transaction(self._engine) as connection:
            for row, values in rows:
                mine = [column == row[column.name] for column in table.primary_key]
                if table in DERIVED:
                    await connection.execute(sa.delete(table).where(*mine))
                else:
                    await connection.execute(sa.update(table).where(*mine).values(**values))

    async def _pages(self, table: sa.Table, columns: Sequence[str]) -> AsyncIterator[Sequence[sa.RowMapping]]:
        """Yield the rows of a table that have any of the columns, a page at a time, by primary key."""
        keys = list(table.primary_key)
        has_any = sa.or_(*(table.c[name].is_not(None) for name in columns))
        query = sa.select(*keys, *(table.c[name] for name in columns)).where(has_any, self._is_ours(table))
        query = query.order_by(*keys).limit(_PAGE)
        after: Sequence[Any] | None = None
        while True:
            later = query if after is None else query.where(sa.tuple_(*keys) > sa.tuple_(*map(sa.literal, after)))
            async with autocommit(self._engine) as connection:
                page = (await connection.execute(later)).mappings().all()
            if not page:
                return
            yield page
            after = [page[-1][column.name] for column in keys]

    def _is_ours(self, table: sa.Table) -> sa.ColumnElement[bool]:
        if "workspace" in table.c:
            return table.c.workspace == self._workspace
        return sa.exists().where(_P.id == table.c.pattern_id, _P.workspace == self._workspace)

    async def audit_details(self) -> AsyncIterator[str]:
        async for page in self._pages(audit_log, ("details",)):
            for row in page:
                yield row["details"]


def _changes(
    page: Sequence[sa.RowMapping], columns: Sequence[str], redact: Callable[[str], str]
) -> list[tuple[sa.RowMapping, dict[str, Any]]]:
    """Return the rows that redaction changes, with their new values."""
    changed = []
    for row in page:
        values = {name: new for name in columns if (new := redact_value(row[name], redact)) != row[name]}
        if values:
            changed.append((row, values))
    return changed


def redact_value(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value of JSON with all texts in it redacted; keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_value(each, redact) for key, each in value.items()}
    if isinstance(value, list):
        return [redact_value(each, redact) for each in value]
    return value


async def forget_derived(
    connection: AsyncConnection, workspace: str, entry_ids: Sequence[UUID], pattern_ids: set[UUID]
) -> None:
    """Delete what was computed of the texts of entries, and what a model wrote of them."""
    await connection.execute(sa.delete(entry_profiles).where(is_any_of(entry_profiles.c.entry_id, entry_ids)))
    hashes = dict.fromkeys(("arm_key", "situation_key", "task_key", "error_key"))
    theirs = is_any_of(trials.c.entry_id, entry_ids)
    await connection.execute(sa.update(trials).where(theirs).values(**hashes))
    await seal_rows(connection, workspace, trials, theirs)
    made_of = sa.select(distilled_from.c.pattern_id).where(is_any_of(distilled_from.c.entry_id, entry_ids))
    gone = sa.or_(distillations.c.pattern_id.in_(made_of), is_any_of(distillations.c.pattern_id, pattern_ids))
    await connection.execute(sa.delete(distillations).where(gone))
