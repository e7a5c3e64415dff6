"""Reports of checkpoints, distillation and pruning, and statistics of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from hardwon.models.ids import CheckpointId, CheckpointType, EntryId, PatternId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntry:
    """An entry that the embedder rejected, and the reason."""

    entry_id: EntryId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDistillation:
    """A pattern whose distillation was refused, and the reason."""

    pattern_id: PatternId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationReport:
    """Result of distilling the `due` patterns. `overtaken` ones lost an entry meanwhile; `error`: why it stopped early.

    `refusals` are only returned to the caller, never stored with the checkpoint, since they quote the model.
    """

    due: int = 0
    distilled: int = 0
    refused: int = 0
    overtaken: int = 0
    refusals: tuple[RefusedDistillation, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """Result of one checkpoint. `joined` entries became evidence of an existing pattern; `error`: why it was aborted.

    `distillation` is None unless it was requested; a failed distillation never fails the checkpoint.
    """

    checkpoint_id: CheckpointId
    project_id: str | None
    checkpoint_type: CheckpointType
    started_at: datetime
    finished_at: datetime | None = None
    embedded: int = 0
    founded: int = 0
    joined: int = 0
    abandoned: int = 0
    dead: int = 0
    truncated: int = 0
    dead_entries: tuple[DeadEntry, ...] = ()
    error: str | None = None
    distillation: DistillationReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """Numbers of what a prune removed, or would remove if `dry_run`.

    `never_resolved`: entries that were not embedded within 90 days, including those that the embedder rejected.
    """

    entries: int
    points: int
    patterns: int
    never_resolved: int
    dry_run: bool = False


class RowSecurity(StrEnum):
    """Row-level security that isolates workspaces in Postgres, in addition to the conditions of every statement.

    `by_role`: a role that owns no table. `by_name`: the workspace that the connection sets, where that role could not
    be created. `none`: the database user bypasses row-level security, and there is no role.
    """

    BY_ROLE = "by_role"
    BY_NAME = "by_name"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lift:
    """The lift of hints: of tasks with a reported outcome, those with a hint against those held out by chance.

    `lift`: the difference of the two shares that were solved, with its 95 % interval from `low` to `high` (Newcombe
    1998, method 10); None while either has none.
    """

    hinted: int
    hinted_solved: int
    held_out: int
    held_out_solved: int
    lift: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStats:
    """Statistics of one workspace from Postgres; `points` counts those in the index (None if it does not answer).

    `projects`: those that have entries. `vector_bytes`: size of all stored vectors; `unused_vector_bytes`: of those of
    other models, which can be switched back to without embedding again. `dead_entries`: the latest few.
    `altered`: what is not as hardwon stored it, as far as that was looked at since the start.
    `tokens_today`: tokens sent to endpoints since midnight (UTC), of `tokens_per_day`; both None without a quota.
    """

    workspace: str
    projects: int
    entries: Mapping[str, int]
    patterns: int
    points: int | None
    checkpoints: int
    oldest_staged_at: datetime | None
    last_checkpoint_at: datetime | None
    next_expiry_at: datetime | None
    vector_bytes: int
    embedding_model: str | None
    dims: int | None
    unused_vector_bytes: int = 0
    dead_entries: tuple[DeadEntry, ...] = ()
    row_security: RowSecurity | None = None
    tokens_today: int | None = None
    tokens_per_day: int | None = None
    lift: Lift | None = None
    altered: tuple[str, ...] = ()


MAX_DEAD_SHOWN = 5
"""Dead entries listed in the statistics of a workspace, at most."""


class Progress(Protocol):
    """Callback for the progress of long work. Called often; must be quick."""

    def __call__(self, done: int, total: int | None, /) -> None:
        """Report that `done` of `total` items are done; a total of None is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventResult:
    """Result of an event: the entries opened, resolved or added, and the number of patterns with an outcome.

    `degraded` says which part of the event could not be stored, and why. `already_resolved`: the event repeats one
    whose failure is resolved, and changed no entry. `open_entry_ids`: the open failures of the task, where a solution
    could be about several, so that none was resolved; name one in `failures`.
    """

    entry_ids: tuple[EntryId, ...] = ()
    outcomes: int = 0
    degraded: str | None = None
    already_resolved: bool = False
    open_entry_ids: tuple[EntryId, ...] = ()
