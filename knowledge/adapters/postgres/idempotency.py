"""Idempotency keys in Postgres: an entry has the first that its event was told with, `further_keys` the others."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from knowledge.adapters.postgres.counting import locked_in_order
from knowledge.adapters.postgres.database import reading
from knowledge.adapters.postgres.tables import further_keys, knowledge_staging
from knowledge.errors import StorageUnavailable
from knowledge.models import EntryId

_E, _K = knowledge_staging.c, further_keys.c

_TAKEN = sa.select(_K.idempotency_key).where(
    _K.workspace == sa.bindparam("workspace"),
    _K.idempotency_key == sa.any_(sa.bindparam("told", type_=sa.ARRAY(sa.String))),
)


def given(name: str, **columns: sa.types.TypeEngine[Any]) -> sa.TableValuedAlias:
    """Return arrays that are bound by the names of their columns as a table: one statement, however many rows."""
    arrays = [sa.bindparam(each, type_=sa.ARRAY(type_)) for each, type_ in columns.items()]
    told = [sa.column(each, type_) for each, type_ in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*told, with_ordinality="place").render_derived(name=name)


def _give_keys() -> sa.Update:
    """Update entries that have no key, with theirs."""
    those = given("given", entry_id=UUID_TYPE(), its_key=sa.Text())
    ids = sa.bindparam("entry_id", type_=sa.ARRAY(UUID_TYPE))
    mine = (_E.workspace == sa.bindparam("of_workspace"), _E.id == sa.any_(ids))
    return (
        sa.update(knowledge_staging)
        .where(_E.id == those.c.entry_id, _E.idempotency_key.is_(None), locked_in_order(*mine))
        .values(idempotency_key=those.c.its_key)
    )


def _keep_keys() -> Any:
    """Insert further keys of entries that are there, but for those that another entry has."""
    told = given("told", entry_id=UUID_TYPE(), its_key=sa.Text())
    has_it = knowledge_staging.alias("has_it")
    taken = sa.exists().where(has_it.c.workspace == _E.workspace, has_it.c.idempotency_key == told.c.its_key)
    event = (_E.project_id, _E.task_id, _E.run_id, _E.content_hash)
    new = (
        sa.select(_E.workspace, told.c.its_key, _E.id, *event)
        .join_from(told, knowledge_staging, _E.id == told.c.entry_id)
        .where(_E.workspace == sa.bindparam("of_workspace"), ~taken)
        .order_by(told.c.its_key)  # so that two batches never wait for each other's
    )
    return insert(further_keys).from_select(list(further_keys.c), new).on_conflict_do_nothing()


_GIVE_KEYS, _KEEP_KEYS = _give_keys(), _keep_keys()
_GONE, _TO = sa.bindparam("gone", type_=UUID_TYPE()), sa.bindparam("to", type_=UUID_TYPE())
_STAYS = sa.exists().where(knowledge_staging.alias("stays").c.id == _TO)
_LEAVE_FURTHER = sa.update(further_keys).where(_K.entry_id == _GONE, _STAYS).values(entry_id=_TO)
_LEAVE_ITS_OWN = (
    insert(further_keys)
    .from_select(
        list(further_keys.c),
        sa.select(_E.workspace, _E.idempotency_key, _TO, _E.project_id, _E.task_id, _E.run_id, _E.content_hash).where(
            _E.id == _GONE, _E.idempotency_key.is_not(None), _STAYS
        ),
    )
    .on_conflict_do_nothing()
)


async def of_no_further_key(
    connection: AsyncConnection, workspace: str, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows whose idempotency key is no further one of an event that was told before."""
    told = [row["idempotency_key"] for row in rows if row["idempotency_key"] is not None]
    if not told:
        return rows
    taken = set((await connection.execute(_TAKEN, {"workspace": workspace, "told": told})).scalars())
    return [row for row in rows if row["idempotency_key"] not in taken]


async def give_keys(
    engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID], further: Mapping[str, UUID]
) -> None:
    """Give entries keys of their own, unless they have one by now, and further ones; none that another entry has."""
    for statement, keys in ((_GIVE_KEYS, owners), (_KEEP_KEYS, further)):
        if keys:
            await _give(engine, workspace, keys, statement)


async def _give(engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID], statement: sa.Executable) -> None:
    """Give entries idempotency keys, as theirs or as further ones, unless another entry has them by now."""
    try:
        await _give_at_once(engine, workspace, owners, statement)
    except (IntegrityError, StorageUnavailable):
        # Another entry came with one of the keys just now, or a batch that has some of them in another order, and
        # Postgres broke off one of the two. One by one, nobody waits while holding what others wait for.
        for key, entry_id in owners.items():
            with suppress(IntegrityError):
                await _give_at_once(engine, workspace, {key: entry_id}, statement)


async def _give_at_once(
    engine: AsyncEngine, workspace: str, owners: Mapping[str, UUID], statement: sa.Executable
) -> None:
    asked = {"of_workspace": workspace, "entry_id": list(owners.values()), "its_key": list(owners)}
    async with reading(engine) as connection:
        await connection.execute(statement, asked)


async def leave_keys(connection: AsyncConnection, gone: EntryId, to: EntryId) -> None:
    """Leave the keys of an entry that is about to go to another one, which answers for its event from then on."""
    asked = {"gone": gone, "to": to}
    await connection.execute(_LEAVE_FURTHER, asked)
    await connection.execute(_LEAVE_ITS_OWN, asked)
