"""Decisions of people that are done after a grace period, in which they can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType
from uuid import UUID

DeedId = NewType("DeedId", UUID)


class DeedKind(StrEnum):
    """A decision: on an entry that waits for a review, on patterns, or to delete."""

    APPROVE = "approve"
    REJECT = "reject"
    JOIN = "join"
    SPLIT = "split"
    DELETE_ENTRY = "delete_entry"
    DELETE_PATTERN = "delete_pattern"


class DeedState(StrEnum):
    """The state of a deed; `running` while it is being done."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    UNDONE = "undone"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """A decision that is done at `due_at`, or soon after it.

    `subject`: the entry or pattern that it is about; of a join, the pattern that becomes part of the one in `others`;
    of a split, the first of the entries, the rest of which are in `others`. Of an approval `others` has an id of the
    texts that were approved: it fails if an agent changes them in the meantime. `ended_at`, `ended_by`: when it was
    done, undone or failed, and who undid it. `error`: why it failed. `key_id`: of the key that decided, if it was one:
    the deed fails if that is revoked in the meantime.
    """

    deed_id: DeedId
    kind: DeedKind
    subject: UUID
    others: tuple[UUID, ...]
    who: str
    decided_at: datetime
    due_at: datetime
    state: DeedState
    ended_at: datetime | None = None
    ended_by: str | None = None
    error: str | None = None
    key_id: str | None = None
