"""What the services need from the outside. Adapters inherit these; `knowledge.wiring` picks them.

Every method that talks to a store or endpoint raises an `Unavailable` of `knowledge.errors` when that does not answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.ports.clock import Clock, StoreClock
from knowledge.ports.contexts import MOST_HANDED_OUT, ContextStore
from knowledge.ports.embedding import ChatModel, Embedder
from knowledge.ports.entries import MOST_OF_TASK, Claim, EntryStore, Selection
from knowledge.ports.index import VectorIndex
from knowledge.ports.patterns import Deciding, DistillationStore, GroupingStore, PatternStore, Regrouping, Undistilled
from knowledge.ports.points import PointStore, Unsettled
from knowledge.ports.runs import CANCELLED, RUNS_KEPT, CheckpointStore, JobStore, Progress
from knowledge.ports.spaces import SpaceStore
from knowledge.ports.spending import SpendingStore
from knowledge.ports.upkeep import ArchiveStore, Origin, Restore, Snapshot, UpkeepStore

__all__ = [
    "CANCELLED",
    "MOST_HANDED_OUT",
    "MOST_OF_TASK",
    "RUNS_KEPT",
    "ArchiveStore",
    "ChatModel",
    "CheckpointStore",
    "Claim",
    "Clock",
    "ContextStore",
    "Deciding",
    "DistillationStore",
    "Embedder",
    "EntryStore",
    "GroupingStore",
    "JobStore",
    "Origin",
    "PatternStore",
    "PointStore",
    "Progress",
    "Regrouping",
    "Restore",
    "Selection",
    "Snapshot",
    "SpaceStore",
    "SpendingStore",
    "StoreClock",
    "Stores",
    "Undistilled",
    "Unsettled",
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
