"""Entries, and their selection and leases for checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    """Entries leased to one checkpoint until `lease_until`, oldest first. Empty when no entry is left."""

    token: LeaseToken
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Staged entries that a checkpoint takes: those of a project (None: of every project).

    `only_vouched`: only those that name a verifier or were decided by a human; `captured_before`: only those captured
    before then.
    """

    project_id: str | None = None
    only_vouched: bool = False
    captured_before: datetime | None = None


MAX_ENTRIES_OF_TASK = 100
"""Entries of one task that are read at most; nobody fails more often before a person looks."""
LATEST_OF_ALL = 200
"""Entries of a workspace and status among which those of one key are looked for."""


class EntryStore(Protocol):
    """Entries of one workspace, the truth. Rows are the queue as well: no second bookkeeping."""

    async def add(self, entries: Sequence[Entry]) -> list[CaptureResult]:
        """Store new entries and their projects in one transaction; return the result of each, in order.

        A repeated idempotency key with the same content, or the same content of the same (project, task, run), is a
        duplicate; a repeated key with other content is refused (field `idempotency_key`). An entry stored without a key
        takes the key of its first duplicate that has one, unless a key of low trust repeats another caller's entry.
        """
        ...

    async def find_duplicate(self, entry: Entry) -> CaptureResult | None:
        """Return the result that `add` would give for a repeated entry, None for a new one."""
        ...

    async def vouch(self, entry_id: EntryId, entry: Entry) -> bool:
        """Release an entry from quarantine because a trusted caller sent the same one; return whether it was released.

        The entry is the trusted caller's from then on, and so is an open one of low trust. An entry that was given a
        resolution since, which the caller did not send, stays in quarantine.
        """
        ...

    async def replace_dead_ends(self, entry_id: EntryId, entry: Entry) -> None:
        """Replace the dead ends of an entry by those of the same one as it is told again.

        Only the key of low trust that captured an entry may, or a trusted caller.
        """
        ...

    async def reopen(self, entry_id: EntryId, entry: Entry) -> bool:
        """Revive an abandoned entry because a trusted caller sent the same one again; return whether it was revived.

        The entry is the trusted caller's from then on, and counts as captured now.
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
        dead_ends: Sequence[str] = (),
        outside_text: bool = False,
        by: Provenance = TRUSTED,
    ) -> Entry:
        """Give an open entry its resolution and stage it. The same resolution again changes nothing.

        Quarantined if the entry was, or if `by` names suspicions; of low trust if either is.

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
        """Replace the resolution that a key of low trust gave an entry by a trusted one, and stage it.

        Nothing of the old resolution stays, nor the lease of a checkpoint that is embedding it. Returns None, and
        changes nothing, if the entry is neither staged nor quarantined, belongs to a pattern, or was not resolved by
        that key.
        """
        ...

    async def find_dead_ends(self, patterns: Collection[PatternId]) -> dict[PatternId, tuple[str, ...]]:
        """Return what was tried in the situations of patterns and did not help: each text once, at most five a pattern.

        Of their embedded entries, the most trusted first.
        """
        ...

    async def find_rejection(self, project_id: str, gate_type: str, task_id: str | None) -> EntryId | None:
        """Return a rejection of the same project, gate and task, if there is one.

        Without a task, where every proposal at the gate would match, abandoned rejections do not count.
        """
        ...

    async def entries_of_task(
        self,
        project_id: str,
        task_id: str | None,
        entry_type: EntryType,
        *,
        gate_type: str | None = None,
        limit: int = MAX_ENTRIES_OF_TASK,
    ) -> list[Entry]:
        """Return the entries of a task, or of no task, and of a gate if one is given.

        Open ones first, among those the trusted ones, then the latest.
        """
        ...

    async def latest_of_key(self, source: str, *, limit: int) -> list[Entry]:
        """Return the latest entries of a low-trust key that are staged or open, latest first.

        Looks only among the workspace's latest `LATEST_OF_ALL` of each of these statuses.
        """
        ...

    async def unresolved(
        self, *, project_id: str | None = None, limit: int, after: EntryId | None = None
    ) -> list[Entry]:
        """Return up to `limit` open entries, of a project or of all, latest first, starting after `after`.

        Raises NotFound if `after` is not an entry.
        """
        ...

    async def claim(self, selection: Selection, *, limit: int, lease: timedelta) -> Claim:
        """Lease up to `limit` due entries, oldest first, by the database's clock; skips entries leased by others."""
        ...

    async def extend(self, claim: Claim, lease: timedelta) -> int:
        """Extend a lease; return how many of its entries it still holds."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give up the lease of the entries that are still held."""
        ...

    async def bury(self, token: LeaseToken, entry_id: EntryId, reason: str) -> None:
        """Mark a leased entry dead, with the reason."""
        ...

    async def abandon(self, project_id: str, *, unvouched: bool) -> int:
        """Abandon a project's open entries and, if `unvouched`, staged ones without a verifier; return how many."""
        ...

    async def abandon_repeated(self, entry_ids: Sequence[EntryId]) -> int:
        """Abandon those of these entries that are open; return how many."""
        ...

    async def due_projects(self, captured_before: datetime) -> list[str]:
        """Return the projects with staged entries captured before then, ascending."""
        ...

    async def count_pending(self, selection: Selection) -> int:
        """Count the entries that a checkpoint of this selection would take now, leased ones included."""
        ...

    async def delete(self, entry_id: EntryId, *, while_it_is: EntryStatus | None = None) -> None:
        """Delete an entry, mark its points dirty and recount its pattern; with `while_it_is`, only in that status.

        Raises NotFound, or Conflict if the entry has another status.
        """
        ...

    async def delete_all(self, entry_ids: Sequence[EntryId]) -> int:
        """Delete entries as `delete` does, in one transaction; return how many existed."""
        ...

    async def ids_of_pattern(self, pattern_id: PatternId, *, limit: int) -> list[EntryId]:
        """Return up to `limit` embedded entries of a pattern, ascending."""
        ...

    async def sole_points(self, entry_id: EntryId) -> list[PointId]:
        """Return the points that no other entry supports."""
        ...

    async def ids_of_project(self, project_id: str, *, limit: int) -> list[EntryId]:
        """Return up to `limit` entries of a project, ascending. Raises NotFound if there is no such project."""
        ...

    async def forget_project(self, project_id: str) -> bool:
        """Delete a project without entries and its records; return False if it has an entry."""
        ...
