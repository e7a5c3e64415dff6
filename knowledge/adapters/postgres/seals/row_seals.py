"""Seals of other rows than entries: outcomes, trials, decisions of what is one pattern, texts of models, spaces.

Outcomes count in the totals of the chains, as entries do: one that is removed is missed. Of the others an edit and a
forged row are noticed, not a removal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.access.seals import SealKeys, canonical
from knowledge.adapters.postgres.memory_tables import (
    deeds,
    distillations,
    embedding_spaces,
    links,
    match_keys,
    outcomes,
    patterns,
    records,
    workspaces,
)
from knowledge.adapters.postgres.seals.ledger import ledger_of

_ALL: Final = sa.true()


@dataclass(frozen=True, slots=True)
class SealedRows:
    """The rows of a table that are sealed: the columns that the seal covers, and a condition that they all meet."""

    kind: str
    columns: tuple[str, ...]
    condition: sa.ColumnElement[bool] = _ALL
    is_counted: bool = False


_TOLD = ("project_id", "task_id", "run_id", "worked", "recorded_at", "recorded_by", "low_trust")
SEALED_ROWS: Final[Mapping[sa.Table, SealedRows]] = {
    outcomes: SealedRows("outcome", ("id", "context_id", "pattern_id", *_TOLD), is_counted=True),
    records: SealedRows(
        "trial",
        (
            *("id", "entry_id", "outcome_id", "context_id", "agent_type"),
            *("arm_key", "point_id", "situation_key", "is_exact"),
            *_TOLD,
        ),
    ),
    patterns: SealedRows("pattern", ("id", "entry_type", "match_key", "founding_entry_id", "founded_at")),
    match_keys: SealedRows("match", ("match_key", "pattern_id", "why", "ruled", "decided_at")),
    links: SealedRows("link", ("lower_id", "upper_id", "kind", "probability", "why", "found_at")),
    distillations: SealedRows(
        "distillation",
        ("pattern_id", "title", "problem", "when_to_try", "when_not_to_try", "model", "answered_at"),
        distillations.c.refused.is_(None),
    ),
    deeds: SealedRows("deed", ("id", "kind", "subject", "others", "who", "decided_at", "due_at")),
    embedding_spaces: SealedRows("space", ("fingerprint", "space", "mean_terms", "calibration", "active", "probes")),
    workspaces: SealedRows(
        "workspace",
        ("hint_weights", "local_only"),
        sa.or_(workspaces.c.hint_weights.is_not(None), workspaces.c.local_only, workspaces.c.seal.is_not(None)),
    ),
}


def of_workspace(table: sa.Table, workspace: str) -> sa.ColumnElement[bool]:
    """Return the condition of a table's rows in a workspace."""
    if table is embedding_spaces:
        return sa.true()
    if "workspace" in table.c:
        return table.c.workspace == workspace
    return sa.exists().where(patterns.c.id == table.c.pattern_id, patterns.c.workspace == workspace)


def row_message(table: sa.Table, workspace: str, values: Sequence[Any]) -> bytes:
    """Return what the seal of a row covers, of the values of its covered columns."""
    return canonical(SEALED_ROWS[table].kind, "" if table is embedding_spaces else workspace, values)


def select_sealed(table: sa.Table, workspace: str, *which: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select the covered columns of rows, their seal, and their primary key under other names."""
    sealed = SEALED_ROWS[table]
    keys = [column.label(f"primary_{column.name}") for column in table.primary_key]
    columns = [table.c[name] for name in sealed.columns]
    return sa.select(*columns, table.c.seal, *keys).where(of_workspace(table, workspace), sealed.condition, *which)


def row_verifies(keys: SealKeys, table: sa.Table, workspace: str, row: Sequence[Any]) -> bool:
    """Return whether a row of `select_sealed` has the seal of its content."""
    covered = len(SEALED_ROWS[table].columns)
    return keys.verifies(row_message(table, workspace, row[:covered]), row[covered])


async def seal_rows(
    connection: AsyncConnection, workspace: str, table: sa.Table, *which: sa.ColumnElement[bool]
) -> int:
    """Seal rows as they are now, in this transaction, which has just written them; return how many."""
    ledger = ledger_of(connection.engine)
    keys, sealed = ledger.keys, SEALED_ROWS[table]
    if keys is None:
        return 0
    rows = (await connection.execute(select_sealed(table, workspace, *which))).all()
    if not rows:
        return 0
    covered = len(sealed.columns)
    seals = [keys.seal(row_message(table, workspace, row[:covered])) for row in rows]
    mine = [column == sa.bindparam(f"primary_{column.name}") for column in table.primary_key]
    params = [
        {f"primary_{column.name}": getattr(row, f"primary_{column.name}") for column in table.primary_key}
        | {"new_seal": seal}
        for row, seal in zip(rows, seals, strict=True)
    ]
    await connection.execute(sa.update(table).where(*mine).values(seal=sa.bindparam("new_seal")), params)
    if sealed.is_counted:
        await ledger.record(connection, workspace, added=seals, removed=[row.seal for row in rows])
    return len(rows)


async def forget_outcomes(connection: AsyncConnection, workspace: str, *which: sa.ColumnElement[bool]) -> None:
    """Count outcomes as removed, which this transaction is about to delete."""
    ledger = ledger_of(connection.engine)
    if ledger.keys is None:
        return
    seals = (await connection.execute(sa.select(outcomes.c.seal).where(*which))).scalars()
    await ledger.record(connection, workspace, removed=list(seals))
