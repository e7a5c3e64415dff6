"""Distillations of a workspace's patterns, in Postgres; triggers delete them with their entries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from knowledge.adapters.postgres.engine.database import (
    WorkspaceStore,
    autocommit,
    limit_long_connections,
)
from knowledge.adapters.postgres.engine.locks import session_lock
from knowledge.adapters.postgres.memory.counts import EMBEDDED, exclusive_transaction, is_any_of
from knowledge.adapters.postgres.memory.entry_rows import TRUST_ORDER, to_entry
from knowledge.adapters.postgres.memory_tables import distillations, distilled_from, knowledge_staging
from knowledge.adapters.postgres.seals.entry_seals import SEALED_COLUMNS, is_genuine
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.models import Distillation, Entry, PatternId
from knowledge.ports import DistillationCandidate, DistillationStore

_D = distillations.c
_E = knowledge_staging.c


class PostgresDistillations(WorkspaceStore, DistillationStore):
    """Distillations of one workspace."""

    @asynccontextmanager
    async def lock_distilling(self) -> AsyncIterator[bool]:
        lock = sa.func.hashtextextended(f"hardwon/distil/{self._workspace}", 0)
        async with limit_long_connections(self._engine), session_lock(self._engine, lock) as locked:
            yield locked

    async def due(self, model: str, *, now: datetime, least: int, grown: int) -> list[DistillationCandidate]:
        number = sa.func.count()
        live = (
            sa.select(_E.pattern_id, number.label("evidence"))
            .where(_E.workspace == self._workspace, EMBEDDED, _E.expires_at > now)
            .group_by(_E.pattern_id)
            .having(number >= least)
            .subquery("live")
        )
        is_due = sa.or_(
            _D.pattern_id.is_(None),
            _D.expires_at <= now,
            live.c.evidence >= grown * _D.evidence,
            sa.and_(_D.refused.is_not(None), _D.model != model),
        )
        query = (
            sa.select(live.c.pattern_id, live.c.evidence)
            .select_from(live.outerjoin(distillations, _D.pattern_id == live.c.pattern_id))
            .where(is_due)
            .order_by(live.c.evidence.desc(), live.c.pattern_id)
        )
        async with autocommit(self._engine) as connection:
            found = await connection.execute(query)
            return [DistillationCandidate(pattern_id=PatternId(row.pattern_id), evidence=row.evidence) for row in found]

    async def material(self, pattern_id: PatternId, *, now: datetime, limit: int) -> list[Entry]:
        query = (
            sa.select(*SEALED_COLUMNS)
            .where(_E.workspace == self._workspace, _E.pattern_id == pattern_id, EMBEDDED, _E.expires_at > now)
            .order_by(*TRUST_ORDER)
            .limit(limit)
        )
        ledger = ledger_of(self._engine)
        return [to_entry(row) for row in await self._all(query) if is_genuine(ledger, self._workspace, row)]

    async def keep(self, distillation: Distillation) -> bool:
        pattern_id, entry_ids = distillation.pattern_id, distillation.entry_ids
        there = (
            sa.select(_E.expires_at)
            .where(_E.workspace == self._workspace, _E.pattern_id == pattern_id, EMBEDDED, is_any_of(_E.id, entry_ids))
            .order_by(_E.id)
            .with_for_update(read=True, key_share=True)  # none of them is deleted before this is stored
        )
        written = distillation.distilled
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            ends = (await connection.execute(there)).scalars().all()
            if len(ends) < len(entry_ids):
                return False
            if written is None and await self._update_shown(connection, distillation):
                return True
            await connection.execute(sa.delete(distillations).where(_D.pattern_id == pattern_id))
            row = insert(distillations).values(
                pattern_id=pattern_id,
                title=written and written.title,
                problem=written and written.problem,
                when_to_try=written and written.when_to_try,
                when_not_to_try=written and written.when_not_to_try,
                refused=distillation.refused,
                evidence=distillation.evidence,
                model=distillation.model,
                answered_at=distillation.answered_at,
                expires_at=min(ends),
            )
            await connection.execute(row)
            await seal_rows(connection, self._workspace, distillations, _D.pattern_id == pattern_id)
            sources = [{"pattern_id": pattern_id, "entry_id": entry_id} for entry_id in entry_ids]
            await connection.execute(insert(distilled_from), sources)
        return True

    @staticmethod
    async def _update_shown(connection: AsyncConnection, refused: Distillation) -> bool:
        """Update the evidence count of a distillation that is shown; return whether there is one."""
        is_shown = sa.and_(
            _D.pattern_id == refused.pattern_id, _D.refused.is_(None), _D.expires_at > refused.answered_at
        )
        update = sa.update(distillations).where(is_shown).values(evidence=refused.evidence)
        return (await connection.execute(update)).rowcount > 0
