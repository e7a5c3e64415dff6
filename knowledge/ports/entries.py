"""Entries, and what a checkpoint takes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Entries leased to one checkpoint until `lease_until`, oldest first. Empty when nothing is left to take."""

    token: LeaseToken
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a checkpoint takes: staged entries of a project (None: of every project).

    `only_vouched`: only those with a verifier named or decided by a human; `captured_before`: only those captured
    before then.
    """

    project_id: str | None = None
    only_vouched: bool = False
    captured_before: datetime | None = None


MOST_OF_TASK = 100
"""At most so many entries of one task are looked at; nobody fails more often before somebody looks."""


class EntryStore(Protocol):
    """Entries of one workspace, the truth. Rows are the queue as well: no second bookkeeping."""

    async def add(self, entries: Sequence[Entry]) -> list[CaptureResult]:
        """Store new entries and their projects in one transaction; answer each, in order.

        A repeated idempotency key with the same content, or the same content of the same (project, task, run), is a
        duplicate; a repeated key with other content is refused (field `idempotency_key`). What was told without a key
        takes that of its first duplicate that has one, but for one of low trust of what somebody else told.
        """
        ...

    async def known(self, entry: Entry) -> CaptureResult | None:
        """Return what `add` would answer to an entry that is told again, None for one that is new."""
        ...

    async def vouch(self, entry_id: EntryId, told: Entry) -> bool:
        """Let an entry that is quarantined go on as who is trusted tells the very same; return whether it does.

        It is theirs from then on, and so is one of low trust that is open. One that was given a resolution since, which
        was not told, waits on.
        """
        ...

    async def reopen(self, entry_id: EntryId, told: Entry) -> bool:
        """Let an abandoned entry go on as who is trusted tells the very same anew; return whether it does.

        It is theirs from then on, and was captured now.
        """
        ...

    async def get(self, entry_id: EntryId) -> Entry:
        """Return an entry. Raises NotFound."""
        ...

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
        """Give an open entry its resolution and stage it. The same resolution again changes nothing.

        Quarantined where it was, or where `by` names suspicions; low trust where either is.

        Raises NotFound, or NotOpen for an entry that has another resolution or was abandoned.
        """
        ...

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
        """Stage an entry with a trusted resolution in the place of one that a key of low trust gave it.

        Nothing of that stays, nor the lease of who was embedding it. None, and nothing changes, where it is neither
        staged nor quarantined, is of a pattern already, or was not resolved by that key.
        """
        ...

    async def rejection_on_record(self, project_id: str, gate_type: str, task_id: str | None) -> EntryId | None:
        """Return a rejection of the same project, gate and task, if there is one.

        Of no task, where every proposal at the gate would be the same one, none that was abandoned.
        """
        ...

    async def of_task(
        self,
        project_id: str,
        task_id: str | None,
        entry_type: EntryType,
        *,
        gate_type: str | None = None,
        limit: int = MOST_OF_TASK,
    ) -> list[Entry]:
        """Return the entries of a task, or of none, and of a gate where one is named.

        Open ones first, of those the ones that are of no low trust, then the latest.
        """
        ...

    async def unresolved(
        self, *, project_id: str | None = None, limit: int, after: EntryId | None = None
    ) -> list[Entry]:
        """Return up to `limit` open entries, of a project or of all, the latest first, from behind `after` on.

        Raises NotFound for an entry to go on from that is none.
        """
        ...

    async def claim(self, selection: Selection, *, limit: int, lease: timedelta) -> Claim:
        """Lease up to `limit` due entries, oldest first, by the database's clock; skips what others hold."""
        ...

    async def extend(self, claim: Claim, lease: timedelta) -> int:
        """Extend a lease; return how many of its entries it still holds."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give back what a lease still holds."""
        ...

    async def bury(self, token: LeaseToken, entry_id: EntryId, reason: str) -> None:
        """Mark a leased entry dead, with the reason."""
        ...

    async def abandon(self, project_id: str, *, unvouched: bool) -> int:
        """Abandon a project's open entries and, where `unvouched`, staged ones nobody vouches for; return how many."""
        ...

    async def abandon_repeated(self, entry_ids: Sequence[EntryId]) -> int:
        """Abandon those of these entries that are open; return how many."""
        ...

    async def due_projects(self, captured_before: datetime) -> list[str]:
        """Return the projects with staged entries captured before then, ascending."""
        ...

    async def pending(self, selection: Selection) -> int:
        """Return how many entries a checkpoint of this selection would take now, leased ones included."""
        ...

    async def delete(self, entry_id: EntryId, *, while_it_is: EntryStatus | None = None) -> None:
        """Delete an entry, note down its points, recount; with a status only while it has that.

        Raises NotFound, or Conflict where its status is another one.
        """
        ...

    async def delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        """Delete entries as `delete` does, all at once; return how many there were."""
        ...

    async def of_pattern(self, pattern_id: PatternId, *, limit: int) -> list[EntryId]:
        """Return up to `limit` embedded entries of a pattern, ascending."""
        ...

    async def sole_points(self, entry_id: EntryId) -> list[PointId]:
        """Return the points that rest on this entry alone."""
        ...

    async def of_project(self, project_id: str, *, limit: int) -> list[EntryId]:
        """Return up to `limit` entries of a project, ascending. Raises NotFound where there is no such project."""
        ...

    async def forget_project(self, project_id: str) -> bool:
        """Delete a project without entries and what is recorded of it; return False while an entry is there."""
        ...
