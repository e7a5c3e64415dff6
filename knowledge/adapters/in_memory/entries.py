"""The entries of a workspace in memory: capture, resolution, the lease, deletion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from knowledge.adapters.in_memory.state import EntryRow, InMemoryState
from knowledge.errors import Conflict, NotFound, NotOpen
from knowledge.models import (
    TRUSTED,
    AppliesWhen,
    Captured,
    CaptureOutcome,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    LeaseToken,
    PatternId,
    PointId,
    Provenance,
)
from knowledge.ports import MOST_OF_TASK, Claim, EntryStore, Selection


class InMemoryEntries(EntryStore):
    """Entries of one workspace. What the schema's CHECKs refuse, this takes: `capture` has validated it."""

    def __init__(self, state: InMemoryState, workspace: str) -> None:
        self._state = state
        self._workspace = workspace

    async def add(self, entries: Sequence[Entry]) -> list[Captured]:
        return [self._add(replace(entry, workspace=self._workspace)) for entry in entries]

    def _add(self, entry: Entry) -> Captured:
        if self._state.insert(entry):
            return Captured(
                outcome=CaptureOutcome.ACCEPTED,
                entry_id=entry.entry_id,
                status=entry.status,
                informed=bool(self._handed_out(entry)),
            )
        known = self._known(entry)
        if known is None:
            raise ValueError(f"two different entries have the id {entry.entry_id}")
        there = None if known.entry_id is None else self._row(known.entry_id).entry
        others = there is not None and entry.low_trust and entry.agent_key != there.agent_key
        if known.outcome is CaptureOutcome.DUPLICATE and known.entry_id is not None and not others:
            self._state.take_key(known.entry_id, entry.idempotency_key)
        return known

    async def known(self, entry: Entry) -> Captured | None:
        return self._known(replace(entry, workspace=self._workspace))

    def _known(self, entry: Entry) -> Captured | None:
        found = self._state.same_as(entry)
        if found is None:
            return None
        if _told(found) != _told(entry):
            return Captured(
                outcome=CaptureOutcome.REFUSED,
                field="idempotency_key",
                error="was used before for another entry",
                entry_id=found.entry_id,
            )
        before = [at for at in self._handed_out(found) if at <= found.captured_at]
        return Captured(
            outcome=CaptureOutcome.DUPLICATE,
            entry_id=found.entry_id,
            status=found.status,
            informed=found.status is EntryStatus.STAGED and bool(before),
        )

    def _handed_out(self, entry: Entry) -> list[datetime]:
        """Return when patterns were handed out for the task of an entry."""
        if entry.task_id is None:
            return []
        rows = self._state.contexts_of(self._workspace, entry.project_id, entry.task_id)
        return [row.created_at for row in rows]

    async def vouch(self, entry_id: EntryId, told: Entry) -> bool:
        row = self._state.entries.get(entry_id)
        if row is None or not (
            row.entry.status is EntryStatus.QUARANTINED
            or (row.entry.status is EntryStatus.OPEN and row.entry.low_trust)
        ):
            return False
        resolutions = [(each.solution_steps, each.revision_approach) for each in (row.entry, told)]
        if resolutions[0] != resolutions[1]:
            return False
        self._state.change(entry_id, status=told.status, low_trust=False, captured_by=told.captured_by, agent_key=None)
        return True

    async def reopen(self, entry_id: EntryId, told: Entry) -> bool:
        row = self._state.entries.get(entry_id)
        if row is None or row.entry.status is not EntryStatus.ABANDONED:
            return False
        theirs = {"low_trust": False, "captured_by": told.captured_by, "agent_key": None}
        self._state.change(entry_id, status=told.status, captured_at=told.captured_at, **theirs)
        return True

    async def get(self, entry_id: EntryId) -> Entry:
        return self._row(entry_id).entry

    async def resolve(
        self,
        entry_id: EntryId,
        *,
        solution_steps: str | None = None,
        revision_approach: str | None = None,
        verified_by: str | None = None,
        when_to_try: str | None = None,
        applies_when: AppliesWhen | None = None,
        by: Provenance = TRUSTED,
    ) -> Entry:
        told: dict[str, Any] = {"solution_steps": solution_steps, "revision_approach": revision_approach}
        told |= {"verified_by": verified_by, "when_to_try": when_to_try, "applies_when": applies_when}
        told = {name: value for name, value in told.items() if value is not None}
        entry = self._row(entry_id).entry
        held_back = entry.status is EntryStatus.QUARANTINED
        unresolved = entry.solution_steps is None and entry.revision_approach is None
        if entry.status is EntryStatus.OPEN or (held_back and unresolved):
            verified = entry.success_verified or entry.entry_type is EntryType.FAILURE_SOLUTION
            status = EntryStatus.QUARANTINED if held_back or by.suspicions else EntryStatus.STAGED
            told_by = {
                "resolved_by": by.key_id,
                "agent_key": by.source if by.low_trust else entry.agent_key,
                "low_trust": entry.low_trust or by.low_trust,
                "suspicions": (*entry.suspicions, *by.suspicions),
            }
            changed = self._state.change(entry_id, **told, **told_by, status=status, success_verified=verified)
            return changed.entry
        same = all(getattr(entry, name) == value for name, value in told.items())
        if entry.status is EntryStatus.ABANDONED or not same:
            raise NotOpen(f"entry {entry_id} is {entry.status}, not open: it cannot be given another resolution")
        return entry

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
        async with self._state.deciding[self._workspace]:
            row = self._row(entry_id)
            waits = row.entry.status in {EntryStatus.STAGED, EntryStatus.QUARANTINED} and row.entry.pattern_id is None
            if not waits or not row.entry.low_trust or row.entry.resolved_by != resolved_by:
                return None
            return self._state.change(
                entry_id,
                replace(row, lease_token=None, lease_until=0.0),
                solution_steps=solution_steps,
                revision_approach=revision_approach,
                verified_by=verified_by,
                when_to_try=when_to_try,
                applies_when=applies_when,
                status=EntryStatus.STAGED,
                resolved_by=by.key_id,
                agent_key=None,
                low_trust=False,
                suspicions=(),
            ).entry

    async def rejection_on_record(self, project_id: str, gate_type: str, task_id: str | None) -> EntryId | None:
        asked = (EntryType.GATE_REJECTION, project_id, gate_type, task_id)
        found = [
            entry
            for entry in (row.entry for row in self._rows())
            if (entry.entry_type, entry.project_id, entry.gate_type, entry.task_id) == asked
            and not (task_id is None and entry.status is EntryStatus.ABANDONED)
        ]
        return min(found, key=lambda entry: entry.captured_at).entry_id if found else None

    async def of_task(
        self,
        project_id: str,
        task_id: str | None,
        entry_type: EntryType,
        *,
        gate_type: str | None = None,
        limit: int = MOST_OF_TASK,
    ) -> list[Entry]:
        asked = (project_id, task_id, entry_type)
        found = [
            entry
            for entry in (row.entry for row in self._rows())
            if (entry.project_id, entry.task_id, entry.entry_type) == asked and gate_type in {None, entry.gate_type}
        ]
        found.sort(
            key=lambda entry: (entry.status is not EntryStatus.OPEN, entry.low_trust, -entry.captured_at.timestamp())
        )
        return found[:limit]

    async def unresolved(
        self, *, project_id: str | None = None, limit: int, after: EntryId | None = None
    ) -> list[Entry]:
        def place(entry: Entry) -> tuple[float, EntryId]:
            return -entry.captured_at.timestamp(), entry.entry_id

        behind = None if after is None else place(self._row(after).entry)
        found = [
            entry
            for entry in (row.entry for row in self._rows())
            if entry.status is EntryStatus.OPEN
            and project_id in {None, entry.project_id}
            and (behind is None or place(entry) > behind)
        ]
        return sorted(found, key=place)[:limit]

    async def claim(self, selection: Selection, *, limit: int, lease: timedelta) -> Claim:
        token, now = LeaseToken(uuid4()), self._state.ticks()
        free = [
            row
            for row in self._due(selection)
            if row.entry.entry_id not in self._state.locked and (row.lease_token is None or row.lease_until < now)
        ]
        taken = sorted(free, key=lambda row: (row.entry.captured_at, row.entry.entry_id))[: max(limit, 0)]
        for row in taken:
            leased = replace(row, lease_token=token, lease_until=now + lease.total_seconds())
            self._state.change(row.entry.entry_id, leased, attempts=row.entry.attempts + 1)
        return Claim(token=token, entries=tuple(self._row(row.entry.entry_id).entry for row in taken))

    async def extend(self, claim: Claim, lease: timedelta) -> int:
        async with self._state.deciding[self._workspace]:
            held = self._held(claim)
            for row in held:
                until = self._state.ticks() + lease.total_seconds()
                self._state.entries[row.entry.entry_id] = replace(row, lease_until=until)
            return len(held)

    async def release(self, claim: Claim) -> None:
        async with self._state.deciding[self._workspace]:
            for row in self._held(claim):
                self._state.entries[row.entry.entry_id] = replace(row, lease_token=None, lease_until=0.0)

    async def bury(self, token: LeaseToken, entry_id: EntryId, reason: str) -> None:
        async with self._state.deciding[self._workspace]:
            row = self._state.entries.get(entry_id)
            if row is not None and row.lease_token == token:
                self._state.change(entry_id, status=EntryStatus.DEAD, dead_reason=reason)
                self._state.doubt(row.point_ids)

    async def abandon(self, project_id: str, *, unvouched: bool) -> int:
        async with self._state.deciding[self._workspace]:
            gone = [
                entry
                for entry in (row.entry for row in self._rows())
                if entry.project_id == project_id
                and (
                    entry.status is EntryStatus.OPEN
                    or (unvouched and entry.status is EntryStatus.STAGED and not _vouched(entry))
                )
            ]
            for entry in gone:
                row = self._state.change(entry.entry_id, status=EntryStatus.ABANDONED)
                self._state.doubt(row.point_ids)
            return len(gone)

    async def abandon_repeated(self, entry_ids: Sequence[EntryId]) -> int:
        meant = set(entry_ids)
        found = [row.entry for row in self._rows() if row.entry.entry_id in meant]
        still_open = [entry for entry in found if entry.status is EntryStatus.OPEN]
        for entry in still_open:
            self._state.change(entry.entry_id, status=EntryStatus.ABANDONED)
        return len(still_open)

    async def due_projects(self, captured_before: datetime) -> list[str]:
        return sorted({row.entry.project_id for row in self._due(Selection(captured_before=captured_before))})

    async def pending(self, selection: Selection) -> int:
        return len(self._due(selection))

    async def sole_points(self, entry_id: EntryId) -> list[PointId]:
        own = self._state.entries.get(entry_id)
        if own is None or own.entry.workspace != self._workspace:
            return []
        shared = {
            point_id
            for row in self._rows()
            if row.entry.pattern_id == own.entry.pattern_id and row.entry.entry_id != entry_id
            for point_id in row.point_ids
        }
        return [point_id for point_id in own.point_ids if point_id not in shared]

    async def delete(self, entry_id: EntryId, *, while_it_is: EntryStatus | None = None) -> None:
        async with self._state.deciding[self._workspace]:
            status = self._row(entry_id).entry.status
            if while_it_is is not None and status is not while_it_is:
                raise Conflict(f"entry {entry_id} is {status}, not {while_it_is}")
            self._state.remove([entry_id])

    async def delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        async with self._state.deciding[self._workspace]:
            there = [row.entry.entry_id for row in self._rows() if row.entry.entry_id in set(entry_ids)]
            self._state.remove(there)
            return len(there)

    async def of_pattern(self, pattern_id: PatternId, *, limit: int) -> list[EntryId]:
        entries = [row.entry for row in self._rows() if row.entry.pattern_id == pattern_id]
        return sorted(entry.entry_id for entry in entries if entry.status is EntryStatus.EMBEDDED)[:limit]

    async def of_project(self, project_id: str, *, limit: int) -> list[EntryId]:
        if (self._workspace, project_id) not in self._state.projects:
            raise NotFound(f"there is no project {project_id} in workspace {self._workspace}")
        return sorted(row.entry.entry_id for row in self._rows() if row.entry.project_id == project_id)[:limit]

    async def forget_project(self, project_id: str) -> bool:
        if any(row.entry.project_id == project_id for row in self._rows()):
            return False
        state, mine = self._state, self._workspace
        state.projects.discard((mine, project_id))
        for checkpoint_id, (workspace, report) in list(state.checkpoints.items()):
            if (workspace, report.project_id) == (mine, project_id):
                del state.checkpoints[checkpoint_id]
        rows = [row for row in state.contexts.values() if (row.workspace, row.task.project_id) == (mine, project_id)]
        handed_out = {row.context.context_id for row in rows}
        for context_id in handed_out:
            del state.contexts[context_id]
        gone = [
            key
            for key, outcome in state.outcomes.items()
            if key[0] == mine and (outcome.project_id == project_id or outcome.context_id in handed_out)
        ]
        state.recount({state.outcomes.pop(key).pattern_id for key in gone})
        return True

    def _row(self, entry_id: EntryId) -> EntryRow:
        row = self._state.entries.get(entry_id)
        if row is None or row.entry.workspace != self._workspace:
            raise NotFound(f"there is no entry {entry_id} in workspace {self._workspace}")
        return row

    def _rows(self) -> list[EntryRow]:
        return [row for row in self._state.entries.values() if row.entry.workspace == self._workspace]

    def _held(self, claim: Claim) -> list[EntryRow]:
        rows = [self._state.entries.get(entry.entry_id) for entry in claim.entries]
        return [row for row in rows if row is not None and row.lease_token == claim.token]

    def _due(self, selection: Selection) -> list[EntryRow]:
        return [row for row in self._rows() if row.entry.status is EntryStatus.STAGED and _meets(row.entry, selection)]


def _meets(entry: Entry, selection: Selection) -> bool:
    return (
        (selection.project_id is None or entry.project_id == selection.project_id)
        and (not selection.only_vouched or _vouched(entry))
        and (selection.captured_before is None or entry.captured_at < selection.captured_before)
    )


def _vouched(entry: Entry) -> bool:
    return entry.verified_by is not None or entry.entry_type is not EntryType.FAILURE_SOLUTION


def _told(entry: Entry) -> tuple[str | None, ...]:
    return (entry.content_hash, entry.project_id, entry.task_id, entry.run_id)
