"""Ports: the interfaces of stores, index, embedder and clock. Adapters inherit them; `knowledge.wiring` picks them.

Every method that calls a store or an endpoint raises an `Unavailable` of `hardwon.errors` when that does not answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardwon.models.reports import Progress
from knowledge.ports.clock import Clock, StoreClock
from knowledge.ports.contexts import MAX_CONTEXTS, ContextStore
from knowledge.ports.embedding import ChatModel, Embedder
from knowledge.ports.entries import MAX_ENTRIES_OF_TASK, Claim, EntryStore, Selection
from knowledge.ports.index import VectorIndex
from knowledge.ports.maintenance import ArchiveStore, Origin, Restore, Snapshot, UpkeepStore
from knowledge.ports.patterns import (
    DecisionTransaction,
    DistillationCandidate,
    DistillationStore,
    GroupingStore,
    PatternStore,
    RegroupingTransaction,
)
from knowledge.ports.points import DirtyPoints, PointStore
from knowledge.ports.runs import CANCELLED, RUN_RETENTION, CheckpointStore, JobStore
from knowledge.ports.spaces import SpaceStore
from knowledge.ports.spending import SpendingStore

__all__ = [
    "CANCELLED",
    "MAX_CONTEXTS",
    "MAX_ENTRIES_OF_TASK",
    "RUN_RETENTION",
    "ArchiveStore",
    "ChatModel",
    "CheckpointStore",
    "Claim",
    "Clock",
    "ContextStore",
    "DecisionTransaction",
    "DirtyPoints",
    "DistillationCandidate",
    "DistillationStore",
    "Embedder",
    "EntryStore",
    "GroupingStore",
    "JobStore",
    "Origin",
    "PatternStore",
    "PointStore",
    "Progress",
    "RegroupingTransaction",
    "Restore",
    "Selection",
    "Snapshot",
    "SpaceStore",
    "SpendingStore",
    "StoreClock",
    "Stores",
    "UpkeepStore",
    "VectorIndex",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open ports of one workspace."""

    workspace: str
    entries: EntryStore
    patterns: PatternStore
    distillations: DistillationStore
    points: PointStore
    spaces: SpaceStore
    checkpoints: CheckpointStore
    contexts: ContextStore
    spending: SpendingStore
    index: VectorIndex
    embedder: Embedder
    clock: Clock
