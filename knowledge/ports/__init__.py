"""Ports: the interfaces of stores, index, embedder and clock. Adapters inherit them; `knowledge.wiring` picks them.

Every method that calls a store or an endpoint raises an `Unavailable` of `hardwon.errors` when that does not answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hardwon.models.reports import Progress as Progress
from knowledge.ports.clock import Clock as Clock
from knowledge.ports.clock import StoreClock as StoreClock
from knowledge.ports.contexts import MAX_CONTEXTS as MAX_CONTEXTS
from knowledge.ports.contexts import ContextStore as ContextStore
from knowledge.ports.deeds import DeedStore as DeedStore
from knowledge.ports.embedding import ChatModel as ChatModel
from knowledge.ports.embedding import Embedder as Embedder
from knowledge.ports.entries import LATEST_OF_ALL as LATEST_OF_ALL
from knowledge.ports.entries import MAX_ENTRIES_OF_TASK as MAX_ENTRIES_OF_TASK
from knowledge.ports.entries import Claim as Claim
from knowledge.ports.entries import EntryStore as EntryStore
from knowledge.ports.entries import Selection as Selection
from knowledge.ports.index import VectorIndex as VectorIndex
from knowledge.ports.lists import DayCounts as DayCounts
from knowledge.ports.lists import DayKey as DayKey
from knowledge.ports.lists import EntryQuery as EntryQuery
from knowledge.ports.lists import ListStore as ListStore
from knowledge.ports.lists import PatternPage as PatternPage
from knowledge.ports.lists import PatternQuery as PatternQuery
from knowledge.ports.lists import PatternRow as PatternRow
from knowledge.ports.maintenance import ArchiveStore as ArchiveStore
from knowledge.ports.maintenance import CorrectionStore as CorrectionStore
from knowledge.ports.maintenance import HeadKeeper as HeadKeeper
from knowledge.ports.maintenance import Origin as Origin
from knowledge.ports.maintenance import RedactedEntry as RedactedEntry
from knowledge.ports.maintenance import Restore as Restore
from knowledge.ports.maintenance import SealStore as SealStore
from knowledge.ports.maintenance import Snapshot as Snapshot
from knowledge.ports.maintenance import StoredTextStore as StoredTextStore
from knowledge.ports.maintenance import UpkeepStore as UpkeepStore
from knowledge.ports.maps import MadeMap as MadeMap
from knowledge.ports.maps import MapStore as MapStore
from knowledge.ports.maps import Placed as Placed
from knowledge.ports.patterns import DecisionTransaction as DecisionTransaction
from knowledge.ports.patterns import DistillationCandidate as DistillationCandidate
from knowledge.ports.patterns import DistillationStore as DistillationStore
from knowledge.ports.patterns import GroupingStore as GroupingStore
from knowledge.ports.patterns import PatternStore as PatternStore
from knowledge.ports.patterns import RegroupingTransaction as RegroupingTransaction
from knowledge.ports.points import DirtyPoints as DirtyPoints
from knowledge.ports.points import PointStore as PointStore
from knowledge.ports.records import ContextQuery as ContextQuery
from knowledge.ports.records import RecordStore as RecordStore
from knowledge.ports.runs import CANCELLED as CANCELLED
from knowledge.ports.runs import RUN_RETENTION as RUN_RETENTION
from knowledge.ports.runs import CheckpointStore as CheckpointStore
from knowledge.ports.runs import JobStore as JobStore
from knowledge.ports.spaces import SpaceStore as SpaceStore
from knowledge.ports.spending import SpendingStore as SpendingStore
from knowledge.ports.webhooks import WebhookMessage as WebhookMessage
from knowledge.ports.webhooks import WebhookStore as WebhookStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The open ports of one workspace.

    `index_is_remote`: the index is a server, whose silence is an outage, not a lack of this machine's time.
    `embedded` is set when a checkpoint of any workspace embedded something; one background task of the process clears
    it.
    """

    workspace: str
    entries: EntryStore
    patterns: PatternStore
    distillations: DistillationStore
    points: PointStore
    spaces: SpaceStore
    checkpoints: CheckpointStore
    contexts: ContextStore
    records: RecordStore
    spending: SpendingStore
    lists: ListStore
    maps: MapStore
    corrections: CorrectionStore
    index: VectorIndex
    embedder: Embedder
    clock: Clock
    index_is_remote: bool = False
    embedded: asyncio.Event = field(default_factory=asyncio.Event)
