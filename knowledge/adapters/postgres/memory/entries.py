"""The entries of a workspace in Postgres: capture, resolution and lease."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID as UUID_TYPE
from sqlalchemy.ext.asyncio import AsyncConnection

from hardwon.errors import Conflict, NotFound, NotOpen
from knowledge.adapters.postgres.engine.database import WorkspaceStore, autocommit, transaction
from knowledge.adapters.postgres.memory.counts import (
    EMBEDDED,
    exclusive_transaction,
    is_any_of,
    lock_in_order,
    recount,
)
from knowledge.adapters.postgres.memory.entry_rows import (
    ENTRY_COLUMNS,
    TRUST_ORDER,
    capture_time,
    conditions_row,
    entry_of_values,
    is_behind,
    to_entry,
)
from knowledge.adapters.postgres.memory.entry_writes import (
    add_entries,
    delete_entries,
    find_duplicate,
    forget_project,
    mark_points_dirty,
)
from knowledge.adapters.postgres.memory_tables import event_task, knowledge_staging, projects
from knowledge.adapters.postgres.seals.entry_seals import ALTERED, SEALED_COLUMNS, is_genuine, read_genuine, rewrite
from knowledge.adapters.postgres.seals.ledger import Ledger, ledger_of
from knowledge.memory.rules.validation import MAX_DEAD_ENDS
from knowledge.models import (
    TRUSTED,
    AppliesWhen,
    CaptureResult,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    LeaseToken,
    PatternId,
    PointId,
    Provenance,
)
from knowledge.ports import LATEST_OF_ALL, MAX_ENTRIES_OF_TASK, Claim, EntryStore, Selection

_MAX_TRIED_ENTRIES = 200
"""Entries that dead ends are taken from, the most trusted first."""
_E = knowledge_staging.c
_VOUCHED = sa.or_(_E.verified_by.is_not(None), _E.entry_type != EntryType.FAILURE_SOLUTION)
_UNRESOLVED = sa.or_(
    _E.status == EntryStatus.OPEN,
    sa.and_(_E.status == EntryStatus.QUARANTINED, _E.solution_steps.is_(None), _E.revision_approach.is_(None)),
)
_STAGED_UNLESS_QUARANTINED = sa.case(
    (_E.status == EntryStatus.QUARANTINED, EntryStatus.QUARANTINED), else_=EntryStatus.STAGED
)


def _is_due(workspace: str, selection: Selection) -> list[sa.ColumnElement[bool]]:
    due: list[sa.ColumnElement[bool]] = [
        _E.workspace == workspace,
        _E.status == sa.literal_column("'staged'"),  # a literal, so that the planner uses the partial index
    ]
    if selection.project_id is not None:
        due.append(_E.project_id == selection.project_id)
    if selection.only_vouched:
        due.append(_VOUCHED)
    if selection.captured_before is not None:
        due.append(_E.timestamp < selection.captured_before)
    return due


@lru_cache(maxsize=64)
def _lease_due(workspace: str, selection: Selection) -> sa.Update:
    """Return the statement that leases due entries; a checkpoint repeats it for each batch."""
    due = (
        sa.select(_E.id)
        .where(*_is_due(workspace, selection), sa.or_(_E.lease_until.is_(None), _E.lease_until < sa.func.now()))
        .order_by(_E.timestamp, _E.id)
        .limit(sa.bindparam("limit", type_=sa.Integer))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return (
        sa.update(knowledge_staging)
        .where(_E.id == due.c.id)
        .values(
            lease_token=sa.bindparam("token", type_=UUID_TYPE),
            lease_until=sa.func.now() + sa.bindparam("lease", type_=sa.Interval),
            attempts=_E.attempts + 1,
        )
        .returning(*SEALED_COLUMNS)
    )


class PostgresEntries(WorkspaceStore, EntryStore):
    """Entries of one workspace; one row is an entry for its whole life."""

    @property
    def _ledger(self) -> Ledger:
        return ledger_of(self._engine)

    async def add(self, entries: Sequence[Entry]) -> list[CaptureResult]:
        return await add_entries(self._engine, self._workspace, entries)

    async def find_duplicate(self, entry: Entry) -> CaptureResult | None:
        return await find_duplicate(self._engine, self._workspace, entry)

    async def vouch(self, entry_id: EntryId, entry: Entry) -> bool:
        same = (
            _E.solution_steps.is_not_distinct_from(entry.solution_steps),
            _E.revision_approach.is_not_distinct_from(entry.revision_approach),
        )
        waits = sa.or_(_E.status == EntryStatus.QUARANTINED, sa.and_(_E.status == EntryStatus.OPEN, _E.low_trust))
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry_id, waits, *same)
            .values(status=entry.status, low_trust=False, captured_by=entry.captured_by, agent_key=None)
        )
        return bool(await self._rewrite(update, _E.id == entry_id))

    async def replace_dead_ends(self, entry_id: EntryId, entry: Entry) -> None:
        theirs = (_E.captured_by == entry.captured_by,) if entry.low_trust else ()
        texts = list(entry.dead_ends)
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry_id, _E.dead_ends != texts, *theirs)
            .values(dead_ends=texts)
        )
        await self._rewrite(update, _E.id == entry_id)

    async def reopen(self, entry_id: EntryId, entry: Entry) -> bool:
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry_id, _E.status == EntryStatus.ABANDONED)
            .values(
                status=entry.status,
                timestamp=entry.captured_at,
                attempts=0,
                low_trust=False,
                captured_by=entry.captured_by,
                agent_key=None,
            )
        )
        return bool(await self._rewrite(update, _E.id == entry_id))

    async def get(self, entry_id: EntryId) -> Entry:
        query = sa.select(*ENTRY_COLUMNS).where(_E.workspace == self._workspace, _E.id == entry_id)
        row = await self._first(query)
        if row is None:
            raise NotFound(f"there is no entry {entry_id} in workspace {self._workspace}")
        return to_entry(row)

    async def resolve(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str | None = None,
        revision_approach: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
        by: Provenance = TRUSTED,
    ) -> Entry:
        resolution: dict[str, Any] = {"solution_steps": solution_steps, "revision_approach": revision_approach}
        resolution |= {"verified_by": verified_by, "when_to_try": when_to_try, "applies_when": applies_when}
        resolution = {name: value for name, value in resolution.items() if value is not None}
        tried = {"dead_ends": list(dead_ends)} if dead_ends else {}  # no part of what makes it another resolution
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry_id, _UNRESOLVED)
            .values(
                **resolution | ({} if applies_when is None else {"applies_when": conditions_row(applies_when)}),
                **tried,
                outside_text=sa.or_(_E.outside_text, sa.literal(outside_text)),
                status=EntryStatus.QUARANTINED if by.suspicions else _STAGED_UNLESS_QUARANTINED,
                resolved_by=by.key_id,
                **({"agent_key": by.source} if by.low_trust else {}),
                low_trust=sa.or_(_E.low_trust, sa.literal(by.low_trust)),
                suspicions=_E.suspicions.concat(sa.literal(list(by.suspicions), sa.ARRAY(sa.Text))),
                success_verified=sa.case(
                    (_E.entry_type == EntryType.FAILURE_SOLUTION, True), else_=_E.success_verified
                ),
            )
        )
        for row in await self._rewrite(update, _E.id == entry_id):
            return to_entry(row)
        found = await self.get(entry_id)
        same = all(getattr(found, name) == value for name, value in resolution.items())
        if found.status is EntryStatus.ABANDONED or not same:
            raise NotOpen(f"entry {entry_id} is {found.status}, not open: it cannot be given another resolution")
        return found

    async def overrule(
        self,
        entry_id: EntryId,
        resolved_by: str,
        *,
        solution_steps: str | None = None,
        revision_approach: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        by: Provenance = TRUSTED,
    ) -> Entry | None:
        waits = (_E.status.in_((EntryStatus.STAGED, EntryStatus.QUARANTINED)), _E.pattern_id.is_(None))
        update = (
            sa.update(knowledge_staging)
            .where(_E.workspace == self._workspace, _E.id == entry_id, _E.resolved_by == resolved_by, _E.low_trust)
            .where(*waits)
            .values(
                solution_steps=solution_steps,
                revision_approach=revision_approach,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=conditions_row(applies_when),
                status=EntryStatus.STAGED,
                resolved_by=by.key_id,
                agent_key=None,
                low_trust=False,
                suspicions=[],
                lease_token=None,
                lease_until=None,
            )
        )
        return next(map(to_entry, await self._rewrite(update, _E.id == entry_id)), None)

    async def _rewrite(self, update: sa.Update, *which: sa.ColumnElement[bool]) -> Sequence[sa.Row[Any]]:
        """Change the content of entries, which must be as they were stored. Raises Conflict."""
        async with transaction(self._engine) as connection:
            return await rewrite(connection, self._workspace, update, *which, strict=True)

    async def find_dead_ends(self, patterns: Collection[PatternId]) -> dict[PatternId, tuple[str, ...]]:
        if not patterns:
            return {}
        query = (
            sa.select(*SEALED_COLUMNS)
            .where(
                _E.workspace == self._workspace,
                is_any_of(_E.pattern_id, list(patterns)),
                _E.status == EntryStatus.EMBEDDED,
                sa.literal_column("dead_ends <> '{}'::text[]"),
            )
            .order_by(*TRUST_ORDER)
            .limit(_MAX_TRIED_ENTRIES)
        )
        found: dict[PatternId, dict[str, None]] = {}
        for row in await self._all(query):
            if is_genuine(self._ledger, self._workspace, row):
                found.setdefault(PatternId(row.pattern_id), {}).update(dict.fromkeys(row.dead_ends))
        return {pattern: tuple(texts)[:MAX_DEAD_ENDS] for pattern, texts in found.items()}

    async def find_rejection(self, project_id: str, gate_type: str, task_id: str | None) -> EntryId | None:
        query = sa.select(_E.id).where(
            *((_E.status != EntryStatus.ABANDONED,) if task_id is None else ()),
            _E.workspace == self._workspace,
            _E.entry_type == EntryType.GATE_REJECTION,
            _E.project_id == project_id,
            _E.gate_type == gate_type,
            _E.task_id.is_not_distinct_from(task_id),
        )
        found = await self._scalar(query.order_by(_E.timestamp).limit(1))
        return None if found is None else EntryId(found)

    async def entries_of_task(
        self,
        project_id: str,
        task_id: str | None,
        entry_type: EntryType,
        *,
        gate_type: str | None = None,
        limit: int = MAX_ENTRIES_OF_TASK,
    ) -> list[Entry]:
        query = (
            sa.select(*ENTRY_COLUMNS)
            .where(
                _E.workspace == self._workspace,
                _E.project_id == project_id,
                event_task == (task_id or ""),
                _E.entry_type == entry_type,
            )
            .order_by(_E.status != EntryStatus.OPEN, _E.low_trust, _E.timestamp.desc(), _E.id)
            .limit(limit)
        )
        if gate_type is not None:
            query = query.where(_E.gate_type == gate_type)
        return [to_entry(row) for row in await self._all(query)]

    async def latest_of_key(self, source: str, *, limit: int) -> list[Entry]:
        staged, open_ = (
            sa.select(_E.id, _E.agent_key, _E.timestamp)
            .where(_E.workspace == self._workspace, sa.literal_column(waiting))
            .order_by(_E.timestamp.desc())
            .limit(LATEST_OF_ALL)
            for waiting in ("status = 'staged'", "status IN ('open', 'abandoned')")
        )
        latest = sa.union_all(staged.subquery().select(), open_.subquery().select()).subquery()
        ids = (
            sa.select(latest.c.id)
            .where(latest.c.agent_key == source)
            .order_by(latest.c.timestamp.desc(), latest.c.id.desc())
            .limit(limit)
        )
        query = sa.select(*ENTRY_COLUMNS).where(_E.id.in_(ids)).order_by(_E.timestamp.desc(), _E.id.desc())
        return [to_entry(row) for row in await self._all(query)]

    async def unresolved(
        self, *, project_id: str | None = None, limit: int, after: EntryId | None = None
    ) -> list[Entry]:
        query = (
            sa.select(*SEALED_COLUMNS)
            .where(_E.workspace == self._workspace, _E.status == sa.literal_column("'open'"))  # for the partial index
            .order_by(_E.timestamp.desc(), _E.id)
        )
        if project_id is not None:
            query = query.where(_E.project_id == project_id)
        async with autocommit(self._engine) as connection:
            at = None if after is None else await capture_time(connection, self._workspace, after)

            async def read(last: sa.Row[Any] | None, wanted: int) -> Sequence[sa.Row[Any]]:
                place = (at, after) if last is None else (last.captured_at, last.entry_id)
                rest = query if place[0] is None else query.where(*is_behind(*place))
                return (await connection.execute(rest.limit(wanted))).all()

            return [to_entry(row) for row in await read_genuine(self._ledger, self._workspace, read, limit)]

    async def claim(self, selection: Selection, *, limit: int, lease: timedelta) -> Claim:
        token = LeaseToken(uuid4())
        params = {"limit": limit, "token": token, "lease": lease}
        rows = await self._all(_lease_due(self._workspace, selection), params)
        leased = [entry_of_values(row[:-1]) for row in rows]
        claim = Claim(token=token, entries=tuple(sorted(leased, key=lambda e: (e.captured_at, e.entry_id))))
        altered = {row.entry_id for row in rows if not is_genuine(self._ledger, self._workspace, row)}
        if not altered:
            return claim
        for entry_id in altered:
            await self.bury(token, entry_id, ALTERED)
        if len(altered) == len(rows):  # nothing is left of the batch; there may be more
            return await self.claim(selection, limit=limit, lease=lease)
        return replace(claim, entries=tuple(each for each in claim.entries if each.entry_id not in altered))

    def _lock_claimed(self, claim: Claim) -> sa.ColumnElement[bool]:
        return lock_in_order(_E.id.in_([entry.entry_id for entry in claim.entries]), _E.lease_token == claim.token)

    async def extend(self, claim: Claim, lease: timedelta) -> int:
        later = sa.update(knowledge_staging).where(self._lock_claimed(claim)).values(lease_until=sa.func.now() + lease)
        return await self._write(later)

    async def release(self, claim: Claim) -> None:
        free = sa.update(knowledge_staging).where(self._lock_claimed(claim)).values(lease_token=None, lease_until=None)
        await self._write(free)

    async def bury(self, token: LeaseToken, entry_id: EntryId, reason: str) -> None:
        dead = (
            sa.update(knowledge_staging)
            .where(_E.id == entry_id, _E.lease_token == token)
            .values(status=EntryStatus.DEAD, dead_reason=reason, lease_token=None, lease_until=None)
            .returning(_E.pattern_id, _E.point_ids)
        )
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            await _revoke_decisions(connection, (await connection.execute(dead)).all())

    async def abandon(self, project_id: str, *, unvouched: bool) -> int:
        is_abandoned = _E.status == EntryStatus.OPEN
        if unvouched:
            is_abandoned = sa.or_(is_abandoned, sa.and_(_E.status == EntryStatus.STAGED, ~_VOUCHED))
        update = (
            sa.update(knowledge_staging)
            .where(lock_in_order(_E.workspace == self._workspace, _E.project_id == project_id, is_abandoned))
            .values(status=EntryStatus.ABANDONED, lease_token=None, lease_until=None)
        )
        theirs = (_E.workspace == self._workspace, _E.project_id == project_id, is_abandoned)
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            rows = await rewrite(connection, self._workspace, update, *theirs, also=[_E.point_ids])
            await _revoke_decisions(connection, rows)
            return len(rows)

    async def abandon_repeated(self, entry_ids: Sequence[EntryId]) -> int:
        still_open = (_E.workspace == self._workspace, _E.id.in_(entry_ids), _E.status == EntryStatus.OPEN)
        update = sa.update(knowledge_staging).where(lock_in_order(*still_open)).values(status=EntryStatus.ABANDONED)
        async with transaction(self._engine) as connection:
            return len(await rewrite(connection, self._workspace, update, *still_open))

    async def due_projects(self, captured_before: datetime) -> list[str]:
        due = _is_due(self._workspace, Selection(captured_before=captured_before))
        query = sa.select(_E.project_id).where(*due).distinct().order_by(_E.project_id)
        return list(await self._scalars(query))

    async def count_pending(self, selection: Selection) -> int:
        query = sa.select(sa.func.count()).select_from(knowledge_staging).where(*_is_due(self._workspace, selection))
        return await self._scalar(query) or 0

    async def sole_points(self, entry_id: EntryId) -> list[PointId]:
        other = knowledge_staging.alias("other")
        own = sa.select(sa.func.unnest(_E.point_ids).label("id"), _E.pattern_id).where(
            _E.workspace == self._workspace, _E.id == entry_id
        )
        mine = own.subquery("mine")
        shared = sa.exists().where(
            other.c.pattern_id == mine.c.pattern_id, other.c.id != entry_id, mine.c.id == sa.any_(other.c.point_ids)
        )
        async with autocommit(self._engine) as connection:
            found = await connection.execute(sa.select(mine.c.id).where(~shared))
            return [PointId(point) for point in found.scalars()]

    async def delete(self, entry_id: EntryId, *, while_it_is: EntryStatus | None = None) -> None:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            if await delete_entries(connection, self._workspace, [entry_id], while_it_is=while_it_is):
                return
            is_entry = sa.and_(_E.workspace == self._workspace, _E.id == entry_id)
            if status := await connection.scalar(sa.select(_E.status).where(is_entry)):
                raise Conflict(f"entry {entry_id} is {status}, not {while_it_is}")
            raise NotFound(f"there is no entry {entry_id} in workspace {self._workspace}")

    async def delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            return await delete_entries(connection, self._workspace, entry_ids)

    async def ids_of_pattern(self, pattern_id: PatternId, *, limit: int) -> list[EntryId]:
        query = sa.select(_E.id).where(_E.workspace == self._workspace, _E.pattern_id == pattern_id, EMBEDDED)
        async with autocommit(self._engine) as connection:
            found = await connection.execute(query.order_by(_E.id).limit(limit))
            return [EntryId(entry_id) for entry_id in found.scalars()]

    async def ids_of_project(self, project_id: str, *, limit: int) -> list[EntryId]:
        project_exists = sa.exists().where(projects.c.workspace == self._workspace, projects.c.project_id == project_id)
        query = sa.select(_E.id).where(_E.workspace == self._workspace, _E.project_id == project_id)
        async with autocommit(self._engine) as connection:
            if not await connection.scalar(sa.select(project_exists)):
                raise NotFound(f"there is no project {project_id} in workspace {self._workspace}")
            found = await connection.execute(query.order_by(_E.id).limit(limit))
            return [EntryId(entry_id) for entry_id in found.scalars()]

    async def forget_project(self, project_id: str) -> bool:
        async with exclusive_transaction(self._engine, self._workspace) as connection:
            return await forget_project(connection, self._workspace, project_id)


async def _revoke_decisions(connection: AsyncConnection, rows: Sequence[sa.Row[Any]]) -> None:
    """Mark the points of entries that will not be embedded dirty, and recount the patterns decided for them."""
    await mark_points_dirty(connection, [row.point_ids for row in rows])
    await recount(connection, {row.pattern_id for row in rows} - {None})
