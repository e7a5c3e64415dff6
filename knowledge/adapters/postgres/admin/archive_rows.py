"""The tables and columns of an archive, and the conditions under which this hardwon could not read a row again."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.models.answers import Priority
from hardwon.models.documents import DocumentStatus, DocumentType, PassageKind, Severity
from knowledge.access.seals import SEAL_BYTES, SealKeys, Total
from knowledge.adapters.postgres.document_tables import metadata
from knowledge.adapters.postgres.engine.analyze import Analyze
from knowledge.adapters.postgres.memory_tables import knowledge_staging
from knowledge.adapters.postgres.seals.entry_seals import COLUMN_NAMES, entry_message
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import SEALED_ROWS, row_message
from knowledge.models import (
    AppliesWhen,
    Calibration,
    CheckpointType,
    EmbeddingSpace,
    EntryStatus,
    EntryType,
    LinkKind,
    View,
)
from knowledge.runtime.scheduling import yield_to_loop

STAYS: Final = frozenset(
    [
        *("api_keys", "audit_log", "answer_cache", "counters", "distillations", "distilled_from", "entry_profiles"),
        *("deeds", "ended_sessions", "entry_words", "job_run", "kb_terms", "seal_chains", "seal_heads", "spending"),
        "webhook_events",
    ]
)
"""Tables that stay behind: keys, the audit log, what is derived, and what is of a moment."""

_LEFT_OUT: Final[Mapping[str, Collection[str]]] = {
    "workspaces": ("profile_rules", "profiled_until"),
    "knowledge_staging": ("embedded", "error_signature", "lease_token", "lease_until"),
    "patterns": ("problem_start",),
    "points": ("look_at",),
    "records": ("task_key", "error_key"),
    "embedding_spaces": ("probes",),
    "kb_partitions": ("version",),
    "kb_documents": ("lease_token", "lease_until"),
}
"""Columns that do: a lease, a note for the index, measurements of an endpoint, the version that caches are kept by."""

TABLES: Final[Mapping[str, sa.Table]] = {
    table.name: table for table in metadata.sorted_tables if table.name not in STAYS
}
"""The tables of an archive by their names; each comes after those that its rows refer to."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(column.name for column in table.c if column.name not in {"seal", *_LEFT_OUT.get(name, ())})
    for name, table in TABLES.items()
}

STAGED: Final[Mapping[str, sa.Table]] = {
    name: sa.Table(
        f"archive_{name}",
        sa.MetaData(),
        *(sa.Column(column, table.c[column].type) for column in COLUMNS[name]),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    for name, table in TABLES.items()
}
"""Temporary tables that an archive is copied into: they have the types of the columns and no constraints."""


_PAGE: Final = 500
_SLICE: Final = 64
"""Rows sealed before yielding to the event loop: 2 ms."""
_Message = Callable[[str, Sequence[Any]], bytes]


def _covered(table: sa.Table) -> tuple[Sequence[str], _Message] | None:
    """Return the columns that the seal of each row of a table covers, and what it covers of their values."""
    if table is knowledge_staging:
        return COLUMN_NAMES, entry_message
    sealed = SEALED_ROWS.get(table)
    if sealed is None or "workspace" not in table.c or not isinstance(sealed.condition, sa.sql.elements.True_):
        return None
    return sealed.columns, lambda workspace, values: row_message(table, workspace, values)


async def _seal_staged(
    connection: AsyncConnection, keys: SealKeys, table: sa.Table, staged: sa.Table, names: Collection[str]
) -> sa.Table | None:
    """Seal the rows of a table that wait in `staged` with these columns; return the temporary table of their seals.

    That has their primary keys and `seal`. None where seals cover more columns than these, or not each row.
    """
    covered = _covered(table)
    if covered is None or not {*covered[0], "workspace"} <= {*names}:
        return None
    columns, message = covered
    place = [staged.c[column.name] for column in table.primary_key]
    seals = sa.Table(
        f"{staged.name}_seals",
        sa.MetaData(),
        *(sa.Column(column.name, column.type, primary_key=True) for column in place),
        sa.Column("seal", sa.LargeBinary),
        prefixes=["TEMPORARY"],
        postgresql_on_commit="DROP",
    )
    await connection.execute(sa.schema.CreateTable(seals))
    arrays = [sa.func.unnest(sa.bindparam(column.name, type_=sa.ARRAY(column.type))) for column in seals.c]
    put = sa.insert(seals).from_select(list(seals.c), sa.select(*arrays))
    query = sa.select(*(staged.c[name] for name in columns), staged.c.workspace, *place)
    streamed = await connection.stream(query, execution_options={"yield_per": _PAGE})
    async for page in streamed.partitions(_PAGE):
        made = []
        for at, row in enumerate(page):
            if at % _SLICE == 0:
                await yield_to_loop()
            made.append(keys.seal(message(row[len(columns)], row[: len(columns)])))
        params = {column.name: [row[len(columns) + 1 + at] for row in page] for at, column in enumerate(place)}
        await connection.execute(put, params | {"seal": made})
    await connection.execute(Analyze(seals))
    return seals


def _total_of_seals(keys: SealKeys, joined: bytes) -> Total:
    """Return the total of seals that were put one behind the other."""
    return keys.total(joined[start : start + SEAL_BYTES] for start in range(0, len(joined), SEAL_BYTES))


def _is_counted(table: sa.Table) -> bool:
    """Return whether the seals of a table's rows count in the totals of chains."""
    return table is knowledge_staging or (table in SEALED_ROWS and SEALED_ROWS[table].is_counted)


def new_rows(name: str, names: Sequence[str], seals: sa.Table | None = None) -> Insert:
    """Return an insert of these columns of the staged rows, and of their seals where these are given."""
    staged = STAGED[name]
    query = sa.select(*(staged.c[column] for column in names))
    if seals is None:
        return insert(TABLES[name]).from_select(list(names), query)
    same = (staged.c[column.name] == seals.c[column.name] for column in TABLES[name].primary_key)
    sealed = query.add_columns(seals.c.seal).join_from(staged, seals, sa.and_(*same))
    return insert(TABLES[name]).from_select([*names, "seal"], sealed)


async def add(connection: AsyncConnection, name: str, names: Sequence[str]) -> int:
    """Insert the staged rows of a table that are not here, sealed where that can be done now; return how many."""
    table, ledger = TABLES[name], ledger_of(connection.engine)
    keys = ledger.keys
    seals = None if keys is None else await _seal_staged(connection, keys, table, STAGED[name], names)
    new = new_rows(name, names, seals).on_conflict_do_nothing()
    if keys is None or seals is None:
        return (await connection.execute(new)).rowcount
    added = new.returning(table.c.workspace, table.c.seal).cte("added")
    joined = sa.func.string_agg(added.c.seal, sa.literal(b"")).label("seals")
    query = sa.select(added.c.workspace, sa.func.count().label("rows"), joined).group_by(added.c.workspace)
    rows = (await connection.execute(query)).all()
    if _is_counted(table):
        for row in rows:
            change = await asyncio.to_thread(_total_of_seals, keys, row.seals)
            await ledger.record_change(connection, row.workspace, change)
    return sum(row.rows for row in rows)


async def put(
    connection: AsyncConnection, new: Insert, values: Mapping[str, Any], where: sa.ColumnElement[bool] | None = None
) -> int:
    """Insert staged rows; give those that are here other values, where a condition holds. Return how many it did."""
    key = new.table.primary_key.columns if isinstance(new.table, sa.Table) else ()
    written = new.on_conflict_do_update(index_elements=list(key), set_=dict(values), where=where)
    return (await connection.execute(written)).rowcount


_CLOSED: Final[Mapping[tuple[str, str], Iterable[str]]] = {
    ("knowledge_staging", "entry_type"): EntryType,
    ("knowledge_staging", "status"): EntryStatus,
    ("patterns", "entry_type"): EntryType,
    ("points", "view"): View,
    ("links", "kind"): LinkKind,
    ("checkpoints", "checkpoint_type"): CheckpointType,
    ("kb_documents", "status"): frozenset(DocumentStatus) - {DocumentStatus.DELETING},
    ("kb_versions", "document_type"): DocumentType,
    ("kb_chunks", "kind"): frozenset({PassageKind.CHUNK, PassageKind.SUMMARY}),
    ("kb_chunks", "severities"): Severity,
    ("kb_lines", "severity"): Severity,
    ("escalations", "priority"): Priority,
}
"""Columns that hold one of a few words."""

_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_OF_LOGS: Final = frozenset({"ts", "until"})
"""Moments as logs have them, which may be infinite."""
_HALVES: Final = "^(..([0-689a-e].|[7f][0-9ab]))+$"
"""A vector of finite float16 in hexadecimal, the lower byte first: not all bits of an exponent are set."""

_SPACE: Final = TypeAdapter(EmbeddingSpace)
_CALIBRATION: Final = TypeAdapter(Calibration)


def unreadable(name: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row of an archive is not one: once stored, it could not be read again."""
    staged, table = STAGED[name], TABLES[name]
    found = [condition for column in staged.c for condition in _misfits(name, column, table.c[column.name])]
    match name:
        case "knowledge_staging":
            found.append(_not_texts(staged.c.applies_when, "|".join(field.name for field in fields(AppliesWhen))))
        case "vectors" | "kb_vectors":
            found.append(_not_a_vector(staged))
        case "kb_documents":
            found += _impossible_generations(staged)
    return sa.or_(*found)


def _misfits(table: str, column: sa.Column[Any], declared: sa.Column[Any]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions under which a value does not fit its column, beyond its type."""
    found: list[sa.ColumnElement[bool]] = [] if declared.nullable else [column.is_(None)]
    words = _CLOSED.get((table, column.name))
    if isinstance(column.type, sa.ARRAY):
        found += [sa.func.array_position(column, None).is_not(None), sa.func.array_ndims(column) > 1]
        if words is not None:
            found.append(~column.op("<@", is_comparison=True)(sa.cast(list(words), sa.ARRAY(sa.Text))))
    elif words is not None:
        found.append(column.not_in(list(words)))
    elif isinstance(column.type, sa.Float):
        found.append(column.in_([math.nan, math.inf, -math.inf]))
    elif isinstance(column.type, sa.DateTime) and column.name not in _OF_LOGS:
        found.append(~column.between(_FIRST, _LAST))
    return found


def _not_texts(column: sa.Column[Any], names: str) -> sa.ColumnElement[bool]:
    """Return the condition that a JSON value is not an object of texts with names of a regular expression."""
    as_object = sa.case((sa.func.jsonb_typeof(column) == "object", column), else_=sa.cast({}, JSONB))
    each = sa.func.jsonb_each(as_object).table_valued(sa.column("key", sa.Text), sa.column("value", JSONB))
    wrong = sa.or_(each.c.key.regexp_match(f"^({names})$").is_(False), sa.func.jsonb_typeof(each.c.value) != "string")
    return sa.or_(sa.func.jsonb_typeof(column) != "object", sa.exists(sa.select(1).select_from(each).where(wrong)))


def _not_a_vector(staged: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a vector is not finite, or of another length than the vectors of its space."""
    spaces = STAGED["embedding_spaces"]
    dims = spaces.c.space["dims"].as_integer()
    other = spaces.c.fingerprint == staged.c.space, sa.func.octet_length(staged.c.vector) != 2 * dims
    halves = sa.func.encode(staged.c.vector, "hex").regexp_match(_HALVES)
    return sa.or_(halves.is_(False), sa.exists().where(*other))


def _impossible_generations(staged: sa.Table) -> list[sa.ColumnElement[bool]]:
    latest, active = staged.c.latest, staged.c.active_generation
    return [
        _not_texts(staged.c.text_hashes, "[0-9]+"),
        latest < 1,
        ~active.between(1, latest),
        sa.and_(staged.c.status == DocumentStatus.INDEXED.value, active.is_distinct_from(latest)),
        sa.and_(staged.c.status == DocumentStatus.FAILED.value, staged.c.error.is_(None)),
    ]


def read_space(row: sa.RowMapping) -> EmbeddingSpace:
    """Return the embedding space of a row. Raises ValueError for one that is none."""
    space = _SPACE.validate_json(json.dumps(row["space"]), strict=True)
    calibration = _CALIBRATION.validate_json(json.dumps(row["calibration"]), strict=True)
    known = ({field.name for field in fields(kind)} for kind in (EmbeddingSpace, Calibration))
    if any(set(row[name]) - names for name, names in zip(("space", "calibration"), known, strict=True)):
        raise ValueError("more than a space has")
    marks = (calibration.unrelated, calibration.right_90, calibration.right_85, calibration.same)
    if space.fingerprint != row["fingerprint"] or space.dims < 1 or row["mean_terms"] <= 0:
        raise ValueError("no space")
    ascending = all(low <= high for low, high in pairwise(marks)) and calibration.unrelated < calibration.same
    if not ascending or not all(map(math.isfinite, marks)):
        raise ValueError("no calibration")
    return space
