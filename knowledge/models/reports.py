"""What was done and what there is: reports of checkpoints, distillation and pruning, counts of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from knowledge.models.identities import CheckpointId
from knowledge.names import CheckpointType, EntryId, PatternId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntry:
    """An entry the embedder refused, with the reason."""

    entry_id: EntryId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDistillation:
    """A pattern whose distillation was refused, and why."""

    pattern_id: PatternId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationReport:
    """What became of the `due` patterns: `overtaken` ones lost an entry meanwhile; `error` is why others are left.

    `refusals` are told to whoever asked, and are not on the checkpoint's record: they quote the model.
    """

    due: int = 0
    distilled: int = 0
    refused: int = 0
    overtaken: int = 0
    refusals: tuple[RefusedDistillation, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What one checkpoint did. `joined` entries became further evidence of a pattern; `error` is why it broke off.

    `distillation` is None unless it was asked for; it never makes a checkpoint fail.
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
    """What a prune removed, or would remove where `dry_run`.

    `never_resolved` are all that were not embedded within 90 days: those that an embedder refused too.
    """

    entries: int
    points: int
    patterns: int
    never_resolved: int
    dry_run: bool = False


class RowSecurity(StrEnum):
    """How Postgres keeps workspaces apart, beside the conditions of every statement.

    By a role that owns no table; by the workspace that a connection names, where that role could not be made; not at
    all, where the user we connect as is above all rules and there is no role.
    """

    BY_ROLE = "by_role"
    BY_NAME = "by_name"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStats:
    """Counts of one workspace, from Postgres, and of the points in the index (None where it does not answer).

    `projects`: those that have entries. `vector_bytes`: of all kept vectors; `unused_vector_bytes`: those of them of
    models that are not in use, to which one may go back at no cost. `dead_entries`: the latest few. `tokens_today`:
    what was sent to endpoints since midnight (UTC), of `tokens_per_day`; both None where there is no budget.
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


DEAD_SHOWN = 5
"""Counts of a workspace name this many of its dead entries."""
