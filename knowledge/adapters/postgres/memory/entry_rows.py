"""Conversion between rows of `knowledge_staging` and entries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.selectable import LateralFromClause

from hardwon.errors import NotFound
from knowledge.adapters.postgres.memory_tables import knowledge_staging, points, vouched
from knowledge.adapters.postgres.seals import entry_seals as sealed
from knowledge.models import AppliesWhen, Entry, EntryId, EntryStatus, EntryType

COLUMN_NAMES = sealed.COLUMN_NAMES
"""The names of the columns of an entry."""
ENTRY_COLUMNS = sealed.ENTRY_COLUMNS
"""The columns of an entry, labelled as its fields."""

_E = knowledge_staging.c
TRUST_ORDER: tuple[sa.ColumnElement[Any], ...] = (
    _E.low_trust,
    vouched,
    _E.embedded_at.desc(),
    _E.id,
)
"""The order of entries by trust: those of agents' keys last; human decisions first, then named verifiers, then others;
then the latest. The index of trust has the same order."""


def to_row(entry: Entry) -> dict[str, Any]:
    """Return the column values of an entry."""
    row = {column: getattr(entry, name) for name, column in sealed.COLUMN_OF.items()}
    row["suspicions"] = list(entry.suspicions)
    row["dead_ends"] = list(entry.dead_ends)
    row["applies_when"] = conditions_row(entry.applies_when)
    return row


def conditions_row(conditions: AppliesWhen | None) -> dict[str, Any] | None:
    """Return the column value of conditions: those that are set."""
    if conditions is None:
        return None
    return {name: value for name, value in asdict(conditions).items() if value is not None}


_NAMES = tuple(sealed.COLUMN_OF)
_values_of = attrgetter(*_NAMES)
_TYPES = {str(each): each for each in EntryType}
_STATUSES = {str(each): each for each in EntryStatus}
_SLOTS = tuple(getattr(Entry, name).__set__ for name in _NAMES)
_TYPE, _STATUS, _CONDITIONS, _SUSPICIONS, _DEAD_ENDS = map(
    _NAMES.index, ("entry_type", "status", "applies_when", "suspicions", "dead_ends")
)


async def capture_time(connection: AsyncConnection, workspace: str, entry_id: EntryId) -> datetime:
    """Return the capture time of an entry, to continue a list from it. Raises NotFound."""
    query = sa.select(_E.timestamp).where(_E.workspace == workspace, _E.id == entry_id)
    at: datetime | None = await connection.scalar(query)
    if at is None:
        raise NotFound(f"there is no entry {entry_id} to continue from: begin with the first page")
    return at


def is_behind(at: datetime, entry_id: EntryId) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of the entries that come behind one in a list, the latest first."""
    # the first condition, which the second implies, is the one that an index is entered by
    return _E.timestamp <= at, sa.or_(_E.timestamp < at, _E.id > entry_id)


def to_entry(row: Row[Any]) -> Entry:
    """Convert a row that has `ENTRY_COLUMNS`, among others, to an entry."""
    return entry_of_values(_values_of(row))


def entry_of_values(columns: Sequence[Any]) -> Entry:
    """Convert the values of `ENTRY_COLUMNS`, in order, to an entry; JSON may be text, as the driver has it.

    The slots are set one by one, because the constructor of a frozen dataclass of so many fields takes five times as
    long, and checkpoints and queries read many entries.
    """
    values = list(columns)
    values[_TYPE] = _TYPES[values[_TYPE]]
    values[_STATUS] = _STATUSES[values[_STATUS]]
    values[_SUSPICIONS] = tuple(values[_SUSPICIONS])
    values[_DEAD_ENDS] = tuple(values[_DEAD_ENDS])
    conditions = from_json(values[_CONDITIONS])
    values[_CONDITIONS] = conditions and AppliesWhen(**conditions)
    entry = object.__new__(Entry)
    for put, value in zip(_SLOTS, values, strict=True):
        put(entry, value)
    return entry


def from_json(value: Any) -> Any:
    """Return the value of a JSON column; the driver has it as text."""
    return json.loads(value) if isinstance(value, str) else value


def select_supporting_entry() -> LateralFromClause:
    """Return a lateral select of the latest embedded entry that supports a row of `points`."""
    entries = knowledge_staging.c
    latest = (entries.embedded.desc(), entries.embedded_at.desc().nulls_last(), entries.id)
    return sa.select(*ENTRY_COLUMNS).where(supports_point()).order_by(*latest).limit(1).lateral("words")


_INLINE: dict[EntryStatus, sa.ColumnElement[str]] = {
    EntryStatus.OPEN: sa.literal_column("'open'"),
    EntryStatus.STAGED: sa.literal_column("'staged'"),
    EntryStatus.EMBEDDED: sa.literal_column("'embedded'"),
    EntryStatus.DEAD: sa.literal_column("'dead'"),
    EntryStatus.ABANDONED: sa.literal_column("'abandoned'"),
}
"""Statuses as SQL literals, not parameters: Postgres picks a partial index by them."""


def supports_point(*statuses: EntryStatus) -> sa.ColumnElement[bool]:
    """Return the condition that an entry supports a row of `points`: embedded or staged, or of the given statuses."""
    entries = knowledge_staging.c
    allowed = statuses or (EntryStatus.EMBEDDED, EntryStatus.STAGED)
    return sa.and_(
        entries.pattern_id == points.c.pattern_id,
        points.c.id == sa.any_(entries.point_ids),
        entries.status.in_([_INLINE[status] for status in allowed]),
    )
