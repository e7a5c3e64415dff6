"""Corrections of entries by people, with the texts that they replaced, and tags of patterns, in Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict, NotFound
from hardwon.models.entries import EntryVersion
from knowledge.adapters.postgres.admin.stored_texts import PostgresStoredTexts, forget_derived
from knowledge.adapters.postgres.memory.counts import exclusive_transaction, recount
from knowledge.adapters.postgres.memory.entry_writes import mark_points_dirty
from knowledge.adapters.postgres.memory_tables import entry_versions, knowledge_staging, match_keys, patterns
from knowledge.adapters.postgres.seals.row_seals import seal_rows
from knowledge.models import EntryId, EntryStatus, PatternId
from knowledge.ports import CorrectionStore, RedactedEntry

_E = knowledge_staging.c
_V = entry_versions.c
_P = patterns.c
_WHY = ["its texts were corrected by a person"]


class PostgresCorrections(PostgresStoredTexts, CorrectionStore):
    """Corrections of entries of one workspace."""

    async def correct(self, corrected: RedactedEntry, *, now: datetime, by: str, reason: str | None) -> None:
        entry_id = corrected.before.entry_id
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            row = await self._lock(connection, corrected)
            if row is None or row.status != corrected.before.status:
                raise Conflict(f"entry {entry_id} was changed meanwhile: look at it again")
            if await self._has_twin(connection, corrected):
                raise Conflict(f"entry {entry_id} would be the same as another one of its task and run")
            await self._keep_version(connection, corrected, now=now, by=by, reason=reason)
            await self._update(connection, corrected, row.status, strict=True)
            if row.status == EntryStatus.DEAD:  # the embedder may take the new texts
                alive = {"status": EntryStatus.STAGED, "dead_reason": None, "attempts": 0}
                await connection.execute(sa.update(knowledge_staging).where(_E.id == entry_id).values(**alive))
            touched: set[UUID] = set() if row.pattern_id is None else {row.pattern_id}
            for pattern_id in touched:
                await self._add_keys(connection, pattern_id, corrected, now)
            await forget_derived(connection, self._workspace, [entry_id], touched)
            await mark_points_dirty(connection, [row.point_ids])
            await recount(connection, touched)

    async def _keep_version(
        self, connection: AsyncConnection, corrected: RedactedEntry, *, now: datetime, by: str, reason: str | None
    ) -> None:
        before = corrected.before
        last = sa.select(sa.func.coalesce(sa.func.max(_V.number), 0)).where(_V.entry_id == before.entry_id)
        values: Mapping[str, Any] = {
            "entry_id": before.entry_id,
            "number": (await connection.scalar(last) or 0) + 1,
            "workspace": self._workspace,
            "replaced_at": now,
            "replaced_by": by,
            "reason": reason,
            "texts": {name: getattr(before, name) for name in corrected.texts},
        }
        await connection.execute(insert(entry_versions).values(**values))

    async def _add_keys(
        self, connection: AsyncConnection, pattern_id: UUID, corrected: RedactedEntry, now: datetime
    ) -> None:
        """Bind the pattern to the keys of the new texts, unless another has them; it keeps those of the old ones."""
        for key in corrected.keys.values():
            new = insert(match_keys).values(
                workspace=self._workspace, match_key=key, pattern_id=pattern_id, why=_WHY, decided_at=now
            )
            await connection.execute(new.on_conflict_do_nothing())
            await seal_rows(connection, self._workspace, match_keys, match_keys.c.match_key == key)

    async def tag(self, pattern_id: PatternId, tags: Sequence[str]) -> None:
        live = (_P.workspace == self._workspace, _P.id == pattern_id, _P.success_count > 0)
        # not while patterns are joined: what the one has is written to the other there
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            tagged = await connection.execute(sa.update(patterns).where(*live).values(tags=list(tags)))
        if not tagged.rowcount:
            raise NotFound(f"there is no live pattern {pattern_id} in workspace {self._workspace}")

    async def history(self, entry_id: EntryId) -> list[EntryVersion]:
        query = sa.select(entry_versions).where(_V.workspace == self._workspace, _V.entry_id == entry_id)
        return [
            EntryVersion(
                number=row.number,
                replaced_at=row.replaced_at,
                replaced_by=row.replaced_by,
                reason=row.reason,
                texts=row.texts,
            )
            for row in await self._all(query.order_by(_V.number.desc()))
        ]
