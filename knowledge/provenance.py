"""Where entries came from and went, and who decided what: for reviews, revocations and the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Protocol

from knowledge.models import ContextId, Entry, EntryId, PatternId
from knowledge.ports import Clock

FIRST = bytes(32)
"""What stands before the first row of a chain."""

LATELY_NOTED = 1000
"""How many rows of a chain are looked through for what was noted before."""

Told = str | int | bool | None
"""What a row of the audit log tells: ids, numbers, names; never a text of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which entries are meant: what one key captured or resolved, of one project, captured in a time. All must hold.

    And which outcomes: what the key told, of the project, in the time.
    """

    key_id: str | None = None
    project_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    entry_id: EntryId | None = None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that are meant, none where it is not asked for a key."""
        return () if self.key_id is None else (self.key_id,)

    @property
    def everything(self) -> bool:
        """Whether nothing is asked for, so that all entries are meant."""
        return self == Chosen()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenByChain(Chosen):
    """What a key told, and those that rotations made it of, or of it."""

    chain: tuple[str, ...]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of them all."""
        return self.chain


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedTask:
    """A context that was handed out with some of the entries behind it; the task is that of its agent."""

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    agent_type: str | None
    handed_out_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OftenShown:
    """A pattern that stands in far more contexts than it worked: near every question, it may be made to be."""

    pattern_id: PatternId
    contexts: int
    tasks: int
    success_count: int


class ProvenanceStore(Protocol):
    """Entries by where they came from, in one workspace."""

    async def waiting(self, *, limit: int, after: EntryId | None = None) -> list[Entry]:
        """Return the quarantined entries, the oldest first, from behind `after` on. NotFound where that one is gone."""
        ...

    async def approve(self, entry: Entry, by: str) -> Entry | None:
        """Let a quarantined entry go on as one that a person vouches for; None where it waits no more, or changed."""
        ...

    async def chosen(self, chosen: Chosen, *, limit: int) -> list[EntryId]:
        """Return entries that are meant, at most so many."""
        ...

    async def count(self, chosen: Chosen) -> int:
        """Return how many entries are meant."""
        ...

    async def count_outcomes(self, chosen: Chosen) -> int:
        """Return how many outcomes are meant: those a key told, of a project, told in a time; of a named entry none."""
        ...

    async def delete_outcomes(self, chosen: Chosen, *, limit: int) -> int:
        """Delete up to `limit` outcomes that are meant, and recount their patterns; return how many."""
        ...

    async def affected(self, chosen: Chosen, *, limit: int, after: ContextId | None = None) -> list[AffectedTask]:
        """Return the contexts that held any of the entries that are meant, the latest first, from behind `after` on.

        Of an entry that is named, also where it is gone by now. Raises NotFound where the context `after` is gone.
        """
        ...

    async def tasks_of(self, context_ids: Sequence[ContextId]) -> list[AffectedTask]:
        """Return the tasks of contexts; left out are those that are gone."""
        ...

    async def often_shown(self, *, since: datetime, least: int, times: int) -> list[OftenShown]:
        """Return the patterns in at least so many contexts, and so many times more than they have successes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One row of a chain. `hash` is over all else and over the hash of the row before."""

    workspace: str
    number: int
    at: datetime
    who: str
    what: str
    details: str
    before: bytes
    hash: bytes = b""

    def hashed(self) -> bytes:
        """Return the hash that belongs to what the row says."""
        told = [self.workspace, self.number, self.at.isoformat(), self.who, self.what, self.details, self.before.hex()]
        return sha256(json.dumps(told, ensure_ascii=True).encode()).digest()


class AuditStore(Protocol):
    """Chains of decisions: rows are added, and never changed or removed."""

    async def append(self, workspace: str, *, at: datetime, who: str, what: str, details: str) -> AuditEntry:
        """Add a row after the last one of a workspace's chain, alone with it; "" is the chain of the whole store."""
        ...

    async def latest(self, workspace: str, *, limit: int, after: int | None = None) -> list[AuditEntry]:
        """Return the last rows of a chain, the latest first; those before the row of the number `after`."""
        ...

    def rows(self, workspace: str) -> AsyncIterator[Sequence[AuditEntry]]:
        """Yield a chain from its first row on."""
        ...


@dataclass(frozen=True, slots=True)
class Auditor:
    """Writes down what was decided, and by whom; without a store nothing."""

    store: AuditStore | None = None
    clock: Clock | None = None
    workspace: str = ""
    who: str = "owner"

    async def note(self, what: str, **details: Told) -> None:
        """Add to the log what was done. Raises StorageUnavailable."""
        if self.store is not None and self.clock is not None:
            told: Mapping[str, Told] = {name: value for name, value in details.items() if value is not None}
            await self.store.append(
                self.workspace,
                at=self.clock.now(),
                who=self.who,
                what=what,
                details=json.dumps(told, sort_keys=True, ensure_ascii=True),
            )

    async def noted(self, what: str) -> list[dict[str, Told]]:
        """Return the details of what was noted under a name among the last rows, the latest first."""
        if self.store is None:
            return []
        rows = await self.store.latest(self.workspace, limit=LATELY_NOTED)
        return [json.loads(row.details) for row in rows if row.what == what]


UNHEARD = Auditor()
"""Writes nothing down: of services that are put together by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """What a revocation removed, or would remove, and whom it had reached."""

    entries: int
    outcomes: int
    affected: tuple[AffectedTask, ...]
    dry_run: bool = False
    settled: bool = True
    """Whether the index is done with it, too; else the next checkpoint or prune is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainReport:
    """Whether a chain is whole. `head` is its last row, to be kept elsewhere: whoever has it can ask for it again."""

    rows: int
    head: str
    problems: tuple[str, ...] = field(default=())

    @property
    def whole(self) -> bool:
        """Whether nothing was found."""
        return not self.problems
