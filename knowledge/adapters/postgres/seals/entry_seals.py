"""Seals of entries: over the content and the place of each; made where it is stored, checked where it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict
from hardwon.event_log import get_logger
from knowledge.access.seals import SealKeys, canonical, note_refused
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.adapters.postgres.seals.ledger import Ledger, ledger_of
from knowledge.models import Entry
from knowledge.runtime.scheduling import yield_to_loop

log = get_logger(__name__)
_E = knowledge_staging.c
_RENAMED = {"entry_id": "id", "captured_at": "timestamp"}
COLUMN_OF = {field.name: _RENAMED.get(field.name, field.name) for field in fields(Entry)}
"""The column of each field of an entry."""
COLUMN_NAMES = tuple(COLUMN_OF.values())
ENTRY_COLUMNS = [_E[column].label(name) for name, column in COLUMN_OF.items()]
"""The columns of an entry, labelled as its fields."""
SEALED_COLUMNS = [*ENTRY_COLUMNS, _E.seal]

_FREE = {"workspace", "idempotency_key", "attempts", "dead_reason", "status", "pattern_id", "embedded_at", "expires_at"}
"""Columns that are not content: the key may be given later; the last four are covered as an entry's state."""
_CONTENT = tuple(index for index, name in enumerate(COLUMN_NAMES) if name not in _FREE)
_content = itemgetter(*_CONTENT)
_place = itemgetter(*map(COLUMN_NAMES.index, ("pattern_id", "embedded_at", "expires_at")))
_STATUS, _ID = map(COLUMN_NAMES.index, ("status", "id"))
_NO_PLACE = (None, None, None)
_CAPTURED = len(COLUMN_NAMES)
_COLUMNS = len(SEALED_COLUMNS)
_MAX_LOGGED = 100
"""Entries of a workspace that are logged one by one: of a store that was edited as a whole, the first ones say it."""
_MAX_REMEMBERED_BYTES = 8192
"""Of a row that verified; a longer one is hashed each time."""
_SLICE = 64
"""Rows verified before yielding to the event loop: 1 ms."""


def entry_message(workspace: str, row: Sequence[Any]) -> bytes:
    """Return what the seal of an entry covers, of a row that begins with `ENTRY_COLUMNS`, its conditions as a mapping.

    A dead entry counts as staged: it is one that the embedder refused, and is staged again at a word.
    """
    status = row[_STATUS]
    place = _place(row) if status == "embedded" else _NO_PLACE
    return canonical("entry", workspace, [*_content(row), "staged" if status == "dead" else status, *place])


def seal_row(ledger: Ledger, workspace: str, row: dict[str, Any]) -> None:
    """Add the seal to the column values of a new entry."""
    if ledger.keys is not None:
        row["seal"] = ledger.keys.seal(entry_message(workspace, [row[name] for name in COLUMN_NAMES]))


def verifies(keys: SealKeys, workspace: str, row: Sequence[Any]) -> bool:
    """Return whether a row of `SEALED_COLUMNS` has the seal of its content."""
    return keys.verifies(entry_message(workspace, row), row[_CAPTURED])


def is_genuine(ledger: Ledger, workspace: str, row: Sequence[Any]) -> bool:
    """Return whether a row of `SEALED_COLUMNS` is as it was stored; note it if not.

    A row that verified a while ago, and is the same in every column, is not hashed again: questions mostly read the
    same entries, and comparing takes a tenth of the time.
    """
    if ledger.keys is None:
        return True
    row = row[:_COLUMNS]
    verified = ledger.verified.get(row[_CAPTURED])
    if verified is not None and verified == (workspace, row):
        return True
    message = entry_message(workspace, row)
    if ledger.keys.verifies(message, row[_CAPTURED]):
        if len(message) <= _MAX_REMEMBERED_BYTES:
            ledger.remember(row[_CAPTURED], (workspace, row))
        return True
    entry_id = UUID(str(row[_ID]))
    ledger.refusals += 1
    note_refused(entry_id)
    if entry_id not in ledger.refused[workspace]:
        ledger.refused[workspace][entry_id] = None
        if len(ledger.refused[workspace]) <= _MAX_LOGGED:
            log.error("entry_altered", workspace=workspace, entry_id=str(entry_id))
    return False


async def read_genuine(
    ledger: Ledger,
    workspace: str,
    read: Callable[[sa.Row[Any] | None, int], Awaitable[Sequence[sa.Row[Any]]]],
    limit: int,
) -> list[sa.Row[Any]]:
    """Return the first rows of a list that are as they were stored.

    `read` returns so many rows of `SEALED_COLUMNS` as it is asked for, those behind the given one, unless there are
    fewer.
    """
    found: list[sa.Row[Any]] = []
    last: sa.Row[Any] | None = None
    while True:
        wanted = limit - len(found)
        rows = await read(last, wanted)
        for place, row in enumerate(rows):
            if place % _SLICE == _SLICE - 1:
                await yield_to_loop()
            if is_genuine(ledger, workspace, row):
                found.append(row)
        if len(rows) < wanted or len(found) == limit:
            return found
        last = rows[-1]


def _write_seals() -> sa.Update:
    given = sa.select(
        sa.func.unnest(sa.bindparam("ids", type_=sa.ARRAY(UUID_TYPE))).label("id"),
        sa.func.unnest(sa.bindparam("seals", type_=sa.ARRAY(sa.LargeBinary))).label("seal"),
    ).subquery("given")
    return sa.update(knowledge_staging).where(_E.id == given.c.id).values(seal=given.c.seal)


_WRITE_SEALS = _write_seals()


async def put_seals(connection: AsyncConnection, ids: Sequence[UUID], seals: Sequence[bytes]) -> None:
    """Write seals of entries, and nothing else of them."""
    await connection.execute(_WRITE_SEALS, {"ids": list(ids), "seals": list(seals)})


async def rewrite(
    connection: AsyncConnection,
    workspace: str,
    update: sa.Update,
    *which: sa.ColumnElement[bool],
    params: Mapping[str, Any] | None = None,
    also: Sequence[sa.ColumnElement[Any]] = (),
    strict: bool = False,
) -> Sequence[sa.Row[Any]]:
    """Update entries that are locked by `which`, and seal them anew; return rows of `SEALED_COLUMNS` and `also`.

    One that did not verify before is not sealed, so that it never does; `strict`: raise Conflict for it.
    """
    ledger = ledger_of(connection.engine)
    genuine: set[UUID] = set()
    if ledger.keys is not None:
        locked = sa.select(*SEALED_COLUMNS).where(*which).order_by(_E.id).with_for_update()
        for row in await connection.execute(locked, params):
            if is_genuine(ledger, workspace, row):
                genuine.add(row[_ID])
            elif strict:
                raise altered(row[_ID])
    rows = (await connection.execute(update.returning(*SEALED_COLUMNS, *also), params)).all()
    await reseal(connection, ledger, workspace, [row for row in rows if row[_ID] in genuine])
    return rows


async def reseal(connection: AsyncConnection, ledger: Ledger, workspace: str, rows: Sequence[sa.Row[Any]]) -> None:
    """Seal rows of `SEALED_COLUMNS` as they are, in place of the seals they have."""
    keys = ledger.keys
    if keys is None or not rows:
        return
    seals = [keys.seal(entry_message(workspace, row)) for row in rows]
    await put_seals(connection, [row[_ID] for row in rows], seals)
    await ledger.record(connection, workspace, added=seals, removed=[row[_CAPTURED] for row in rows])


async def forget_seals(connection: AsyncConnection, workspace: str, seals: Iterable[bytes | None]) -> None:
    """Count entries as deleted, by the seals they had."""
    await ledger_of(connection.engine).record(connection, workspace, removed=seals)


def altered(entry_id: UUID) -> Conflict:
    """Return the error for an entry whose row was changed by other means than hardwon's."""
    return Conflict(
        f"entry {entry_id} is not as hardwon stored it, so nothing is made of it: delete it, or look at it and take it"
        f" as it is now (hardwon audit accept {entry_id} --reason ...)"
    )


ALTERED = "it is not as hardwon stored it: somebody changed it in Postgres"
"""The reason for which a staged entry is dead: `EntryStatus.DEAD`."""
