"""What the stores in memory share: the tables of a whole store, of all workspaces, as dicts of frozen rows."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from knowledge.adapters.in_memory.index import InMemoryIndex
from knowledge.models import (
    BoundSpace,
    CheckpointId,
    CheckpointReport,
    Context,
    ContextId,
    Distillation,
    Entry,
    EntryId,
    EntryStatus,
    EntryType,
    LeaseToken,
    Link,
    Outcome,
    PatternId,
    PointId,
    Task,
    TextPoint,
    View,
)

LONG_AGO = datetime.min.replace(tzinfo=UTC)
DROPPED = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """An entry with what its column values say beside it. `lease_until` is a moment of the state's `ticks`."""

    entry: Entry
    lease_token: LeaseToken | None = None
    lease_until: float = 0.0
    point_ids: tuple[PointId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRow:
    """A pattern with its derived counts."""

    pattern_id: PatternId
    workspace: str
    match_key: str
    founded_at: datetime
    success_count: int = 0
    attempt_count: int = 0
    project_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """A point that the index is to hold."""

    point_id: PointId
    workspace: str
    pattern_id: PatternId
    view: View
    embedded_at: datetime
    expires_at: datetime
    counted: bool = False
    look_at: datetime | None = None

    @property
    def held(self) -> bool:
        """Whether the index is to hold it, as far as anybody looked: it takes one of its pattern's places."""
        return self.look_at is None or self.look_at <= DROPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationRow:
    """What a model answered about a pattern, and until when it is shown."""

    distillation: Distillation
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """A context that was handed out."""

    workspace: str
    context: Context
    task: Task
    agent_type: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """The latest run of a job's slot. `started` and `finished` are moments of the state's `ticks`."""

    started: float
    attempts: int
    finished: float | None = None
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class InMemoryState:
    """One store. `ticks` are the seconds that leases and job runs go by, as the database's clock does."""

    ticks: Callable[[], float] = time.monotonic
    index: InMemoryIndex = field(default_factory=InMemoryIndex)
    projects: set[tuple[str, str]] = field(default_factory=set)
    entries: dict[EntryId, EntryRow] = field(default_factory=dict)
    patterns: dict[PatternId, PatternRow] = field(default_factory=dict)
    points: dict[PointId, PointRow] = field(default_factory=dict)
    distillations: dict[PatternId, DistillationRow] = field(default_factory=dict)
    vectors: dict[tuple[PointId, str], npt.NDArray[np.float16]] = field(default_factory=dict)
    """Of a point in a space, by its fingerprint."""
    spaces: dict[str, BoundSpace] = field(default_factory=dict)
    probes: dict[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    """By the fingerprint of their space."""
    active_space: str | None = None
    local_only: set[str] = field(default_factory=set)
    spent: Counter[tuple[str, date]] = field(default_factory=Counter)
    """Workspaces."""
    documents: Counter[str] = field(default_factory=Counter)
    frequencies: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    match_keys: dict[tuple[str, str], PatternId] = field(default_factory=dict)
    """By workspace and key: entries that belong to a pattern though it was founded with other texts."""
    links: dict[tuple[PatternId, PatternId], Link] = field(default_factory=dict)
    """Of two patterns, the lower id first; each as seen from there."""
    checkpoints: dict[CheckpointId, tuple[str, CheckpointReport]] = field(default_factory=dict)
    contexts: dict[ContextId, ContextRow] = field(default_factory=dict)
    outcomes: dict[tuple[str, PatternId, str, str, str], Outcome] = field(default_factory=dict)
    """By workspace, pattern, project, task and run."""
    told_at: dict[tuple[str, PatternId, str, str, str], datetime] = field(default_factory=dict)
    """When outcomes were told; of those that are gone as well."""
    told_by: dict[tuple[str, EntryId], PatternId] = field(default_factory=dict)
    """By workspace and entry: of what those told that were deleted for it; of what is gone as well."""
    job_runs: dict[tuple[str, datetime], JobRun] = field(default_factory=dict)
    distilling: set[str] = field(default_factory=set)
    deciding: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """One lock a workspace; what changes leased rows, or may delete a pattern, waits for it."""
    locked: set[EntryId] = field(default_factory=set)
    """Rows that a decision is being made about: no claim takes them over meanwhile."""
    _unique: dict[tuple[str, ...], EntryId] = field(default_factory=dict)

    def contexts_of(self, workspace: str, project_id: str, task_id: str) -> list[ContextRow]:
        """Return the contexts that were handed out for a task."""
        rows = [row for row in self.contexts.values() if row.workspace == workspace]
        return [row for row in rows if (row.task.project_id, row.task.task_id) == (project_id, task_id)]

    def insert(self, entry: Entry) -> bool:
        """Add an entry and its project, unless a unique key keeps it out; return whether it is in."""
        keys = _unique_keys(entry)
        if entry.entry_id in self.entries or any(key in self._unique for key in keys):
            return False
        self.projects.add((entry.workspace or "", entry.project_id))
        self.entries[entry.entry_id] = EntryRow(entry=entry)
        self._unique.update(dict.fromkeys(keys, entry.entry_id))
        return True

    def take_key(self, entry_id: EntryId, idempotency_key: str | None) -> None:
        """Give an entry an idempotency key, unless it has one."""
        if self.entries[entry_id].entry.idempotency_key is None:
            row = self.change(entry_id, idempotency_key=idempotency_key)
            self._unique.update(dict.fromkeys(_unique_keys(row.entry), entry_id))

    def same_as(self, entry: Entry) -> Entry | None:
        """Return the entry that keeps this one out: by its idempotency key first, else by its event."""
        found = next((self._unique[key] for key in _unique_keys(entry) if key in self._unique), None)
        return None if found is None else self.entries[found].entry

    def change(self, entry_id: EntryId, row: EntryRow | None = None, /, **changes: Any) -> EntryRow:
        """Change fields of an entry; returns its row. No lease is left on what is no longer staged."""
        row = row or self.entries[entry_id]
        entry = replace(row.entry, **changes)
        kept = row if entry.status is EntryStatus.STAGED else replace(row, lease_token=None, lease_until=0.0)
        self.entries[entry_id] = replace(kept, entry=entry)
        return self.entries[entry_id]

    def remove(self, gone: Iterable[EntryId]) -> set[PatternId]:
        """Delete entries, note down their points and recount; return the patterns that nothing supports any more."""
        rows = [self.entries.pop(entry_id) for entry_id in list(gone)]
        self.doubt(point_id for row in rows for point_id in row.point_ids)
        for row in rows:
            for key in _unique_keys(row.entry):
                del self._unique[key]
        touched = {row.entry.pattern_id for row in rows if row.entry.pattern_id is not None}
        ids = {row.entry.entry_id for row in rows}
        for pattern_id in touched & self.distillations.keys():
            if not ids.isdisjoint(self.distillations[pattern_id].distillation.entry_ids):
                del self.distillations[pattern_id]
        return self.recount(touched)

    def doubt(self, point_ids: Iterable[PointId], *, look_at: datetime = LONG_AGO) -> None:
        """Note down that the index may differ from these points; absent ones are no error."""
        for point_id in point_ids:
            if point_id in self.points:
                self.points[point_id] = replace(self.points[point_id], look_at=look_at)

    def remove_points(self, gone: Iterable[PointId]) -> None:
        """Delete points with their vectors; absent ones are no error."""
        ids = {point_id for point_id in gone if self.points.pop(point_id, None)}
        for key in [key for key in self.vectors if key[0] in ids]:
            del self.vectors[key]

    def behind(self, point: PointRow) -> Entry | None:
        """Return the entry whose text a point stands for: the latest embedded one."""
        alive = {EntryStatus.EMBEDDED, EntryStatus.STAGED}
        rows = [row for row in self.entries.values() if row.entry.status in alive]
        having = [row.entry for row in rows if point.point_id in row.point_ids]
        having.sort(key=lambda entry: entry.entry_id)
        having.sort(key=lambda entry: entry.embedded_at or LONG_AGO, reverse=True)
        return having[0] if having else None

    def recount(self, pattern_ids: Iterable[PatternId]) -> set[PatternId]:
        """Derive counts from evidence; return the patterns that nothing supports, which go with their last point."""
        support: dict[PatternId, list[Entry]] = {pattern_id: [] for pattern_id in pattern_ids}
        for row in self.entries.values():
            if row.entry.pattern_id in support:
                support[row.entry.pattern_id].append(row.entry)
        lonely = {pattern_id for pattern_id, entries in support.items() if not entries}
        in_index = {point.pattern_id for point in self.points.values()}
        self.outcomes = {key: told for key, told in self.outcomes.items() if told.pattern_id not in lonely}
        for pattern_id in lonely - in_index:
            self._forget_pattern(pattern_id)
        for pattern_id in support.keys() & self.patterns.keys():
            embedded = [entry for entry in support[pattern_id] if entry.status is EntryStatus.EMBEDDED]
            told = [_Told(each.captured_at, each.low_trust, each.source, _event(each)) for each in embedded]
            for key, each in self.outcomes.items():
                if embedded and each.pattern_id == pattern_id:
                    run = (each.project_id, each.task_id, each.run_id)
                    told.append(_Told(self.told_at[key], each.low_trust, each.recorded_by, run, each.worked))
            runs: dict[tuple[str, str, str], bool] = {}
            for attempt in _capped(told):
                runs[attempt.run] = runs.get(attempt.run, False) or attempt.worked
            self.patterns[pattern_id] = replace(
                self.patterns[pattern_id],
                success_count=sum(runs.values()),
                attempt_count=len(runs),
                project_count=len({project for (project, _, _), worked in runs.items() if worked}),
            )
        return lonely

    def _forget_pattern(self, pattern_id: PatternId) -> None:
        self.patterns.pop(pattern_id, None)
        self.match_keys = {key: bound for key, bound in self.match_keys.items() if bound != pattern_id}
        self.links = {pair: link for pair, link in self.links.items() if pattern_id not in pair}


def trust(entry: Entry) -> tuple[bool, int]:
    """Return how far to trust an entry: what came by no agent's key first; what a human decided, what was verified."""
    decided = entry.entry_type is not EntryType.FAILURE_SOLUTION
    return (not entry.low_trust, 2 if decided else int(entry.verified_by is not None))


def point_row(
    before: PointRow | None,
    point: TextPoint,
    *,
    workspace: str,
    pattern_id: PatternId,
    embedded_at: datetime,
    expires_at: datetime,
    look_at: datetime | None = None,
) -> PointRow:
    """Return a point that is written, or once more over what was there before: its times never go back."""
    return PointRow(
        point_id=point.point_id,
        workspace=workspace,
        pattern_id=pattern_id,
        view=point.view,
        embedded_at=max(before.embedded_at, embedded_at) if before else embedded_at,
        expires_at=max(before.expires_at, expires_at) if before else expires_at,
        counted=before is not None and before.counted,
        look_at=look_at,
    )


class _Told(NamedTuple):
    """What an entry or an outcome tells of a pattern: when, by whom, of which run."""

    at: datetime
    low_trust: bool
    key_id: str | None
    run: tuple[str, str, str]
    worked: bool = True


def _capped(told: Iterable[_Told]) -> list[_Told]:
    """Return what counts: of what a key of low trust told the first, whatever it told of."""
    counted: list[_Told] = []
    keys: set[str | None] = set()
    for each in sorted(told, key=lambda each: (each.at, each.run)):
        if not each.low_trust or each.key_id not in keys:
            counted.append(each)
        if each.low_trust:
            keys.add(each.key_id)
    return counted


def _unique_keys(entry: Entry) -> list[tuple[str, ...]]:
    workspace = entry.workspace or ""
    event = ("event", workspace, entry.project_id, entry.task_id or "", entry.run_id or "", entry.content_hash)
    return [event] if entry.idempotency_key is None else [("key", workspace, entry.idempotency_key), event]


def _event(entry: Entry) -> tuple[str, str, str]:
    """Return the distinct success an entry is; its id stands in for a missing task, its hash for a missing run."""
    task = str(entry.entry_id) if entry.task_id is None else entry.task_id
    return (entry.project_id, task, entry.content_hash if entry.run_id is None else entry.run_id)
