"""Domain models: frozen values for entries, patterns, queries and reports; nothing here needs a store.

All times are timezone-aware and in UTC. Vectors are float32 and L2-normalised.
"""

from __future__ import annotations

from hardwon.models.entries import TRUSTED as TRUSTED
from hardwon.models.entries import AppliesWhen as AppliesWhen
from hardwon.models.entries import CaptureOutcome as CaptureOutcome
from hardwon.models.entries import CaptureResult as CaptureResult
from hardwon.models.entries import Entry as Entry
from hardwon.models.entries import EntryStatus as EntryStatus
from hardwon.models.entries import EntryTexts as EntryTexts
from hardwon.models.entries import EntryType as EntryType
from hardwon.models.entries import NewEntry as NewEntry
from hardwon.models.entries import Provenance as Provenance
from hardwon.models.entries import ReviewMode as ReviewMode
from hardwon.models.ids import DEFAULT_WORKSPACE as DEFAULT_WORKSPACE
from hardwon.models.ids import CheckpointId as CheckpointId
from hardwon.models.ids import CheckpointType as CheckpointType
from hardwon.models.ids import ContextId as ContextId
from hardwon.models.ids import EntryId as EntryId
from hardwon.models.ids import LeaseToken as LeaseToken
from hardwon.models.ids import PatternId as PatternId
from hardwon.models.ids import PointId as PointId
from hardwon.models.patterns import ERROR_CODE as ERROR_CODE
from hardwon.models.patterns import ERROR_NAME as ERROR_NAME
from hardwon.models.patterns import MAX_CIRCUMSTANCES as MAX_CIRCUMSTANCES
from hardwon.models.patterns import MAX_RIVALS as MAX_RIVALS
from hardwon.models.patterns import MAX_SOURCE_ENTRIES as MAX_SOURCE_ENTRIES
from hardwon.models.patterns import MAX_WHEN_CHARS as MAX_WHEN_CHARS
from hardwon.models.patterns import Circumstance as Circumstance
from hardwon.models.patterns import Distillation as Distillation
from hardwon.models.patterns import DistilledText as DistilledText
from hardwon.models.patterns import Evidence as Evidence
from hardwon.models.patterns import LinkKind as LinkKind
from hardwon.models.patterns import Pattern as Pattern
from hardwon.models.reports import MAX_DEAD_SHOWN as MAX_DEAD_SHOWN
from hardwon.models.reports import CheckpointReport as CheckpointReport
from hardwon.models.reports import DeadEntry as DeadEntry
from hardwon.models.reports import DistillationReport as DistillationReport
from hardwon.models.reports import PruneReport as PruneReport
from hardwon.models.reports import RefusedDistillation as RefusedDistillation
from hardwon.models.reports import RowSecurity as RowSecurity
from hardwon.models.reports import WorkspaceStats as WorkspaceStats
from hardwon.models.tasks import Context as Context
from hardwon.models.tasks import Outcome as Outcome
from hardwon.models.tasks import StoredContext as StoredContext
from hardwon.models.tasks import Task as Task
from hardwon.models.tasks import TaskFacts as TaskFacts
from knowledge.models.decisions import Decision as Decision
from knowledge.models.decisions import Founder as Founder
from knowledge.models.decisions import Link as Link
from knowledge.models.decisions import LinkedPatterns as LinkedPatterns
from knowledge.models.decisions import Members as Members
from knowledge.models.decisions import Move as Move
from knowledge.models.decisions import pattern_id_of as pattern_id_of
from knowledge.models.decisions import point_id_of as point_id_of
from knowledge.models.points import MAX_POINTS as MAX_POINTS
from knowledge.models.points import Hit as Hit
from knowledge.models.points import IndexDrift as IndexDrift
from knowledge.models.points import Point as Point
from knowledge.models.points import PointFilter as PointFilter
from knowledge.models.points import RefillReport as RefillReport
from knowledge.models.points import StoredPoint as StoredPoint
from knowledge.models.points import TextPoint as TextPoint
from knowledge.models.points import View as View
from knowledge.models.points import admit_points as admit_points
from knowledge.models.spaces import BoundSpace as BoundSpace
from knowledge.models.spaces import Calibration as Calibration
from knowledge.models.spaces import Embeddings as Embeddings
from knowledge.models.spaces import EmbeddingSpace as EmbeddingSpace
from knowledge.models.spaces import SparseVector as SparseVector
from knowledge.models.spaces import TermStatistics as TermStatistics
from knowledge.models.spaces import Vector as Vector
