"""Adding entries to Postgres once each: a duplicate, by idempotency key or content, returns the entry that is there."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.errors import StorageUnavailable
from knowledge.adapters.postgres.engine.database import CompiledQuery, autocommit, fetch, transaction
from knowledge.adapters.postgres.memory.counts import is_any_of, lock_in_order, recount
from knowledge.adapters.postgres.memory.entry_rows import COLUMN_NAMES, to_row
from knowledge.adapters.postgres.memory.points import mark_dirty
from knowledge.adapters.postgres.memory_tables import (
    checkpoints,
    contexts,
    event_run,
    event_task,
    knowledge_staging,
    outcomes,
    points,
    projects,
    seal_chains,
)
from knowledge.adapters.postgres.seals.entry_seals import forget_seals, seal_row
from knowledge.adapters.postgres.seals.ledger import Ledger, Move, advance, ledger_of, move_params
from knowledge.adapters.postgres.seals.row_seals import forget_outcomes
from knowledge.models import CaptureOutcome, CaptureResult, Entry, EntryId, EntryStatus

_E = knowledge_staging.c
_COLUMNS = [_E[name] for name in COLUMN_NAMES]
_PROJECT = (
    insert(projects)
    .values(workspace=sa.bindparam("workspace"), project_id=sa.bindparam("project_id"))
    .on_conflict_do_nothing()
    .returning(projects.c.project_id)
    .cte("project")
)
# The entry is selected from the project's insert, so that the project comes first, as in a batch: holding the entry's
# keys while waiting for a project that a batch inserts would be a deadlock.
# looked up for each row: for EXISTS the planner reads all contexts where a batch is large
_OF_ITS_TASK: sa.Select[tuple[Any]] = sa.select(sa.literal_column("1")).where(
    # spelt out: the row being inserted, not a table to read
    contexts.c.workspace == sa.literal_column("knowledge_staging.workspace"),
    contexts.c.project_id == sa.literal_column("knowledge_staging.project_id"),
    contexts.c.task_id == sa.literal_column("knowledge_staging.task_id"),
)
_INFORMED = _OF_ITS_TASK.limit(1).scalar_subquery().is_not(None).label("informed")
_WAS_INFORMED = sa.and_(
    _E.status == EntryStatus.STAGED,
    _OF_ITS_TASK.where(contexts.c.created_at <= sa.literal_column("knowledge_staging.timestamp"))
    .limit(1)
    .scalar_subquery()
    .is_not(None),
).label("informed")
_INSERT_ONE = (
    insert(knowledge_staging)
    .from_select(
        _COLUMNS,
        sa.select(*(sa.bindparam(column.name, type_=column.type) for column in _COLUMNS)).select_from(
            sa.select(sa.func.count()).select_from(_PROJECT).subquery("project_first")
        ),
    )
    .on_conflict_do_nothing()
    .returning(_E.id, _INFORMED)
)


def _insert_one_sealed() -> sa.Select[Any]:
    """Insert an entry with its seal and move a chain on, in one statement; neither if the chain was moved by another.

    The division fails then: the statement has to, for it commits by itself.
    """
    columns = [*_COLUMNS, _E.seal]
    values = [sa.bindparam(column.name, type_=column.type) for column in columns]
    project_first = sa.select(sa.func.count()).select_from(_PROJECT).subquery("project_first")
    entry = insert(knowledge_staging).from_select(columns, sa.select(*values).select_from(project_first))
    added = entry.on_conflict_do_nothing().returning(_E.id, _INFORMED).cte("added")
    given = [sa.bindparam(f"chain_{column.name}", type_=column.type) for column in seal_chains.c]
    link = insert(seal_chains).from_select(list(seal_chains.c), sa.select(*given).select_from(added))
    moved = advance(link).cte("moved")
    is_moved = sa.select(sa.func.count()).select_from(moved).scalar_subquery()
    return sa.select(added.c.id, added.c.informed, sa.literal_column("1") / is_moved)


_ADD_ONE, _ADD_ONE_SEALED = CompiledQuery(_INSERT_ONE), CompiledQuery(_insert_one_sealed())
_INSERT_MANY = insert(knowledge_staging).on_conflict_do_nothing().returning(_E.id, _E.seal, _INFORMED)


_INSERT_PROJECTS = insert(projects).on_conflict_do_nothing().returning(projects.c.project_id)
_LOCK_PROJECTS = (
    sa.select(projects.c.project_id)
    .where(
        projects.c.workspace == sa.bindparam("workspace"),
        projects.c.project_id == sa.any_(sa.bindparam("named", type_=sa.ARRAY(sa.String))),
    )
    .order_by(projects.c.project_id)
    .with_for_update(read=True, key_share=True)
)
_DELETED_MEANWHILE = CaptureResult(
    outcome=CaptureOutcome.REFUSED, error="it was deleted while it was captured; capture it again"
)
"""The result for an entry that a unique key rejected, and whose duplicate is gone by now."""
_IDENTITY = ("idempotency_key", "project_id", "task_id", "run_id", "content_hash")
"""Columns that identify a repeated entry: its key, else its content, task and run."""


def _unnest(name: str, **columns: sa.types.TypeEngine[Any]) -> sa.TableValuedAlias:
    """Return array parameters, named as the columns, as a table: one statement for any number of rows."""
    arrays = [sa.bindparam(each, type_=sa.ARRAY(type_)) for each, type_ in columns.items()]
    parts = [sa.column(each, type_) for each, type_ in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*parts, with_ordinality="place").render_derived(name=name)


def _select_duplicates() -> sa.Select[Any]:
    """Select the rows that are duplicates of given entries: by idempotency key first, else by content."""
    incoming = _unnest("told", **dict.fromkeys(_IDENTITY, sa.Text()))
    same_key = (_E.idempotency_key == incoming.c.idempotency_key,)
    same_event = (
        _E.project_id == incoming.c.project_id,
        event_task == incoming.c.task_id,
        event_run == incoming.c.run_id,
        _E.content_hash == incoming.c.content_hash,
    )
    columns = (_E.id, _E.status, _E.agent_key, *(_E[name] for name in _IDENTITY), _WAS_INFORMED)
    found = sa.union_all(  # one condition with OR would use neither of the two indexes
        *(
            sa.select(*columns, sa.literal_column(str(rank)).label("rank"))
            .where(_E.workspace == sa.bindparam("workspace"), *same)
            .correlate(incoming)
            for rank, same in enumerate((same_key, same_event))
        )
    ).subquery("found")
    there = sa.select(found).order_by(found.c.rank).limit(1).lateral("there")
    return sa.select(incoming.c.place, there).join_from(incoming, there, sa.true())


def _update_keys() -> sa.Update:
    assignments = _unnest("given", entry_id=UUID_TYPE(), its_key=sa.Text())
    ids = sa.bindparam("entry_id", type_=sa.ARRAY(UUID_TYPE))
    mine = (_E.workspace == sa.bindparam("of_workspace"), _E.id == sa.any_(ids))
    return (
        sa.update(knowledge_staging)
        .where(_E.id == assignments.c.entry_id, _E.idempotency_key.is_(None), lock_in_order(*mine))
        .values(idempotency_key=assignments.c.its_key)
    )


# Built once: they are used for every replayed batch, and for every single capture that is repeated.
_DUPLICATES, _UPDATE_KEYS = _select_duplicates(), _update_keys()


async def add_entries(engine: AsyncEngine, workspace: str, entries: Sequence[Entry]) -> list[CaptureResult]:
    """Add entries of a workspace, each once; return the result of each, in order."""
    identities = [
        (each.idempotency_key, each.project_id, each.task_id, each.run_id, each.content_hash) for each in entries
    ]
    first: dict[tuple[str | None, ...], Entry] = {}  # repetitions in a batch are written and looked up once
    for entry, identity in zip(entries, identities, strict=True):
        first.setdefault(identity, entry)
    rows = [to_row(entry) | {"workspace": workspace} for entry in first.values()]
    ledger = ledger_of(engine)
    for row in rows:
        seal_row(ledger, workspace, row)
    stored = None
    if len(rows) == 1:
        stored = await _add_one(engine, ledger, rows[0])
    if stored is None:
        async with transaction(engine) as connection:
            stored = await _add_many(connection, workspace, rows)
    rejected: dict[tuple[str | None, ...], Entry] = {}
    for entry, identity in zip(entries, identities, strict=True):
        if entry.entry_id not in stored:
            rejected.setdefault(identity, entry)
    duplicates = dict(
        zip(rejected, await _results_of_duplicates(engine, workspace, list(rejected.values())), strict=True)
    )
    return [
        CaptureResult(
            outcome=CaptureOutcome.ACCEPTED,
            entry_id=entry.entry_id,
            status=entry.status,
            informed=stored[entry.entry_id],
        )
        if entry.entry_id in stored
        else duplicates[identity] or _DELETED_MEANWHILE
        for entry, identity in zip(entries, identities, strict=True)
    ]


async def _add_one(engine: AsyncEngine, ledger: Ledger, row: dict[str, Any]) -> dict[Any, bool] | None:
    """Add an entry by one statement, a transaction of its own: one round trip, one fsync.

    Returns None, and adds nothing, if its project was deleted just then, or Postgres rejects it for another reason.
    """
    workspace: str = row["workspace"]
    move: Move | None = None
    statement = _ADD_ONE
    if ledger.keys is not None:
        move = ledger.take(workspace, ledger.keys.total([row["seal"]]))
        statement = _ADD_ONE_SEALED
    conditions = row["applies_when"]
    params = {**row, **move_params(move), "applies_when": None if conditions is None else json.dumps(conditions)}
    try:
        added = {each["id"]: each["informed"] for each in await fetch(engine, statement, params)}
    except (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError):  # a division: another moved the chain on
        return None
    if move is not None:
        ledger.give_back(workspace, move.after if added else move.before)
    return added


async def _add_many(connection: AsyncConnection, workspace: str, rows: list[dict[str, Any]]) -> dict[Any, bool]:
    if not rows:
        return {}
    await _lock_projects(connection, workspace, {row["project_id"] for row in rows})
    added = (await connection.execute(_INSERT_MANY, _sort_by_event(rows))).all()
    await ledger_of(connection.engine).record(connection, workspace, added=[row.seal for row in added])
    return {row.id: row.informed for row in added}


async def _lock_projects(connection: AsyncConnection, workspace: str, project_ids: Collection[str]) -> None:
    """Lock projects until the transaction ends, creating those that are missing or are deleted meanwhile."""
    missing = set(project_ids)
    while missing:
        params = {"workspace": workspace, "named": sorted(missing)}
        missing -= set((await connection.execute(_LOCK_PROJECTS, params)).scalars())
        # in one order, so that two batches never wait for each other's projects
        new = [{"workspace": workspace, "project_id": project_id} for project_id in sorted(missing)]
        if new:
            missing -= set((await connection.execute(_INSERT_PROJECTS, new)).scalars())


async def _results_of_duplicates(
    engine: AsyncEngine, workspace: str, entries: Sequence[Entry]
) -> list[CaptureResult | None]:
    """Return the result of each duplicate; one without idempotency key takes that of the first entry that has one."""
    rows = await _find_duplicates(engine, workspace, entries)
    owners: dict[str, UUID] = {}
    assigned: set[UUID] = set()
    for entry, row in zip(entries, rows, strict=True):
        key = entry.idempotency_key
        if key is None or row is None or row.idempotency_key is not None or key in owners or row.id in assigned:
            continue
        if entry.low_trust and entry.agent_key != row.agent_key:
            continue
        owners[key] = row.id
        assigned.add(row.id)
    if owners:
        await _set_keys(engine, workspace, owners)
        rows = await _find_duplicates(engine, workspace, entries)  # of two with one key, the other may have taken it
    return [None if row is None else _to_captured(row, entry) for entry, row in zip(entries, rows, strict=True)]


async def _set_keys(engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID]) -> None:
    """Set idempotency keys of entries, unless they have one by now, or another entry has it."""
    try:
        await _set_all_keys(engine, workspace, owners)
    except (IntegrityError, StorageUnavailable):
        # Another entry took one of the keys just now, or a batch with some of them in another order caused a deadlock.
        # One by one, no call waits while holding a lock that others wait for.
        for key, entry_id in owners.items():
            with suppress(IntegrityError):
                await _set_all_keys(engine, workspace, {key: entry_id})


async def _set_all_keys(engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID]) -> None:
    params = {"of_workspace": workspace, "entry_id": list(owners.values()), "its_key": list(owners)}
    async with autocommit(engine) as connection:
        await connection.execute(_UPDATE_KEYS, params)


async def find_duplicate(engine: AsyncEngine, workspace: str, entry: Entry) -> CaptureResult | None:
    """Return the result for an entry that is a duplicate, None for a new one."""
    (row,) = await _find_duplicates(engine, workspace, [entry])
    return None if row is None else _to_captured(row, entry)


async def _find_duplicates(
    engine: AsyncEngine, workspace: str, entries: Sequence[Entry]
) -> list[sa.Row[*tuple[Any, ...]] | None]:
    """Return the duplicate of each entry, in order, by one statement for any number of entries."""
    if not entries:
        return []
    params = {name: [getattr(entry, name) for entry in entries] for name in _IDENTITY}
    for name in ("task_id", "run_id"):
        params[name] = [each or "" for each in params[name]]  # as the index of events has them
    async with autocommit(engine) as connection:
        found = await connection.execute(_DUPLICATES, {"workspace": workspace, **params})
        rows = {row.place: row for row in found}
    return [rows.get(place) for place in range(1, len(entries) + 1)]


def _to_captured(row: sa.Row[*tuple[Any, ...]], entry: Entry) -> CaptureResult:
    """Return the result for an entry that is a duplicate of this row."""
    identity = (entry.content_hash, entry.project_id, entry.task_id, entry.run_id)
    if (row.content_hash, row.project_id, row.task_id, row.run_id) != identity:
        return CaptureResult(
            outcome=CaptureOutcome.REFUSED,
            field="idempotency_key",
            error="was used before for another entry",
            entry_id=EntryId(row.id),
        )
    return CaptureResult(
        outcome=CaptureOutcome.DUPLICATE,
        entry_id=EntryId(row.id),
        status=EntryStatus(row.status),
        informed=row.informed,
    )


def _sort_by_event(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by their events, so that two batches never deadlock; rows of one key stay in order."""
    events = [(row["project_id"], row["task_id"] or "", row["run_id"] or "", row["content_hash"]) for row in rows]
    of_key: dict[Any, tuple[str, ...]] = {}
    for row, event in zip(rows, events, strict=True):
        of_key.setdefault(row["idempotency_key"] or event, event)
    places = [of_key[row["idempotency_key"] or event] for row, event in zip(rows, events, strict=True)]
    return [rows[index] for index in sorted(range(len(rows)), key=places.__getitem__)]


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
    rows = (await connection.execute(gone.returning(_E.pattern_id, _E.point_ids, _E.seal))).all()
    await forget_seals(connection, workspace, [row.seal for row in rows])
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
    await forget_outcomes(connection, workspace, its_outcomes)
    gone = sa.delete(outcomes).where(its_outcomes).returning(outcomes.c.pattern_id)
    others = set((await connection.execute(gone)).scalars())  # patterns of other projects tried in this one
    for table in (contexts, checkpoints, projects):
        await connection.execute(sa.delete(table).where(of_project(table)))
    await recount(connection, others)
    return True
