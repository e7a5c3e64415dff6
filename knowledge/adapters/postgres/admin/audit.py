"""The audit log in Postgres: the application's role may append to it and read it, nothing else."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hardwon.models.access import AuditEntry
from knowledge.access.provenance import GENESIS_HASH, AuditStore
from knowledge.access.seals import SealKey
from knowledge.adapters.postgres.engine.database import autocommit, engine_of_workspace, transaction
from knowledge.adapters.postgres.memory_tables import audit_log
from knowledge.adapters.postgres.seals.ledger import ledger_of

_A = audit_log.c
_PAGE = 1000
_LOCK_CHAIN = sa.select(
    sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(sa.bindparam("chain", type_=sa.Text), 0))
)


class PostgresAudit(AuditStore):
    """The chains of a store."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._store = engine

    def _engine(self, workspace: str) -> AsyncEngine:
        return engine_of_workspace(self._store, workspace) if workspace else self._store

    async def append(self, workspace: str, *, at: datetime, who: str, what: str, details: str) -> AuditEntry:
        async with transaction(self._engine(workspace)) as connection:
            await connection.execute(_LOCK_CHAIN, {"chain": f"hardwon/audit/{workspace}"})
            last = await _last(connection, workspace)
            row = AuditEntry(
                workspace=workspace,
                number=last.number + 1 if last else 1,
                at=at,
                who=who,
                what=what,
                details=details,
                before=last.hash if last else GENESIS_HASH,
            )
            row = replace(row, hash=self._hash(row))
            values = {column.name: getattr(row, column.name) for column in audit_log.c}
            await connection.execute(sa.insert(audit_log), values)
        return row

    def _hash(self, row: AuditEntry) -> bytes:
        keys = ledger_of(self._store).keys
        return row.compute_hash() if keys is None else _keyed(keys.current, row)

    def is_keyed(self, row: AuditEntry) -> bool | None:
        keys = ledger_of(self._store).keys
        if keys is not None and any(hmac.compare_digest(_keyed(key, row), row.hash) for key in keys.known.values()):
            return True
        return False if row.compute_hash() == row.hash else None

    @property
    def has_keys(self) -> bool:
        return ledger_of(self._store).keys is not None

    async def workspaces(self) -> list[str]:
        """Return the workspaces whose chains have rows; "" is the store's."""
        async with autocommit(self._store) as connection:
            return list(await connection.scalars(sa.select(_A.workspace).distinct().order_by(_A.workspace)))

    async def latest(self, workspace: str, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        query = sa.select(audit_log).where(_A.workspace == workspace).order_by(_A.number.desc()).limit(limit)
        if after is not None:
            query = query.where(_A.number < after)
        async with autocommit(self._engine(workspace)) as connection:
            return [_to_entry(row) for row in await connection.execute(query)]

    async def rows(self, workspace: str) -> AsyncIterator[Sequence[AuditEntry]]:
        after = None
        while True:
            query = sa.select(audit_log).where(_A.workspace == workspace).order_by(_A.number).limit(_PAGE)
            if after is not None:
                query = query.where(_A.number > after)
            async with autocommit(self._engine(workspace)) as connection:
                page = [_to_entry(row) for row in await connection.execute(query)]
            if not page:
                return
            yield page
            after = page[-1].number


def _keyed(key: SealKey, row: AuditEntry) -> bytes:
    return hmac.digest(key.value, b"audit\0" + row.compute_hash(), "sha256")


async def _last(connection: AsyncConnection, workspace: str) -> AuditEntry | None:
    query = sa.select(audit_log).where(_A.workspace == workspace).order_by(_A.number.desc()).limit(1)
    row = (await connection.execute(query)).first()
    return None if row is None else _to_entry(row)


def _to_entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(
        workspace=row.workspace,
        number=row.number,
        at=row.at,
        who=row.who,
        what=row.what,
        details=row.details,
        before=row.before,
        hash=row.hash,
    )
