"""What hardwon remembers and how it answers: frozen values without behaviour that needs a store.

All times are aware and in UTC. Vectors are float32 and L2-normalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha1
from typing import TYPE_CHECKING, Any, ClassVar, NewType, TypeAlias
from uuid import UUID

from knowledge.names import DEFAULT_WORKSPACE as DEFAULT_WORKSPACE
from knowledge.names import CheckpointType as CheckpointType
from knowledge.names import ContextId as ContextId
from knowledge.names import EntryId as EntryId
from knowledge.names import PatternId as PatternId

if TYPE_CHECKING:  # a client holds no vectors, and numpy takes longer to load than all of this
    import numpy as np
    import numpy.typing as npt

PointId = NewType("PointId", UUID)
CheckpointId = NewType("CheckpointId", UUID)
LeaseToken = NewType("LeaseToken", UUID)

Vector: TypeAlias = "npt.NDArray[np.float32]"


class EntryType(StrEnum):
    """The three learning moments."""

    FAILURE_SOLUTION = "failure_solution"
    GATE_REJECTION = "gate_rejection"
    GATE_APPROVAL = "gate_approval"


class EntryStatus(StrEnum):
    """Where an entry is in its life. A leased entry is `staged` with a lease in the future."""

    OPEN = "open"
    STAGED = "staged"
    EMBEDDED = "embedded"
    DEAD = "dead"
    ABANDONED = "abandoned"
    QUARANTINED = "quarantined"
    """Held back until a person approves it: neither embedded nor shown."""


class RowSecurity(StrEnum):
    """How Postgres keeps workspaces apart, beside the conditions of every statement.

    By a role that owns no table; by the workspace that a connection names, where that role could not be made; not at
    all, where the user we connect as is above all rules and there is no role.
    """

    BY_ROLE = "by_role"
    BY_NAME = "by_name"
    NONE = "none"


class View(StrEnum):
    """Which text of an entry a point stands for: its situation, or the task description beside it."""

    SITUATION = "situation"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliesWhen:
    """When a resolution applies at all; all that is told must hold, and what is not known does not stand against it.

    `technology` by its name; `version`: a range of versions of that, as `>=3.10,<3.13` (PEP 440); `tool` by its name;
    `error`: a regular expression that the error message matches (those allowed: `knowledge.memory.expressions`).
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    technology: str | None = None
    version: str | None = None
    tool: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """One learning moment as a caller tells it: the fields of `interface` in Python, HTTP, JSON lines and SQL alike.

    Which fields an entry type needs, and their limits: `knowledge.memory.capture.validate`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    entry_type: EntryType
    project_id: str
    workspace: str | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    task_description: str | None = None
    failure_description: str | None = None
    error_message: str | None = None
    solution_steps: str | None = None
    success_verified: bool = False
    verified_by: str | None = None
    gate_type: str | None = None
    proposal: str | None = None
    human_feedback: str | None = None
    revision_approach: str | None = None
    approved_approach: str | None = None
    when_to_try: str | None = None
    applies_when: AppliesWhen | None = None
    task_id: str | None = None
    run_id: str | None = None
    idempotency_key: str | None = None


class Review(StrEnum):
    """What of the entries by agents' keys waits for a person."""

    SUSPICIOUS = "suspicious"
    """What reads like instructions to whoever is shown it."""
    EVERYTHING = "everything"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who told something: by which key, whether that can capture only, and what in it has to be reviewed first."""

    key_id: str | None = None
    low_trust: bool = False
    suspicions: tuple[str, ...] = ()


TRUSTED = Provenance()
"""The process itself, and whoever reaches its data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(NewEntry):
    """A stored entry. `content_hash` is the sha256 of what the caller told, whatever was added later.

    `captured_by` and `resolved_by` are ids of keys, None where none was needed. `low_trust`: one of the two can capture
    only, as agents' keys do. `suspicions`: why it is quarantined, or was.
    """

    entry_id: EntryId
    status: EntryStatus
    content_hash: str
    captured_at: datetime
    attempts: int = 0
    dead_reason: str | None = None
    pattern_id: PatternId | None = None
    embedded_at: datetime | None = None
    expires_at: datetime | None = None
    captured_by: str | None = None
    resolved_by: str | None = None
    low_trust: bool = False
    suspicions: tuple[str, ...] = ()


class CaptureOutcome(StrEnum):
    """What became of one entry of a capture."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The answer to one captured entry. A duplicate names the entry that is already there; a refusal says why.

    `informed`: patterns had been handed out for the entry's task.
    """

    outcome: CaptureOutcome
    entry_id: EntryId | None = None
    status: EntryStatus | None = None
    error: str | None = None
    field: str | None = None
    informed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """All that makes two vectors comparable. Equal dimensions prove nothing: the fingerprint does."""

    provider: str
    model: str
    revision: str
    dims: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The vectors of some texts, in the order of the texts: float32, shape (n, dims), each of length 1.

    `truncated` holds the positions of texts that were cut at the model's limit.
    """

    vectors: Vector
    tokens: int
    truncated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Term ids (unsigned 32 bit, ascending, distinct) and their weights."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What the vector index holds: an id, vectors and the fields that are filtered on. No words, no counts."""

    point_id: PointId
    dense: Vector
    lexical: SparseVector
    workspace: str
    entry_type: EntryType
    view: View
    agent_type: str | None
    task_type: str | None
    technology: str | None
    gate_type: str | None
    embedded_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which points a search may return.

    `agent_type`, `task_type`, `technology` and `gate_type` let through points with that value and points without one;
    None asks nothing. `without` are points to leave out.
    """

    workspace: str
    live_at: datetime
    view: View | None = None
    entry_types: frozenset[EntryType] | None = None
    agent_type: str | None = None
    task_type: str | None = None
    technology: str | None = None
    gate_type: str | None = None
    without: frozenset[PointId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilled:
    """How many points were put into the index, and how many texts had to be embedded for them."""

    points: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A point a search found: cosine of the dense vectors, dot product of the lexical ones (0 if no term is shared)."""

    point_id: PointId
    cosine: float
    lexical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """How common terms are among the `documents` situations seen in a workspace; absent terms were never seen."""

    documents: int
    frequencies: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Where fused scores lie in one embedding space, ascending; the scale of relevance is drawn through them.

    `unrelated`: median score of unrelated texts (relevance 0). `right_90`: 90 % of right hits reach it (0.70).
    `right_85`: 85 % do (0.75). `same`: the score of the same text (1).
    """

    unrelated: float
    right_90: float
    right_85: float
    same: float
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSpace:
    """An embedding space in use by a store, with what was fixed when its collection was made."""

    space: EmbeddingSpace
    mean_terms: float
    calibration: Calibration


ERROR_NAME = r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,60}(Error|Exception|Warning))(?![A-Za-z0-9_])"
"""An error by its name, such as `TypeError`: group 1. For Postgres and Python alike."""

ERROR_CODE = r"(?<![A-Za-z0-9_])(E[A-Z]{3,12}|[A-Z]{1,6}-?[0-9]{2,6})(?![A-Za-z0-9_])"
"""An error by its code, such as `ECONNREFUSED`, `E0308` or `ORA-00942`: group 1. For Postgres and Python alike."""

MAX_CIRCUMSTANCES = 20
"""A pattern tells of at most so many circumstances, the most frequent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstance:
    """What so many entries of a pattern tell of where it worked. `error` is the name or code of the error."""

    entries: int
    agent_type: str | None = None
    technology: str | None = None
    task_type: str | None = None
    gate_type: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distilled:
    """What a model wrote of a pattern in general, never in place of its words: which model, and when.

    An empty `when_not_to_try` says that the entries do not tell.
    """

    title: str
    problem: str
    when_to_try: str
    when_not_to_try: str
    model: str
    written_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """A model's answer about a pattern: what it wrote, or why that was refused. Made of `entry_ids`, all live.

    `evidence`: how many embedded entries the pattern had then.
    """

    pattern_id: PatternId
    entry_ids: tuple[EntryId, ...]
    evidence: int
    model: str
    answered_at: datetime
    distilled: Distilled | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A live pattern with its counts and the words of its most trusted, then latest, evidence.

    `circumstances` are those of all its live entries, the most frequent first; `when_to_try` is as captured, of the
    most trusted, then latest, entry that tells it; `conditions` are those that its entries tell, each once.
    `of_project` is whether any is of the project asked for, if one is.
    `rivals` are the patterns of the same situation with another resolution.
    """

    pattern_id: PatternId
    entry_type: EntryType
    words: Entry
    success_count: int
    attempt_count: int
    project_count: int
    founded_at: datetime
    entry_ids: tuple[EntryId, ...]
    circumstances: tuple[Circumstance, ...]
    when_to_try: str | None = None
    conditions: tuple[AppliesWhen, ...] = ()
    of_project: bool | None = None
    rivals: tuple[PatternId, ...] = ()
    distilled: Distilled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One way of resolving a situation, as an answer to a query.

    `relevance` is 0..1 (`knowledge.search.calibration`); `success_count` counts distinct (project, task, run).
    `rivals` are the patterns of the same situation with another resolution.
    `distilled` is a model's and stands beside the words. `source`: the key of an agent, where nobody that is trusted
    more speaks for it.
    """

    pattern_id: PatternId
    entry_type: EntryType
    problem: str
    solution: str
    when_to_try: str
    success_count: int
    attempt_count: int
    project_count: int
    relevance: float
    agent_type: str | None
    task_type: str | None
    technology: str | None
    gate_type: str | None
    entry_ids: tuple[EntryId, ...]
    founded_at: datetime
    rivals: tuple[PatternId, ...] = ()
    distilled: Distilled | None = None
    source: str | None = None


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
    """What a prune removed, or would remove where `dry_run`."""

    entries: int
    points: int
    patterns: int
    never_resolved: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStats:
    """Counts of one workspace, from Postgres, and of the points in the index (None where it does not answer).

    `vector_bytes`: of all kept vectors; `unused_vector_bytes`: those of them of models that are not in use, to which
    one may go back at no cost. `dead_entries`: the latest few.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task about to be assigned. `type` is its kind, such as `bugfix`; `task_id` and `project_id` where known.

    `facts` are what is known of where it is done: `version` (of the technology), `tool`, `error`, `technology`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    description: str
    type: str | None = None
    technology: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    facts: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text handed to an agent, and the patterns in it. `degraded` says why knowledge is missing, if it is."""

    context_id: ContextId
    text: str
    patterns: tuple[Pattern, ...] = ()
    degraded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """A context that was handed out: for which task, with which patterns."""

    context_id: ContextId
    project_id: str | None
    task_id: str | None
    run_id: str | None
    pattern_ids: tuple[PatternId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a pattern that was handed out: one attempt of a distinct (project, task, run)."""

    context_id: ContextId
    pattern_id: PatternId
    project_id: str
    task_id: str
    run_id: str
    worked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoint:
    """A point as Postgres has it, with the entry whose text it stands for.

    `vector` is None where none is kept in the space asked for. `settled`: an embedded entry stands behind it;
    `pending`: a staged one does, which a checkpoint may be embedding right now.
    """

    point_id: PointId
    view: View
    entry: Entry
    vector: Vector | None
    embedded_at: datetime
    expires_at: datetime
    settled: bool
    pending: bool


DEAD_SHOWN = 5
"""Counts of a workspace name this many of its dead entries."""

MAX_POINTS = 8
"""At most this many texts of one pattern stand in the index; further ones are evidence only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPoint:
    """A text of an entry and its vector, as a point of the pattern that the entry belongs to."""

    point_id: PointId
    view: View
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Founder:
    """What a pattern is compared by: the entry that founded it, or its oldest one that is left.

    `situation` is the vector of that entry's situation.
    """

    pattern_id: PatternId
    entry: Entry
    situation: Vector


class LinkKind(StrEnum):
    """How two patterns stand to each other.

    Another way out of the same situation, likely the same pattern, or neither, as a person said who took them apart.
    """

    RIVAL = "rival"
    TWIN = "twin"
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A pattern beside the one an entry came to, how likely it is what `kind` says, and why, in words for a person."""

    kind: LinkKind
    pattern_id: PatternId
    probability: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPatterns:
    """Two live patterns that have to do with each other, the more tried one first; `probability` that they are one."""

    kind: LinkKind
    probability: float
    why: tuple[str, ...]
    patterns: tuple[Evidence, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An entry that goes to another pattern; `points` are the ids that its texts had and have there."""

    entry_id: EntryId
    match_key: str
    points: Mapping[PointId, PointId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which pattern an entry joins or founds, and the points its texts stand for there.

    `why` says in words for a person what made it join; `links` are the patterns it did not join but has to do with.
    """

    entry: Entry
    pattern_id: PatternId
    match_key: str
    founds: bool
    points: tuple[TextPoint, ...]
    why: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


_NAMESPACE = UUID("6f0f7d2b-4c0b-5a39-9d43-0c6a8d0c2a11").bytes


def pattern_id_of(workspace: str, founder: EntryId) -> PatternId:
    """Return the id of the pattern an entry founds: a repeated founding is the same pattern."""
    return PatternId(_named(f"pattern\0{workspace}\0{founder}"))


def point_id_of(workspace: str, pattern_id: PatternId, view: View, text: str) -> PointId:
    """Return the id of the point of a text of a pattern: a repeated upsert is the same point."""
    return PointId(_named(f"point\0{workspace}\0{pattern_id}\0{view}\0{text}"))


def _named(name: str) -> UUID:
    """Return the UUID of version 5 of a name in our namespace; `uuid.uuid5` takes twice as long, twice an entry."""
    number = int.from_bytes(sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16], "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x5 << 76 | 0x2 << 62)
