"""API keys and scopes, provenance of entries, the audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

from hardwon.models.ids import ContextId, EntryId, PatternId


class Scope(StrEnum):
    """A permission of a key. Agents get `capture` at most; `admin` includes the others."""

    CAPTURE = "capture"
    """Capture entries and their resolutions."""
    QUERY = "query"
    """Query patterns, record outcomes and run checkpoints: for the orchestrator."""
    DOCUMENTS = "documents"
    """Query documents and add some, as far as the asker that the key is named after may: for agents and their users."""
    REVIEW = "review"
    """Decide on quarantined entries, and join or split patterns."""
    ADMIN = "admin"
    """Delete data, run maintenance, and create keys."""


REPORTER_PREFIX: Final = "agent:"
"""In front of the names of agents whose word another caller passes on; the id of no key begins so."""
MAX_NAME_CHARS: Final = 100
DEFAULT_OVERLAP: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored key, without its secret. `workspace` None: valid in all workspaces.

    `last_used_at` is late by a minute at most. `replaced_by`: the key that a rotation put in its place. `first_key`:
    the first key of the rotation chain, which belongs to one caller; None for a key that is not from a rotation.
    """

    key_id: str
    name: str | None
    scopes: tuple[Scope, ...]
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    replaced_by: str | None = None
    first_key: str | None = None
    last_used_at: datetime | None = None

    def is_live(self, now: datetime) -> bool:
        """Return whether the key is valid at that time: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new key and its text, which is shown only once and stored nowhere."""

    key: ApiKey
    secret: str


MAX_AFFECTED = 10_000
"""Tasks that one call returns; a revocation returns all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Filter of entries and outcomes; all conditions must hold.

    `key_id`: captured, resolved or recorded with that key. `since`, `until`: the time of capture or recording.
    """

    key_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    entry_id: EntryId | None = None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the selected keys; empty without a condition on the key."""
        return () if self.key_id is None else (self.key_id,)

    @property
    def matches_all(self) -> bool:
        """True without any condition."""
        return self == EntryFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedTask:
    """A context that was handed out and based on some of the entries, with its agent's task."""

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    agent_type: str | None
    handed_out_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentPattern:
    """A pattern in far more contexts than it has successes; it may have been crafted to match every query."""

    pattern_id: PatternId
    contexts: int
    tasks: int
    success_count: int


class AlarmKind(StrEnum):
    """The reason to look at an agent's key."""

    CONTRADICTS = "contradicts"
    """It reported another solution, or a failure, where a solution of somebody trusted worked."""
    REPEATS = "repeats"
    """It reported one situation again and again, each time with another solution."""
    CROWDS = "crowds"
    """Its situations were so many around a task that most of them were left out."""
    FAILS = "fails"
    """What it captured was shown, and failed more often than it worked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAlarm:
    """An agent's key, of low trust, to look at: `reports` counts what it reported, of `pattern_ids` some are named."""

    key_id: str
    kind: AlarmKind
    reports: int
    pattern_ids: tuple[PatternId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One row of a hash chain. `hash` covers all other fields, including the hash of the previous row (`before`)."""

    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    before: bytes
    hash: bytes = b""

    def compute_hash(self) -> bytes:
        """Return the SHA-256 of the other fields."""
        row = [self.workspace, self.number, self.at.isoformat(), self.who, self.what, self.details, self.before.hex()]
        return sha256(json.dumps(row, ensure_ascii=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Result of a revocation: what it removed, or would remove, and the tasks that had been shown it."""

    entries: int
    outcomes: int
    affected: tuple[AffectedTask, ...]
    dry_run: bool = False
    settled: bool = True
    """The index is cleaned up, too; if not, the next checkpoint or prune does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """Result of verifying a chain. `head` identifies its last row; keep it elsewhere to verify against it later."""

    rows: int
    head: str
    problems: tuple[str, ...] = field(default=())

    @property
    def is_intact(self) -> bool:
        """True if no problem was found."""
        return not self.problems
