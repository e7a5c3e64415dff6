"""Entries added in Postgres, each once: what keeps one out, by its idempotency key or its content, answers for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.counting import locked_in_order
from knowledge.adapters.postgres.database import reading, transaction
from knowledge.adapters.postgres.rows import COLUMN_NAMES, to_row
from knowledge.adapters.postgres.tables import contexts, event_run, event_task, knowledge_staging, projects
from knowledge.errors import StorageUnavailable
from knowledge.models import CaptureOutcome, CaptureResult, Entry, EntryId, EntryStatus

_E = knowledge_staging.c
_TOLD = [_E[name] for name in COLUMN_NAMES]
_PROJECT = (
    insert(projects)
    .values(workspace=sa.bindparam("workspace"), project_id=sa.bindparam("project_id"))
    .on_conflict_do_nothing()
    .returning(projects.c.project_id)
    .cte("project")
)
# The entry is made of what the project's insert gives, so that the project comes first, as in a batch: holding the
# entry's keys while waiting for a project that a batch inserts would be a deadlock.
_OF_ITS_TASK = sa.exists().where(
    # spelt out: the row that is inserted, and not a table to be read
    contexts.c.workspace == sa.literal_column("knowledge_staging.workspace"),
    contexts.c.project_id == sa.literal_column("knowledge_staging.project_id"),
    contexts.c.task_id == sa.literal_column("knowledge_staging.task_id"),
)
_INFORMED = _OF_ITS_TASK.label("informed")
_WAS_INFORMED = sa.and_(
    _E.status == EntryStatus.STAGED,
    _OF_ITS_TASK.where(contexts.c.created_at <= sa.literal_column("knowledge_staging.timestamp")),
).label("informed")
_INSERT_ONE = (
    insert(knowledge_staging)
    .from_select(
        _TOLD,
        sa.select(*(sa.bindparam(column.name, type_=column.type) for column in _TOLD)).select_from(
            sa.select(sa.func.count()).select_from(_PROJECT).subquery("project_first")
        ),
    )
    .on_conflict_do_nothing()
    .returning(_E.id, _INFORMED)
)
_INSERT_MANY = insert(knowledge_staging).on_conflict_do_nothing().returning(_E.id, _INFORMED)


_MAKE_PROJECTS = insert(projects).on_conflict_do_nothing().returning(projects.c.project_id)
_HOLD_THOSE_THERE = (
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
"""The answer to an entry that a unique key kept out, and that is not there any more."""

_KNOWN_BY = ("idempotency_key", "project_id", "task_id", "run_id", "content_hash")
"""What an entry is known again by: its key, else what it says of which task and run."""


def _given(name: str, **columns: sa.types.TypeEngine[Any]) -> sa.TableValuedAlias:
    """Return arrays that are bound by the names of their columns as a table: one statement, however many rows."""
    arrays = [sa.bindparam(each, type_=sa.ARRAY(type_)) for each, type_ in columns.items()]
    told = [sa.column(each, type_) for each, type_ in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*told, with_ordinality="place").render_derived(name=name)


def _in_place() -> sa.Select[Any]:
    """Select, of entries that are told, the rows that keep them out: by its idempotency key first, else its content."""
    told = _given("told", **dict.fromkeys(_KNOWN_BY, sa.Text()))
    same_key = (_E.idempotency_key == told.c.idempotency_key,)
    same_event = (
        _E.project_id == told.c.project_id,
        event_task == told.c.task_id,
        event_run == told.c.run_id,
        _E.content_hash == told.c.content_hash,
    )
    columns = (_E.id, _E.status, _E.agent_key, *(_E[name] for name in _KNOWN_BY), _WAS_INFORMED)
    found = sa.union_all(  # and not one condition with OR, which Postgres looks up in none of the two indexes
        *(
            sa.select(*columns, sa.literal_column(str(rank)).label("rank"))
            .where(_E.workspace == sa.bindparam("workspace"), *same)
            .correlate(told)
            for rank, same in enumerate((same_key, same_event))
        )
    ).subquery("found")
    there = sa.select(found).order_by(found.c.rank).limit(1).lateral("there")
    return sa.select(told.c.place, there).join_from(told, there, sa.true())


def _give_keys() -> sa.Update:
    given = _given("given", entry_id=UUID_TYPE(), its_key=sa.Text())
    ids = sa.bindparam("entry_id", type_=sa.ARRAY(UUID_TYPE))
    mine = (_E.workspace == sa.bindparam("of_workspace"), _E.id == sa.any_(ids))
    return (
        sa.update(knowledge_staging)
        .where(_E.id == given.c.entry_id, _E.idempotency_key.is_(None), locked_in_order(*mine))
        .values(idempotency_key=given.c.its_key)
    )


# Built once: a replayed batch is told in them, and so is each single capture that comes twice.
_IN_PLACE, _GIVE_KEYS = _in_place(), _give_keys()


async def add_entries(engine: AsyncEngine, workspace: str, entries: Sequence[Entry]) -> list[CaptureResult]:
    """Add entries of a workspace that are not there yet, each once; return what became of each, in order."""
    told = [(each.idempotency_key, each.project_id, each.task_id, each.run_id, each.content_hash) for each in entries]
    first: dict[tuple[str | None, ...], Entry] = {}  # what a batch tells again is written and looked up once
    for entry, event in zip(entries, told, strict=True):
        first.setdefault(event, entry)
    rows = [to_row(entry) | {"workspace": workspace} for entry in first.values()]
    stored = None
    if len(rows) == 1:
        stored = await _add_one(engine, rows[0])
    if stored is None:
        async with transaction(engine) as connection:
            stored = await _add_many(connection, workspace, rows)
    kept_out: dict[tuple[str | None, ...], Entry] = {}
    for entry, event in zip(entries, told, strict=True):
        if entry.entry_id not in stored:
            kept_out.setdefault(event, entry)
    there = dict(zip(kept_out, await _there(engine, workspace, list(kept_out.values())), strict=True))
    return [
        CaptureResult(
            outcome=CaptureOutcome.ACCEPTED,
            entry_id=entry.entry_id,
            status=entry.status,
            informed=stored[entry.entry_id],
        )
        if entry.entry_id in stored
        else there[event] or _DELETED_MEANWHILE
        for entry, event in zip(entries, told, strict=True)
    ]


async def _add_one(engine: AsyncEngine, row: dict[str, Any]) -> dict[Any, bool] | None:
    """Add an entry by one statement, a transaction of its own: one round trip, one fsync.

    None, and nothing is added, where its project went just then, or Postgres refuses it for another reason.
    """
    try:
        async with reading(engine) as connection:
            return {added.id: added.informed for added in await connection.execute(_INSERT_ONE, row)}
    except IntegrityError:
        return None


async def _add_many(connection: AsyncConnection, workspace: str, rows: list[dict[str, Any]]) -> dict[Any, bool]:
    if not rows:
        return {}
    await _hold_projects(connection, workspace, {row["project_id"] for row in rows})
    return {row.id: row.informed for row in await connection.execute(_INSERT_MANY, _by_event(rows))}


async def _hold_projects(connection: AsyncConnection, workspace: str, named: Collection[str]) -> None:
    """Have projects be there until the transaction ends: one that is deleted meanwhile is made again."""
    missing = set(named)
    while missing:
        asked = {"workspace": workspace, "named": sorted(missing)}
        missing -= set((await connection.execute(_HOLD_THOSE_THERE, asked)).scalars())
        # in one order, so that two batches never wait for each other's projects
        new = [{"workspace": workspace, "project_id": project_id} for project_id in sorted(missing)]
        if new:
            missing -= set((await connection.execute(_MAKE_PROJECTS, new)).scalars())


async def _there(engine: AsyncEngine, workspace: str, entries: Sequence[Entry]) -> list[CaptureResult | None]:
    """Return what is there in place of each; what has no idempotency key takes that of the first that has one."""
    rows = await _in_place_of(engine, workspace, entries)
    owners: dict[str, UUID] = {}
    given: set[UUID] = set()
    for entry, row in zip(entries, rows, strict=True):
        key = entry.idempotency_key
        if key is None or row is None or row.idempotency_key is not None or key in owners or row.id in given:
            continue
        if entry.low_trust and entry.agent_key != row.agent_key:
            continue
        owners[key] = row.id
        given.add(row.id)
    if owners:
        await _give(engine, workspace, owners)
        rows = await _in_place_of(engine, workspace, entries)  # for of two with one key, the other may have it now
    return [None if row is None else _answer(row, entry) for entry, row in zip(entries, rows, strict=True)]


async def _give(engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID]) -> None:
    """Give entries idempotency keys, unless they have one by now, or another entry has theirs."""
    try:
        await _give_at_once(engine, workspace, owners)
    except (IntegrityError, StorageUnavailable):
        # Another entry came with one of the keys just now, or a batch that has some of them in another order, and
        # Postgres broke off one of the two. One by one, nobody waits while holding what others wait for.
        for key, entry_id in owners.items():
            with suppress(IntegrityError):
                await _give_at_once(engine, workspace, {key: entry_id})


async def _give_at_once(engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID]) -> None:
    asked = {"of_workspace": workspace, "entry_id": list(owners.values()), "its_key": list(owners)}
    async with reading(engine) as connection:
        await connection.execute(_GIVE_KEYS, asked)


async def known_entry(engine: AsyncEngine, workspace: str, entry: Entry) -> CaptureResult | None:
    """Return the answer to an entry that another keeps out, None where nothing does."""
    (row,) = await _in_place_of(engine, workspace, [entry])
    return None if row is None else _answer(row, entry)


async def _in_place_of(
    engine: AsyncEngine, workspace: str, entries: Sequence[Entry]
) -> list[sa.Row[*tuple[Any, ...]] | None]:
    """Return the row that keeps each entry out, in order, by one statement however many there are."""
    if not entries:
        return []
    asked = {name: [getattr(entry, name) for entry in entries] for name in _KNOWN_BY}
    for name in ("task_id", "run_id"):
        asked[name] = [each or "" for each in asked[name]]  # as the index of events has them
    async with reading(engine) as connection:
        found = await connection.execute(_IN_PLACE, {"workspace": workspace, **asked})
        rows = {row.place: row for row in found}
    return [rows.get(place) for place in range(1, len(entries) + 1)]


def _answer(row: sa.Row[*tuple[Any, ...]], entry: Entry) -> CaptureResult:
    """Return the answer to an entry that this row keeps out."""
    told = (entry.content_hash, entry.project_id, entry.task_id, entry.run_id)
    if (row.content_hash, row.project_id, row.task_id, row.run_id) != told:
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


def _by_event(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by their events, so that two batches never wait for each other's; those of one key as they came."""
    events = [(row["project_id"], row["task_id"] or "", row["run_id"] or "", row["content_hash"]) for row in rows]
    of_key: dict[Any, tuple[str, ...]] = {}
    for row, event in zip(rows, events, strict=True):
        of_key.setdefault(row["idempotency_key"] or event, event)
    places = [of_key[row["idempotency_key"] or event] for row, event in zip(rows, events, strict=True)]
    return [rows[index] for index in sorted(range(len(rows)), key=places.__getitem__)]
