"""Decisions that are done after a grace period, in Postgres."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from hardwon.errors import NotFound
from hardwon.models.deeds import Deed, DeedId, DeedKind, DeedState
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory_tables import deeds
from knowledge.adapters.postgres.seals.ledger import ledger_of
from knowledge.adapters.postgres.seals.row_seals import SEALED_ROWS, row_message, seal_rows
from knowledge.ports import RUN_RETENTION, DeedStore

_D = deeds.c
_UNENDED = sa.literal_column("state IN ('waiting', 'running')", sa.Boolean)
_FROM: Final = {
    DeedState.UNDONE: DeedState.WAITING,
    DeedState.DONE: DeedState.RUNNING,
    DeedState.FAILED: DeedState.RUNNING,
}
"""The state that a deed must have to end in another."""


_FORGED = "it is not as hardwon stored it: somebody changed it in Postgres"


class PostgresDeeds(WorkspaceStore, DeedStore):
    """The deeds of one workspace."""

    async def add(self, deed: Deed) -> Deed:
        new = insert(deeds).values(
            id=deed.deed_id,
            workspace=self._workspace,
            kind=deed.kind,
            subject=deed.subject,
            others=list(deed.others),
            who=deed.who,
            decided_at=deed.decided_at,
            due_at=deed.due_at,
            state=deed.state,
            key_id=deed.key_id,
        )
        other = sa.select(deeds).where(_D.workspace == self._workspace, _D.subject == deed.subject, _UNENDED)
        async with transaction(self._engine) as connection:
            if (await connection.execute(new.on_conflict_do_nothing())).rowcount:
                await seal_rows(connection, self._workspace, deeds, _D.id == deed.deed_id)
                return deed
            row = (await connection.execute(other)).first()
        return await self.add(deed) if row is None else _to_deed(row)  # it ended meanwhile

    async def get(self, deed_id: DeedId) -> Deed:
        row = await self._first(sa.select(deeds).where(_D.workspace == self._workspace, _D.id == deed_id))
        if row is None:
            raise NotFound(f"there is no deed {deed_id} in workspace {self._workspace}")
        return _to_deed(row)

    async def last_about(self, subject: UUID) -> Deed | None:
        query = sa.select(deeds).where(
            _D.workspace == self._workspace, _D.subject == subject, _D.state == DeedState.DONE
        )
        row = await self._first(query.order_by(_D.decided_at.desc()).limit(1))
        return None if row is None else _to_deed(row)

    async def list(self, *, state: DeedState | None, after: DeedId | None, limit: int) -> builtins.list[Deed]:
        query = sa.select(deeds).where(_D.workspace == self._workspace)
        if state is not None:
            query = query.where(_D.state == state)
        if after is not None:
            last = await self.get(after)
            later = sa.or_(_D.decided_at < last.decided_at, _D.id > after)
            query = query.where(_D.decided_at <= last.decided_at, later)
        return [_to_deed(row) for row in await self._all(query.order_by(_D.decided_at.desc(), _D.id).limit(limit))]

    async def claim(self, now: datetime, *, takeover_after: timedelta) -> Deed | None:
        died = sa.or_(_D.state == DeedState.WAITING, _D.claimed_at < sa.func.now() - takeover_after)
        due = (
            sa.select(_D.id)
            .where(_D.workspace == self._workspace, _UNENDED, _D.due_at <= now, died)
            .order_by(_D.due_at)
            .limit(1)
            .with_for_update(skip_locked=True)
            .cte("due")
        )
        claim = sa.update(deeds).where(_D.id == due.c.id).values(state=DeedState.RUNNING, claimed_at=sa.func.now())
        row = await self._first(claim.returning(*_D))
        if row is None or await self._is_genuine(row):
            return None if row is None else _to_deed(row)
        await self.end(DeedId(row.id), DeedState.FAILED, now, error=_FORGED)
        return await self.claim(now, takeover_after=takeover_after)

    async def _is_genuine(self, row: sa.Row[Any]) -> bool:
        keys = ledger_of(self._engine).keys
        values = [getattr(row, name) for name in SEALED_ROWS[deeds].columns]
        return keys is None or keys.verifies(row_message(deeds, self._workspace, values), row.seal)

    async def end(
        self, deed_id: DeedId, state: DeedState, now: datetime, *, by: str | None = None, error: str | None = None
    ) -> bool:
        ours = _D.workspace == self._workspace
        end = sa.update(deeds).where(ours, _D.id == deed_id, _D.state == _FROM[state])
        old = sa.delete(deeds).where(ours, ~_UNENDED, _D.decided_at < now - RUN_RETENTION)
        async with autocommit(self._engine) as connection:
            ended = await connection.execute(end.values(state=state, ended_at=now, ended_by=by, error=error))
            await connection.execute(old)
        return bool(ended.rowcount)


def _to_deed(row: sa.Row[Any]) -> Deed:
    return Deed(
        deed_id=DeedId(row.id),
        kind=DeedKind(row.kind),
        subject=row.subject,
        others=tuple(row.others),
        who=row.who,
        decided_at=row.decided_at,
        due_at=row.due_at,
        state=DeedState(row.state),
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        error=row.error,
        key_id=row.key_id,
    )
